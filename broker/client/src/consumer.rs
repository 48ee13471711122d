//! Receiving: permits are given ahead, messages wait in the inbox, acks leave with whatever is written next.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, Weak,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use bytes::Bytes;
use tokio::sync::Notify;
use wire::{
    Ack, AckIds, AckType, Command, Flow, InitialPosition, SubscriptionType,
    payload::{PayloadError, SingleMessages},
    proto,
};

use crate::{Error, Inbox, Item, LastMessage, MessageId, Received, client::Pool, link::Link, message::Batch, metadata::Opened, reconnect};

/// Where a subscription begins: a durable one when it is new, a non-durable one always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the first message there is.
    Earliest,
    /// With what is published from now on.
    Latest,
    /// At this message. Only for subscriptions that are not durable.
    At(MessageId),
    /// After this message. Only for subscriptions that are not durable.
    After(MessageId),
    /// With what was published in the last so many seconds. Only for subscriptions that are not durable.
    SecondsAgo(u64),
}

/// What a consumer is like.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// The subscription's name.
    pub subscription: String,
    /// How the subscription is shared.
    pub kind: SubscriptionType,
    /// Whether the subscription outlives its consumers.
    pub durable: bool,
    /// Where it begins.
    pub start: Start,
    /// How many messages the broker may send ahead.
    pub receiver_queue: u32,
    /// Leaves permits to [`Consumer::flow`]: none are given at the start, none are given back.
    pub manual_permits: bool,
    /// The consumer's name; without one it gets a random one.
    pub name: Option<String>,
    /// Consumers with a lower number are served first.
    pub priority: i32,
    /// Where messages wait; may be shared with other consumers.
    pub inbox: Inbox,
    /// Told with each message, to tell consumers apart that share an inbox.
    pub tag: u64,
    /// Acknowledges single messages of a batch at once, not only the whole entry with the last one.
    pub batch_index_acks: bool,
    /// How keys are spread, for Key_Shared subscriptions.
    pub key_shared: Option<proto::KeySharedMeta>,
    /// Whether only the last message per key is wanted, where the topic is compacted.
    pub read_compacted: bool,
    /// Whether a missing topic may be created.
    pub create_topic: bool,
}

impl ConsumerOptions {
    /// An Exclusive, durable subscription from the earliest message on.
    pub fn new(subscription: impl Into<String>) -> Self {
        Self {
            subscription: subscription.into(),
            kind: SubscriptionType::Exclusive,
            durable: true,
            start: Start::Earliest,
            receiver_queue: 1000,
            manual_permits: false,
            name: None,
            priority: 0,
            inbox: Inbox::new(),
            tag: 0,
            batch_index_acks: false,
            key_shared: None,
            read_compacted: false,
            create_topic: true,
        }
    }

    /// A Shared one.
    pub fn shared(subscription: impl Into<String>) -> Self {
        Self { kind: SubscriptionType::Shared, ..Self::new(subscription) }
    }

    /// A Failover one.
    pub fn failover(subscription: impl Into<String>) -> Self {
        Self { kind: SubscriptionType::Failover, ..Self::new(subscription) }
    }

    /// A reader: nothing outlives it.
    #[must_use]
    pub fn reader(start: Start) -> Self {
        Self { durable: false, start, ..Self::new(format!("reader-{:010x}", fastrand::u64(..1 << 40))) }
    }
}

/// A consumer of one topic. Dropping it tells the broker without waiting for an answer.
#[derive(Debug)]
pub struct Consumer {
    core: Arc<Core>,
}

/// What the connection knows of a consumer.
#[derive(Debug)]
pub(crate) struct Core {
    pool: Arc<Pool>,
    topic: Arc<str>,
    id: u64,
    name: String,
    options: ConsumerOptions,
    /// Taken from the inbox and not yet given back as permits.
    taken: AtomicU32,
    /// Raised when everything unacknowledged is asked for again, so that what was under way before is dropped.
    epoch: AtomicU64,
    state: Mutex<State>,
    attached: Notify,
}

#[derive(Debug)]
struct State {
    link: Option<Arc<Link>>,
    /// Where the next SUBSCRIBE starts; `None`: where the broker remembers.
    start: Option<Start>,
    /// Messages up to here were not asked for.
    skip: Option<MessageId>,
    /// The last message the application took, where the broker will not remember it.
    last_taken: Option<MessageId>,
    seeking: bool,
    is_active: Option<bool>,
    recovering: bool,
    ended: Option<Error>,
}

const GONE: Error = Error::Closed { what: "the consumer", reason: "it was dropped" };
const CLOSED: Error = Error::Closed { what: "the consumer", reason: "this end closed it" };

impl Consumer {
    pub(crate) async fn create(pool: Arc<Pool>, topic: Arc<str>, options: ConsumerOptions) -> Result<Self, Error> {
        let state = State {
            link: None,
            start: Some(options.start),
            skip: None,
            last_taken: None,
            seeking: false,
            is_active: None,
            recovering: false,
            ended: None,
        };
        let name = options.name.clone().unwrap_or_else(|| format!("{:010x}", fastrand::u64(..1 << 40)));
        let core = Arc::new(Core {
            id: pool.next_id(),
            pool,
            topic,
            name,
            options,
            taken: AtomicU32::new(0),
            epoch: AtomicU64::new(0),
            state: Mutex::new(state),
            attached: Notify::new(),
        });
        let consumer = Self { core };
        consumer.core.open().await?;
        Ok(consumer)
    }

    /// The full name of its topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.core.topic
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// Messages that wait in its inbox.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.core.options.inbox.len()
    }

    /// Whether the broker has told this consumer that it is the active one of its subscription; `None` before it said anything.
    #[must_use]
    pub fn is_active(&self) -> Option<bool> {
        self.core.lock().is_active
    }

    /// Waits for the next message. Not for consumers that share an inbox: there, wait on the inbox.
    ///
    /// # Errors
    /// There will be no more messages.
    pub async fn recv(&self) -> Result<Received, Error> {
        if let Some(error) = self.core.ended_and_empty() {
            return Err(error);
        }
        match self.core.options.inbox.next().await {
            Item::Message(message) => Ok(message),
            Item::Ended { error, .. } => Err(error),
        }
    }

    /// The next message, if one is there.
    #[must_use]
    pub fn try_recv(&self) -> Option<Received> {
        match self.core.options.inbox.try_next()? {
            Item::Message(message) => Some(message),
            Item::Ended { .. } => None,
        }
    }

    /// Acknowledges a message without waiting for an answer.
    pub fn ack(&self, message: &Received) {
        self.core.ack(message);
    }

    /// Acknowledges whole entries without waiting for an answer, in one command.
    pub fn ack_many(&self, ids: &[MessageId]) {
        let ids = ids.iter().map(|id| id.to_wire()).collect();
        self.core.write(|out, consumer_id| out.command(&ack_command(consumer_id, AckType::Individual, AckIds::Many(ids), None)));
    }

    /// Acknowledges a whole entry and waits for the broker's answer.
    ///
    /// # Errors
    /// The broker refused, or did not answer.
    pub async fn ack_confirmed(&self, id: MessageId) -> Result<(), Error> {
        let ids = AckIds::One(id.to_wire());
        let build = |request_id| ack_command(self.core.id, AckType::Individual, ids, Some(request_id));
        self.core.request("acknowledging", build).await.map(|_| ())
    }

    /// Acknowledges everything up to and with this message.
    pub fn ack_cumulative(&self, message: &Received) {
        self.core.ack_cumulative(message);
    }

    /// Asks for these messages again at once; of a batch, for the whole entry.
    pub fn nack(&self, ids: &[MessageId]) {
        let message_ids = ids.iter().map(|id| id.to_wire().into()).collect();
        self.core.write(|out, consumer_id| {
            let redeliver = proto::CommandRedeliverUnacknowledgedMessages { consumer_id, message_ids, consumer_epoch: None };
            out.command(&redeliver.into());
        });
    }

    /// Asks for everything again that was not acknowledged.
    pub fn redeliver_unacknowledged(&self) {
        let core = &self.core;
        let is_single = matches!(core.options.kind, SubscriptionType::Exclusive | SubscriptionType::Failover);
        let consumer_epoch = is_single.then(|| core.epoch.fetch_add(1, Ordering::Relaxed) + 1);
        let dropped = core.purge();
        core.write(|out, consumer_id| {
            let redeliver = proto::CommandRedeliverUnacknowledgedMessages { consumer_id, message_ids: Vec::new(), consumer_epoch };
            out.command(&redeliver.into());
        });
        core.taken(dropped);
    }

    /// Gives the broker so many permits. Only needed with [`ConsumerOptions::manual_permits`].
    pub fn flow(&self, permits: u32) {
        self.core.flow(permits);
    }

    /// The subscription goes on with this message: everything from it is delivered (again). Returns when the consumer is back,
    /// or, without reconnecting, when the broker has answered.
    ///
    /// # Errors
    /// The broker refused, did not answer, or did not take the consumer back.
    pub async fn seek(&self, to: MessageId) -> Result<(), Error> {
        let at = proto::CommandSeek { message_id: Some(to.to_wire_exact().into()), ..Default::default() };
        let skip = (to.batch_index > 0).then_some(MessageId { batch_index: to.batch_index - 1, ..to });
        self.core.seek(at, Some(Start::At(to)), skip).await
    }

    /// The same for the first message published at or after this time, in milliseconds since the epoch.
    ///
    /// # Errors
    /// As [`Consumer::seek`].
    pub async fn seek_time(&self, time: u64) -> Result<(), Error> {
        let at = proto::CommandSeek { message_publish_time: Some(time), ..Default::default() };
        self.core.seek(at, None, None).await
    }

    /// The last message of the topic, and the subscription's place.
    ///
    /// # Errors
    /// The broker refused, or did not answer.
    pub async fn last_message(&self) -> Result<LastMessage, Error> {
        let consumer_id = self.core.id;
        let build = |request_id| proto::CommandGetLastMessageId { consumer_id, request_id }.into();
        match self.core.request("asking for the last message id", build).await? {
            Command::GetLastMessageIdResponse(it) => Ok(LastMessage {
                id: MessageId::from_wire(&it.last_message_id.into()),
                mark_delete: it.consumer_mark_delete_position.map(|id| MessageId::from_wire(&id.into())),
            }),
            other => Err(self.core.strange("GET_LAST_MESSAGE_ID", &other)),
        }
    }

    /// What the broker counts for this consumer.
    ///
    /// # Errors
    /// The broker refused, or did not answer.
    pub async fn stats(&self) -> Result<proto::CommandConsumerStatsResponse, Error> {
        let consumer_id = self.core.id;
        let build = |request_id| proto::CommandConsumerStats { consumer_id, request_id }.into();
        match self.core.request("asking for the consumer's stats", build).await? {
            Command::ConsumerStatsResponse(it) => match it.error_code {
                Some(_) => Err(Error::Server {
                    request: "asking for the consumer's stats",
                    code: it.error_code(),
                    message: it.error_message().into(),
                }),
                None => Ok(*it),
            },
            other => Err(self.core.strange("CONSUMER_STATS", &other)),
        }
    }

    /// Deletes the subscription, and with it this consumer.
    ///
    /// # Errors
    /// The broker refused, for instance since others use the subscription, or did not answer. The consumer is closed all the same.
    pub async fn unsubscribe(self) -> Result<(), Error> {
        let consumer_id = self.core.id;
        let build = |request_id| proto::CommandUnsubscribe { consumer_id, request_id, force: None }.into();
        let answer = self.core.request("unsubscribing", build).await;
        if answer.is_ok()
            && let Some(link) = self.core.end(&CLOSED)
        {
            link.remove_consumer(consumer_id);
        }
        answer.map(|_| ())
    }

    /// Takes leave of the broker and waits for its answer. What was received and not acknowledged goes to others, or comes again.
    ///
    /// # Errors
    /// The broker did not answer. The consumer is closed all the same.
    pub async fn close(self) -> Result<(), Error> {
        let link = self.core.end(&CLOSED);
        let Some(link) = link else { return Ok(()) };
        let build = |request_id| close_command(self.core.id, request_id);
        let answer = link.request("closing the consumer", self.core.pool.patience(), build).await;
        link.remove_consumer(self.core.id);
        self.core.purge();
        answer.map(|_| ())
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        if let Some(link) = self.core.end(&GONE) {
            link.remove_consumer(self.core.id);
            // Nobody waits for the answer; requests count from 1, so that it cannot be taken for another's.
            link.write(|out| out.command(&close_command(self.core.id, 0)));
        }
        // What waits refers to the consumer, which refers to the inbox.
        self.core.purge();
    }
}

fn close_command(consumer_id: u64, request_id: u64) -> Command {
    proto::CommandCloseConsumer { consumer_id, request_id, ..Default::default() }.into()
}

fn ack_command(consumer_id: u64, ack_type: AckType, ids: AckIds, request_id: Option<u64>) -> Command {
    Command::Ack(Ack { consumer_id, ack_type, ids, validation_error: None, properties: Vec::new(), txn: None, request_id })
}

impl Core {
    pub(crate) fn tag(&self) -> u64 {
        self.options.tag
    }

    pub(crate) fn topic(&self) -> &str {
        &self.topic
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn link(&self) -> Result<Arc<Link>, Error> {
        let state = self.lock();
        match (&state.link, &state.ended) {
            (Some(link), _) => Ok(link.clone()),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Err(Error::Closed { what: "the consumer", reason: "it is just reconnecting" }),
        }
    }

    /// Adds to what the connection writes next. While there is none, what would be said is void: the broker forgot its side, too.
    fn write(&self, add: impl FnOnce(&mut crate::outbox::Out, u64)) {
        if let Some(link) = &self.lock().link {
            link.write(|out| add(out, self.id));
        }
    }

    async fn request(&self, name: &'static str, build: impl FnOnce(u64) -> Command) -> Result<Command, Error> {
        self.link()?.request(name, self.pool.patience(), build).await
    }

    fn strange(&self, asked: &str, answer: &Command) -> Error {
        let address = self.lock().link.as_ref().map_or_else(|| "the broker".into(), |link| link.address.clone());
        Error::protocol(&address, format!("{asked} was answered with {}", answer.name()))
    }

    /// Subscribes, and gives the first permits.
    async fn open(self: &Arc<Self>) -> Result<(), Error> {
        let link = self.pool.link_for(&self.topic).await?;
        link.add_consumer(self.id, self)?;
        let opened = link.request("subscribing", self.pool.patience(), |request_id| self.subscribe_command(request_id)).await;
        match opened {
            Ok(_) => {
                self.attach(&link);
                if link.is_broken() { Err(Error::lost(&link.address, "it broke while subscribing")) } else { Ok(()) }
            }
            Err(error) => {
                link.remove_consumer(self.id);
                if matches!(error, Error::TimedOut { .. }) {
                    link.write(|out| out.command(&close_command(self.id, 0)));
                }
                Err(error)
            }
        }
    }

    fn subscribe_command(&self, request_id: u64) -> Command {
        let options = &self.options;
        let start = self.lock().start;
        let (at, seconds) = match start {
            _ if options.durable => (None, None),
            None => (None, None),
            Some(Start::Earliest) => (Some(MessageId::EARLIEST), None),
            Some(Start::Latest) => (Some(MessageId::LATEST), None),
            Some(Start::At(id) | Start::After(id)) => (Some(id), None),
            Some(Start::SecondsAgo(seconds)) => (Some(MessageId::EARLIEST), Some(seconds)),
        };
        let initial = match options.start {
            Start::Latest => InitialPosition::Latest,
            _ => InitialPosition::Earliest,
        };
        let epoch = self.epoch.load(Ordering::Relaxed);
        proto::CommandSubscribe {
            topic: self.topic.to_string(),
            subscription: options.subscription.clone(),
            sub_type: options.kind.into(),
            consumer_id: self.id,
            request_id,
            consumer_name: Some(self.name.clone()),
            priority_level: (options.priority != 0).then_some(options.priority),
            durable: Some(options.durable),
            start_message_id: at.map(|id| id.to_wire_exact().into()),
            read_compacted: options.read_compacted.then_some(true),
            initial_position: Some(initial.into()),
            force_topic_creation: Some(options.create_topic),
            start_message_rollback_duration_sec: seconds,
            key_shared_meta: options.key_shared.clone(),
            consumer_epoch: (epoch > 0).then_some(epoch),
            ..Default::default()
        }
        .into()
    }

    fn attach(&self, link: &Arc<Link>) {
        let mut state = self.lock();
        if state.ended.is_some() {
            drop(state);
            link.remove_consumer(self.id);
            link.write(|out| out.command(&close_command(self.id, 0)));
            return;
        }
        state.skip = match (self.options.durable, state.start) {
            (false, Some(Start::After(id))) => Some(id),
            (false, Some(Start::At(id))) if id.batch_index > 0 => Some(MessageId { batch_index: id.batch_index - 1, ..id }),
            _ => state.skip,
        };
        state.link = Some(link.clone());
        self.taken.store(0, Ordering::Relaxed);
        if !self.options.manual_permits && self.options.receiver_queue > 0 {
            let permits = self.options.receiver_queue;
            link.write(|out| out.command(&Command::Flow(Flow { consumer_id: self.id, permits })));
        }
        drop(state);
        self.attached.notify_waiters();
    }

    /// A message came. An error means that it makes no sense.
    pub(crate) fn delivered(core: &Arc<Self>, message: wire::Message, payload: &Bytes) -> Result<(), PayloadError> {
        let opened = Opened::new(payload)?;
        let is_old = message.consumer_epoch.is_some_and(|epoch| epoch < core.epoch.load(Ordering::Relaxed));
        if is_old {
            core.taken(opened.messages);
            return Ok(());
        }
        let skip = core.lock().skip;
        let whole = Received {
            id: MessageId::from_wire(&message.message_id),
            redelivery_count: message.redelivery_count.unwrap_or(0),
            payload: opened.body,
            entry: opened.metadata,
            key: opened.key,
            single: None,
            compression: opened.compression,
            batch: None,
            from: core.clone(),
        };
        if opened.is_plain_batch {
            let messages = unpack(&whole, &message.ack_set, opened.messages)?;
            let all = messages.len();
            let wanted: Vec<_> = messages.into_iter().filter(|message| is_wanted(skip, message.id)).collect();
            let unwanted = u32::try_from(all - wanted.len()).unwrap_or(0);
            core.options.inbox.push(wanted.into_iter().map(Item::Message));
            core.taken(unwanted);
        } else if is_wanted(skip, whole.id) {
            core.options.inbox.push(std::iter::once(Item::Message(whole)));
        } else {
            core.taken(1);
        }
        Ok(())
    }

    /// The application took a message out of the inbox.
    pub(crate) fn took(&self, id: MessageId) {
        if !self.options.durable {
            let mut state = self.lock();
            if !state.seeking {
                state.last_taken = Some(id);
            }
        }
        self.taken(1);
    }

    /// Messages left the inbox; half a queue of them are given back as permits at once.
    fn taken(&self, count: u32) {
        if self.options.manual_permits || count == 0 {
            return;
        }
        let taken = self.taken.fetch_add(count, Ordering::Relaxed) + count;
        if taken >= (self.options.receiver_queue / 2).max(1) {
            let permits = self.taken.swap(0, Ordering::Relaxed);
            if permits > 0 {
                self.flow(permits);
            }
        }
    }

    fn flow(&self, permits: u32) {
        self.write(|out, consumer_id| out.command(&Command::Flow(Flow { consumer_id, permits })));
    }

    pub(crate) fn ack(&self, message: &Received) {
        let mut id = message.id.to_wire();
        if let (Some(batch), Ok(index)) = (&message.batch, usize::try_from(message.id.batch_index)) {
            let left = batch.ack(index);
            if !left.is_empty() {
                if !self.options.batch_index_acks {
                    return;
                }
                id.ack_set = left;
                id.batch_size = Some(message.id.batch_size);
            }
        }
        self.write(|out, consumer_id| out.ack(consumer_id, id));
    }

    fn ack_cumulative(&self, message: &Received) {
        let mut id = message.id.to_wire();
        if let (Some(batch), Ok(index)) = (&message.batch, usize::try_from(message.id.batch_index)) {
            let left = batch.ack_up_to(index);
            if !left.is_empty() {
                if self.options.batch_index_acks {
                    id.ack_set = left;
                    id.batch_size = Some(message.id.batch_size);
                } else if id.entry > 0 {
                    id.entry -= 1;
                } else {
                    return;
                }
            }
        }
        self.write(|out, consumer_id| out.command(&ack_command(consumer_id, AckType::Cumulative, AckIds::One(id), None)));
    }

    async fn seek(&self, at: proto::CommandSeek, start: Option<Start>, skip: Option<MessageId>) -> Result<(), Error> {
        let attached = self.attached.notified();
        tokio::pin!(attached);
        attached.as_mut().enable();
        let before = {
            let mut state = self.lock();
            (state.seeking, state.last_taken) = (true, None);
            (std::mem::replace(&mut state.start, start), std::mem::replace(&mut state.skip, skip))
        };
        let build = |request_id| proto::CommandSeek { consumer_id: self.id, request_id, ..at }.into();
        let answer = self.request("seeking", build).await;
        {
            let mut state = self.lock();
            state.seeking = false;
            if let Err(error) = answer {
                (state.start, state.skip) = before;
                return Err(error);
            }
        }
        if self.pool.reconnects() {
            attached.await;
            self.lock().ended.clone().map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    pub(crate) fn active_changed(&self, is_active: bool) {
        self.lock().is_active = Some(is_active);
    }

    fn purge(&self) -> u32 {
        self.options.inbox.purge(|message| std::ptr::eq(Arc::as_ptr(&message.from), self))
    }

    /// The connection is gone, or the broker closed the consumer. What waits in the inbox will come again.
    pub(crate) fn detached(self: &Arc<Self>, error: &Error) {
        let mut state = self.lock();
        state.link = None;
        state.is_active = None;
        if let Some(last) = state.last_taken.take() {
            state.start = Some(Start::After(last));
        }
        if state.ended.is_some() || state.recovering {
            return;
        }
        if self.pool.reconnects() && reconnect::can_help(error) {
            state.recovering = true;
            drop(state);
            self.purge();
            tokio::spawn(Self::recover(Arc::downgrade(self), error.clone()));
        } else {
            state.ended = Some(error.clone());
            drop(state);
            self.tell_end(error);
        }
    }

    async fn recover(core: Weak<Self>, cause: Error) {
        let Some(limit) = core.upgrade().map(|core| core.pool.reconnect_for()) else { return };
        let mut attempts = reconnect::Attempts::new(limit, cause);
        while attempts.pause().await {
            let Some(core) = core.upgrade() else { return };
            if core.lock().ended.is_some() {
                return;
            }
            match core.open().await {
                Ok(()) => {
                    core.lock().recovering = false;
                    return;
                }
                Err(error) => attempts.failed(error),
            }
        }
        if let Some(core) = core.upgrade() {
            let error = attempts.into_error();
            core.lock().ended = Some(error.clone());
            core.tell_end(&error);
        }
    }

    fn tell_end(&self, error: &Error) {
        let ended = Item::Ended { consumer: self.options.tag, error: error.clone() };
        self.options.inbox.push(std::iter::once(ended));
        self.attached.notify_waiters();
    }

    fn ended_and_empty(&self) -> Option<Error> {
        let state = self.lock();
        state.ended.clone().filter(|_| self.options.inbox.is_empty())
    }

    fn end(&self, why: &Error) -> Option<Arc<Link>> {
        let mut state = self.lock();
        state.ended.get_or_insert_with(|| why.clone());
        state.link.take()
    }
}

fn is_wanted(skip: Option<MessageId>, id: MessageId) -> bool {
    match skip {
        None => true,
        Some(skip) if (skip.ledger, skip.entry) == (id.ledger, id.entry) => skip.batch_index >= 0 && id.batch_index > skip.batch_index,
        Some(skip) => skip.is_none() || (id.ledger, id.entry) > (skip.ledger, skip.entry),
    }
}

/// The messages of a batch whose bit is not cleared in a given ack set.
fn unpack(whole: &Received, ack_set: &[u64], size: u32) -> Result<Vec<Received>, PayloadError> {
    // Each message takes at least the four bytes of its size.
    if size as usize > whole.payload.len() / 4 {
        return Err(PayloadError::Truncated("batch"));
    }
    let batch = Arc::new(Batch::new(size as usize));
    let batch_size = i32::try_from(size).unwrap_or(i32::MAX);
    let mut messages = Vec::new();
    for (index, single) in SingleMessages::new(whole.payload.clone(), size).enumerate() {
        let (single, payload) = single?;
        let is_acked = !ack_set.is_empty() && ack_set.get(index / 64).is_none_or(|word| word & (1 << (index % 64)) == 0);
        if is_acked {
            batch.ack(index);
            continue;
        }
        let id = MessageId { batch_index: i32::try_from(index).unwrap_or(i32::MAX), batch_size, ..whole.id };
        messages.push(Received { id, payload, single: Some(Arc::new(single)), batch: Some(batch.clone()), ..whole.clone() });
    }
    Ok(messages)
}
