//! One HTTP connection: hyper cuts the requests, this file bounds them (header, body, time, how many at once) and hands them to
//! the router.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use server::{Caller, Stream};
use tokio::time::timeout;

use crate::Site;
use crate::admission;
use crate::errors::Refusal;
use crate::pulse::{Observed, Pulse};
use crate::reply::Reply;
use crate::request::{Call, Query};
use crate::router::Found;

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

async fn answer(site: &Arc<Site>, caller: &Caller, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let peer = caller.address;
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let reply = respond(site, caller, request).await;
    let status = reply.status();
    // A refusal for want of room is no fault and may come in thousands.
    if status == StatusCode::INTERNAL_SERVER_ERROR {
        tracing::warn!(%peer, %method, path, %status, "HTTP request failed");
    } else {
        tracing::debug!(%peer, %method, path, %status, "HTTP request");
    }
    let mut response = reply.into_response();
    if status == StatusCode::REQUEST_TIMEOUT || status == StatusCode::PAYLOAD_TOO_LARGE {
        // The rest of the body may still be on its way and must not be taken for the next request.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn respond(site: &Arc<Site>, caller: &Caller, request: Request<Incoming>) -> Reply {
    let Some(_running) = Running::begin(site) else {
        return Refusal::busy("too many requests at once").into();
    };
    match carry_out(site, caller, request).await {
        Ok(reply) => reply,
        Err(refusal) => refusal.into(),
    }
}

async fn carry_out(site: &Arc<Site>, caller: &Caller, request: Request<Incoming>) -> Result<Reply, Refusal> {
    let (head, body) = request.into_parts();
    // hyper leaves the body out of a reply to HEAD.
    let method = if head.method == Method::HEAD { Method::GET } else { head.method };
    let (route, params) = match site.router.find(&method, head.uri.path())? {
        Found::Route(route, params) => (route, params),
        Found::Options(allow) => return Ok(Reply::allow(&allow)),
    };
    // Before the body is taken: strangers send none.
    admission::admit(&site.handle, caller, &head.headers, route, &params).await?;
    let limited = Limited::new(body, site.options.max_body_bytes);
    let body = match timeout(site.options.body_timeout, limited.collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            return Err(Refusal::body_too_large(site.options.max_body_bytes));
        }
        Ok(Err(error)) => return Err(Refusal::bad_request(format!("The body did not arrive: {error}"))),
        Err(_) => return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "The body did not arrive in time")),
    };
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let call = Call { site: site.clone(), params, query, headers: head.headers, body };
    match timeout(site.options.request_timeout, route.handler.call(call)).await {
        Ok(result) => result,
        Err(_) => Err(Refusal::busy("the request took too long")),
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
