//! One HTTP connection: hyper cuts the requests, this file bounds them (header, body, time, how many at once) and hands them to
//! the router.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use server::{Caller, Stream};
use tokio::time::timeout;

use crate::Site;
use crate::admission;
use crate::body::Body;
use crate::errors::Refusal;
use crate::own::audit::digest;
use crate::own::idempotency::{REPLAYED, Turn};
use crate::own::{problem, sampler};
use crate::pulse::{Observed, Pulse};
use crate::reply::Reply;
use crate::request::{Call, Query};
use crate::router::Found;
use crate::visit::{IDEMPOTENCY_KEY, REQUEST_ID, Visit};

/// Serves a connection until the peer leaves or patience with it ends.
pub(crate) async fn serve(stream: Stream, caller: Caller, site: Arc<Site>) {
    let peer = caller.address;
    let pulse = Pulse::new();
    let io = TokioIo::new(Observed { stream, pulse: pulse.clone() });
    let service = service_fn(|request| {
        let (site, pulse, caller) = (site.clone(), pulse.clone(), caller.clone());
        async move {
            pulse.request_began();
            let response = answer(&site, &caller, request).await;
            pulse.request_ended();
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_header_size(site.options.max_header_bytes)
        .max_buf_size((2 * site.options.max_header_bytes).max(64 * 1024))
        .serve_connection(io, service);
    tokio::select! {
        end = connection => {
            if let Err(error) = end {
                tracing::debug!(%peer, %error, "HTTP connection ended");
            }
        }
        reason = pulse.patience_ends(&site.options) => tracing::debug!(%peer, reason, "HTTP connection closed"),
    }
}

async fn answer(site: &Arc<Site>, caller: &Caller, request: Request<Incoming>) -> Response<Body> {
    let peer = caller.address;
    let mut visit = Visit::new(site, caller, request.method(), request.uri().path(), request.headers());
    let reply = respond(site, caller, request, &mut visit).await;
    visit.audit(site, &reply).await;
    let status = reply.status();
    // A refusal for want of room is no fault and may come in thousands.
    if status == StatusCode::INTERNAL_SERVER_ERROR {
        tracing::warn!(%peer, method = %visit.method, path = visit.path, %status, id = visit.id, "HTTP request failed");
    } else {
        tracing::debug!(%peer, method = %visit.method, path = visit.path, %status, id = visit.id, "HTTP request");
    }
    let mut response = reply.with_header(REQUEST_ID, &visit.id).into_response();
    if status == StatusCode::REQUEST_TIMEOUT || status == StatusCode::PAYLOAD_TOO_LARGE {
        // The rest of the body may still be on its way and must not be taken for the next request.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn respond(site: &Arc<Site>, caller: &Caller, request: Request<Incoming>, visit: &mut Visit) -> Reply {
    let outcome = match Running::begin(site) {
        Some(_running) => carry_out(site, caller, request, visit).await,
        None => Err(Refusal::busy("too many requests at once")),
    };
    match outcome {
        Ok(reply) => reply,
        Err(refusal) if visit.is_own() => problem::reply(&refusal, &visit.path, &visit.id),
        Err(refusal) => refusal.into(),
    }
}

async fn carry_out(site: &Arc<Site>, caller: &Caller, request: Request<Incoming>, visit: &mut Visit) -> Result<Reply, Refusal> {
    let (head, body) = request.into_parts();
    // hyper leaves the body out of a reply to HEAD.
    let method = if head.method == Method::HEAD { Method::GET } else { head.method };
    let (route, params) = match site.router.find(&method, head.uri.path())? {
        Found::Route(route, params) => (route, params),
        Found::Options(allow) => return Ok(Reply::allow(&allow)),
    };
    visit.found(route, &params);
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let ticket = query.get("ticket").filter(|_| route.path == EVENTS).and_then(|ticket| site.own.tickets.redeem(ticket));
    // Before the body is taken: strangers send none.
    visit.who = admission::admit(&site.handle, caller, &head.headers, route, &params, ticket).await?;
    if site.options.read_only && route.changes() {
        return Err(Refusal::forbidden("This broker is administered elsewhere: adminReadOnly=true refuses every change").coded("read-only"));
    }
    let limited = Limited::new(body, site.options.max_body_bytes);
    let body = match timeout(site.options.body_timeout, limited.collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            return Err(Refusal::body_too_large(site.options.max_body_bytes));
        }
        Ok(Err(error)) => return Err(Refusal::bad_request(format!("The body did not arrive: {error}"))),
        Err(_) => return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "The body did not arrive in time")),
    };
    visit.body = body.clone();
    if visit.is_own() {
        sampler::begin(site);
    }
    let once = once(site, visit, &head.headers, &head.uri)?;
    let key = match once {
        Some(Turn::Repeat(kept)) => return Ok(Reply::from(kept).with_header(REPLAYED, "true")),
        Some(Turn::Act(key)) => Some(Once { site, key }),
        None => None,
    };
    let call = Call { site: site.clone(), params, query, headers: head.headers, body, who: visit.who.clone(), peer: caller.address };
    let outcome = match timeout(site.options.request_timeout, route.handler.call(call)).await {
        Ok(result) => result,
        Err(_) => Err(Refusal::busy("the request took too long")),
    };
    // A refusal is an answer too.
    let Some(once) = key else { return outcome };
    let reply = outcome.unwrap_or_else(|refusal| problem::reply(&refusal, &visit.path, &visit.id));
    once.end(&reply);
    Ok(reply)
}

const EVENTS: &str = "/geminga/v1/events";

/// Whether a POST of our own API was answered before, if it says how to tell.
fn once(site: &Site, visit: &Visit, headers: &HeaderMap, uri: &Uri) -> Result<Option<Turn>, Refusal> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY).filter(|_| visit.is_own() && visit.method == Method::POST) else { return Ok(None) };
    let key = key.to_str().map_err(|_| Refusal::bad_request("An Idempotency-Key is text"))?;
    let request = [uri.to_string().as_bytes(), b" ", &visit.body].concat();
    site.own.answers.begin(&visit.owner(), key, digest(&request)).map(Some)
}

/// The place of an answer that is still to come; whoever leaves before it came leaves none.
struct Once<'s> {
    site: &'s Site,
    key: (String, String),
}

impl Once<'_> {
    fn end(&self, reply: &Reply) {
        self.site.own.answers.end(&self.key, Some(reply));
    }
}

impl Drop for Once<'_> {
    fn drop(&mut self) {
        self.site.own.answers.give_up(&self.key);
    }
}

/// Counts a request as long as it lives.
struct Running(Arc<Site>);

impl Running {
    fn begin(site: &Arc<Site>) -> Option<Self> {
        let before = site.running.fetch_add(1, Ordering::Relaxed);
        let running = Self(site.clone());
        (before < site.options.max_concurrent_requests).then_some(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
