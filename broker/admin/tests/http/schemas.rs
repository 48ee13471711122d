//! Schemas over HTTP: versions, compatibility, deletion, and the policies on them.

use serde_json::{Value, json};

use super::{ask, done, get, told};

fn avro(fields: &Value) -> String {
    let definition = json!({"type": "record", "name": "R", "fields": fields}).to_string();
    json!({"type": "AVRO", "schema": definition, "properties": {"k": "v"}}).to_string()
}

fn first() -> String {
    avro(&json!([{"name": "a", "type": "int"}]))
}

fn second() -> String {
    avro(&json!([{"name": "a", "type": "int"}, {"name": "b", "type": "int", "default": 0}]))
}

fn incompatible() -> String {
    avro(&json!([{"name": "a", "type": "string"}]))
}

fn namespace(name: &str) -> String {
    assert_eq!(told("PUT", &format!("/admin/v2/namespaces/public/{name}"), ""), done());
    format!("/admin/v2/schemas/public/{name}/t")
}

#[test]
fn versions_are_added_found_and_listed() {
    let at = namespace("schemas-versions");
    assert_eq!(get(&format!("{at}/schema")).status, 404);
    assert_eq!(get(&format!("{at}/schema")).reason(), "Schema not found");
    assert_eq!(told("GET", &format!("{at}/schemas"), ""), (200, r#"{"getSchemaResponses":[]}"#.into()));
    assert_eq!(told("POST", &format!("{at}/schema"), &first()), (200, r#"{"version":{"version":0}}"#.into()));
    assert_eq!(told("POST", &format!("{at}/schema"), &first()), (200, r#"{"version":{"version":0}}"#.into()));
    assert_eq!(told("POST", &format!("{at}/schema"), &second()), (200, r#"{"version":{"version":1}}"#.into()));
    let latest = get(&format!("{at}/schema")).json();
    assert_eq!((&latest["version"], &latest["type"], &latest["properties"]["k"]), (&json!(1), &json!("AVRO"), &json!("v")));
    assert!(latest["timestamp"].as_i64().unwrap() > 0);
    let definition = serde_json::from_str::<Value>(&first()).unwrap()["schema"].clone();
    // A partition's are those of its topic.
    assert_eq!(get(&format!("{at}-partition-3/schema/0")).json()["data"], definition);
    assert_eq!(get(&format!("{at}/schemas")).json()["getSchemaResponses"].as_array().unwrap().len(), 2);
    assert_eq!(told("POST", &format!("{at}/version"), &second()), (200, r#"{"version":1}"#.into()));
    assert_eq!(told("POST", &format!("{at}/version"), &incompatible()), (200, r#"{"version":-1}"#.into()));
    let index = get(&format!("{at}/metadata")).json();
    assert_eq!((&index["info"]["version"], index["index"].as_array().unwrap().len()), (&json!(1), 2));
    assert_eq!(get(&format!("{at}/schema/9")).status, 404);
    assert_eq!(get(&format!("{at}/schema/latest")).status, 400);
}

#[test]
fn what_does_not_fit_is_a_conflict_and_can_be_asked_before() {
    let at = namespace("schemas-conflicts");
    let fits = r#"{"compatibility":true,"schemaCompatibilityStrategy":"FULL"}"#;
    let fits_not = r#"{"compatibility":false,"schemaCompatibilityStrategy":"FULL"}"#;
    assert_eq!(told("POST", &format!("{at}/compatibility"), &first()), (202, fits.into()));
    told("POST", &format!("{at}/schema"), &first());
    assert_eq!(told("POST", &format!("{at}/compatibility"), &second()), (202, fits.into()));
    assert_eq!(told("POST", &format!("{at}/compatibility"), &incompatible()), (202, fits_not.into()));
    let refused = ask("POST", &format!("{at}/schema"), &incompatible());
    assert_eq!(refused.status, 409);
    assert!(refused.reason().contains("field a: the reader expects string, the writer wrote int"), "{refused:?}");
}

#[test]
fn bad_bodies_are_told_apart() {
    let at = namespace("schemas-bodies");
    for (body, status) in [
        ("", 400),
        ("{", 400),
        ("[]", 400),
        (r#"{"schema":""}"#, 400),
        (r#"{"type":"AVRO","schema":7}"#, 400),
        (r#"{"type":"SAVRO","schema":""}"#, 422),
        (r#"{"type":"AVRO","schema":"{"}"#, 422),
        (r#"{"type":"INT8","schema":"x"}"#, 422),
        (r#"{"type":"AUTO_CONSUME","schema":""}"#, 422),
        (r#"{"type":"KEY_VALUE","schema":"x"}"#, 422),
    ] {
        for call in ["schema", "compatibility", "version"] {
            let answer = ask("POST", &format!("{at}/{call}"), body);
            assert_eq!(answer.status, status, "{call} {body}: {answer:?}");
            assert!(!answer.reason().is_empty());
        }
    }
    assert_eq!(ask("POST", "/admin/v2/schemas/public/no-such-namespace/t/schema", &first()).reason(), "Namespace does not exist");
    assert_eq!(get(&format!("{at}/schema")).status, 404);
}

#[test]
fn pairs_are_shown_as_they_were_posted() {
    let at = namespace("schemas-pairs");
    let pair = json!({"key": "", "value": {"type": "record", "name": "R", "fields": []}});
    let properties = json!({"key.schema.type": "STRING", "value.schema.type": "AVRO"});
    let body = json!({"type": "KEY_VALUE", "schema": pair.to_string(), "properties": properties}).to_string();
    assert_eq!(told("POST", &format!("{at}/schema"), &body).0, 200);
    let shown = get(&format!("{at}/schema")).json();
    assert_eq!(serde_json::from_str::<Value>(shown["data"].as_str().unwrap()).unwrap(), pair);
    assert_eq!(shown["type"], "KEY_VALUE");
}

#[test]
fn a_deletion_is_a_version_and_force_leaves_nothing() {
    let at = namespace("schemas-deletion");
    told("POST", &format!("{at}/schema"), &first());
    assert_eq!(told("DELETE", &format!("{at}/schema"), ""), (200, r#"{"version":1}"#.into()));
    assert_eq!(get(&format!("{at}/schema")).status, 404);
    assert_eq!(told("POST", &format!("{at}/schema"), &incompatible()), (200, r#"{"version":{"version":2}}"#.into()));
    assert_eq!(told("DELETE", &format!("{at}/schema?force=true"), "").0, 200);
    assert_eq!(get(&format!("{at}/metadata")).status, 404);
    assert_eq!(told("POST", &format!("{at}/schema"), &first()), (200, r#"{"version":{"version":0}}"#.into()));
    // Nothing of them keeps the namespace.
    assert_eq!(told("DELETE", "/admin/v2/namespaces/public/schemas-deletion", ""), done());
}

#[test]
fn policies_on_schemas_are_kept_and_obeyed() {
    let at = namespace("schemas-policies");
    let policy = |policy: &str| format!("/admin/v2/namespaces/public/schemas-policies/{policy}");
    assert_eq!(told("GET", &policy("schemaCompatibilityStrategy"), ""), (200, r#""UNDEFINED""#.into()));
    assert_eq!(told("PUT", &policy("schemaCompatibilityStrategy"), r#""ALWAYS_COMPATIBLE""#), done());
    assert_eq!(told("GET", &policy("schemaCompatibilityStrategy"), ""), (200, r#""ALWAYS_COMPATIBLE""#.into()));
    assert_eq!(told("PUT", &policy("schemaCompatibilityStrategy"), r#""SIDEWAYS""#).0, 400);
    let nowhere = |namespace| ask("PUT", &format!("/admin/v2/namespaces/{namespace}/schemaCompatibilityStrategy"), "FULL").reason();
    assert_eq!(nowhere("public/no-such-namespace"), "Namespace does not exist");
    assert_eq!(nowhere("no-such-tenant/n"), "Tenant does not exist");
    told("POST", &format!("{at}/schema"), &first());
    assert_eq!(told("POST", &format!("{at}/schema"), &incompatible()).0, 200);
    assert_eq!(told("GET", &policy("schemaAutoUpdateCompatibilityStrategy"), ""), (200, r#""Full""#.into()));
    assert_eq!(told("PUT", &policy("schemaAutoUpdateCompatibilityStrategy"), r#""Forward""#), done());
    assert_eq!(told("GET", &policy("schemaAutoUpdateCompatibilityStrategy"), ""), (200, r#""Forward""#.into()));
    assert_eq!(told("PUT", &policy("schemaAutoUpdateCompatibilityStrategy"), "FORWARD").0, 400);
    assert_eq!(told("GET", &policy("schemaValidationEnforced"), ""), (200, "false".into()));
    assert_eq!(told("POST", &policy("schemaValidationEnforced"), r#""true""#), done());
    assert_eq!(told("GET", &policy("schemaValidationEnforced"), ""), (200, "true".into()));
    assert_eq!(told("GET", &policy("isAllowAutoUpdateSchema"), ""), (200, "true".into()));
    assert_eq!(told("POST", &policy("isAllowAutoUpdateSchema"), "false"), done());
    assert_eq!(told("GET", &policy("isAllowAutoUpdateSchema"), ""), (200, "false".into()));
    assert_eq!(told("POST", &policy("isAllowAutoUpdateSchema"), "perhaps").0, 400);
    // An administrator adds versions whatever clients may do.
    assert_eq!(told("POST", &format!("{at}/schema"), &second()).0, 200);
}
