//! From method and path to a row of the route table. A path is split at its raw slashes first and decoded afterwards, so that a
//! name may hold `%2F`; empty segments are skipped, so that doubled and trailing slashes do no harm.

use std::collections::BTreeSet;

use hyper::Method;
use percent_encoding::percent_decode_str;

use crate::errors::Refusal;
use crate::request::Params;
use crate::routes::Route;

/// The route table, prepared for look-ups.
pub(crate) struct Router {
    /// By number of segments; the most literal rows first.
    by_length: Vec<Vec<Row>>,
}

/// What was found.
pub(crate) enum Found {
    Route(&'static Route, Params),
    /// The answer to OPTIONS: the methods there are.
    Options(String),
}

struct Row {
    route: &'static Route,
    segments: Vec<Segment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    // In order of precedence.
    Literal(&'static str),
    Domain,
    Param(&'static str),
}

impl Segment {
    fn parse(text: &'static str) -> Self {
        match text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
            Some("domain") => Segment::Domain,
            Some(name) => Segment::Param(name),
            None => Segment::Literal(text),
        }
    }

    fn matches(self, raw: &str) -> bool {
        match self {
            Segment::Literal(text) => text == raw,
            Segment::Domain => matches!(raw, "persistent" | "non-persistent"),
            Segment::Param(_) => true,
        }
    }

    fn name(self) -> Option<&'static str> {
        match self {
            Segment::Literal(_) => None,
            Segment::Domain => Some("domain"),
            Segment::Param(name) => Some(name),
        }
    }
}

impl Router {
    pub(crate) fn new(routes: impl Iterator<Item = &'static Route>) -> Self {
        let mut by_length: Vec<Vec<Row>> = Vec::new();
        for route in routes {
            let segments: Vec<_> = split(route.path).map(Segment::parse).collect();
            while by_length.len() <= segments.len() {
                by_length.push(Vec::new());
            }
            by_length[segments.len()].push(Row { route, segments });
        }
        for rows in &mut by_length {
            rows.sort_by(|a, b| a.segments.cmp(&b.segments));
        }
        Self { by_length }
    }

    /// The row for a request, with its parameters decoded.
    ///
    /// # Errors
    /// 404 for a path that is not there, 405 for one that is not there for this method, 412 for a segment that is not UTF-8.
    pub(crate) fn find(&self, method: &Method, path: &str) -> Result<Found, Refusal> {
        let raw: Vec<&str> = split(path).collect();
        let fitting = || {
            let rows = self.by_length.get(raw.len()).map_or(&[][..], Vec::as_slice);
            rows.iter().filter(|row| row.segments.iter().zip(&raw).all(|(segment, raw)| segment.matches(raw)))
        };
        if let Some(row) = fitting().find(|row| row.route.method == *method) {
            return Ok(Found::Route(row.route, params(row, &raw)?));
        }
        let methods: BTreeSet<&str> = fitting().map(|row| row.route.method.as_str()).collect();
        if methods.is_empty() {
            return Err(not_there(method, path));
        }
        let allow = methods.into_iter().collect::<Vec<_>>().join(", ");
        if *method == Method::OPTIONS {
            return Ok(Found::Options(allow));
        }
        Err(Refusal::wrong_method(format!("{method} is not served by this version of Geminga on {path}, only {allow}"), allow))
    }
}

fn split(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

fn params(row: &Row, raw: &[&str]) -> Result<Params, Refusal> {
    let named = row.segments.iter().zip(raw).filter_map(|(segment, raw)| segment.name().map(|name| (name, *raw)));
    let decoded = named.map(|(name, raw)| match percent_decode_str(raw).decode_utf8() {
        Ok(value) => Ok((name, value.into_owned())),
        Err(_) => Err(Refusal::precondition(format!("The {name} in the path is not UTF-8: {raw}"))),
    });
    decoded.collect::<Result<_, _>>().map(Params)
}

fn not_there(method: &Method, path: &str) -> Refusal {
    let in_pulsar = ["/admin/", "/lookup/", "/ws/", "/geminga/"]
        .iter()
        .any(|prefix| format!("/{}/", split(path).collect::<Vec<_>>().join("/")).starts_with(prefix));
    if in_pulsar {
        Refusal::not_found(format!(
            "{method} {path} is not there: either no such path exists, or this version of Geminga does not serve it yet"
        ))
    } else {
        Refusal::not_found(format!("There is nothing at {path}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::routes::all;

    fn find(method: &Method, path: &str) -> Result<(&'static str, Params), Refusal> {
        match Router::new(all()).find(method, path)? {
            Found::Route(route, params) => Ok((route.path, params)),
            Found::Options(allow) => panic!("options {allow}"),
        }
    }

    fn found(path: &str) -> (&'static str, Params) {
        find(&Method::GET, path).unwrap()
    }

    #[test]
    fn doubled_and_trailing_slashes_do_no_harm() {
        let plain = found("/admin/v2/clusters");
        assert_eq!(plain.0, "/admin/v2/clusters");
        assert_eq!(found("/admin/v2/clusters/"), plain);
        assert_eq!(found("//admin///v2/clusters//"), plain);
        assert_eq!(found("/metrics/").0, "/metrics");
        assert_eq!(found("/").0, "/");
        assert_eq!(found("").0, "/");
    }

    #[test]
    fn a_segment_is_decoded_after_the_split() {
        let (path, params) = found("/admin/v2/persistent/public/default/a%2Fb%3Fc%23%20%C3%A4+/stats");
        assert_eq!(path, "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/stats");
        assert_eq!(params.get("topic"), "a/b?c# ä+");
        assert_eq!(params.get("domain"), "persistent");
        assert_eq!(params.get("tenant"), "public");
        assert_eq!(params.get("absent"), "");
    }

    #[test]
    fn a_segment_that_is_not_text_is_refused() {
        let refusal = find(&Method::GET, "/admin/v2/persistent/public/default/%ff%fe/stats").unwrap_err();
        assert_eq!(refusal.status.as_u16(), 412);
        assert!(refusal.reason.contains("topic"), "{}", refusal.reason);
    }

    #[test]
    fn literal_rows_go_before_parameters() {
        assert_eq!(found("/admin/v2/brokers/health").0, "/admin/v2/brokers/health");
        assert_eq!(found("/admin/v2/brokers/standalone").0, "/admin/v2/brokers/{cluster}");
        assert_eq!(found("/admin/v2/persistent/t/n/partitioned").0, "/admin/v2/{domain}/{tenant}/{namespace}/partitioned");
        // A topic may be called like a literal that serves other methods.
        assert_eq!(
            find(&Method::PUT, "/admin/v2/persistent/t/n/partitioned").unwrap().0,
            "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
        );
    }

    #[test]
    fn unknown_paths_say_that_they_may_come_later() {
        for path in ["/admin/v2/nothing", "/admin/v3/functions/a/b", "/lookup/v2/x", "/admin/v2/schemas/t/n/x/nothing", "/admin"] {
            let refusal = find(&Method::GET, path).unwrap_err();
            assert_eq!(refusal.status.as_u16(), 404, "{path}");
            assert!(refusal.reason.contains("does not serve it yet"), "{}", refusal.reason);
        }
        assert_eq!(find(&Method::GET, "/favicon.ico").unwrap_err().reason, "There is nothing at /favicon.ico");
    }

    #[test]
    fn a_wrong_method_is_told_the_right_ones() {
        let refusal = find(&Method::PATCH, "/admin/v2/clusters/c").unwrap_err();
        assert_eq!(refusal.status.as_u16(), 405);
        assert_eq!(refusal.allow.as_deref(), Some("DELETE, GET, POST, PUT"));
        match Router::new(all()).find(&Method::OPTIONS, "/admin/v2/clusters/c").unwrap() {
            Found::Options(allow) => assert_eq!(allow, "DELETE, GET, POST, PUT"),
            Found::Route(..) => panic!("OPTIONS is not a row"),
        }
    }

    #[test]
    fn every_row_can_be_reached() {
        for route in all() {
            let path = route.path.replace("{domain}", "persistent").replace('{', "x-").replace('}', "");
            assert_eq!(find(&route.method, &path).unwrap().0, route.path, "{} {path}", route.method);
        }
    }

    proptest! {
        #[test]
        fn any_name_comes_back_as_it_was_encoded(name in "\\PC+") {
            let encoded = percent_encoding::utf8_percent_encode(&name, percent_encoding::NON_ALPHANUMERIC);
            let (_, params) = found(&format!("/admin/v2/persistent/t/n/{encoded}/stats"));
            prop_assert_eq!(params.get("topic"), name);
        }

        #[test]
        fn no_path_upsets_the_router(path in "[/%a-f0-9.+-]{0,60}|\\PC*") {
            if let Err(refusal) = find(&Method::GET, &path) {
                prop_assert!(refusal.status.is_client_error() && !refusal.reason.is_empty());
            }
        }
    }
}
