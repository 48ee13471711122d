//! Grants in a namespace, on a topic and for a subscription, and the policy on duplicates: set, read and taken back.

use std::net::SocketAddr;
use std::time::Duration;

use geminga_admin::AdminOptions;
use serde_json::json;
use server::AuthSettings;

use super::{ask_at, done, start, told};

/// A server that asks what callers may do, and lets everybody be a super-user.
pub(super) fn asking() -> SocketAddr {
    let auth = AuthSettings {
        token: None,
        passwords: None,
        tls: false,
        anonymous: Some("root".into()),
        refresh: Duration::from_secs(60),
        proxy_roles: Vec::new(),
        verify_original: false,
        authorize: true,
        max_failures: 0,
        superusers: vec!["root".into()],
        wildcards: false,
    };
    start(AdminOptions::default(), |settings| settings.auth = Some(auth))
}

#[test]
fn grants_are_made_read_and_taken_back() {
    let at = asking();
    let told = |method: &str, path: &str, body: &str| {
        let answer = ask_at(at, method, path, body);
        (answer.status, answer.body)
    };
    let get = |path: &str| ask_at(at, "GET", path, "").json();
    let namespace = "/admin/v2/namespaces/public/default/permissions";
    assert_eq!(told("POST", &format!("{namespace}/app"), r#"["produce"]"#), done());
    assert_eq!(get(namespace), json!({ "app": ["produce"] }));
    assert_eq!(told("POST", &format!("{namespace}/app"), r#"["fly"]"#).0, 400);
    let topic = "/admin/v2/persistent/public/default/granted";
    assert_eq!(told("PUT", topic, ""), done());
    assert_eq!(told("POST", &format!("{topic}/permissions/app"), r#"["consume"]"#), done());
    assert_eq!(get(&format!("{topic}/permissions")), json!({ "app": ["consume", "produce"] }), "those of the namespace included");
    assert_eq!(told("DELETE", &format!("{topic}/permissions/app"), ""), done());
    assert_eq!(told("DELETE", &format!("{topic}/permissions/app"), "").0, 412);
    let subscription = format!("{namespace}/subscription");
    assert_eq!(told("POST", &format!("{subscription}/s"), r#"["app","other"]"#), done());
    assert_eq!(get(&subscription), json!({ "s": ["app", "other"] }));
    assert_eq!(told("DELETE", &format!("{subscription}/s/app"), ""), done());
    assert_eq!(told("DELETE", &format!("{namespace}/s/other"), ""), done(), "as some tools write it");
    assert_eq!(get(&subscription), json!({}));
    assert_eq!(told("DELETE", &format!("{namespace}/app"), ""), done());
    assert_eq!(get(namespace), json!({}));
}

#[test]
fn the_policy_on_duplicates_is_set_read_and_left_to_the_configuration_again() {
    assert_eq!(told("PUT", "/admin/v2/namespaces/public/duplicates", ""), done());
    let policy = "/admin/v2/namespaces/public/duplicates/deduplication";
    assert_eq!(told("POST", policy, "true"), done());
    assert_eq!(told("GET", policy, ""), (200, "true".into()));
    assert_eq!(told("POST", policy, "perhaps").0, 400);
    assert_eq!(told("DELETE", policy, ""), done());
    assert_ne!(told("GET", policy, "").1, "true");
}
