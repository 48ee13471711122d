//! A broker's HTTP side: one request, one answer, with the TLS and the credentials of the binary protocol.

use std::{sync::Arc, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Uri,
    client::conn::http1,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use tokio::sync::Mutex;

use crate::{
    Credentials, Error, Options,
    connect::{CLIENT_VERSION, open},
    tls::Tls,
};

/// Answers above this many bytes are refused; lists of a million topics are below it.
const MAX_ANSWER: usize = 256 * 1024 * 1024;

/// The HTTP side of a broker. Its one connection stays open between requests, which go one after the other.
#[derive(Debug)]
pub struct Http {
    url: Arc<str>,
    /// `host:port`, and the same as the request's Host has it.
    address: Arc<str>,
    host: HeaderValue,
    tls: Option<Tls>,
    credentials: Option<Credentials>,
    patience: Duration,
    connection: Mutex<Option<http1::SendRequest<Full<Bytes>>>>,
}

/// What a broker answered, whatever the status.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status, such as 200.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Answer {
    /// Whether the request was carried out.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Http {
    /// The broker at `http://host[:port]` or `https://host[:port]`. Connects with the first request.
    ///
    /// # Errors
    /// [`Error::InvalidUrl`] for anything else, [`Error::Tls`] when a file cannot be used.
    pub fn new(url: &str, options: &Options) -> Result<Self, Error> {
        let refuse = |reason| Error::InvalidUrl { url: url.into(), reason };
        let uri: Uri = url.parse().map_err(|_| refuse("it is not well formed"))?;
        let default_port = match uri.scheme_str() {
            Some("http") => 80,
            Some("https") => 443,
            _ => return Err(refuse("an admin URL starts with http:// or https://")),
        };
        if !matches!(uri.path(), "" | "/") {
            return Err(refuse("an admin URL ends after the port"));
        }
        let authority = uri.authority().ok_or_else(|| refuse("the host is missing"))?.as_str();
        let host = HeaderValue::from_str(authority).map_err(|_| refuse("the host has letters that no host has"))?;
        let address = if uri.port().is_some() { authority.to_owned() } else { format!("{authority}:{default_port}") };
        Ok(Self {
            url: url.trim_end_matches('/').into(),
            address: address.into(),
            host,
            tls: (default_port == 443).then(|| Tls::new(&options.tls)).transpose()?,
            credentials: options.credentials.clone(),
            patience: options.operation_timeout,
            connection: Mutex::new(None),
        })
    }

    /// As it was given, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Asks for `path` (with its query, percent-encoded). A body is sent as `(content type, bytes)`.
    ///
    /// # Errors
    /// Only when no answer came: whatever the broker answers is an [`Answer`].
    pub async fn ask(&self, method: Method, path: &str, body: Option<(&str, Bytes)>) -> Result<Answer, Error> {
        match tokio::time::timeout(self.patience, self.answer(method, path, body)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::TimedOut { request: "the HTTP request", after: self.patience }),
        }
    }

    async fn answer(&self, method: Method, path: &str, body: Option<(&str, Bytes)>) -> Result<Answer, Error> {
        let request = self.request(method, path, body)?;
        let mut connection = self.connection.lock().await;
        let mut kept = connection.take();
        let is_good = match &mut kept {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        let mut sender = match kept {
            Some(sender) if is_good => sender,
            _ => self.connect().await?,
        };
        let lost = |error: &dyn std::fmt::Display| Error::lost(&self.address, error.to_string());
        let response = sender.send_request(request).await.map_err(|error| lost(&error))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(|error| lost(&error))?.to_bytes();
        *connection = Some(sender);
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }

    async fn connect(&self) -> Result<http1::SendRequest<Full<Bytes>>, Error> {
        let stream = open(&self.address, self.tls.as_ref()).await?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| Error::lost(&self.address, error.to_string()))?;
        // How it ends is told to the request that meets its end.
        tokio::spawn(connection);
        Ok(sender)
    }

    fn request(&self, method: Method, path: &str, body: Option<(&str, Bytes)>) -> Result<Request<Full<Bytes>>, Error> {
        let bad = |reason: String| Error::Credentials { reason: reason.into() };
        let mut request = Request::builder().method(method).uri(path).header(HOST, &self.host).header(USER_AGENT, CLIENT_VERSION);
        let shown = match &self.credentials {
            Some(Credentials::Tls) | None => None,
            Some(Credentials::Basic { user, password }) => Some(format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))),
            Some(token) => Some(format!("Bearer {}", String::from_utf8_lossy(&token.data()?))),
        };
        if let Some(shown) = shown {
            let mut value = HeaderValue::try_from(shown).map_err(|_| bad("the token has letters that no token has".to_owned()))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let (kind, bytes) = body.unzip();
        if let Some(kind) = kind {
            request = request.header(CONTENT_TYPE, kind);
        }
        let built = request.body(Full::new(bytes.unwrap_or_default()));
        built.map_err(|_| Error::InvalidUrl { url: path.into(), reason: "it cannot be asked for" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(url: &str) -> Result<Http, Error> {
        Http::new(url, &Options::default())
    }

    #[test]
    fn only_the_url_of_a_host_will_do() {
        for (url, address) in [("http://localhost:8080/", "localhost:8080"), ("http://h", "h:80"), ("https://[::1]", "[::1]:443")] {
            assert_eq!(&*http(url).unwrap().address, address);
        }
        for wrong in ["localhost:8080", "http://h/admin/v2", "pulsar://h:6650", "http://", ""] {
            let error = http(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn credentials_go_into_the_header_that_brokers_read() {
        let header = |credentials| {
            let http = Http::new("http://h", &Options { credentials: Some(credentials), ..Options::default() }).unwrap();
            let request = http.request(Method::GET, "/metrics", None).unwrap();
            request.headers().get(AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(header(Credentials::Token("abc".to_owned())).unwrap(), "Bearer abc");
        assert_eq!(header(Credentials::Basic { user: "u".to_owned(), password: "p".to_owned() }).unwrap(), "Basic dTpw");
        assert_eq!(header(Credentials::Tls), None);
    }

    #[tokio::test]
    async fn where_nobody_listens_the_error_says_where() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = http(&format!("http://{free}")).unwrap().ask(Method::GET, "/", None).await.unwrap_err();
        assert!(matches!(&error, Error::Connect { address, .. } if **address == free.to_string()), "{error}");
    }
}
