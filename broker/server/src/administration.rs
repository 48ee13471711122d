//! What administrators ask of one topic, which is loaded if it has to be: looks at it, and changes to it and its subscriptions.

use std::sync::Arc;

use bytes::Bytes;
use ledger::{EntryId, LedgerId, Position, ReadRange, StoreError};
use tokio::sync::oneshot;
use topic::{Asked, CompactionStatus, NotCompacted, Reply, SeekTo, StartAt, Topic, Turn, Unmoved};
use wire::{ServerError, TopicName};

use crate::handle::{Handle, TopicError};
use crate::inspect::not_loaded;
use crate::letter::{Letter, Opener};
use crate::loader::wait;
use crate::shared::Shared;

/// What a scan of a backlog looks at, at most.
const SCANNED_ENTRIES: u64 = 10_000;

/// What lies in a backlog, as far as it was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BacklogScan {
    /// Entries.
    pub entries: u64,
    /// Messages in them.
    pub messages: u64,
    /// The first entry.
    pub first: Option<Position>,
    /// The last entry looked at.
    pub last: Option<Position>,
    /// Whether there is more.
    pub aborted: bool,
}

/// Which entry is asked for.
#[derive(Clone, Debug)]
pub enum WhichEntry {
    /// The one at this position.
    At(Position),
    /// The `n`th that a subscription has not acked, from 1.
    Unacked(String, u64),
    /// The `n`th from the first, from 1.
    FromFirst(u64),
    /// The `n`th back from the last, from 1.
    FromLast(u64),
}

impl Handle {
    /// Creates a durable subscription.
    ///
    /// # Errors
    /// [`TopicError::SubscriptionExists`], [`TopicError::NotFound`], and what keeps a topic from being loaded.
    pub async fn create_subscription(
        &self,
        name: TopicName,
        subscription: String,
        start: StartAt,
        properties: Vec<(String, String)>,
    ) -> Result<(), TopicError> {
        crate::catalog::check_subscription(&name, &subscription).map_err(TopicError::BadName)?;
        let exists = TopicError::SubscriptionExists { topic: name.clone(), subscription: subscription.clone() };
        let create = move |topic: &mut Topic, turn: &mut Turn<'_>, asked| {
            if topic.has_subscription(&subscription) {
                return Err(exists);
            }
            topic.create_subscription(turn, asked, subscription, start, properties);
            Ok(())
        };
        ask(&self.shared, name, create).await.map(drop)
    }

    /// Removes a subscription; with `force` its consumers are closed, else they are a reason not to.
    ///
    /// # Errors
    /// [`TopicError::NoSubscription`], [`TopicError::SubscriptionInUse`], and what keeps a topic from being loaded.
    pub async fn delete_subscription(&self, name: TopicName, subscription: String, force: bool) -> Result<(), TopicError> {
        let of = name.clone();
        let delete = move |topic: &mut Topic, turn: &mut Turn<'_>, asked| {
            topic.delete_subscription(turn, asked, &subscription, force).map_err(|error| unmoved(error, of, subscription))
        };
        ask(&self.shared, name, delete).await.map(drop)
    }

    /// Has a subscription leave the next unacked entries behind, or all.
    ///
    /// # Errors
    /// [`TopicError::NoSubscription`], and what keeps a topic from being loaded.
    pub async fn skip(&self, name: TopicName, subscription: String, entries: Option<u64>) -> Result<(), TopicError> {
        let of = name.clone();
        let skip = move |topic: &mut Topic, turn: &mut Turn<'_>| {
            topic.skip(turn, &subscription, entries).map_err(|error| unmoved(error, of, subscription))
        };
        with_topic(&self.shared, name, skip).await?
    }

    /// Has a subscription, or all, leave behind what was published before a time, in milliseconds since the epoch.
    ///
    /// # Errors
    /// [`TopicError::NoSubscription`], and what keeps a topic from being loaded.
    pub async fn expire_before_time(&self, name: TopicName, subscription: Option<String>, time: u64) -> Result<(), TopicError> {
        let of = name.clone();
        let expire = move |topic: &mut Topic, turn: &mut Turn<'_>, asked| {
            if let Some(missing) = subscription.clone().filter(|subscription| !topic.has_subscription(subscription)) {
                return Err(TopicError::NoSubscription { topic: of, subscription: missing });
            }
            topic.expire_before_time(turn, asked, subscription.as_deref(), time);
            Ok(())
        };
        ask(&self.shared, name, expire).await.map(drop)
    }

    /// Has a subscription leave everything up to a message behind, that message only if it is `included`.
    ///
    /// # Errors
    /// [`TopicError::NoSubscription`], and what keeps a topic from being loaded.
    pub async fn expire_through(&self, name: TopicName, subscription: String, at: Position, included: bool) -> Result<(), TopicError> {
        let of = name.clone();
        let expire = move |topic: &mut Topic, turn: &mut Turn<'_>| {
            let upto = if included { at } else { topic.before(at) };
            topic.expire_through(turn, &subscription, upto).map_err(|error| unmoved(error, of, subscription))
        };
        with_topic(&self.shared, name, expire).await?
    }

    /// Moves a subscription; its consumers are closed and come back by themselves. `after` a message means that it is not delivered again.
    ///
    /// # Errors
    /// [`TopicError::NoSubscription`], and what keeps a topic from being loaded.
    pub async fn reset(&self, name: TopicName, subscription: String, to: SeekTo, after: bool) -> Result<(), TopicError> {
        let of = name.clone();
        let reset = move |topic: &mut Topic, turn: &mut Turn<'_>, asked| {
            let to = match to {
                SeekTo::Message(at) if after && at != Position::EARLIEST && at != Position::LATEST => SeekTo::Message(topic.next_after(at)),
                to => to,
            };
            topic.reset(turn, asked, &subscription, to).map_err(|error| unmoved(error, of, subscription))
        };
        ask(&self.shared, name, reset).await.map(drop)
    }

    /// The first message published at or after a time, in milliseconds since the epoch; one past the end if there is none.
    ///
    /// # Errors
    /// What keeps a topic from being loaded.
    pub async fn message_at_time(&self, name: TopicName, time: u64) -> Result<Position, TopicError> {
        let find = move |topic: &mut Topic, turn: &mut Turn<'_>, asked| {
            topic.find_published(turn, asked, time);
            Ok(())
        };
        place(ask(&self.shared, name, find).await?)
    }

    /// Ends a topic: nothing is published any more. Returns where its last message is.
    ///
    /// # Errors
    /// What keeps a topic from being loaded.
    pub async fn terminate(&self, name: TopicName) -> Result<Position, TopicError> {
        let terminate = move |topic: &mut Topic, turn: &mut Turn<'_>, asked| {
            topic.terminate(turn, asked);
            Ok(())
        };
        place(ask(&self.shared, name, terminate).await?)
    }

    /// Begins to compact a topic.
    ///
    /// # Errors
    /// [`TopicError::NotAllowed`] while it is being compacted, and what keeps a topic from being loaded.
    pub async fn compact(&self, name: TopicName) -> Result<(), TopicError> {
        with_topic(&self.shared, name, Topic::compact).await?.map_err(|error| match error {
            NotCompacted::Running => TopicError::NotAllowed(error.to_string()),
            NotCompacted::Leaving => TopicError::Busy(error.to_string()),
        })
    }

    /// Whether a topic was compacted since it was loaded, or is being.
    ///
    /// # Errors
    /// What keeps a topic from being loaded.
    pub async fn compaction_status(&self, name: TopicName) -> Result<CompactionStatus, TopicError> {
        with_topic(&self.shared, name, |topic, _| topic.compaction_status().clone()).await
    }

    /// Has every subscription leave everything behind, and deletes all ledgers but the one that is written to.
    ///
    /// # Errors
    /// What keeps a topic from being loaded.
    pub async fn truncate(&self, name: TopicName) -> Result<(), TopicError> {
        with_topic(&self.shared, name, Topic::truncate).await
    }

    /// Deletes ledgers that nobody needs, now rather than later.
    ///
    /// # Errors
    /// What keeps a topic from being loaded.
    pub async fn trim(&self, name: TopicName) -> Result<(), TopicError> {
        with_topic(&self.shared, name, Topic::trim_now).await
    }

    /// Bytes published after a message.
    ///
    /// # Errors
    /// What keeps a topic from being loaded.
    pub async fn bytes_after(&self, name: TopicName, at: Position) -> Result<u64, TopicError> {
        with_topic(&self.shared, name, move |topic, _| topic.bytes_after(at)).await
    }

    /// An entry as it was published, and where; none if there is no such entry.
    ///
    /// # Errors
    /// [`TopicError::NoSubscription`], storage errors, and what keeps a topic from being loaded.
    pub async fn entry(&self, name: TopicName, which: WhichEntry) -> Result<Option<(Position, Bytes)>, TopicError> {
        let of = name.clone();
        let locate = move |topic: &mut Topic, _: &mut Turn<'_>| match which {
            WhichEntry::At(at) => Ok(Some(at).filter(|at| topic.holds(*at))),
            WhichEntry::FromFirst(n) => Ok(topic.nth_entry(n, false)),
            WhichEntry::FromLast(n) => Ok(topic.nth_entry(n, true)),
            WhichEntry::Unacked(subscription, n) => topic.nth_unacked(&subscription, n).map_err(|error| unmoved(error, of, subscription)),
        };
        let Some(at) = with_topic(&self.shared, name, locate).await?? else { return Ok(None) };
        let (tell, told) = oneshot::channel();
        let range = ReadRange { ledger: at.ledger, from: at.entry, last: at.entry, max_entries: 1, max_bytes: usize::MAX };
        self.shared.store.read(range, Box::new(move |outcome| drop(tell.send(outcome))));
        match told.await.map_err(|_| TopicError::Gone)? {
            Ok(entries) => Ok(entries.into_iter().next().map(|entry| (at, entry.bytes))),
            // It was trimmed in between.
            Err(StoreError::NoSuchLedger(_)) => Ok(None),
            Err(error) => Err(TopicError::Storage(error.to_string())),
        }
    }

    /// Counts what a subscription has not acked, entry by entry, up to a limit.
    ///
    /// # Errors
    /// [`TopicError::NoSubscription`], storage errors, and what keeps a topic from being loaded.
    pub async fn scan_backlog(&self, name: TopicName, subscription: String) -> Result<BacklogScan, TopicError> {
        let of = name.clone();
        let runs = with_topic(&self.shared, name, move |topic, _| {
            topic.unacked_runs(&subscription).map_err(|error| unmoved(error, of, subscription))
        })
        .await??;
        let store = self.shared.store.clone();
        self.control(move |_| {
            let mut scan = BacklogScan::default();
            for run in runs {
                let mut next = run.first;
                while next <= run.last {
                    if scan.entries >= SCANNED_ENTRIES {
                        return Ok(BacklogScan { aborted: true, ..scan });
                    }
                    let max_entries = usize::try_from(SCANNED_ENTRIES - scan.entries).unwrap_or(1).min(1_000);
                    let (from, last) = (EntryId(next), EntryId(run.last));
                    let range = ReadRange { ledger: run.ledger, from, last, max_entries, max_bytes: 1 << 20 };
                    let entries = wait(|done| store.read(range, done)).map_err(|error| TopicError::Storage(error.to_string()))?;
                    let Some(end) = entries.last().map(|entry| entry.id) else { break };
                    next = end.0 + 1;
                    scan.entries += entries.len() as u64;
                    scan.messages +=
                        entries.iter().map(|e| wire::payload::peek(&e.bytes).map_or(1, |peek| u64::from(peek.messages))).sum::<u64>();
                    scan.first = scan.first.or(Some(Position { ledger: run.ledger, entry: from }));
                    scan.last = Some(Position { ledger: run.ledger, entry: end });
                }
            }
            Ok(scan)
        })
        .await?
    }

    /// What users noted on a topic without partitions.
    ///
    /// # Errors
    /// What keeps a topic from being loaded.
    pub async fn topic_properties(&self, name: TopicName) -> Result<Vec<(String, String)>, TopicError> {
        let all = |topic: &mut Topic, _: &mut Turn<'_>| topic.properties().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        with_topic(&self.shared, name, all).await
    }

    /// Notes something on a topic without partitions, or takes a note away (none).
    ///
    /// # Errors
    /// What keeps a topic from being loaded.
    pub async fn note_on_topic(&self, name: TopicName, notes: Vec<(String, Option<String>)>) -> Result<(), TopicError> {
        let note = move |topic: &mut Topic, turn: &mut Turn<'_>, asked| {
            topic.note(turn, asked, notes);
            Ok(())
        };
        ask(&self.shared, name, note).await.map(drop)
    }

    /// What users noted on a subscription.
    ///
    /// # Errors
    /// [`TopicError::NoSubscription`], and what keeps a topic from being loaded.
    pub async fn subscription_properties(&self, name: TopicName, subscription: String) -> Result<Vec<(String, String)>, TopicError> {
        let of = name.clone();
        let all = move |topic: &mut Topic, _: &mut Turn<'_>| match topic.subscription_properties(&subscription) {
            Some(properties) => Ok(properties.to_vec()),
            None => Err(TopicError::NoSubscription { topic: of, subscription }),
        };
        with_topic(&self.shared, name, all).await?
    }

    /// Replaces what is noted on a subscription.
    ///
    /// # Errors
    /// [`TopicError::NoSubscription`], and what keeps a topic from being loaded.
    pub async fn note_on_subscription(
        &self,
        name: TopicName,
        subscription: String,
        properties: Vec<(String, String)>,
    ) -> Result<(), TopicError> {
        let of = name.clone();
        let note = move |topic: &mut Topic, turn: &mut Turn<'_>| match topic.note_on_subscription(turn, &subscription, properties) {
            true => Ok(()),
            false => Err(TopicError::NoSubscription { topic: of, subscription }),
        };
        with_topic(&self.shared, name, note).await?
    }
}

/// Calls with a topic that stores its messages, on its worker.
async fn with_topic<T: Send + 'static>(
    shared: &Arc<Shared>,
    name: TopicName,
    call: impl FnOnce(&mut Topic, &mut Turn<'_>) -> T + Send + 'static,
) -> Result<T, TopicError> {
    if !name.is_persistent() {
        return Err(TopicError::NoStorage(name));
    }
    let (tell, told) = oneshot::channel();
    let wanted = name.clone();
    let caller = Opener::Caller(Box::new(move |outcome| {
        let answer = match outcome {
            Ok((worker, key)) => {
                let turn = &mut Turn { now: worker.now, cache: &mut worker.cache, out: &mut worker.effects };
                let topic = worker.topics.get_mut(key.slot, key.generation).and_then(|hosted| hosted.topic.persistent());
                topic.map(|topic| call(topic, turn)).ok_or(TopicError::Gone)
            }
            Err(error) => Err(not_loaded(wanted, &error)),
        };
        drop(tell.send(answer));
    }));
    shared.post(shared.owner(&name), Letter::Open { name, opener: caller });
    told.await.map_err(|_| TopicError::Gone)?
}

/// Calls with a topic that stores its messages, on its worker, and waits for its answer, which comes unless the call errs.
async fn ask(
    shared: &Arc<Shared>,
    name: TopicName,
    call: impl FnOnce(&mut Topic, &mut Turn<'_>, Asked) -> Result<(), TopicError> + Send + 'static,
) -> Result<Reply, TopicError> {
    if !name.is_persistent() {
        return Err(TopicError::NoStorage(name));
    }
    let (refuse, refused) = oneshot::channel();
    let (tell, told) = oneshot::channel();
    let wanted = name.clone();
    let caller = Opener::Caller(Box::new(move |outcome| {
        let begun = match outcome {
            Ok((worker, key)) => {
                let asked = worker.callers.ask(key, tell);
                let turn = &mut Turn { now: worker.now, cache: &mut worker.cache, out: &mut worker.effects };
                let topic = worker.topics.get_mut(key.slot, key.generation).and_then(|hosted| hosted.topic.persistent());
                let begun = topic.ok_or(TopicError::Gone).and_then(|topic| call(topic, turn, asked));
                if begun.is_err() {
                    worker.callers.withdraw(asked);
                }
                begun
            }
            Err(error) => Err(not_loaded(wanted, &error)),
        };
        drop(refuse.send(begun));
    }));
    shared.post(shared.owner(&name), Letter::Open { name, opener: caller });
    refused.await.map_err(|_| TopicError::Gone)??;
    match told.await.map_err(|_| TopicError::Gone)? {
        Reply::Error { error: ServerError::ServiceNotReady, message, .. } => Err(TopicError::Busy(message)),
        Reply::Error { message, .. } => Err(TopicError::NotAllowed(message)),
        reply => Ok(reply),
    }
}

fn place(reply: Reply) -> Result<Position, TopicError> {
    match reply {
        Reply::Place { at, .. } => Ok(at),
        _ => Err(TopicError::Gone),
    }
}

fn unmoved(error: Unmoved, topic: TopicName, subscription: String) -> TopicError {
    match error {
        Unmoved::NotFound => TopicError::NoSubscription { topic, subscription },
        Unmoved::InUse => TopicError::SubscriptionInUse { topic, subscription },
        Unmoved::Changing => TopicError::Busy(error.to_string()),
        Unmoved::Own => TopicError::NotAllowed(format!("{subscription}: {error}")),
    }
}

/// A position by its two numbers.
#[must_use]
pub fn position(ledger: i64, entry: i64) -> Position {
    Position { ledger: LedgerId(ledger), entry: EntryId(entry) }
}
