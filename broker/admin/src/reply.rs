//! What a handler answers.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, SERVER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde::Serialize;

use crate::errors::Refusal;
use crate::json::Reason;

/// A status, and a body if there is one.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    content_type: &'static str,
    body: Bytes,
    extra: Option<(HeaderName, HeaderValue)>,
    /// Headers that are part of what was asked for.
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Reply {
    fn new(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status, content_type, body: body.into(), extra: None, headers: Vec::new() }
    }

    /// 204: done, nothing to say.
    pub(crate) fn done() -> Self {
        Self::new(StatusCode::NO_CONTENT, "", Bytes::new())
    }

    /// 200 with compact JSON, which some tools compare byte by byte.
    pub(crate) fn json(value: &impl Serialize) -> Result<Self, Refusal> {
        let body = serde_json::to_vec(value).map_err(|error| Refusal::internal(format!("the answer cannot be spelt: {error}")))?;
        Ok(Self::new(StatusCode::OK, "application/json", body))
    }

    /// 200 with JSON that is spelt already.
    pub(crate) fn raw_json(json: &'static str) -> Self {
        Self::new(StatusCode::OK, "application/json", json)
    }

    /// 202 with compact JSON.
    pub(crate) fn accepted(value: &impl Serialize) -> Result<Self, Refusal> {
        Ok(Self { status: StatusCode::ACCEPTED, ..Self::json(value)? })
    }

    pub(crate) fn text(text: impl Into<Bytes>) -> Self {
        Self::new(StatusCode::OK, "text/plain; charset=utf-8", text)
    }

    /// A remark beside the answer, in a header of its own: tools compare the body.
    pub(crate) fn with_warning(self, warning: Option<&str>) -> Self {
        let header = warning.and_then(|warning| HeaderValue::from_str(warning).ok());
        match header {
            Some(value) => Self { extra: Some((HeaderName::from_static("x-geminga-warning"), value)), ..self },
            None => self,
        }
    }

    /// 200 with metrics in Prometheus' text format.
    pub(crate) fn exposition(text: String) -> Self {
        Self::new(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
    }

    /// 200 with bytes, and what is to be said about them.
    pub(crate) fn octets(body: impl Into<Bytes>, headers: Vec<(HeaderName, HeaderValue)>) -> Self {
        Self { headers, ..Self::new(StatusCode::OK, "application/octet-stream", body) }
    }

    pub(crate) fn html(page: impl Into<Bytes>) -> Self {
        Self::new(StatusCode::OK, "text/html; charset=utf-8", page)
    }

    /// 204 that says what may be done here.
    pub(crate) fn allow(methods: &str) -> Self {
        Self { extra: HeaderValue::from_str(methods).ok().map(|v| (ALLOW, v)), ..Self::done() }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(SERVER, HeaderValue::from_static(concat!("Geminga/", env!("CARGO_PKG_VERSION"))));
        if !self.content_type.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        }
        headers.extend(self.extra);
        for (name, value) in self.headers {
            headers.append(name, value);
        }
        response
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        // A string in a struct can always be spelt.
        let body = serde_json::to_vec(&Reason { reason: &refusal.reason }).unwrap_or_default();
        let extra = match (&refusal.allow, refusal.status) {
            (Some(methods), _) => HeaderValue::from_str(methods).ok().map(|v| (ALLOW, v)),
            (None, StatusCode::UNAUTHORIZED) => Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer, Basic realm=\"geminga\""))),
            (None, StatusCode::SERVICE_UNAVAILABLE) => Some((RETRY_AFTER, HeaderValue::from_static("1"))),
            _ => None,
        };
        Self { extra, ..Self::new(refusal.status, "application/json", body) }
    }
}
