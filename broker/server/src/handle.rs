//! What the rest of the process may ask of a running server. Cheap to clone; every call returns to the caller's own loop.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use metadata::{MetadataError, MetadataStore};
use topic::stats::TopicStats;
use wire::{Domain, NamespaceName, TopicName};

use crate::auth::{Access, Credentials, Denied, Identity};
use crate::metrics::ServerStats;
use crate::settings::ServerSettings;
use crate::shared::Shared;
use crate::survey::ConnectionStats;

/// The running server.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

/// Where clients find the broker, as it advertises itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// `pulsar://host:port`
    pub pulsar: String,
    /// `pulsar+ssl://host:port`, if there is one.
    pub pulsar_tls: Option<String>,
    /// `http://host:port`
    pub http: String,
    /// `https://host:port`, if there is one.
    pub https: Option<String>,
    /// What clients are told that ask by the name of a listener.
    pub listeners: Vec<AdvertisedListener>,
}

/// URLs for clients that reach the broker on a way of their own, by the name they ask with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertisedListener {
    /// Its name.
    pub name: String,
    /// `pulsar://host:port`, if there is one.
    pub pulsar: Option<String>,
    /// `pulsar+ssl://host:port`, if there is one.
    pub pulsar_tls: Option<String>,
}

/// Why a call on topics was not carried out.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TopicError {
    /// There is no such topic.
    #[error("Topic {0} does not exist")]
    NotFound(TopicName),
    /// There is no such namespace.
    #[error("Namespace {0} does not exist")]
    NoSuchNamespace(NamespaceName),
    /// There is one already, partitioned or not.
    #[error("Topic {0} already exists")]
    Exists(TopicName),
    /// It has producers or consumers (or subscriptions) and force was not asked for.
    #[error("Topic {topic} is in use: {producers} producers, {consumers} consumers, {subscriptions} subscriptions")]
    InUse {
        /// The topic.
        topic: TopicName,
        /// Connected producers.
        producers: usize,
        /// Connected consumers.
        consumers: usize,
        /// Subscriptions.
        subscriptions: usize,
    },
    /// There is no such subscription.
    #[error("Subscription {subscription} not found for topic {topic}")]
    NoSubscription {
        /// The topic.
        topic: TopicName,
        /// The subscription.
        subscription: String,
    },
    /// There is one already.
    #[error("Subscription {subscription} already exists for topic {topic}")]
    SubscriptionExists {
        /// The topic.
        topic: TopicName,
        /// The subscription.
        subscription: String,
    },
    /// It has consumers and force was not asked for.
    #[error("Subscription {subscription} of {topic} has active connected consumers")]
    SubscriptionInUse {
        /// The topic.
        topic: TopicName,
        /// The subscription.
        subscription: String,
    },
    /// The topic stores nothing, so there is nothing to do this with.
    #[error("{0} stores no messages")]
    NoStorage(TopicName),
    /// No name that a topic or a subscription can have.
    #[error("{0}")]
    BadName(String),
    /// Not now: something else is being done to it.
    #[error("{0}")]
    Busy(String),
    /// The call does not fit the topic: partitions shrink, too many partitions, wrong kind of topic.
    #[error("{0}")]
    NotAllowed(String),
    /// Its namespace has as many topics as it may have.
    #[error("{0}")]
    TooMany(String),
    /// The metadata store refused or failed.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// Storage failed.
    #[error("storage: {0}")]
    Storage(String),
    /// The broker is shutting down, or a worker did not answer.
    #[error("the broker is shutting down")]
    Gone,
}

impl Handle {
    /// Where clients find the broker.
    #[must_use]
    pub fn endpoints(&self) -> &Endpoints {
        &self.shared.endpoints
    }

    /// The settings it was started with; most never change.
    #[must_use]
    pub fn settings(&self) -> &ServerSettings {
        &self.shared.settings
    }

    /// The settings in force now.
    #[must_use]
    pub fn live(&self) -> Arc<ServerSettings> {
        self.shared.live()
    }

    /// Puts those of the settings in force that can change while the server runs; every loop, and every loaded topic, follows soon.
    pub fn reconfigure(&self, settings: &ServerSettings) {
        crate::live::reconfigure(&self.shared, settings);
    }

    /// What `look` makes of every loaded topic, worker by worker, taken a little at a time between other work.
    ///
    /// # Errors
    /// [`TopicError::Gone`].
    pub async fn survey<T: Send + 'static>(
        &self,
        look: impl Fn(&TopicName, TopicStats, &mut Vec<T>) + Clone + Send + 'static,
    ) -> Result<Vec<T>, TopicError> {
        crate::survey::topics(&self.shared, look).await
    }

    /// Every connection of the Pulsar protocol, taken a little at a time between other work.
    ///
    /// # Errors
    /// [`TopicError::Gone`].
    pub async fn connections(&self) -> Result<Vec<ConnectionStats>, TopicError> {
        crate::survey::connections(&self.shared).await
    }

    /// Closes a connection by its name; its client comes back by itself. False if there is none of that name.
    ///
    /// # Errors
    /// [`TopicError::Gone`].
    pub async fn close_connection(&self, id: &str) -> Result<bool, TopicError> {
        crate::survey::close_connection(&self.shared, id).await
    }

    /// Entries of a ledger as they are stored: from `first` to `last` at most, up to so many bytes, but always one if there is one.
    ///
    /// # Errors
    /// What storage says.
    pub async fn entries(&self, ledger: i64, entries: RangeInclusive<i64>, max_bytes: usize) -> Result<Vec<(i64, Bytes)>, TopicError> {
        crate::inspect::entries(&self.shared, ledger, entries, max_bytes).await
    }

    /// Runs a blocking job on the pool for slow control work (metadata reads and commits) and waits for it without blocking the loop.
    ///
    /// # Errors
    /// [`TopicError::Gone`] when the broker is shutting down.
    pub async fn control<T: Send + 'static>(&self, job: impl FnOnce(&dyn MetadataStore) -> T + Send + 'static) -> Result<T, TopicError> {
        let (tell, told) = tokio::sync::oneshot::channel();
        let metadata = self.shared.metadata.clone();
        self.shared.control.run(move || drop(tell.send(job(&*metadata))));
        told.await.map_err(|_| TopicError::Gone)
    }

    /// Whether callers are asked who they are.
    #[must_use]
    pub fn asks_who(&self) -> bool {
        self.shared.auth.is_some()
    }

    /// Whether somebody may do everything: where nobody is asked, everybody may.
    #[must_use]
    pub fn is_superuser(&self, who: Option<&Identity>) -> bool {
        self.shared.auth.as_ref().is_none_or(|auth| who.is_some_and(|who| auth.is_superuser(who)))
    }

    /// Addresses that are kept out because their logins failed too often.
    #[must_use]
    pub fn blocked_addresses(&self) -> usize {
        self.shared.auth.as_ref().map_or(0, |auth| auth.failures.kept_out_now(Instant::now()))
    }

    /// Whether it is asked who may do what.
    #[must_use]
    pub fn authorizes(&self) -> bool {
        self.shared.auth.as_ref().is_some_and(crate::auth::Auth::authorizes)
    }

    /// Who calls from where, and whether they may. Nobody where nobody is asked. `original` is whom a proxy says it speaks for.
    ///
    /// # Errors
    /// [`Denied`] says which of the two it was.
    pub async fn admit(
        &self,
        from: IpAddr,
        shown: Credentials,
        original: Option<String>,
        access: Access,
    ) -> Result<Option<Identity>, Denied> {
        if self.shared.auth.is_none() {
            return Ok(None);
        }
        let (tell, told) = tokio::sync::oneshot::channel();
        let shared = self.shared.clone();
        self.shared.control.run(move || drop(tell.send(shared.admit(from, &shown, original.as_deref(), access))));
        told.await.map_err(|_| Denied::Failed(TopicError::Gone.to_string()))?
    }

    /// All topics of a namespace, partitions one by one, sorted: persistent ones loaded or not, non-persistent ones while they are used.
    ///
    /// # Errors
    /// [`TopicError::NoSuchNamespace`], metadata errors.
    pub async fn topics(&self, namespace: NamespaceName, domain: Domain) -> Result<Vec<TopicName>, TopicError> {
        match domain {
            Domain::Persistent => self.control(move |m| crate::catalog::topics(m, &namespace)).await?,
            Domain::NonPersistent => {
                let mut topics = self.shared.volatile_topics.of(&namespace);
                topics.sort();
                self.control(move |m| crate::catalog::require_namespace(m, &namespace)).await??;
                Ok(topics)
            }
        }
    }

    /// Base names of the partitioned topics of a namespace, sorted.
    ///
    /// # Errors
    /// [`TopicError::NoSuchNamespace`], metadata errors.
    pub async fn partitioned_topics(&self, namespace: NamespaceName, domain: Domain) -> Result<Vec<TopicName>, TopicError> {
        self.control(move |m| crate::catalog::partitioned_topics(m, &namespace, domain)).await?
    }

    /// Partitions of a topic: none when it is not partitioned, `Err(NotFound)` when there is neither such a partitioned
    /// topic nor a plain one. A plain non-persistent one is there while it is used.
    ///
    /// # Errors
    /// [`TopicError::NotFound`], [`TopicError::NoSuchNamespace`], metadata errors.
    pub async fn partitions(&self, name: TopicName) -> Result<Option<u32>, TopicError> {
        let used = !name.is_persistent() && self.shared.volatile_topics.contains(&name);
        match self.control(move |m| crate::catalog::partitions(m, &name)).await? {
            Err(TopicError::NotFound(_)) if used => Ok(None),
            other => other,
        }
    }

    /// Creates a topic without partitions.
    ///
    /// # Errors
    /// [`TopicError::Exists`] when it, or a partitioned topic of that name, is there; [`TopicError::NoSuchNamespace`].
    pub async fn create_topic(&self, name: TopicName, properties: Vec<(String, String)>) -> Result<(), TopicError> {
        let live = self.live();
        self.control(move |m| {
            crate::policies::require_room(m, &live, &name, 1)?;
            crate::catalog::create_topic(m, &name, properties)
        })
        .await?
    }

    /// Creates a partitioned topic and its partitions, in one transaction.
    ///
    /// # Errors
    /// [`TopicError::Exists`], [`TopicError::NoSuchNamespace`], [`TopicError::NotAllowed`] for a count of 0 or over the limit.
    pub async fn create_partitioned(&self, name: TopicName, partitions: u32, properties: Vec<(String, String)>) -> Result<(), TopicError> {
        let live = self.live();
        self.control(move |m| {
            crate::policies::require_room(m, &live, &name, partitions)?;
            crate::catalog::create_partitioned(m, &name, partitions, properties, live.max_partitions)
        })
        .await?
    }

    /// Raises the number of partitions.
    ///
    /// # Errors
    /// [`TopicError::NotFound`] for a topic that is not partitioned, [`TopicError::NotAllowed`] for a count that is not larger.
    pub async fn update_partitions(&self, name: TopicName, partitions: u32) -> Result<(), TopicError> {
        let limit = self.live().max_partitions;
        self.control(move |m| crate::catalog::update_partitions(m, &name, partitions, limit)).await?
    }

    /// Deletes a topic without partitions, or one partition: closes its clients when forced, deletes its ledgers and metadata.
    ///
    /// # Errors
    /// [`TopicError::NotFound`], [`TopicError::InUse`].
    pub async fn delete_topic(&self, name: TopicName, force: bool) -> Result<(), TopicError> {
        crate::removal::delete_topic(&self.shared, name, force).await
    }

    /// Deletes a partitioned topic with all its partitions.
    ///
    /// # Errors
    /// [`TopicError::NotFound`], [`TopicError::InUse`].
    pub async fn delete_partitioned(&self, name: TopicName, force: bool) -> Result<(), TopicError> {
        crate::removal::delete_partitioned(&self.shared, name, force).await
    }

    /// Closes the topic's clients, which come back by themselves, and lets go of it. Not loaded is no error.
    ///
    /// # Errors
    /// [`TopicError::Gone`].
    pub async fn unload_topic(&self, name: TopicName) -> Result<(), TopicError> {
        crate::removal::unload_topic(&self.shared, name).await
    }

    /// Numbers of a topic, which is loaded if it has to be (but not created).
    ///
    /// # Errors
    /// [`TopicError::NotFound`], [`TopicError::NoSuchNamespace`], storage errors.
    pub async fn topic_stats(&self, name: TopicName) -> Result<TopicStats, TopicError> {
        crate::inspect::topic_stats(&self.shared, name).await
    }

    /// Numbers of every loaded topic, worker by worker, and of the server itself; for metrics.
    ///
    /// # Errors
    /// [`TopicError::Gone`].
    pub async fn stats(&self, topics: bool) -> Result<ServerStats, TopicError> {
        crate::inspect::server_stats(&self.shared, topics).await
    }

    /// Waits until the log has failed, and tells why: nothing can be stored by this process any more.
    pub async fn log_failed(&self) -> String {
        let mut failed = self.shared.failed.subscribe();
        match failed.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            // The sender lives as long as this handle.
            Err(_) => std::future::pending().await,
        }
    }

    /// Whether every worker answers, the log takes appends and metadata can be read.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub async fn check_health(&self) -> Result<(), String> {
        crate::inspect::check_health(&self.shared).await
    }
}
