//! The OpenAPI documents, written from the route table: our own API, and the part of Pulsar's that is served.

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::Call;
use crate::routes::{Class, Mark, RouteLine, routes};

/// GET: our own API.
pub(crate) async fn own(_call: Call) -> Result<Reply, Refusal> {
    static SPELT: OnceLock<Bytes> = OnceLock::new();
    Ok(Reply::spelt(SPELT.get_or_init(|| document(true).to_string().into()).clone()))
}

/// GET: what is served of Pulsar's.
pub(crate) async fn pulsars(_call: Call) -> Result<Reply, Refusal> {
    static SPELT: OnceLock<Bytes> = OnceLock::new();
    Ok(Reply::spelt(SPELT.get_or_init(|| document(false).to_string().into()).clone()))
}

fn document(own: bool) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for line in routes().filter(|line| line.path.starts_with("/geminga") == own) {
        let methods = paths.entry(line.path).or_insert_with(|| json!({}));
        if let Some(methods) = methods.as_object_mut() {
            methods.insert(line.method.to_ascii_lowercase(), operation(&line, own));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": if own { "Geminga" } else { "Pulsar's admin API, as Geminga serves it" },
            "version": if own { "v1" } else { "v2" },
            "description": if own {
                "The broker's own API. Version 1 only grows."
            } else {
                "Tags: C is core (clients, probes and widely used tools need it), M is common, R is rare."
            },
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "basic": { "type": "http", "scheme": "basic" },
            },
            "schemas": { "Refusal": refusal(own) },
        },
    })
}

fn operation(line: &RouteLine, own: bool) -> Value {
    let (summary, queries) = line.summary.split_once("; `").map_or((line.summary, ""), |(summary, queries)| (summary, queries));
    let in_path = line.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path.map(|name| {
        let schema = match name {
            "domain" => json!({ "type": "string", "enum": ["persistent", "non-persistent"] }),
            _ => json!({ "type": "string" }),
        };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    });
    let in_query = queries.split('`').filter(|name| !name.is_empty() && name.chars().all(char::is_alphanumeric));
    let in_query = in_query.map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string" } }));
    let kind = if own { "application/problem+json" } else { "application/json" };
    let refused = json!({ "description": "Refused", "content": { (kind): { "schema": { "$ref": "#/components/schemas/Refusal" } } } });
    let mut operation = json!({
        "operationId": id(line),
        "summary": summary,
        "tags": [tag(line, own)],
        "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
        "responses": { "2XX": { "description": "Done" }, "4XX": refused.clone(), "5XX": refused },
        "x-geminga-who": format!("{:?}", line.class),
    });
    if matches!(line.method.as_str(), "POST" | "PUT" | "PATCH") {
        operation["requestBody"] = json!({ "required": false, "content": { "application/json": {} } });
    }
    operation["security"] = match line.class {
        Class::Anyone => json!([]),
        _ => json!([{ "bearer": [] }, { "basic": [] }]),
    };
    operation
}

/// `GET /geminga/v1/config/{key}` is `get-geminga-v1-config-key`.
fn id(line: &RouteLine) -> String {
    let path: String = line.path.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let words: Vec<&str> = path.split('-').filter(|word| !word.is_empty()).collect();
    format!("{}-{}", line.method.to_ascii_lowercase(), words.join("-"))
}

fn tag(line: &RouteLine, own: bool) -> &str {
    match (own, line.mark) {
        (true, _) => line.path.split(['/', ':']).nth(3).unwrap_or("geminga"),
        (false, Mark::Core) => "C",
        (false, Mark::Common) => "M",
        (false, Mark::Own) => "G",
    }
}

fn refusal(own: bool) -> Value {
    let text = json!({ "type": "string" });
    if !own {
        return json!({ "type": "object", "required": ["reason"], "properties": { "reason": text } });
    }
    json!({
        "type": "object",
        "required": ["type", "title", "status", "code", "detail", "requestId", "reason"],
        "properties": {
            "type": text, "title": text, "status": { "type": "integer" }, "code": text, "detail": text, "instance": text,
            "requestId": text, "reason": text,
            "errors": { "type": "array", "items": { "type": "object", "properties": { "pointer": text, "detail": text } } },
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Method and path of each operation of both documents.
    fn documented() -> Vec<(String, String)> {
        let mut found = Vec::new();
        for own in [true, false] {
            for (path, methods) in document(own)["paths"].as_object().unwrap() {
                found.extend(methods.as_object().unwrap().keys().map(|method| (method.to_ascii_uppercase(), path.clone())));
            }
        }
        found
    }

    #[test]
    fn the_documents_are_the_table() {
        let table: BTreeSet<_> = routes().map(|line| (line.method, line.path.to_owned())).collect();
        let documented = documented();
        assert_eq!(documented.iter().cloned().collect::<BTreeSet<_>>(), table);
        assert_eq!(documented.len(), table.len());
    }

    #[test]
    fn no_two_operations_have_one_name_and_every_parameter_of_a_path_is_told() {
        let mut names = BTreeSet::new();
        for own in [true, false] {
            for (path, methods) in document(own)["paths"].as_object().unwrap() {
                for operation in methods.as_object().unwrap().values() {
                    assert!(names.insert(operation["operationId"].as_str().unwrap().to_owned()), "{operation}");
                    let told = operation["parameters"].as_array().unwrap().iter().filter(|p| p["in"] == "path").count();
                    assert_eq!(told, path.matches('{').count(), "{path}");
                }
            }
        }
    }

    #[test]
    fn query_parameters_come_from_the_summary() {
        let line = routes().find(|line| line.path == "/admin/v2/tenants/{tenant}" && line.method == "DELETE").unwrap();
        let operation = operation(&line, false);
        assert_eq!(operation["parameters"][1], json!({ "name": "force", "in": "query", "schema": { "type": "string" } }));
        assert_eq!(operation["summary"], "Remove a tenant without namespaces");
    }
}
