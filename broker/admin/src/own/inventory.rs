//! What there is: topics, subscriptions, producers and consumers as rows, taken from their owners a little at a time and kept for a
//! moment, so that ten readers cost as much as one. Names of topics that are not loaded come from the metadata, and are listed again
//! only when some came or went.

use std::collections::HashMap;
use std::future::Future;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use metadata::namespaces::{self, NamespaceError};
use metadata::paths::{self, Domain, NamespacePath, Place};
use metadata::{MetadataError, MetadataStore, Watch, WatchEvent, partitioned, tenants, topics};
use server::Handle;
use server::stats::TopicStats;
use tokio::sync::Mutex;
use wire::{NamespaceName, TopicName};

use super::rows::{ClientRow, SubscriptionRow, TopicRow};
use crate::errors::Refusal;
use crate::rfc3339;

/// How long a look is good for, for somebody who asks.
pub(crate) const LASTS: Duration = Duration::from_secs(1);
/// Rates are taken over so long, at least and at most: shorter they are noise, longer they are of another time.
const RATES_OVER: RangeInclusive<Duration> = Duration::from_millis(900)..=Duration::from_secs(30);

/// Something that is made when it is asked for, once for all who ask at the same time, and kept for a while.
pub(crate) struct Kept<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Kept<T> {
    /// What is kept, or what `make` makes; it is given what was kept before.
    async fn get<F>(
        &self,
        lasts: Duration,
        still_good: impl Fn() -> bool,
        make: impl FnOnce(Option<(Instant, Arc<T>)>) -> F,
    ) -> Result<Arc<T>, Refusal>
    where
        F: Future<Output = Result<T, Refusal>>,
    {
        let mut kept = self.0.lock().await;
        if let Some((at, known)) = &*kept
            && at.elapsed() < lasts
            && still_good()
        {
            return Ok(known.clone());
        }
        let made = Arc::new(make(kept.clone()).await?);
        *kept = Some((Instant::now(), made.clone()));
        Ok(made)
    }
}

/// Topics and their subscriptions, as they were at one moment.
#[derive(Default)]
pub(crate) struct Topics {
    /// Sorted by name; partitions are folded into the topic they are of.
    pub(crate) topics: Vec<TopicRow>,
    pub(crate) subscriptions: Vec<SubscriptionRow>,
}

/// Producers and consumers.
#[derive(Default)]
pub(crate) struct Clients {
    pub(crate) producers: Vec<ClientRow>,
    pub(crate) consumers: Vec<ClientRow>,
}

/// See the module.
pub(crate) struct Inventory {
    topics: Kept<Topics>,
    clients: Kept<Clients>,
    names: Mutex<Arc<Vec<Named>>>,
    /// Whether the names have to be listed again.
    stale: Arc<AtomicBool>,
    /// Keeps the changes coming, from the first question on.
    watch: Mutex<Option<[Watch; 2]>>,
}

impl Default for Inventory {
    fn default() -> Self {
        let stale = Arc::new(AtomicBool::new(true));
        Self { topics: Kept::default(), clients: Kept::default(), names: Mutex::default(), stale, watch: Mutex::default() }
    }
}

/// A topic that metadata tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    name: TopicName,
    partitions: Option<u32>,
}

impl Inventory {
    /// All topics, and the subscriptions of those that are loaded.
    ///
    /// # Errors
    /// A store that fails, a broker that stops.
    pub(crate) async fn topics(&self, handle: &Handle, lasts: Duration) -> Result<Arc<Topics>, Refusal> {
        let known = || !self.stale.load(Ordering::Acquire);
        let make = async |before: Option<(Instant, Arc<Topics>)>| {
            let names = self.names(handle).await?;
            let loaded = handle.survey(|name, stats, rows| rows.push((name.clone(), Seen::of(stats)))).await?;
            Ok(handle.control(move |_| fold(&names, loaded, before)).await?)
        };
        self.topics.get(lasts, known, make).await
    }

    /// Producers and consumers of all topics.
    ///
    /// # Errors
    /// A broker that stops.
    pub(crate) async fn clients(&self, handle: &Handle) -> Result<Arc<Clients>, Refusal> {
        let make = async |_| {
            let rows = handle.survey(ClientRow::all_of).await?;
            let (producers, consumers) = rows.into_iter().partition(ClientRow::is_producer);
            Ok(Clients { producers, consumers })
        };
        self.clients.get(LASTS, || true, make).await
    }

    async fn names(&self, handle: &Handle) -> Result<Arc<Vec<Named>>, Refusal> {
        self.listen(handle).await?;
        let mut names = self.names.lock().await;
        // Before the list is made: what comes meanwhile makes one more.
        if self.stale.swap(false, Ordering::AcqRel) {
            match handle.control(list).await? {
                Ok(listed) => *names = Arc::new(listed),
                Err(error) => {
                    self.stale.store(true, Ordering::Release);
                    return Err(error.into());
                }
            }
        }
        Ok(names.clone())
    }

    async fn listen(&self, handle: &Handle) -> Result<(), Refusal> {
        let mut watch = self.watch.lock().await;
        if watch.is_none() {
            let (chains, policies) = (self.stale.clone(), self.stale.clone());
            let of_topics = move |event: WatchEvent| {
                // A cursor or a ledger that changes is none of ours, but a topic's node tells of both.
                if !matches!(&event, WatchEvent::Changed { path } if matches!(Place::parse(path), Some(Place::Cursor(..)))) {
                    chains.store(true, Ordering::Release);
                }
            };
            let of_tree = move |_| policies.store(true, Ordering::Release);
            let begin = move |m: &dyn MetadataStore| {
                Ok::<_, MetadataError>([m.watch(paths::MANAGED_LEDGERS, Box::new(of_topics))?, m.watch("/admin", Box::new(of_tree))?])
            };
            *watch = Some(handle.control(begin).await??);
        }
        Ok(())
    }
}

/// Every topic that metadata tells of, sorted; a partitioned one stands for its partitions.
fn list(store: &dyn MetadataStore) -> Result<Vec<Named>, MetadataError> {
    let mut all = Vec::new();
    for tenant in tenants::list(store).map_err(unreadable)? {
        let locals = match namespaces::list(store, &tenant) {
            // Deleted a moment ago.
            Err(NamespaceError::UnknownTenant(_)) => continue,
            locals => locals.map_err(unreadable)?,
        };
        for local in locals {
            let Ok(namespace) = NamespaceName::new(&tenant, &local) else { continue };
            let at = NamespacePath::new(&tenant, &local);
            for (domain, kept_as) in [(wire::Domain::Persistent, Domain::Persistent), (wire::Domain::NonPersistent, Domain::NonPersistent)]
            {
                for name in partitioned::list(store, at, kept_as).map_err(unreadable)? {
                    let partitions = partitioned::get(store, at.topic(kept_as, &name)).map(|(topic, _)| topic.partitions).ok();
                    all.extend(TopicName::new(domain, &namespace, &name).ok().map(|name| Named { name, partitions }));
                }
            }
            let plain = topics::list(store, at, Domain::Persistent).map_err(unreadable)?;
            let plain = plain.iter().filter_map(|name| TopicName::new(wire::Domain::Persistent, &namespace, name).ok());
            all.extend(plain.map(|name| Named { name, partitions: None }));
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

fn unreadable(error: impl std::fmt::Display) -> MetadataError {
    MetadataError::Unknown(error.to_string())
}

/// What is taken of a loaded topic, without its clients.
struct Seen {
    numbers: TopicRow,
    subscriptions: Vec<SubscriptionRow>,
}

impl Seen {
    fn of(stats: TopicStats) -> Self {
        let numbers = TopicRow::of(&stats);
        Self { numbers, subscriptions: stats.subscriptions.into_iter().map(SubscriptionRow::of).collect() }
    }
}

fn fold(names: &[Named], loaded: Vec<(TopicName, Seen)>, before: Option<(Instant, Arc<Topics>)>) -> Topics {
    let mut topics: Vec<TopicRow> = Vec::with_capacity(names.len());
    let mut at: HashMap<String, usize> = HashMap::with_capacity(names.len());
    for Named { name, partitions } in names {
        let whole = name.partitioned();
        // A partition without the topic it is of stands for itself.
        if partitions.is_some() || !name.is_partition() || !at.contains_key(whole.as_str()) {
            at.entry(name.as_str().to_owned()).or_insert_with(|| {
                topics.push(TopicRow::named(name, *partitions));
                topics.len() - 1
            });
        }
    }
    let mut subscriptions: HashMap<(usize, String), SubscriptionRow> = HashMap::new();
    for (name, seen) in loaded {
        let whole = name.partitioned();
        let index = match at.get(whole.as_str()).or_else(|| at.get(name.as_str())) {
            Some(index) => *index,
            // Known to nobody but its owner: not persistent, or deleted a moment ago.
            None if !name.is_persistent() => {
                topics.push(TopicRow::named(&whole, None));
                at.insert(whole.as_str().to_owned(), topics.len() - 1);
                topics.len() - 1
            }
            None => continue,
        };
        let Some(row) = topics.get_mut(index) else { continue };
        row.add(&seen.numbers);
        for subscription in seen.subscriptions {
            match subscriptions.get_mut(&(index, subscription.name.clone())) {
                Some(sum) => sum.add(subscription),
                None => drop(subscriptions.insert((index, subscription.name.clone()), subscription.under(&row.name))),
            }
        }
    }
    for (index, _) in subscriptions.keys() {
        if let Some(row) = topics.get_mut(*index) {
            row.subscriptions += 1;
        }
    }
    let mut subscriptions: Vec<_> = subscriptions.into_values().collect();
    topics.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    subscriptions.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    let mut now = Topics { topics, subscriptions };
    if let Some((since, before)) = before
        && RATES_OVER.contains(&since.elapsed())
    {
        now.take_rates(&before, since.elapsed().as_secs_f64());
    }
    now
}

impl Topics {
    /// Rates are how far the counters have come since the look before; both lists are sorted alike.
    fn take_rates(&mut self, before: &Topics, seconds: f64) {
        let mut older = before.topics.iter().peekable();
        for row in &mut self.topics {
            while older.next_if(|old| old.name < row.name).is_some() {}
            if let Some(old) = older.next_if(|old| old.name == row.name) {
                row.take_rates(old, seconds);
            }
        }
        let mut older = before.subscriptions.iter().peekable();
        for row in &mut self.subscriptions {
            while older.next_if(|old| old.id < row.id).is_some() {}
            if let Some(old) = older.next_if(|old| old.id == row.id) {
                row.take_rates(old, seconds);
            }
        }
    }
}

/// When something happened, for a reader; nothing for what never did.
pub(crate) fn moment(ms: u64) -> Option<String> {
    (ms > 0).then(|| rfc3339::from_ms(ms))
}
