//! What is noted of a request while it is carried out: what it is called, who asked, what about; for the log, the audit log and whoever
//! hears of it as an event.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use hyper::header::{ETAG, HeaderMap, HeaderName, IF_MATCH};
use hyper::{Method, StatusCode};
use server::{Caller, Identity};

use crate::Site;
use crate::own::audit::{Entry, hash};
use crate::own::clock::now_ms;
use crate::reply::Reply;
use crate::request::Params;
use crate::rfc3339;
use crate::routes::Route;

/// What a request, and its answer, are called.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// What says that a POST may come again.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest name that a caller can give its request.
const LONGEST_ID: usize = 64;
/// Of what a caller chose, this much stands in the audit log.
const LONGEST_RESOURCE: usize = 512;

/// See the module.
pub(crate) struct Visit {
    pub(crate) began: Instant,
    pub(crate) id: String,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) route: Option<&'static Route>,
    pub(crate) resource: String,
    pub(crate) who: Option<Identity>,
    pub(crate) body: Bytes,
    replaces: Option<String>,
    idempotency_key: Option<String>,
    caller: Caller,
}

impl Visit {
    pub(crate) fn new(site: &Site, caller: &Caller, method: &Method, path: &str, headers: &HeaderMap) -> Self {
        let header = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let given =
            header(&REQUEST_ID).filter(|id| !id.is_empty() && id.len() <= LONGEST_ID && id.bytes().all(|byte| byte.is_ascii_graphic()));
        let made = || format!("{:x}-{:x}", site.own.run & 0xff_ffff, site.own.requests.fetch_add(1, Ordering::Relaxed));
        Self {
            began: Instant::now(),
            id: given.unwrap_or_else(made),
            method: method.clone(),
            path: path.to_owned(),
            route: None,
            resource: String::new(),
            who: None,
            body: Bytes::new(),
            replaces: header(&IF_MATCH),
            idempotency_key: header(&IDEMPOTENCY_KEY).map(|key| key.chars().take(LONGEST_ID).collect()),
            caller: caller.clone(),
        }
    }

    pub(crate) fn found(&mut self, route: &'static Route, params: &Params) {
        self.route = Some(route);
        let names = params.0.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("/");
        self.resource = names.chars().take(LONGEST_RESOURCE).collect();
    }

    /// Whether our own API was asked.
    pub(crate) fn is_own(&self) -> bool {
        self.path.trim_start_matches('/').starts_with("geminga/")
    }

    /// Whose keys and streams these are: the principal's, or the address's where nobody is asked.
    pub(crate) fn owner(&self) -> String {
        self.who.as_ref().map_or_else(|| self.caller.address.ip().to_string(), |who| who.role.to_string())
    }

    /// Whether it has to be written down: what changes something, and whoever was turned away, as far as there is room for those.
    /// With it, for how many there was none before.
    fn is_audited(&self, site: &Site, status: StatusCode) -> Option<u64> {
        let turned_away = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
        match self.route {
            Some(_) if turned_away => site.own.audit.has_room(self.began),
            Some(route) if route.changes() => Some(0),
            _ => None,
        }
    }

    /// Writes it down, if it has to be, before it is answered.
    pub(crate) async fn audit(&self, site: &Arc<Site>, reply: &Reply) {
        let (Some(route), Some(files)) = (self.route, site.options.audit.clone()) else { return };
        let Some(unwritten) = self.is_audited(site, reply.status()) else { return };
        let entry = Entry {
            seq: 0,
            prev: String::new(),
            time: rfc3339::from_ms(now_ms()),
            principal: self.who.as_ref().map(|who| who.role.to_string()),
            method: self.who.as_ref().map(|who| who.method.to_owned()),
            addr: self.caller.address.ip().to_string(),
            route: format!("{} {}", route.method, route.path),
            resource: self.resource.clone(),
            status: reply.status().as_u16(),
            ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            etag_before: self.replaces.as_ref().map(|tag| tag.trim_matches('"').chars().take(LONGEST_ID).collect()),
            etag_after: reply.header(&ETAG).map(|tag| tag.trim_matches('"').to_owned()),
            body_sha256: None,
            idempotency_key: self.idempotency_key.clone(),
            request_id: self.id.clone(),
            unwritten,
        };
        let (of, body) = (site.clone(), self.body.clone());
        let add = move |_: &dyn metadata::MetadataStore| {
            let body_sha256 = (!body.is_empty()).then(|| hash(&body));
            of.own.audit.add(&files, Entry { body_sha256, ..entry })
        };
        if let Ok(Some(entry)) = site.handle.control(add).await
            && let Ok(event) = serde_json::to_value(&entry)
        {
            site.own.events.tell("audit", &event);
        }
    }
}
