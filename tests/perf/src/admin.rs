//! What a run asks of the broker over HTTP: a namespace of its own, with deduplication, and later that it goes away.

use anyhow::{Context, bail};
use bytes::Bytes;
use client::{Http, Method};

use crate::access::Access;

/// The HTTP side of a broker.
#[derive(Debug)]
pub struct Admin(Http);

impl Admin {
    /// The broker at an admin URL, `http://host:port` or `https://host:port`.
    ///
    /// # Errors
    /// It is none, or a file of TLS cannot be used.
    pub fn new(url: &str, access: &Access) -> anyhow::Result<Self> {
        let http = Http::new(url, &access.client_options());
        Ok(Self(http.with_context(|| format!("{url} cannot be used as the admin URL: give it as http://host:port or https://host:port"))?))
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
        let what = format!("{method} {}{path}", self.0.url());
        let answer = self.0.ask(method, path, Some(("application/json", Bytes::from_static(body.as_bytes())))).await;
        let answer = answer.with_context(|| what.clone())?;
        if !answer.is_success() {
            bail!("{what} was answered with {}: {}", answer.status, String::from_utf8_lossy(&answer.body).trim());
        }
        Ok(answer.body)
    }
}
