//! TLS: who is believed, who is sent away, what changes while the broker runs, and what strangers cost.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use client::{Client, ConsumerOptions, Credentials, Error, Message, Options, ProducerOptions, ServerError, TlsOptions, raw::RawConnection};
use geminga_tests::harness::{Broker, Setup, eventually, host_and_port, run, soon};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::talk::{consume, next, produce};

/// Files that `geminga tls init` wrote.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().expect("a directory"));
        files.write(&files.at("tls"));
        files
    }

    /// Another authority and its certificates, in a directory of their own.
    fn others(&self) -> PathBuf {
        let directory = self.at("others");
        self.write(&directory);
        directory
    }

    fn write(&self, directory: &Path) {
        let (status, told) =
            run(&["tls", "init", &directory.display().to_string(), "--client", "admin", "--client", "orders"], self.0.path());
        assert!(status.success(), "{told}");
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn setup(&self) -> Setup {
        Setup::default()
            .set("brokerServicePortTls", 0)
            .set("webServicePortTls", 0)
            .set("tlsCertificateFilePath", self.at("tls/server.pem").display())
            .set("tlsKeyFilePath", self.at("tls/server-key.pem").display())
            .set("tlsTrustCertsFilePath", self.at("tls/ca.pem").display())
    }

    fn trusting(&self) -> TlsOptions {
        TlsOptions { trust: Some(self.at("tls/ca.pem")), ..TlsOptions::default() }
    }

    fn showing(&self, name: &str) -> TlsOptions {
        self.showing_of("tls", name)
    }

    fn showing_of(&self, directory: &str, name: &str) -> TlsOptions {
        let of = |end: &str| Some(self.at(directory).join(format!("client-{name}{end}.pem")));
        TlsOptions { certificate: of(""), key: of("-key"), ..self.trusting() }
    }
}

fn url(broker: &Broker) -> String {
    broker.endpoints().json["pulsarTls"].as_str().expect("a URL over TLS").to_owned()
}

async fn connect(broker: &Broker, tls: TlsOptions) -> Result<Client, Error> {
    soon("connecting", Client::connect(&url(broker), Options { tls, ..Options::without_reconnect() })).await
}

/// Whether this end gets through a handshake of both protocols.
async fn is_welcome(broker: &Broker, tls: TlsOptions) -> bool {
    match connect(broker, tls).await {
        Ok(client) => client.partitions("whatever").await.is_ok(),
        Err(_) => false,
    }
}

async fn log_tells(broker: &Broker, what: &str) {
    eventually(&format!("the log tells: {what}"), || async { broker.log().contains(what) }).await;
}

#[tokio::test]
async fn messages_small_and_large_travel_over_tls_unchanged() {
    let files = Files::new();
    let broker = files.setup().start();
    let client = connect(&broker, files.trusting()).await.expect("connected");
    let producer = produce(&client, "secret").await;
    let consumer = consume(&client, "secret", ConsumerOptions::new("s")).await;
    // Sizes around those of a record, of what a read takes, and of what a write takes.
    let sizes = [0, 1, 16_383, 16_384, 16_385, 32_768, 262_144, 1_000_000, 4_000_000];
    for round in 0..3_u8 {
        for size in sizes {
            let payload: Vec<u8> = (0..size).map(|at| (at as u8).wrapping_mul(31).wrapping_add(round)).collect();
            soon("a receipt", producer.send(Message::new(payload.clone()))).await.expect("stored");
            let received = next(&consumer).await;
            assert!(received.payload == payload, "a payload of {size} bytes was changed on its way");
            consumer.ack(&received);
        }
    }
}

#[tokio::test]
async fn a_reader_that_is_slow_gets_everything_in_the_end() {
    let files = Files::new();
    let broker = files.setup().start();
    let client = connect(&broker, files.trusting()).await.expect("connected");
    let producer = produce(&client, "slow").await;
    let mut wire = soon("a handshake", RawConnection::open_with(&url(&broker), &files.trusting())).await.expect("connected");
    wire.send(wire::proto::CommandConnect { client_version: "slow".into(), protocol_version: Some(21), ..Default::default() })
        .await
        .expect("sent");
    wire.recv().await.expect("connected");
    let topic = "persistent://public/default/slow".to_owned();
    let subscribe = wire::proto::CommandSubscribe { topic, subscription: "s".into(), consumer_id: 1, request_id: 1, ..Default::default() };
    wire.send(subscribe).await.expect("sent");
    wire.recv().await.expect("subscribed");
    wire.send(wire::Command::Flow(wire::proto::CommandFlow { consumer_id: 1, message_permits: 1000 }.into())).await.expect("sent");
    // More than the sockets hold, all of it before the first byte is taken.
    for _ in 0..100 {
        soon("a receipt", producer.send(Message::new(vec![7; 200_000]))).await.expect("stored");
    }
    for _ in 0..100 {
        assert_eq!(wire.recv().await.expect("a message").command.name(), "MESSAGE");
    }
}

#[tokio::test]
async fn a_client_tells_a_broker_that_it_does_not_trust_from_one_that_it_does() {
    let files = Files::new();
    let broker = files.setup().start();
    files.others();
    let stranger = TlsOptions { trust: Some(files.at("others/ca.pem")), ..TlsOptions::default() };
    let error = connect(&broker, stranger.clone()).await.expect_err("another authority");
    assert!(matches!(error, Error::Tls { .. }) && error.advice().is_some_and(|advice| advice.contains("trust file")), "{error}");
    assert!(is_welcome(&broker, TlsOptions { allow_insecure: true, ..stranger }).await);
    assert!(is_welcome(&broker, files.trusting()).await);
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused_unless_the_client_does_not_mind() {
    let files = Files::new();
    let (directory, host) = (files.at("elsewhere"), "elsewhere.example");
    let (status, told) = run(&["tls", "init", &directory.display().to_string(), "--host", host], files.0.path());
    assert!(status.success(), "{told}");
    let setup = files.setup().set("tlsCertificateFilePath", directory.join("server.pem").display());
    let broker = setup.set("tlsKeyFilePath", directory.join("server-key.pem").display()).start();
    let trusting = TlsOptions { trust: Some(directory.join("ca.pem")), ..TlsOptions::default() };
    let error = connect(&broker, trusting.clone()).await.expect_err("another host");
    assert!(error.to_string().contains(host), "{error}");
    assert!(is_welcome(&broker, TlsOptions { verify_host_name: false, ..trusting }).await);
}

#[tokio::test]
async fn where_client_certificates_are_required_only_trusted_ones_get_in() {
    let files = Files::new();
    let broker = files.setup().set("tlsRequireTrustedClientCertOnConnect", true).start();
    files.others();
    assert!(is_welcome(&broker, files.showing("admin")).await);
    assert!(!is_welcome(&broker, files.trusting()).await);
    log_tells(&broker, "tlsRequireTrustedClientCertOnConnect").await;
    assert!(!is_welcome(&broker, files.showing_of("others", "admin")).await);
    log_tells(&broker, "tlsTrustCertsFilePath").await;
}

#[tokio::test]
async fn where_they_are_not_required_a_bad_one_is_still_refused_unless_anybody_may_connect() {
    let files = Files::new();
    files.others();
    let broker = files.setup().start();
    assert!(is_welcome(&broker, files.trusting()).await);
    assert!(!is_welcome(&broker, files.showing_of("others", "admin")).await);
    let open = files.setup().set("tlsAllowInsecureConnection", true).start();
    assert!(is_welcome(&open, files.showing_of("others", "admin")).await);
}

#[tokio::test]
async fn new_connections_get_a_new_certificate_and_a_bad_one_changes_nothing() {
    let files = Files::new();
    let broker = files.setup().set("tlsCertRefreshCheckDurationSec", 1).start();
    let before = files.trusting();
    let old = connect(&broker, before.clone()).await.expect("connected");
    let producer = produce(&old, "t").await;

    fs::write(files.at("tls/server.pem"), "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n").expect("written");
    log_tells(&broker, "the certificate read before stays in force").await;
    assert!(is_welcome(&broker, before.clone()).await);

    let others = files.others();
    fs::copy(others.join("server.pem"), files.at("tls/server.pem")).expect("copied");
    log_tells(&broker, "does not belong to the key").await;
    assert!(is_welcome(&broker, before.clone()).await);

    fs::copy(others.join("server-key.pem"), files.at("tls/server-key.pem")).expect("copied");
    let after = TlsOptions { trust: Some(others.join("ca.pem")), ..TlsOptions::default() };
    eventually("the new certificate", || is_welcome(&broker, after.clone())).await;
    assert!(!is_welcome(&broker, before).await);
    // What was connected stays so.
    soon("a receipt", producer.send(Message::new("still here"))).await.expect("stored");
}

/// The answer to a GET over https, showing a certificate of that name if one is given.
async fn get(files: &Files, broker: &Broker, name: Option<&str>, path: &str) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(files.at("tls/ca.pem")).expect("a certificate")).expect("an authority");
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
    let config = match name {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let own = CertificateDer::from_pem_file(files.at(&format!("tls/client-{name}.pem"))).expect("a certificate");
            let key = PrivateKeyDer::from_pem_file(files.at(&format!("tls/client-{name}-key.pem"))).expect("a key");
            builder.with_client_auth_cert(vec![own], key).expect("a pair")
        }
    };
    let https = broker.endpoints().json["https"].as_str().expect("a URL").to_owned();
    let stream = TcpStream::connect(host_and_port(&https)).await.expect("connected");
    let host = ServerName::try_from("localhost").expect("a name");
    let mut stream = soon("a handshake", TlsConnector::from(Arc::new(config)).connect(host, stream)).await.expect("shaken");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    // Whether the end is announced is none of this test's business.
    let _ = soon("an answer", stream.read_to_end(&mut answer)).await;
    String::from_utf8(answer).expect("text")
}

#[tokio::test]
async fn http_over_tls_tells_the_url_over_tls() {
    let files = Files::new();
    let broker = files.setup().start();
    let answer = get(&files, &broker, None, "/lookup/v2/topic/persistent/public/default/t").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains(&format!("\"brokerUrlTls\":\"{}\"", url(&broker))), "{answer}");
    let client = connect(&broker, files.trusting()).await.expect("connected");
    let address = soon("a lookup", client.lookup("t")).await.expect("found");
    assert_eq!(format!("pulsar+ssl://{address}"), url(&broker));
}

#[tokio::test]
async fn a_certificate_is_a_role_over_both_protocols() {
    let files = Files::new();
    let setup = files.setup().set("authenticationEnabled", true).set("authenticationProviders", "AuthenticationProviderTls");
    let setup = setup.set("authorizationEnabled", true).set("superUserRoles", "admin").set("tlsAllowInsecureConnection", true);
    let broker = setup.start();
    files.others();
    for (name, status) in [(Some("admin"), 200), (Some("orders"), 403), (None, 401)] {
        let answer = get(&files, &broker, name, "/admin/v2/tenants").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{name:?}: {answer}");
    }
    let with = |tls| Options { tls, credentials: Some(Credentials::Tls), ..Options::without_reconnect() };
    let admin = soon("connecting", Client::connect(&url(&broker), with(files.showing("admin")))).await.expect("believed");
    assert!(soon("a producer", admin.producer("t", ProducerOptions::default())).await.is_ok());
    let orders = soon("connecting", Client::connect(&url(&broker), with(files.showing("orders")))).await.expect("believed");
    let error = soon("a producer", orders.producer("t", ProducerOptions::default())).await.expect_err("no grant");
    assert_eq!(error.code(), Some(ServerError::AuthorizationError), "{error}");
    // Anybody may connect here, but a name that nobody trusted vouches for is nobody's.
    let stranger = soon("connecting", Client::connect(&url(&broker), with(files.showing_of("others", "admin")))).await;
    assert_eq!(stranger.expect_err("not believed").code(), Some(ServerError::AuthenticationError));
}

#[tokio::test]
async fn strangers_on_the_port_cost_their_connection_and_a_line_in_the_log() {
    let files = Files::new();
    let broker = files.setup().set("connectionHandshakeTimeoutMs", 500).start();
    let address = host_and_port(&url(&broker));
    let mut plain = TcpStream::connect(address).await.expect("connected");
    plain.write_all(b"\0\0\0\x0c\0\0\0\x08\x08\x02\x12\x04").await.expect("sent");
    soon("the end", plain.read_to_end(&mut Vec::new())).await.expect("closed");
    log_tells(&broker, "does the client speak TLS?").await;

    // A record that begins well and goes on badly, one that never ends, and nothing at all.
    let mut garbage = TcpStream::connect(address).await.expect("connected");
    garbage.write_all(&[0x16, 3, 1, 0, 32, 1, 0, 0, 28, 0xff, 0xff, 9, 9, 9, 9]).await.expect("sent");
    garbage.write_all(&[9; 22]).await.expect("sent");
    soon("the end", garbage.read_to_end(&mut Vec::new())).await.expect("closed");
    let mut halves = Vec::new();
    for n in 0..300 {
        let mut half = TcpStream::connect(address).await.expect("connected");
        if n % 2 == 0 {
            half.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1]).await.expect("sent");
        }
        halves.push(half);
    }
    // While all of them wait, others get in.
    assert!(is_welcome(&broker, files.trusting()).await);
    for mut half in halves {
        let _ = soon("the end", half.read_to_end(&mut Vec::new())).await;
    }
    log_tells(&broker, "the handshake was not over in time").await;
}

#[tokio::test]
async fn who_speaks_tls_on_the_other_port_is_told_of_in_the_log() {
    let files = Files::new();
    let broker = files.setup().start();
    let wrong = broker.url().replace("pulsar://", "pulsar+ssl://");
    let options = Options { tls: files.trusting(), ..Options::without_reconnect() };
    assert!(soon("an answer", Client::connect(&wrong, options)).await.is_err());
    log_tells(&broker, "this port does not speak TLS").await;
}

#[tokio::test]
async fn a_storm_of_handshakes_leaves_everybody_connected() {
    let files = Files::new();
    let broker = files.setup().start();
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let (url, tls) = (url(&broker), files.trusting());
        all.spawn(async move { Client::connect(&url, Options { tls, ..Options::without_reconnect() }).await.map(drop) });
    }
    while let Some(outcome) = soon("a connection", all.join_next()).await {
        outcome.expect("no panic").expect("connected");
    }
}

#[tokio::test]
async fn a_broker_with_a_listener_over_tls_and_without_certificate_does_not_start() {
    let home = tempfile::tempdir().expect("a directory");
    let (status, told) = run(&["--data", &home.path().join("d").display().to_string(), "--set", "brokerServicePortTls=0"], home.path());
    assert_eq!(status.code(), Some(3), "{told}");
    assert!(told.contains("tlsCertificateFilePath") && told.contains("geminga tls init"), "{told}");
    let missing = "tlsCertificateFilePath=/nowhere/server.pem";
    let flags = ["--set", "brokerServicePortTls=0", "--set", missing, "--set", "tlsKeyFilePath=/nowhere/key.pem"];
    let (status, told) = run(&[&["--data", &home.path().join("d").display().to_string()][..], &flags].concat(), home.path());
    assert_eq!(status.code(), Some(1), "{told}");
    assert!(told.contains("cannot read /nowhere/server.pem"), "{told}");
}

#[tokio::test]
async fn the_patience_with_a_handshake_has_no_part_in_a_quiet_connection() {
    let files = Files::new();
    let broker = files.setup().set("connectionHandshakeTimeoutMs", 300).start();
    let client = connect(&broker, files.trusting()).await.expect("connected");
    let producer = produce(&client, "quiet").await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    soon("a receipt", producer.send(Message::new("after a while"))).await.expect("stored");
}
