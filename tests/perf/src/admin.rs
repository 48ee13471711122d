//! What a run asks of the broker over HTTP: a namespace of its own, with deduplication, and later that it goes away.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use client::raw;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, StatusCode, Uri, body::Bytes};
use hyper_util::rt::TokioIo;

use crate::access::Access;

/// The HTTP side of a broker.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Such as `http://localhost:8080`.
    url: String,
    access: Access,
}

const PATIENCE: Duration = Duration::from_secs(30);

impl Admin {
    /// The broker at an admin URL.
    ///
    /// # Errors
    /// It is no `http://host:port` and no `https://host:port`.
    pub fn new(url: &str, access: &Access) -> anyhow::Result<Self> {
        let url = url.trim_end_matches('/').to_owned();
        let uri: Uri = url.parse().with_context(|| format!("{url} is no URL"))?;
        ensure!(
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some() && matches!(uri.path(), "" | "/"),
            "{url} cannot be used as the admin URL: give it as http://host:port or https://host:port"
        );
        Ok(Self { url, access: access.clone() })
    }

    /// Creates a namespace (`tenant/name`) if it is not there and, if wanted, switches deduplication on for it.
    ///
    /// # Errors
    /// The broker refused, or could not be reached.
    pub async fn create_namespace(&self, namespace: &str, deduplication: bool) -> anyhow::Result<()> {
        let path = format!("/admin/v2/namespaces/{namespace}");
        if self.get(&path).await.is_err() {
            self.request(Method::PUT, &path, "{}").await.context("the namespace of the run could not be created")?;
        }
        if deduplication {
            let answer = self.request(Method::POST, &format!("{path}/deduplication"), "true").await;
            answer.context("deduplication could not be switched on; broker.deduplication=false does without it")?;
        }
        Ok(())
    }

    /// Deletes a namespace with everything in it. Where brokers do not allow that at once, topics are deleted one by one.
    ///
    /// # Errors
    /// The broker refused, or could not be reached.
    pub async fn delete_namespace(&self, namespace: &str) -> anyhow::Result<()> {
        let path = format!("/admin/v2/namespaces/{namespace}");
        if self.request(Method::DELETE, &format!("{path}?force=true"), "").await.is_ok() {
            return Ok(());
        }
        let topics: Vec<String> = serde_json::from_slice(&self.get(&format!("/admin/v2/persistent/{namespace}")).await?)?;
        for topic in topics {
            let topic = topic.replacen("://", "/", 1);
            self.request(Method::DELETE, &format!("/admin/v2/{topic}?force=true"), "").await?;
        }
        self.request(Method::DELETE, &path, "").await.map(|_| ())
    }

    /// What the broker answers to a GET.
    ///
    /// # Errors
    /// The broker refused, or could not be reached.
    pub async fn get(&self, path: &str) -> anyhow::Result<Bytes> {
        self.request(Method::GET, path, "").await
    }

    async fn request(&self, method: Method, path: &str, body: &'static str) -> anyhow::Result<Bytes> {
        let what = format!("{method} {}{path}", self.url);
        match tokio::time::timeout(PATIENCE, self.answer(method, path, body)).await {
            Ok(Ok((status, body))) if status.is_success() => Ok(body),
            Ok(Ok((status, body))) => bail!("{what} was answered with {status}: {}", String::from_utf8_lossy(&body).trim()),
            Ok(Err(error)) => Err(error).context(what),
            Err(_) => bail!("{what} was not answered within {PATIENCE:?}"),
        }
    }

    async fn answer(&self, method: Method, path: &str, body: &'static str) -> anyhow::Result<(StatusCode, Bytes)> {
        let uri: Uri = self.url.parse()?;
        let host = uri.authority().context("a host")?.as_str();
        let tls = (uri.scheme_str() == Some("https")).then(|| self.access.tls());
        let port = if tls.is_some() { 443 } else { 80 };
        let address = if uri.port().is_some() { host.to_owned() } else { format!("{host}:{port}") };
        let stream = raw::bytes(&address, tls.as_ref()).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", host).header("content-type", "application/json");
        if let Some(shown) = self.access.authorization()? {
            request = request.header("authorization", shown);
        }
        let request = request.body(Full::new(Bytes::from_static(body.as_bytes())))?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_http_url_of_a_host_is_an_admin_url() {
        let access = Access::default();
        assert!(Admin::new("http://localhost:8080/", &access).is_ok() && Admin::new("https://localhost", &access).is_ok());
        for wrong in ["localhost:8080", "https:///", "http://localhost:8080/admin/v2", "pulsar://localhost:6650"] {
            let error = Admin::new(wrong, &access).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
