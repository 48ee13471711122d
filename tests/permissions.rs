//! Who may do what, row by row: one table, asked of a running broker over both protocols. `PERMISSIONS.md` beside this file is
//! written from the same table.

use std::fmt::Write;

use client::{Client, ConsumerOptions, Credentials, ProducerOptions, ServerError, raw::RawConnection};
use geminga_tests::harness::{Broker, soon};
use wire::{Command, proto};

use crate::admin::told_as;
use crate::tokens::{Keys, connect};

/// Everybody who asks, and how they came to what they have.
const ROLES: [(&str, &str); 9] = [
    ("root", "super-user"),
    ("boss", "administrator of the tenant"),
    ("stranger", "administrator of another tenant"),
    ("writer", "may produce in the namespace"),
    ("reader", "may consume in the namespace"),
    ("narrow", "may produce to and consume from this topic alone"),
    ("keyholder", "may consume; the subscription `held` is theirs"),
    ("nobody", "known, without any grant"),
    ("anonymous", "shows nothing; may consume in the namespace"),
];

/// What they try, and who succeeds.
const TABLE: [(Deed, &[&str]); 31] = [
    (Deed::Produce("t"), &["root", "boss", "writer", "narrow"]),
    (Deed::Produce("other"), &["root", "boss", "writer"]),
    (Deed::Consume("t", "shared"), &["root", "boss", "reader", "narrow", "keyholder", "anonymous"]),
    (Deed::Consume("other", "shared"), &["root", "boss", "reader", "keyholder", "anonymous"]),
    (Deed::Consume("t", "held"), &["root", "boss", "keyholder"]),
    (Deed::LookUp("t"), &["root", "boss", "writer", "reader", "narrow", "keyholder", "anonymous"]),
    (Deed::LookUp("other"), &["root", "boss", "writer", "reader", "keyholder", "anonymous"]),
    (Deed::AskForSchema("t"), &["root", "boss", "writer", "reader", "narrow", "keyholder", "anonymous"]),
    (Deed::AskForSchema("other"), &["root", "boss", "writer", "reader", "keyholder", "anonymous"]),
    (Deed::AddSchema("t"), &["root", "boss", "writer", "narrow"]),
    (Deed::AddSchema("other"), &["root", "boss", "writer"]),
    (
        Deed::Ask("GET", "/admin/v2/clusters", ""),
        &["root", "boss", "stranger", "writer", "reader", "narrow", "keyholder", "nobody", "anonymous"],
    ),
    (Deed::Ask("GET", "/admin/v2/tenants", ""), &["root"]),
    (Deed::Ask("GET", "/admin/v2/brokers", ""), &["root"]),
    (Deed::Ask("POST", "/admin/v2/tenants/acme", ACME), &["root"]),
    (Deed::Ask("GET", "/admin/v2/namespaces/acme/ns", ""), &["root", "boss"]),
    (Deed::Ask("POST", "/admin/v2/namespaces/acme/ns/deduplication", "false"), &["root", "boss"]),
    (Deed::Ask("POST", "/admin/v2/namespaces/acme/ns/permissions/extra", r#"["consume"]"#), &["root", "boss"]),
    (Deed::Ask("POST", "/admin/v2/persistent/acme/ns/t/permissions/extra", r#"["consume"]"#), &["root", "boss"]),
    (Deed::Ask("PUT", "/admin/v2/namespaces/acme/ns/schemaCompatibilityStrategy", r#""FULL""#), &["root", "boss"]),
    (Deed::Ask("POST", "/admin/v2/namespaces/acme/ns/messageTTL", "3600"), &["root", "boss"]),
    (Deed::Ask("DELETE", "/admin/v2/namespaces/acme/ns/delayedDelivery", ""), &["root", "boss"]),
    (Deed::Ask("GET", "/admin/v2/schemas/acme/ns/t/schema", ""), &["root", "boss", "writer", "reader", "narrow", "keyholder", "anonymous"]),
    (Deed::Ask("POST", "/admin/v2/schemas/acme/ns/t/schema", SCHEMA), &["root", "boss"]),
    (
        Deed::Ask("GET", "/admin/v2/persistent/acme/ns/t/stats", ""),
        &["root", "boss", "writer", "reader", "narrow", "keyholder", "anonymous"],
    ),
    (
        Deed::Ask("GET", "/geminga/v1/whoami", ""),
        &["root", "boss", "stranger", "writer", "reader", "narrow", "keyholder", "nobody", "anonymous"],
    ),
    (Deed::Ask("GET", "/geminga/v1/overview", ""), &["root"]),
    (
        Deed::Ask("GET", "/geminga/v1/topics/persistent/acme/ns/t", ""),
        &["root", "boss", "writer", "reader", "narrow", "keyholder", "anonymous"],
    ),
    (Deed::Ask("POST", "/geminga/v1/config:validate", ""), &["root"]),
    (Deed::Ask("POST", "/admin/v2/brokers/configuration/keepAliveIntervalSeconds/30", ""), &["root"]),
    (
        Deed::Ask("GET", "/lookup/v2/topic/persistent/acme/ns/t", ""),
        &["root", "boss", "writer", "reader", "narrow", "keyholder", "anonymous"],
    ),
];

const ACME: &str = r#"{"adminRoles":["boss"],"allowedClusters":["standalone"]}"#;

const SCHEMA: &str = r#"{"type":"STRING","schema":"","properties":{}}"#;

#[derive(Clone, Copy)]
enum Deed {
    Produce(&'static str),
    Consume(&'static str, &'static str),
    LookUp(&'static str),
    AskForSchema(&'static str),
    AddSchema(&'static str),
    Ask(&'static str, &'static str, &'static str),
}

impl std::fmt::Display for Deed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Deed::Produce(topic) => write!(f, "produce to `{topic}`"),
            Deed::Consume(topic, subscription) => write!(f, "consume from `{topic}` with `{subscription}`"),
            Deed::LookUp(topic) => write!(f, "look up `{topic}`, ask for its partitions"),
            Deed::AskForSchema(topic) => write!(f, "ask for the schema of `{topic}`"),
            Deed::AddSchema(topic) => write!(f, "add a schema to `{topic}`"),
            Deed::Ask(method, path, _) => write!(f, "`{method} {path}`"),
        }
    }
}

fn name(topic: &str) -> String {
    format!("persistent://acme/ns/{topic}")
}

/// A broker on which everybody has what the list above says.
fn prepared(keys: &Keys) -> Broker {
    let setup = keys.setup().set("authorizationEnabled", true).set("superUserRoles", "root").set("anonymousUserRole", "anonymous");
    let broker = setup.start();
    let root = keys.token("root");
    let ask = |method: &str, path: &str, body: &str| {
        let (status, told) = told_as(&broker, Some(&root), method, path, body);
        assert_eq!(status, 204, "{method} {path}: {told}");
    };
    ask("PUT", "/admin/v2/tenants/acme", ACME);
    ask("PUT", "/admin/v2/tenants/elsewhere", r#"{"adminRoles":["stranger"],"allowedClusters":["standalone"]}"#);
    ask("PUT", "/admin/v2/namespaces/acme/ns", "");
    for topic in ["t", "other"] {
        ask("PUT", &format!("/admin/v2/persistent/acme/ns/{topic}"), "");
    }
    let permissions = "/admin/v2/namespaces/acme/ns/permissions";
    ask("POST", &format!("{permissions}/writer"), r#"["produce"]"#);
    for role in ["reader", "keyholder", "anonymous"] {
        ask("POST", &format!("{permissions}/{role}"), r#"["consume"]"#);
    }
    ask("POST", "/admin/v2/persistent/acme/ns/t/permissions/narrow", r#"["produce","consume"]"#);
    ask("POST", &format!("{permissions}/subscription/held"), r#"["keyholder"]"#);
    broker
}

/// Whether a question about schemas is answered: that there is none is an answer.
async fn is_answered(broker: &Broker, token: Option<&str>, question: Command) -> bool {
    let mut raw = soon("a connection", RawConnection::open(broker.url())).await.expect("connected");
    let connect = proto::CommandConnect {
        client_version: "questions".to_owned(),
        protocol_version: Some(21),
        auth_method_name: token.map(|_| "token".to_owned()),
        auth_data: token.map(|token| token.as_bytes().to_vec().into()),
        ..Default::default()
    };
    raw.send(Command::Connect(Box::new(connect))).await.expect("sent");
    assert!(matches!(raw.recv_command().await, Ok(Command::Connected(_))));
    raw.send(question).await.expect("sent");
    let error = match raw.recv_command().await.expect("an answer") {
        Command::GetSchemaResponse(answer) => answer.error_code.map(|_| answer.error_code()),
        Command::GetOrCreateSchemaResponse(answer) => answer.error_code.map(|_| answer.error_code()),
        other => panic!("{other:?}"),
    };
    assert!(matches!(error, None | Some(ServerError::TopicNotFound | ServerError::AuthorizationError)), "{error:?}");
    error != Some(ServerError::AuthorizationError)
}

/// Whether it was done; refusals must be the right ones.
async fn is_done(broker: &Broker, client: &Client, token: Option<&str>, deed: Deed) -> bool {
    let outcome = match deed {
        Deed::Produce(topic) => soon("a producer", client.producer(&name(topic), ProducerOptions::default())).await.map(drop),
        Deed::Consume(topic, subscription) => {
            let options = ConsumerOptions { kind: client::SubscriptionType::Shared, ..ConsumerOptions::new(subscription) };
            soon("a consumer", client.consumer(&name(topic), options)).await.map(drop)
        }
        Deed::LookUp(topic) => match soon("a lookup", client.lookup(&name(topic))).await {
            Ok(_) => soon("partitions", client.partitions(&name(topic))).await.map(drop),
            Err(error) => Err(error),
        },
        Deed::AskForSchema(topic) => {
            let (request_id, topic) = (1, name(topic));
            return is_answered(broker, token, proto::CommandGetSchema { request_id, topic, ..Default::default() }.into()).await;
        }
        Deed::AddSchema(topic) => {
            let schema = proto::Schema { name: "s".to_owned(), r#type: proto::SchemaType::String.into(), ..Default::default() };
            let (request_id, topic) = (1, name(topic));
            return is_answered(broker, token, proto::CommandGetOrCreateSchema { request_id, topic, schema, ..Default::default() }.into())
                .await;
        }
        Deed::Ask(method, path, body) => {
            let (status, told) = told_as(broker, token, method, path, body);
            let refused = if token.is_some() { 403 } else { 401 };
            assert!(status == 200 || status == 204 || status == refused, "{method} {path}: {status} {told}");
            assert!(status < 400 || told.contains("\"reason\""), "{told}");
            return status < 400;
        }
    };
    match outcome {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.code(), Some(ServerError::AuthorizationError), "{deed}: {error}");
            false
        }
    }
}

#[tokio::test]
async fn everybody_may_do_what_the_table_says_and_nothing_else() {
    let keys = Keys::new();
    let broker = prepared(&keys);
    for (role, _) in ROLES {
        let token = (role != "anonymous").then(|| keys.token(role));
        let client = connect(&broker, token.clone().map(Credentials::Token)).await.expect("believed");
        for (deed, may) in TABLE {
            let done = is_done(&broker, &client, token.as_deref(), deed).await;
            assert_eq!(done, may.contains(&role), "{role}: {deed}");
        }
    }
}

#[test]
fn the_page_of_permissions_is_up_to_date() {
    let mut page = String::from(
        "# Who may do what\n\nWritten from the table in `permissions.rs`, which a running broker is held to; after a change there, run its tests with `UPDATE=1`.\n\n",
    );
    for (role, what) in ROLES {
        writeln!(page, "- **{role}**: {what}").expect("written");
    }
    page.push_str("\nThe namespace is `acme/ns`, the topics are in it.\n\n|");
    for (role, _) in ROLES {
        write!(page, " | {role}").expect("written");
    }
    page.push_str(" |\n|---");
    page.push_str(&"|:-:".repeat(ROLES.len()));
    page.push_str("|\n");
    for (deed, may) in TABLE {
        write!(page, "| {deed}").expect("written");
        for (role, _) in ROLES {
            page.push_str(if may.contains(&role) { " | yes" } else { " | –" });
        }
        page.push_str(" |\n");
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/PERMISSIONS.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(file, &page).expect("written");
    }
    let written = std::fs::read_to_string(file).unwrap_or_default();
    assert!(written == page, "PERMISSIONS.md differs from the table; run this test with UPDATE=1 to write it");
}

#[tokio::test]
async fn what_is_taken_back_is_gone_for_whoever_comes_next() {
    let keys = Keys::new();
    let broker = prepared(&keys);
    let root = keys.token("root");
    let told = |method: &str, path: &str, body: &str| told_as(&broker, Some(&root), method, path, body);
    let writer = connect(&broker, Credentials::Token(keys.token("writer"))).await.expect("believed");
    assert!(is_done(&broker, &writer, None, Deed::Produce("t")).await);
    assert_eq!(told("DELETE", "/admin/v2/namespaces/acme/ns/permissions/writer", "").0, 204);
    assert!(!is_done(&broker, &writer, None, Deed::Produce("t")).await);

    let topic = "/admin/v2/persistent/acme/ns/t/permissions";
    let (status, union) = told("GET", topic, "");
    assert_eq!(status, 200);
    assert_eq!(union, r#"{"anonymous":["consume"],"keyholder":["consume"],"narrow":["consume","produce"],"reader":["consume"]}"#);
    assert_eq!(told("DELETE", &format!("{topic}/reader"), "").0, 412);
    assert_eq!(told("DELETE", &format!("{topic}/narrow"), "").0, 204);
    let narrow = connect(&broker, Credentials::Token(keys.token("narrow"))).await.expect("believed");
    assert!(!is_done(&broker, &narrow, None, Deed::Consume("t", "shared")).await);

    let held = "/admin/v2/namespaces/acme/ns/permissions/subscription";
    assert_eq!(told("GET", held, "").1, r#"{"held":["keyholder"]}"#);
    assert_eq!(told("DELETE", &format!("{held}/held/keyholder"), "").0, 204);
    assert_eq!(told("GET", held, "").1, "{}");
    let reader = connect(&broker, Credentials::Token(keys.token("reader"))).await.expect("believed");
    assert!(is_done(&broker, &reader, None, Deed::Consume("t", "held")).await);
}

#[tokio::test]
async fn through_a_proxy_both_must_be_allowed() {
    let keys = Keys::new();
    let setup = keys.setup().set("authorizationEnabled", true).set("superUserRoles", "root,proxy").set("proxyRoles", "proxy");
    let broker = setup.start();
    let proxy = keys.token("proxy");
    let ask = |original: &str| {
        let request = format!(
            "GET /admin/v2/tenants HTTP/1.1\r\nHost: b\r\nConnection: close\r\nAuthorization: Bearer {proxy}\r\nX-Original-Principal: {original}\r\n\r\n"
        );
        crate::admin::raw(&broker, &request)
    };
    assert!(ask("root").starts_with("HTTP/1.1 200"));
    assert!(ask("nobody").starts_with("HTTP/1.1 403"));
    assert!(ask("proxy").starts_with("HTTP/1.1 401"));
    let (status, told) = told_as(&broker, Some("nonsense"), "GET", "/admin/v2/tenants", "");
    assert_eq!(status, 401, "{told}");
}
