//! A request as handlers see it: decoded path parameters, query parameters and a body that is read leniently, because Pulsar's
//! clients spell numbers, booleans and words in several ways.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::HeaderMap;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use server::{Handle, Identity};

use crate::errors::Refusal;
use crate::{AdminOptions, Site};

/// One request, routed.
pub(crate) struct Call {
    pub(crate) site: Arc<Site>,
    pub(crate) params: Params,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Who asks, where that is asked.
    pub(crate) who: Option<Identity>,
    /// From where.
    pub(crate) peer: SocketAddr,
}

impl Call {
    pub(crate) fn handle(&self) -> &Handle {
        &self.site.handle
    }

    pub(crate) fn options(&self) -> &AdminOptions {
        &self.site.options
    }

    /// A path parameter; the empty string if the route has none of that name.
    pub(crate) fn param(&self, name: &str) -> &str {
        self.params.get(name)
    }
}

/// Decoded path parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params(pub(crate) Vec<(&'static str, String)>);

impl Params {
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(n, _)| *n == name).map_or("", |(_, value)| value)
    }
}

/// Decoded query parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Never fails: what cannot be decoded is kept with replacement characters and then matches nothing.
    pub(crate) fn parse(query: &str) -> Self {
        let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        Self(pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(name, value)| (decode(name), decode(value))).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// All values of a parameter that may be given several times.
    pub(crate) fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether a switch is on; one that is not given or not understood is off.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }
}

/// The body as JSON; none for an empty body and for `null`, which both mean "the defaults".
///
/// # Errors
/// 400 that says where the JSON is wrong.
pub(crate) fn optional<T: DeserializeOwned>(body: &[u8]) -> Result<Option<T>, Refusal> {
    let body = body.trim_ascii();
    if body.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(body).map_err(|error| Refusal::bad_request(format!("The body is not as expected: {error}")))
}

/// The body as a non-negative or negative whole number: `3` or `"3"`.
///
/// # Errors
/// 400 if it is none.
pub(crate) fn integer(body: &[u8]) -> Result<i64, Refusal> {
    let word = word(body)?;
    word.parse().map_err(|_| Refusal::bad_request(format!("The body must be a whole number, not {word:?}")))
}

/// The body as one word: `FULL` or `"FULL"`.
///
/// # Errors
/// 400 if it is empty or not text.
pub(crate) fn word(body: &[u8]) -> Result<String, Refusal> {
    let text = std::str::from_utf8(body).map_err(|_| Refusal::bad_request("The body is not text"))?.trim();
    let bare = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(text).trim();
    if bare.is_empty() { Err(Refusal::bad_request("The body is empty")) } else { Ok(bare.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_body_and_null_mean_the_defaults() {
        assert_eq!(optional::<Vec<String>>(b"").unwrap(), None);
        assert_eq!(optional::<Vec<String>>(b" \r\n").unwrap(), None);
        assert_eq!(optional::<Vec<String>>(b"null").unwrap(), None);
        assert_eq!(optional::<Vec<String>>(br#"["a"]"#).unwrap(), Some(vec!["a".to_owned()]));
    }

    #[test]
    fn wrong_json_is_refused_with_the_place() {
        let refusal = optional::<Vec<String>>(br#"["a","#).unwrap_err();
        assert_eq!(refusal.status.as_u16(), 400);
        assert!(refusal.reason.contains("line 1"), "{}", refusal.reason);
    }

    #[test]
    fn numbers_and_words_may_be_quoted() {
        assert_eq!(integer(b"3").unwrap(), 3);
        assert_eq!(integer(b"\"3\"").unwrap(), 3);
        assert_eq!(integer(b" -1\n").unwrap(), -1);
        assert_eq!(word(b"FULL").unwrap(), "FULL");
        assert_eq!(word(b"\"FULL\"").unwrap(), "FULL");
        for bad in [&b""[..], b"\"\"", b"3.5", b"three", b"\xff"] {
            assert_eq!(integer(bad).unwrap_err().status.as_u16(), 400, "{bad:?}");
        }
    }

    #[test]
    fn query_parameters_are_decoded_and_unknown_ones_do_no_harm() {
        let query = Query::parse("force=TRUE&mode=ALL&x=%2Fa+b&flag&&bad=%ff");
        assert!(query.flag("force"));
        assert!(!query.flag("flag"));
        assert!(!query.flag("absent"));
        assert_eq!(query.get("mode"), Some("ALL"));
        assert_eq!(query.get("x"), Some("/a b"));
        assert_eq!(query.get("bad"), Some("\u{fffd}"));
        assert_eq!(Query::parse(""), Query::default());
    }
}
