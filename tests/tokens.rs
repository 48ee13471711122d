//! Who is believed: tokens, passwords and certificates, over both protocols, and what happens when a proof ends or keys change.

use std::{
    fs,
    path::{Path, PathBuf},
};

use client::{Client, ConsumerOptions, Credentials, Error, Message, Options, ServerError, raw::RawConnection};
use geminga_tests::harness::{Broker, Setup, eventually, run, soon};
use tempfile::TempDir;
use wire::{Command, proto};

use crate::talk::{consume, next, produce, text};

/// Keys, and the tokens made with them.
pub(crate) struct Keys(TempDir);

impl Keys {
    pub(crate) fn new() -> Self {
        let keys = Self(tempfile::tempdir().expect("a directory"));
        keys.ask(&["token", "create-secret", &keys.at("secret.key").display().to_string()]);
        keys
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let (status, told) = run(arguments, self.0.path());
        assert!(status.success(), "{told}");
        told.trim().to_owned()
    }

    pub(crate) fn token(&self, role: &str) -> String {
        self.ask(&["token", "create", role, "--secret", &self.at("secret.key").display().to_string()])
    }

    fn short_token(&self, role: &str, expires: &str) -> String {
        self.ask(&["token", "create", role, "--secret", &self.at("secret.key").display().to_string(), "--expires", expires])
    }

    fn pair(&self, name: &str) -> (PathBuf, PathBuf) {
        let (private, public) = (self.at(&format!("{name}.pem")), self.at(&format!("{name}-public.pem")));
        self.ask(&["token", "create-key-pair", "--private", &private.display().to_string(), "--public", &public.display().to_string()]);
        (private, public)
    }

    fn signed(&self, role: &str, private: &Path) -> String {
        self.ask(&["token", "create", role, "--private", &private.display().to_string()])
    }

    pub(crate) fn setup(&self) -> Setup {
        Setup::default()
            .set("authenticationEnabled", true)
            .set(
                "authenticationProviders",
                "org.apache.pulsar.broker.authentication.AuthenticationProviderToken,AuthenticationProviderBasic",
            )
            .set("basicAuthConf", "data:,admin:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=")
            .set("tokenSecretKey", format!("file://{}", self.at("secret.key").display()))
            .set("authenticationRefreshCheckSeconds", 1)
            // Tests ask until something changes.
            .set("maxFailedLoginsPerMinute", 0)
    }
}

pub(crate) async fn connect(broker: &Broker, credentials: impl Into<Option<Credentials>>) -> Result<Client, Error> {
    let options = Options { credentials: credentials.into(), ..Options::without_reconnect() };
    soon("connecting", Client::connect(broker.url(), options)).await
}

async fn is_believed(broker: &Broker, token: &str) -> bool {
    connect(broker, Credentials::Token(token.to_owned())).await.is_ok()
}

#[tokio::test]
async fn a_good_token_is_believed_and_nothing_else_is() {
    let keys = Keys::new();
    let broker = keys.setup().start();
    let client = connect(&broker, Credentials::Token(keys.token("me"))).await.expect("believed");
    let producer = produce(&client, "t").await;
    let consumer = consume(&client, "t", ConsumerOptions::new("s")).await;
    soon("a receipt", producer.send(Message::new("hello"))).await.expect("stored");
    assert_eq!(text(&next(&consumer).await), "hello");

    let others = Keys::new();
    let good = keys.token("me");
    let (signed, _) = good.rsplit_once('.').expect("three parts");
    let unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJtZSJ9.".to_owned();
    for bad in [others.token("me"), format!("{signed}.AAAA"), unsigned, "nonsense".to_owned(), "a.b.c".to_owned(), "..".to_owned()] {
        let error = connect(&broker, Credentials::Token(bad.clone())).await.expect_err("not believed");
        assert_eq!(error.code(), Some(ServerError::AuthenticationError), "{bad}: {error}");
    }
    let error = connect(&broker, None).await.expect_err("nothing shown");
    assert!(error.to_string().contains("this broker asks for token or basic"), "{error}");
}

#[tokio::test]
async fn a_password_is_believed_when_it_is_right() {
    let keys = Keys::new();
    let broker = keys.setup().start();
    let basic = |user: &str, password: &str| Credentials::Basic { user: user.into(), password: password.into() };
    assert!(connect(&broker, basic("admin", "password")).await.is_ok());
    for (user, password) in [("admin", "passwort"), ("admin", ""), ("nobody", "password"), ("", "")] {
        assert!(connect(&broker, basic(user, password)).await.is_err(), "{user}:{password}");
    }
}

#[tokio::test]
async fn keys_change_without_a_restart() {
    let keys = Keys::new();
    let (first, first_public) = keys.pair("first");
    let (second, second_public) = keys.pair("second");
    let current = keys.at("current.pem");
    fs::copy(&first_public, &current).expect("copied");
    let setup = keys.setup().set("authenticationProviders", "AuthenticationProviderToken").set("tokenSecretKey", "");
    let setup = setup.set("tokenPublicKey", format!("file://{}", current.display())).set("tokenPublicAlg", "ES256");
    let broker = setup.start();
    let (old, new) = (keys.signed("me", &first), keys.signed("me", &second));
    assert!(is_believed(&broker, &old).await);
    assert!(!is_believed(&broker, &new).await);

    fs::write(&current, "no key").expect("written");
    eventually("a line in the log", || async { broker.log().contains("cannot be used: those read before stay in force") }).await;
    assert!(is_believed(&broker, &old).await);

    fs::copy(&second_public, &current).expect("copied");
    eventually("the new key", || is_believed(&broker, &new)).await;
    assert!(!is_believed(&broker, &old).await);
}

#[tokio::test]
async fn a_client_that_can_is_asked_for_a_fresh_token_and_stays() {
    let keys = Keys::new();
    let broker = keys.setup().start();
    let file = keys.at("token");
    fs::write(&file, keys.short_token("me", "2s")).expect("written");
    let client = connect(&broker, Credentials::TokenFile(file.clone())).await.expect("believed");
    let producer = produce(&client, "t").await;
    // Renewed before it ends, as whoever renews tokens does; the client learns of it when it is asked.
    fs::write(&file, keys.token("me")).expect("written");
    let mut raw = soon("a connection", RawConnection::open(broker.url())).await.expect("open");
    raw.send(connect_with(&keys.short_token("me", "1s"))).await.expect("sent");
    assert!(matches!(raw.recv_command().await.expect("an answer"), Command::Connected(_)));
    let Command::AuthChallenge(challenge) = raw.recv_command().await.expect("a challenge") else { panic!("no challenge") };
    assert_eq!(challenge.challenge.expect("one").auth_method_name(), "token");
    // Another's token is no fresh proof.
    let shown = proto::AuthData { auth_method_name: Some("token".into()), auth_data: Some(keys.token("other").into_bytes().into()) };
    raw.send(proto::CommandAuthResponse { response: Some(shown), ..Default::default() }).await.expect("sent");
    let last = soon("the end", raw.until_closed()).await.expect("closed");
    assert!(matches!(last.first(), Some(Command::Error(_))), "{last:?}");

    // Longer than the first token, the challenge and its patience.
    let mut silent = soon("a connection", RawConnection::open(broker.url())).await.expect("open");
    silent.send(connect_with(&keys.short_token("me", "2s"))).await.expect("sent");
    let commands = soon("the end", silent.until_closed()).await.expect("closed");
    assert!(commands.iter().any(|command| matches!(command, Command::AuthChallenge(_))), "{commands:?}");
    soon("a receipt", producer.send(Message::new("still here"))).await.expect("stored");
}

fn connect_with(token: &str) -> proto::CommandConnect {
    proto::CommandConnect {
        client_version: "test".into(),
        protocol_version: Some(21),
        auth_method_name: Some("token".into()),
        auth_data: Some(token.as_bytes().to_vec().into()),
        feature_flags: Some(proto::FeatureFlags { supports_auth_refresh: Some(true), ..Default::default() }),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_client_that_cannot_loses_its_connection_when_the_token_ends() {
    let keys = Keys::new();
    let broker = keys.setup().start();
    let mut raw = soon("a connection", RawConnection::open(broker.url())).await.expect("open");
    raw.send(proto::CommandConnect { feature_flags: None, ..connect_with(&keys.short_token("me", "1s")) }).await.expect("sent");
    let commands = soon("the end", raw.until_closed()).await.expect("closed");
    assert!(!commands.iter().any(|command| matches!(command, Command::AuthChallenge(_))), "{commands:?}");
    assert!(matches!(commands.last(), Some(Command::Error(error)) if error.message.contains("expired")), "{commands:?}");
}

#[tokio::test]
async fn only_proxies_speak_for_others() {
    let keys = Keys::new();
    let broker = keys.setup().set("proxyRoles", "proxy").start();
    for (role, original, welcome) in [
        ("proxy", Some("me"), true),
        ("proxy", None, false),
        ("proxy", Some("proxy"), false),
        ("me", Some("me"), true),
        ("me", Some("other"), false),
        ("me", None, true),
    ] {
        let mut raw = soon("a connection", RawConnection::open(broker.url())).await.expect("open");
        let connect = proto::CommandConnect { original_principal: original.map(str::to_owned), ..connect_with(&keys.token(role)) };
        raw.send(connect).await.expect("sent");
        let answer = raw.recv_command().await.expect("an answer");
        assert_eq!(matches!(answer, Command::Connected(_)), welcome, "{role} for {original:?}: {answer:?}");
    }
}

#[tokio::test]
async fn nothing_is_heard_before_the_proof_is_looked_at() {
    let keys = Keys::new();
    let broker = keys.setup().start();
    let mut raw = soon("a connection", RawConnection::open(broker.url())).await.expect("open");
    raw.send(connect_with("nonsense")).await.expect("sent");
    let lookup = proto::CommandLookupTopic { topic: "t".into(), request_id: 1, ..Default::default() };
    raw.send(lookup).await.expect("sent");
    let commands = soon("the end", raw.until_closed()).await.expect("closed");
    assert!(commands.iter().all(|command| matches!(command, Command::Error(_))), "{commands:?}");
}
