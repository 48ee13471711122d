//! What a handler answers.

use bytes::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, SERVER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde::Serialize;

use crate::body::{Body, Feed};
use crate::errors::Refusal;
use crate::json::Reason;

/// A status, and a body if there is one.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    content_type: &'static str,
    body: Body,
    extra: Vec<(HeaderName, HeaderValue)>,
}

/// An answer that can be given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    status: StatusCode,
    content_type: &'static str,
    body: Bytes,
    extra: Vec<(HeaderName, HeaderValue)>,
}

impl Reply {
    fn new(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status, content_type, body: Body::whole(body), extra: Vec::new() }
    }

    /// 204: done, nothing to say.
    pub(crate) fn done() -> Self {
        Self::new(StatusCode::NO_CONTENT, "", Bytes::new())
    }

    /// 304: the asker has it already.
    pub(crate) fn not_modified() -> Self {
        Self::new(StatusCode::NOT_MODIFIED, "", Bytes::new())
    }

    /// 200 with compact JSON, which some tools compare byte by byte.
    pub(crate) fn json(value: &impl Serialize) -> Result<Self, Refusal> {
        let body = serde_json::to_vec(value).map_err(|error| Refusal::internal(format!("the answer cannot be spelt: {error}")))?;
        Ok(Self::new(StatusCode::OK, "application/json", body))
    }

    /// 200 with JSON that is spelt already.
    pub(crate) fn spelt(json: impl Into<Bytes>) -> Self {
        Self::new(StatusCode::OK, "application/json", json)
    }

    /// 202 with compact JSON.
    pub(crate) fn accepted(value: &impl Serialize) -> Result<Self, Refusal> {
        Ok(Self::json(value)?.with_status(StatusCode::ACCEPTED))
    }

    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    pub(crate) fn text(text: impl Into<Bytes>) -> Self {
        Self::new(StatusCode::OK, "text/plain; charset=utf-8", text)
    }

    /// A remark beside the answer, in a header of its own: tools compare the body.
    pub(crate) fn with_warning(self, warning: Option<&str>) -> Self {
        match warning {
            Some(warning) => self.with_header(HeaderName::from_static("x-geminga-warning"), warning),
            None => self,
        }
    }

    /// 200 with metrics in Prometheus' text format.
    pub(crate) fn exposition(text: String) -> Self {
        Self::new(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
    }

    /// 200 with bytes, and what is to be said about them.
    pub(crate) fn octets(body: impl Into<Bytes>, extra: Vec<(HeaderName, HeaderValue)>) -> Self {
        Self { extra, ..Self::new(StatusCode::OK, "application/octet-stream", body) }
    }

    pub(crate) fn html(page: impl Into<Bytes>) -> Self {
        Self::new(StatusCode::OK, "text/html; charset=utf-8", page)
    }

    /// 200 with events for as long as the other side listens.
    pub(crate) fn events(feed: impl Feed) -> Self {
        let events = Self { body: Body::Stream(Box::new(feed)), ..Self::new(StatusCode::OK, "text/event-stream", Bytes::new()) };
        events.with_header(CACHE_CONTROL, "no-store").with_header(HeaderName::from_static("x-accel-buffering"), "no")
    }

    /// A refusal of our own API, whose body is spelt already.
    pub(crate) fn problem(status: StatusCode, body: Vec<u8>) -> Self {
        Self::new(status, "application/problem+json", body)
    }

    /// 204 that says what may be done here.
    pub(crate) fn allow(methods: &str) -> Self {
        Self::done().with_header(ALLOW, methods)
    }

    /// A header more; one whose value cannot be written is left out.
    pub(crate) fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.extra.push((name, value));
        }
        self
    }

    /// Says where something is that the answer is about.
    pub(crate) fn at(self, location: &str) -> Self {
        self.with_header(LOCATION, location)
    }

    /// Names the revision that the answer shows.
    pub(crate) fn tagged(self, revision: &str) -> Self {
        self.with_header(ETAG, &format!("\"{revision}\""))
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.extra.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.to_str().ok())
    }

    /// The answer to be given again, unless it is a stream or larger than `most`.
    pub(crate) fn keep(&self, most: usize) -> Option<Kept> {
        let body = self.body.bytes().filter(|body| body.len() <= most)?.clone();
        Some(Kept { status: self.status, content_type: self.content_type, body, extra: self.extra.clone() })
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(SERVER, HeaderValue::from_static(concat!("Geminga/", env!("CARGO_PKG_VERSION"))));
        if !self.content_type.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        }
        for (name, value) in self.extra {
            headers.append(name, value);
        }
        response
    }

    /// What every refusal says beside its body.
    pub(crate) fn refusing(self, refusal: &Refusal) -> Self {
        match (&refusal.allow, refusal.status) {
            (Some(methods), _) => self.with_header(ALLOW, methods),
            (None, StatusCode::UNAUTHORIZED) => self.with_header(WWW_AUTHENTICATE, "Bearer, Basic realm=\"geminga\""),
            (None, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) => {
                self.with_header(RETRY_AFTER, &refusal.retry_after.unwrap_or(1).to_string())
            }
            _ => self,
        }
    }
}

impl From<Kept> for Reply {
    fn from(kept: Kept) -> Self {
        Self { status: kept.status, content_type: kept.content_type, body: Body::whole(kept.body), extra: kept.extra }
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        // A string in a struct can always be spelt.
        let body = serde_json::to_vec(&Reason { reason: &refusal.reason }).unwrap_or_default();
        Self::new(refusal.status, "application/json", body).refusing(&refusal)
    }
}
