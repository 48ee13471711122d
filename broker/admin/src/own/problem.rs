//! Refusals of our own API: problem documents, with a code that programs can tell apart and the sentence that Pulsar's tools print.

use hyper::StatusCode;
use serde::Serialize;

use crate::errors::Refusal;
use crate::reply::Reply;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Problem<'a> {
    r#type: String,
    title: String,
    status: u16,
    code: &'a str,
    detail: &'a str,
    instance: &'a str,
    request_id: &'a str,
    errors: Vec<Flaw<'a>>,
    /// The same as `detail`: what Pulsar's tools look for.
    reason: &'a str,
}

#[derive(Serialize)]
struct Flaw<'a> {
    pointer: &'a str,
    detail: &'a str,
}

/// The document of a refusal.
pub(crate) fn reply(refusal: &Refusal, path: &str, request_id: &str) -> Reply {
    let code = refusal.code.unwrap_or_else(|| usual_code(refusal.status));
    let problem = Problem {
        r#type: format!("/geminga/problems/{code}"),
        title: title(code),
        status: refusal.status.as_u16(),
        code,
        detail: &refusal.reason,
        instance: path,
        request_id,
        errors: refusal.flaws.iter().map(|(pointer, detail)| Flaw { pointer, detail }).collect(),
        reason: &refusal.reason,
    };
    // Strings and numbers can always be spelt.
    Reply::problem(refusal.status, serde_json::to_vec(&problem).unwrap_or_default()).refusing(refusal)
}

/// `stale-revision` is "Stale revision".
fn title(code: &str) -> String {
    let words = code.replace('-', " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn usual_code(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "bad-request",
        401 => "unauthenticated",
        403 => "forbidden",
        404 => "not-found",
        405 => "not-allowed",
        406 => "not-acceptable",
        408 => "body-timeout",
        409 => "conflict",
        412 => "precondition-failed",
        413 => "body-too-large",
        422 => "unprocessable",
        428 => "precondition-required",
        429 => "too-many-requests",
        501 => "not-implemented",
        503 => "busy",
        _ => "internal",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_its_own_title() {
        assert_eq!(title("stale-revision"), "Stale revision");
        assert_eq!(title(""), "");
    }
}
