//! Publishing: messages leave at once, receipts come later, in order.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::sync::{Notify, oneshot};
use wire::{Command, ProducerAccessMode, SendReceipt, proto};

use crate::{
    Error, Message, MessageId, Receipt, Receipts, TrySendError,
    client::Pool,
    encode::{self, Entry},
    link::Link,
    reconnect,
};

/// What a producer is like.
#[derive(Clone, Debug)]
pub struct ProducerOptions {
    /// Its name, unique on the topic; without one the broker gives it one.
    pub name: Option<String>,
    /// Whether it shares the topic with others.
    pub access: ProducerAccessMode,
    /// How many messages may wait for their receipts.
    pub max_pending: usize,
    /// The sequence id of its first message; without one it goes on after the last that the broker knows of this name.
    pub first_sequence: Option<u64>,
    /// Where the receipts of [`Producer::try_send`] go; may be shared with other producers.
    pub receipts: Receipts,
    /// Told with each receipt, to tell producers apart that share a place for them.
    pub tag: u64,
    /// A durable subscription to create at the earliest message along with the producer.
    pub initial_subscription: Option<String>,
}

impl Default for ProducerOptions {
    fn default() -> Self {
        Self {
            name: None,
            access: ProducerAccessMode::Shared,
            max_pending: 1000,
            first_sequence: None,
            receipts: Receipts::new(),
            tag: 0,
            initial_subscription: None,
        }
    }
}

/// A producer of one topic. Dropping it tells the broker without waiting for an answer.
#[derive(Debug)]
pub struct Producer {
    core: Arc<Core>,
}

/// What the connection knows of a producer.
#[derive(Debug)]
pub(crate) struct Core {
    pool: Arc<Pool>,
    topic: Arc<str>,
    id: u64,
    options: ProducerOptions,
    /// Times that it was registered with a broker, which tells a new registration from an old one.
    epoch: AtomicU64,
    state: Mutex<State>,
    /// One wake-up per place that becomes free while somebody waits for it.
    room: Notify,
    /// All receipts are there, or will never come.
    drained: Notify,
}

#[derive(Debug)]
struct State {
    link: Option<Arc<Link>>,
    name: Arc<str>,
    next_sequence: u64,
    topic_epoch: Option<u64>,
    /// Times that a broker took it.
    attachments: u64,
    pending: VecDeque<Pending>,
    waiting: usize,
    recovering: bool,
    ended: Option<Error>,
}

#[derive(Debug)]
struct Pending {
    sequence: u64,
    highest: u64,
    publish_time: u64,
    waiter: Waiter,
    /// Kept only if it may have to be sent again.
    entry: Option<Entry>,
}

#[derive(Debug)]
enum Waiter {
    One(oneshot::Sender<Result<MessageId, Error>>),
    Token(u64),
}

/// A message on its way; resolves to where it is stored. The message leaves whether or not this is awaited.
#[derive(Debug)]
pub struct Sending(oneshot::Receiver<Result<MessageId, Error>>);

impl Future for Sending {
    type Output = Result<MessageId, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|answer| answer.unwrap_or(Err(GONE)))
    }
}

const GONE: Error = Error::Closed { what: "the producer", reason: "it was dropped" };
const CLOSED: Error = Error::Closed { what: "the producer", reason: "this end closed it" };

impl Producer {
    pub(crate) async fn create(pool: Arc<Pool>, topic: Arc<str>, options: ProducerOptions) -> Result<Self, Error> {
        let state = State {
            link: None,
            name: options.name.as_deref().unwrap_or_default().into(),
            next_sequence: options.first_sequence.unwrap_or(0),
            topic_epoch: None,
            attachments: 0,
            pending: VecDeque::new(),
            waiting: 0,
            recovering: false,
            ended: None,
        };
        let core = Arc::new(Core {
            id: pool.next_id(),
            pool,
            topic,
            options,
            epoch: AtomicU64::new(0),
            state: Mutex::new(state),
            room: Notify::new(),
            drained: Notify::new(),
        });
        let producer = Self { core };
        producer.core.open().await?;
        Ok(producer)
    }

    /// The name, given or received.
    #[must_use]
    pub fn name(&self) -> Arc<str> {
        self.core.lock().name.clone()
    }

    /// The full name of its topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.core.topic
    }

    /// The sequence id that the next message gets if it has none.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.core.lock().next_sequence
    }

    /// The epoch of the topic, for producers that have it to themselves.
    #[must_use]
    pub fn topic_epoch(&self) -> Option<u64> {
        self.core.lock().topic_epoch
    }

    /// How often a broker has taken it: 1 at first, and one more each time that it came back.
    #[must_use]
    pub fn attachments(&self) -> u64 {
        self.core.lock().attachments
    }

    /// Messages that wait for their receipts.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.core.lock().pending.len()
    }

    /// Publishes and waits until the message is durable.
    ///
    /// # Errors
    /// The message is not, or not known to be, stored.
    pub async fn send(&self, message: impl Into<Message>) -> Result<MessageId, Error> {
        self.enqueue(message).await?.await
    }

    /// Publishes, waiting only for room among the pending messages. Await the result for the receipt.
    ///
    /// # Errors
    /// The message was not taken.
    pub async fn enqueue(&self, message: impl Into<Message>) -> Result<Sending, Error> {
        self.enqueue_entry(Entry::One(message.into())).await
    }

    /// Publishes several messages as one batch, and waits until it is durable. The id is that of the entry.
    ///
    /// # Errors
    /// As [`Producer::send`].
    pub async fn send_batch(&self, messages: Vec<Message>) -> Result<MessageId, Error> {
        self.enqueue_batch(messages).await?.await
    }

    /// Publishes several messages as one batch, waiting only for room.
    ///
    /// # Errors
    /// As [`Producer::enqueue`].
    pub async fn enqueue_batch(&self, messages: Vec<Message>) -> Result<Sending, Error> {
        self.enqueue_entry(Entry::Batch(messages)).await
    }

    async fn enqueue_entry(&self, mut entry: Entry) -> Result<Sending, Error> {
        let (waiter, sending) = oneshot::channel();
        let mut waiter = Waiter::One(waiter);
        loop {
            match self.core.publish(entry, waiter) {
                Ok(_) => return Ok(Sending(sending)),
                Err(Rejected::Failed(error)) => return Err(error),
                Err(Rejected::Full(back)) => (entry, waiter) = *back,
            }
            self.core.room().await;
        }
    }

    /// Publishes without waiting for anything. The receipt goes to the [`Receipts`] of the options, along with `token`.
    /// Returns the sequence id.
    ///
    /// # Errors
    /// [`TrySendError::Full`] gives the message back; there is room again after a receipt.
    #[allow(clippy::result_large_err, reason = "the error gives the message back")]
    pub fn try_send(&self, message: Message, token: u64) -> Result<u64, TrySendError> {
        self.core.publish(Entry::One(message), Waiter::Token(token)).map_err(|rejected| match rejected {
            Rejected::Failed(error) => TrySendError::Failed(error),
            Rejected::Full(back) => match *back {
                (Entry::One(message), _) => TrySendError::Full(message),
                (Entry::Batch(_), _) => TrySendError::Failed(CLOSED),
            },
        })
    }

    /// The same for a batch, whose messages must not be more than fit.
    ///
    /// # Errors
    /// The batch was not taken: too many messages are pending, or the producer is closed.
    pub fn try_send_batch(&self, messages: Vec<Message>, token: u64) -> Result<u64, Error> {
        self.core.publish(Entry::Batch(messages), Waiter::Token(token)).map_err(|rejected| match rejected {
            Rejected::Failed(error) => error,
            Rejected::Full(_) => Error::Closed { what: "the producer", reason: "too many messages are pending" },
        })
    }

    /// Waits until every message sent so far has its receipt, or never will.
    pub async fn flush(&self) {
        self.core.flush().await;
    }

    /// Waits for the receipts, then takes leave of the broker and waits for its answer.
    ///
    /// # Errors
    /// The broker did not answer. The producer is closed all the same.
    pub async fn close(self) -> Result<(), Error> {
        self.core.flush().await;
        let link = self.core.end(&CLOSED);
        let Some(link) = link else { return Ok(()) };
        let close = |request_id| close_command(self.core.id, request_id);
        let answer = link.request("closing the producer", self.core.pool.patience(), close).await;
        link.remove_producer(self.core.id);
        answer.map(|_| ())
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        if let Some(link) = self.core.end(&GONE) {
            link.remove_producer(self.core.id);
            // Nobody waits for the answer; requests count from 1, so that it cannot be taken for another's.
            link.write(|out| out.command(&close_command(self.core.id, 0)));
        }
    }
}

fn close_command(producer_id: u64, request_id: u64) -> Command {
    proto::CommandCloseProducer { producer_id, request_id, ..Default::default() }.into()
}

enum Rejected {
    Full(Box<(Entry, Waiter)>),
    Failed(Error),
}

impl Core {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers with the broker that has the topic, and sends again what has no receipt.
    async fn open(self: &Arc<Self>) -> Result<(), Error> {
        let link = self.pool.link_for(&self.topic).await?;
        link.add_producer(self.id, self)?;
        let patience = match self.options.access {
            // The place may be free after days.
            ProducerAccessMode::WaitForExclusive => Duration::from_secs(u64::from(u32::MAX)),
            _ => self.pool.patience(),
        };
        let opened = link.request("creating the producer", patience, |request_id| self.open_command(request_id)).await;
        match opened {
            Ok(Command::ProducerSuccess(success)) => {
                self.attach(&link, &success);
                if link.is_broken() { Err(Error::lost(&link.address, "it broke while the producer was created")) } else { Ok(()) }
            }
            Ok(other) => {
                link.remove_producer(self.id);
                Err(Error::protocol(&link.address, format!("PRODUCER was answered with {}", other.name())))
            }
            Err(error) => {
                link.remove_producer(self.id);
                if matches!(error, Error::TimedOut { .. }) {
                    link.write(|out| out.command(&close_command(self.id, 0)));
                }
                Err(error)
            }
        }
    }

    fn open_command(&self, request_id: u64) -> Command {
        let state = self.lock();
        proto::CommandProducer {
            topic: self.topic.to_string(),
            producer_id: self.id,
            request_id,
            producer_name: (!state.name.is_empty()).then(|| state.name.to_string()),
            epoch: Some(self.epoch.fetch_add(1, Ordering::Relaxed)),
            user_provided_producer_name: Some(self.options.name.is_some()),
            producer_access_mode: Some(self.options.access.into()),
            topic_epoch: state.topic_epoch,
            initial_subscription_name: self.options.initial_subscription.clone(),
            ..Default::default()
        }
        .into()
    }

    fn attach(&self, link: &Arc<Link>, success: &proto::CommandProducerSuccess) {
        let mut state = self.lock();
        if state.ended.is_some() {
            drop(state);
            link.remove_producer(self.id);
            link.write(|out| out.command(&close_command(self.id, 0)));
            return;
        }
        let is_first = state.link.is_none() && state.pending.is_empty() && state.next_sequence == 0;
        if is_first && self.options.first_sequence.is_none() {
            state.next_sequence = u64::try_from(success.last_sequence_id() + 1).unwrap_or(0);
        }
        state.name = success.producer_name.as_str().into();
        state.topic_epoch = success.topic_epoch;
        state.attachments += 1;
        link.write(|out| {
            for pending in &state.pending {
                if let Some(entry) = &pending.entry {
                    encode::publish(out.publish(), self.id, &state.name, pending.sequence, pending.publish_time, entry);
                }
            }
        });
        state.link = Some(link.clone());
    }

    fn publish(&self, entry: Entry, waiter: Waiter) -> Result<u64, Rejected> {
        let (count, size) = (entry.messages().len(), entry.payload_bytes());
        let mut state = self.lock();
        if let Some(error) = &state.ended {
            return Err(Rejected::Failed(error.clone()));
        }
        if state.pending.len() >= self.options.max_pending {
            return Err(Rejected::Full(Box::new((entry, waiter))));
        }
        let Some(first) = entry.messages().first() else {
            return Err(Rejected::Failed(Error::Closed { what: "the batch", reason: "it has no messages" }));
        };
        let sequence = first.sequence.unwrap_or(state.next_sequence);
        let highest = entry.messages().last().and_then(|message| message.sequence).unwrap_or(sequence + count as u64 - 1);
        let publish_time = now_ms();
        if let Some(link) = &state.link {
            if size > link.max_message_size {
                return Err(Rejected::Failed(Error::TooLarge { size, limit: link.max_message_size }));
            }
            link.write(|out| encode::publish(out.publish(), self.id, &state.name, sequence, publish_time, &entry));
        }
        state.next_sequence = state.next_sequence.max(highest + 1);
        let entry = self.pool.reconnects().then_some(entry);
        state.pending.push_back(Pending { sequence, highest, publish_time, waiter, entry });
        Ok(sequence)
    }

    /// Matches a receipt with the oldest pending message. An error means that the broker answers what was not asked.
    pub(crate) fn receipt(&self, receipt: &SendReceipt) -> Result<(), &'static str> {
        let mut state = self.lock();
        let Some(oldest) = state.pending.front() else { return Ok(()) };
        if receipt.sequence_id < oldest.sequence {
            // Of a message that was sent twice around a reconnect.
            return Ok(());
        }
        if receipt.sequence_id > oldest.sequence {
            return Err("a receipt names a sequence id whose turn has not come");
        }
        // Only one above the sequence id says anything: of a single message, brokers tell none, 0 or -1.
        if let Some(highest) = receipt.highest_sequence_id.map(u64::cast_signed)
            && highest > receipt.sequence_id.cast_signed()
            && highest != oldest.highest.cast_signed()
        {
            return Err("a receipt names another highest sequence id than was sent");
        }
        let id = receipt.message_id.as_ref().map_or(MessageId::EARLIEST, MessageId::from_wire);
        self.settle(&mut state, Ok(id));
        Ok(())
    }

    /// A SEND was answered with an error.
    pub(crate) fn refused(self: &Arc<Self>, refusal: &proto::CommandSendError) {
        let error = Error::Server { request: "publishing", code: refusal.error(), message: refusal.message.as_str().into() };
        let mut state = self.lock();
        if state.pending.front().is_none_or(|oldest| oldest.sequence != refusal.sequence_id) {
            return;
        }
        // Where trying again can help, the whole queue is sent again, so that the order stays.
        if error.is_passing() && self.pool.reconnects() {
            let link = state.link.take();
            drop(state);
            let core = self.clone();
            tokio::spawn(async move { core.start_over(link, error).await });
        } else {
            self.settle(&mut state, Err(error));
        }
    }

    async fn start_over(self: Arc<Self>, link: Option<Arc<Link>>, error: Error) {
        let Some(link) = link else { return };
        let _ = link.request("closing the producer", self.pool.patience(), |request_id| close_command(self.id, request_id)).await;
        if link.remove_producer(self.id).is_some() {
            self.detached(&error);
        }
    }

    fn settle(&self, state: &mut State, outcome: Result<MessageId, Error>) {
        let Some(oldest) = state.pending.pop_front() else { return };
        match oldest.waiter {
            Waiter::One(waiter) => drop(waiter.send(outcome)),
            Waiter::Token(token) => {
                self.options.receipts.push(Receipt { producer: self.options.tag, token, sequence: oldest.sequence, outcome });
            }
        }
        if state.waiting > 0 {
            self.room.notify_one();
        }
        if state.pending.is_empty() {
            self.drained.notify_waiters();
        }
    }

    /// The connection is gone, or the broker closed the producer.
    pub(crate) fn detached(self: &Arc<Self>, error: &Error) {
        let mut state = self.lock();
        state.link = None;
        if state.ended.is_some() || state.recovering {
            return;
        }
        if self.pool.reconnects() && reconnect::can_help(error) {
            state.recovering = true;
            drop(state);
            tokio::spawn(Self::recover(Arc::downgrade(self), error.clone()));
        } else {
            self.fail(&mut state, error);
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
            core.fail(&mut core.lock(), &attempts.into_error());
        }
    }

    fn fail(&self, state: &mut State, error: &Error) {
        state.ended = Some(error.clone());
        while !state.pending.is_empty() {
            self.settle(state, Err(error.clone()));
        }
        self.room.notify_waiters();
        self.drained.notify_waiters();
    }

    /// This end closes. Returns the connection if the broker must be told.
    fn end(&self, why: &Error) -> Option<Arc<Link>> {
        let mut state = self.lock();
        if state.ended.is_none() {
            self.fail(&mut state, why);
        }
        state.link.take()
    }

    async fn room(&self) {
        let room = self.room.notified();
        tokio::pin!(room);
        {
            let mut state = self.lock();
            if state.ended.is_some() || state.pending.len() < self.options.max_pending {
                return;
            }
            state.waiting += 1;
            room.as_mut().enable();
        }
        let _waiting = Waiting(self);
        room.await;
    }

    async fn flush(&self) {
        let drained = self.drained.notified();
        tokio::pin!(drained);
        {
            let state = self.lock();
            if state.pending.is_empty() {
                return;
            }
            drained.as_mut().enable();
        }
        drained.await;
    }
}

/// Counts a waiter out, also when its future is dropped.
struct Waiting<'a>(&'a Core);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
