//! One client identity: a service URL, and the connections that its producers and consumers share.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Mutex;
use wire::{Command, TopicName, proto};

use crate::{
    Consumer, ConsumerOptions, Credentials, Error, Producer, ProducerOptions, ServiceUrl, TlsOptions, connect::Dial, link::Link, tls::Tls,
};

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long the broker may take to answer a request.
    pub operation_timeout: Duration,
    /// How long a connection may take, with its handshake.
    pub connect_timeout: Duration,
    /// For how long a producer or consumer that lost its place tries to come back; zero: not at all.
    pub reconnect_for: Duration,
    /// After how long a silence the broker is asked for a sign of life; after another such silence the connection is given up.
    pub keep_alive: Duration,
    /// Looks topics up on a connection that carries nothing else, as most clients do.
    pub separate_lookups: bool,
    /// The listener whose address the broker shall give, where it has several.
    pub listener: Option<String>,
    /// Who this client is, where the broker asks.
    pub credentials: Option<Credentials>,
    /// Whom to believe, where the service URL says `pulsar+ssl`.
    pub tls: TlsOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            operation_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            reconnect_for: Duration::from_secs(60),
            keep_alive: Duration::from_secs(30),
            separate_lookups: false,
            listener: None,
            credentials: None,
            tls: TlsOptions::default(),
        }
    }
}

impl Options {
    /// Nothing is repaired: a lost connection ends what used it.
    #[must_use]
    pub fn without_reconnect() -> Self {
        Self { reconnect_for: Duration::ZERO, ..Self::default() }
    }
}

/// A client of one broker or cluster. Clones share connections. Producers and consumers live on when the client is dropped.
#[derive(Clone, Debug)]
pub struct Client {
    pool: Arc<Pool>,
}

/// Connections, by where they lead and what for.
#[derive(Debug)]
pub(crate) struct Pool {
    service: ServiceUrl,
    tls: Option<Tls>,
    options: Options,
    /// Held while connecting, so that two producers of one client do not open two connections.
    links: Mutex<HashMap<Route, Arc<Link>>>,
    next_id: AtomicU64,
    next_host: AtomicUsize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Route {
    address: Arc<str>,
    behind_proxy: Option<Arc<str>>,
    only_lookups: bool,
}

/// Redirects of one lookup that are followed.
const MAX_REDIRECTS: usize = 20;

impl Client {
    /// A client that connects when it is first used.
    ///
    /// # Errors
    /// The service URL, or a file of TLS, cannot be used.
    pub fn new(service_url: &str, options: Options) -> Result<Self, Error> {
        let service = ServiceUrl::parse(service_url)?;
        let tls = if service.is_over_tls() { Some(Tls::new(&options.tls)?) } else { None };
        let pool = Pool { service, tls, options, links: Mutex::default(), next_id: AtomicU64::new(0), next_host: AtomicUsize::new(0) };
        Ok(Self { pool: Arc::new(pool) })
    }

    /// A client that has connected to the service URL.
    ///
    /// # Errors
    /// No host of the service URL could be reached, or none shook hands.
    pub async fn connect(service_url: &str, options: Options) -> Result<Self, Error> {
        let client = Self::new(service_url, options)?;
        client.pool.service_link().await?;
        Ok(client)
    }

    /// Creates a producer. The topic may be given in short (`name`, `tenant/namespace/name`).
    ///
    /// # Errors
    /// The broker could not be reached, or refused.
    pub async fn producer(&self, topic: &str, options: ProducerOptions) -> Result<Producer, Error> {
        Producer::create(self.pool.clone(), full_name(topic)?, options).await
    }

    /// Subscribes. The topic may be given in short.
    ///
    /// # Errors
    /// The broker could not be reached, or refused.
    pub async fn consumer(&self, topic: &str, options: ConsumerOptions) -> Result<Consumer, Error> {
        Consumer::create(self.pool.clone(), full_name(topic)?, options).await
    }

    /// The names to produce to and consume from: the partitions of a partitioned topic, else the topic itself.
    ///
    /// # Errors
    /// The broker could not be reached, or refused.
    pub async fn partitions(&self, topic: &str) -> Result<Vec<String>, Error> {
        let topic = full_name(topic)?;
        let link = self.pool.service_link().await?;
        let name = "asking for the topic's partitions";
        let build =
            |request_id| proto::CommandPartitionedTopicMetadata { topic: topic.to_string(), request_id, ..Default::default() }.into();
        match link.request(name, self.pool.patience(), build).await? {
            Command::PartitionedTopicMetadataResponse(it) if it.error.is_some() => {
                Err(Error::Server { request: name, code: it.error(), message: it.message().into() })
            }
            Command::PartitionedTopicMetadataResponse(it) => Ok(match it.partitions() {
                0 => vec![topic.to_string()],
                count => (0..count).map(|index| format!("{topic}-partition-{index}")).collect(),
            }),
            other => Err(Error::protocol(&link.address, format!("PARTITIONED_METADATA was answered with {}", other.name()))),
        }
    }

    /// Which broker has the topic, as `host:port`.
    ///
    /// # Errors
    /// The broker could not be reached, or refused.
    pub async fn lookup(&self, topic: &str) -> Result<String, Error> {
        Ok(self.pool.lookup(&full_name(topic)?).await?.address.to_string())
    }

    /// Closes the connections that no producer or consumer uses any more.
    pub async fn release(&self) {
        self.pool.links.lock().await.retain(|_, link| Arc::strong_count(link) > 1);
    }
}

fn full_name(topic: &str) -> Result<Arc<str>, Error> {
    match topic.parse::<TopicName>() {
        Ok(name) => Ok(name.as_str().into()),
        Err(error) => Err(Error::InvalidTopic { topic: topic.into(), reason: error.to_string().into() }),
    }
}

impl Pool {
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn patience(&self) -> Duration {
        self.options.operation_timeout
    }

    pub(crate) fn reconnects(&self) -> bool {
        !self.options.reconnect_for.is_zero()
    }

    pub(crate) fn reconnect_for(&self) -> Duration {
        self.options.reconnect_for
    }

    /// A connection to the broker that has the topic.
    pub(crate) async fn link_for(&self, topic: &str) -> Result<Arc<Link>, Error> {
        let route = self.lookup(topic).await?;
        self.link(route).await
    }

    /// A connection for lookups, to whichever host of the service URL answers.
    async fn service_link(&self) -> Result<Arc<Link>, Error> {
        let hosts = self.service.addresses();
        let first = self.next_host.load(Ordering::Relaxed);
        let mut last_error = None;
        for at in 0..hosts.len() {
            let index = (first + at) % hosts.len();
            let route = Route { address: hosts[index].clone(), behind_proxy: None, only_lookups: self.options.separate_lookups };
            match self.link(route).await {
                Ok(link) => {
                    self.next_host.store(index, Ordering::Relaxed);
                    return Ok(link);
                }
                Err(error) => last_error = Some(error),
            }
        }
        Err(last_error.expect("a service URL has at least one host"))
    }

    async fn link(&self, route: Route) -> Result<Arc<Link>, Error> {
        let mut links = self.links.lock().await;
        if let Some(link) = links.get(&route).filter(|link| !link.is_broken()) {
            return Ok(link.clone());
        }
        let dial = Dial {
            address: route.address.clone(),
            behind_proxy: route.behind_proxy.as_deref().map(str::to_owned),
            patience: self.options.connect_timeout,
            keep_alive: self.options.keep_alive,
            tls: self.tls.clone(),
            credentials: self.options.credentials.clone().map(Arc::new),
        };
        let link = dial.connect().await?;
        links.insert(route, link.clone());
        Ok(link)
    }

    /// Finds the broker that has the topic, following redirects.
    async fn lookup(&self, topic: &str) -> Result<Route, Error> {
        let mut link = self.service_link().await?;
        let mut authoritative = false;
        for _ in 0..=MAX_REDIRECTS {
            let build = |request_id| self.lookup_command(topic, request_id, authoritative);
            let found = match link.request("looking up the topic", self.patience(), build).await? {
                Command::LookupTopicResponse(found) => found,
                other => return Err(Error::protocol(&link.address, format!("LOOKUP was answered with {}", other.name()))),
            };
            if found.response() == proto::LookupOutcome::Failed {
                return Err(Error::Server { request: "looking up the topic", code: found.error(), message: found.message().into() });
            }
            let url = if self.tls.is_some() { found.broker_service_url_tls() } else { found.broker_service_url() };
            let broker = ServiceUrl::parse(url).map_err(|error| {
                Error::protocol(&link.address, format!("LOOKUP was answered with a broker that cannot be reached: {error}"))
            })?;
            let broker = broker.addresses()[0].clone();
            if found.response() == proto::LookupOutcome::Connect {
                return Ok(match found.proxy_through_service_url() {
                    true => Route { address: link.address.clone(), behind_proxy: Some(broker), only_lookups: false },
                    false => Route { address: broker, behind_proxy: None, only_lookups: false },
                });
            }
            authoritative = found.authoritative();
            link = self.link(Route { address: broker, behind_proxy: None, only_lookups: self.options.separate_lookups }).await?;
        }
        Err(Error::protocol(&link.address, "LOOKUP was redirected without end"))
    }

    fn lookup_command(&self, topic: &str, request_id: u64, authoritative: bool) -> Command {
        proto::CommandLookupTopic {
            topic: topic.to_owned(),
            request_id,
            authoritative: Some(authoritative),
            advertised_listener_name: self.options.listener.clone(),
            ..Default::default()
        }
        .into()
    }
}
