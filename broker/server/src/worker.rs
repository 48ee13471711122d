//! One event loop: what it owns, and the turn it takes over it.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use ledger::{EntryCache, StoreHealth};
use topic::{Effects, Now};
use wire::TopicName;

use crate::callers::Callers;
use crate::catch_up::{self, CatchUp};
use crate::clock::Clock;
use crate::connection::{self, Connection};
use crate::gather::Gather;
use crate::hosting::{Hosted, Named};
use crate::letter::{Letter, TopicRef};
use crate::listener::Speaks;
use crate::lull::Lulls;
use crate::metrics::WorkerStats;
use crate::patience::Patience;
use crate::period::{Period, thread_cpu};
use crate::settings::ServerSettings;
use crate::shared::Shared;
use crate::shares::Shares;
use crate::slots::Slots;
use crate::storage::Storage;
use crate::timers::Timers;
use crate::tls::Handshakes;

/// How often silent connections are looked for, in milliseconds.
const SWEEP_MS: u64 = 1000;

/// See the module. Nothing in here is shared with another thread but what [`Shared`] holds.
pub(crate) struct Worker {
    pub(crate) index: u16,
    pub(crate) shared: Arc<Shared>,
    /// Settings in force.
    pub(crate) settings: Arc<ServerSettings>,
    pub(crate) now: Now,
    clock: Clock,
    pub(crate) connections: Slots<Connection>,
    pub(crate) topics: Slots<Hosted>,
    pub(crate) names: HashMap<TopicName, Named>,
    pub(crate) cache: EntryCache,
    pub(crate) effects: Effects,
    pub(crate) storage: Storage,
    pub(crate) timers: Timers,
    /// The admin API, waiting for topics.
    pub(crate) callers: Callers,
    /// Topics that something happened to in this turn.
    pub(crate) touched: Vec<TopicRef>,
    /// Those of them whose consumers are to be served.
    pub(crate) unserved: Vec<TopicRef>,
    /// Letters of this turn to this worker.
    pub(crate) local: VecDeque<Letter>,
    /// Letters that may wait.
    pub(crate) patience: Patience,
    /// Answers of storage that wait.
    pub(crate) catch_up: CatchUp,
    /// Letters of this turn to the others.
    pub(crate) outboxes: Vec<Vec<Letter>>,
    /// Connections with something to send.
    pub(crate) dirty: Vec<(u32, u32)>,
    /// Connections that stopped reading because the publish budget was spent.
    pub(crate) paused: Vec<(u32, u32)>,
    pub(crate) shares: Shares,
    /// Bytes of publishes accepted by this worker's connections and not answered.
    pub(crate) publish_bytes: usize,
    /// Bytes of those publishes that topics hold back.
    pub(crate) held_publishes: usize,
    /// Bytes that the out buffers held when they were last written.
    pub(crate) out_held: usize,
    /// Unacked messages that consumers of this worker's topics hold; only counted if there is a limit on those of all.
    pub(crate) held: u64,
    /// The same when it was last told to the others.
    pub(crate) weighed: u64,
    pub(crate) store_health: StoreHealth,
    pub(crate) gather: Gather,
    pub(crate) lulls: Lulls,
    next_sweep: Option<u64>,
    pub(crate) period: Period,
    letters: Vec<Letter>,
    due: Vec<(u64, u32, u32)>,
    stopped: bool,
    pub(crate) signal: Rc<TurnSignal>,
    pub(crate) handshakes: Rc<Handshakes>,
    pub(crate) stats: WorkerStats,
}

/// Asks for a turn from within the loop: no system call, and once until the turn begins.
#[derive(Debug, Default)]
pub(crate) struct TurnSignal {
    due: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl TurnSignal {
    pub(crate) fn request(&self) {
        if !self.due.replace(true)
            && let Some(waker) = &*self.waker.borrow()
        {
            waker.wake_by_ref();
        }
    }

    fn set_waker(&self, waker: &Waker) {
        let mut known = self.waker.borrow_mut();
        if known.is_none() {
            *known = Some(waker.clone());
        }
    }
}

impl Worker {
    pub(crate) fn new(index: u16, shared: Arc<Shared>) -> Worker {
        let workers = shared.mailboxes.len();
        let clock = Clock::start();
        let settings = shared.live();
        Worker {
            index,
            now: clock.now(),
            clock,
            connections: Slots::new(),
            topics: Slots::new(),
            names: HashMap::new(),
            cache: EntryCache::new(shared.settings.share(shared.settings.cache_bytes)),
            effects: Effects::new(),
            storage: Storage::default(),
            timers: Timers::default(),
            callers: Callers::new(index),
            touched: Vec::new(),
            unserved: Vec::new(),
            local: VecDeque::new(),
            patience: Patience::default(),
            catch_up: CatchUp::new(Instant::now()),
            outboxes: (0..workers).map(|_| Vec::new()).collect(),
            dirty: Vec::new(),
            paused: Vec::new(),
            shares: Shares::of(&shared.settings),
            publish_bytes: 0,
            held_publishes: 0,
            out_held: 0,
            held: 0,
            weighed: 0,
            store_health: StoreHealth::Ready,
            gather: Gather::new(settings.turn_interval, Instant::now()),
            lulls: Lulls::default(),
            next_sweep: None,
            period: Period::new(shared.settings.stats_interval, shared.settings.stats_delay),
            letters: Vec::new(),
            due: Vec::new(),
            stopped: false,
            signal: Rc::new(TurnSignal::default()),
            handshakes: Rc::default(),
            stats: WorkerStats { worker: index, ..WorkerStats::default() },
            settings,
            shared,
        }
    }

    /// Sends a letter; one to this worker is read in this very turn.
    pub(crate) fn send(&mut self, worker: u16, letter: Letter) {
        if worker == self.index {
            self.gather.count();
            if letter.is_urgent() {
                self.local.push_back(letter);
            } else {
                self.patience.push(letter);
            }
        } else if let Some(outbox) = self.outboxes.get_mut(usize::from(worker)) {
            outbox.push(letter);
        }
    }

    /// When a deadline on this worker's clock is, for the runtime's timer.
    pub(crate) fn clock_instant(&self, monotonic_ms: u64) -> Instant {
        self.clock.instant(monotonic_ms)
    }

    pub(crate) fn refresh_clock(&mut self) {
        self.now = self.clock.now();
    }

    /// Marks a connection as having output; it is written at the end of the turn.
    pub(crate) fn mark_dirty(&mut self, slot: u32, generation: u32) {
        if let Some(connection) = self.connections.get_mut(slot, generation)
            && !connection.dirty
        {
            connection.dirty = true;
            self.dirty.push((slot, generation));
        }
    }

    /// One pass over everything that is waiting. Returns when the next one is due even if nothing happens.
    fn turn(&mut self, me: &Rc<RefCell<Worker>>) -> Option<u64> {
        self.stats.turns += 1;
        self.gather.begin(Instant::now(), &self.shared.bustle, self.index);
        self.refresh_clock();
        self.end_lulls();
        self.read_mailbox(me);
        self.read_local(me);
        self.fire_timers();
        self.sweep();
        self.look_at_growth();
        self.serve(me);
        self.reconsider_giving_way();
        self.read_patient(me);
        self.come_to_rest(me);
        self.read_catch_up(me);
        self.come_to_rest(me);
        self.weigh_held();
        self.storage.hand_over(self.index, &self.shared);
        self.flush_connections();
        // Writing may have made room that lets consumers go on; what they get now goes out with the next turn.
        if !self.local.is_empty() || !self.patience.is_empty() || !self.dirty.is_empty() {
            self.signal.request();
        }
        self.send_outboxes();
        self.next_reason()
    }

    /// When there is a reason for a turn even if nothing happens, by the clock.
    fn next_reason(&mut self) -> Option<u64> {
        let catch_up = self.catch_up.next(self.now.monotonic_ms);
        let period = [self.period.ends_ms()];
        let due = self.timers.next().into_iter().chain(self.next_sweep).chain(self.patience_ends());
        due.chain(self.lulls.next()).chain(catch_up).chain(period).min()
    }

    /// Reads on until nothing is left to read and the consumers of every topic that something happened to were served.
    fn serve(&mut self, me: &Rc<RefCell<Worker>>) {
        loop {
            self.read_local(me);
            if self.unserved.is_empty() {
                return;
            }
            self.serve_consumers();
        }
    }

    /// The same, until every one of these topics was looked after, too.
    fn come_to_rest(&mut self, me: &Rc<RefCell<Worker>>) {
        loop {
            self.serve(me);
            if self.touched.is_empty() {
                return;
            }
            self.settle_touched();
        }
    }

    fn read_mailbox(&mut self, me: &Rc<RefCell<Worker>>) {
        let mut letters = std::mem::take(&mut self.letters);
        let shared = self.shared.clone();
        if let Some(mailbox) = shared.mailboxes.get(usize::from(self.index)) {
            mailbox.take(&mut letters);
        }
        self.stats.letters += letters.len() as u64;
        for letter in letters.drain(..) {
            self.gather.count();
            if catch_up::may_wait(&letter) {
                self.catch_up.push(letter);
            } else if letter.is_urgent() {
                self.read(letter, me);
                self.read_local(me);
            } else {
                self.patience.push(letter);
            }
        }
        self.letters = letters;
    }

    pub(crate) fn read_local(&mut self, me: &Rc<RefCell<Worker>>) {
        while let Some(letter) = self.local.pop_front() {
            self.read(letter, me);
        }
    }

    pub(crate) fn read(&mut self, letter: Letter, me: &Rc<RefCell<Worker>>) {
        match letter {
            Letter::ToTopic { topic, event } => self.on_topic(topic, event),
            Letter::ToConnection { from, effect } => self.on_connection(from, effect),
            Letter::BlockDone(outcome) => self.block_done(&outcome),
            Letter::SchemaSettled { producer, version } => self.schema_settled(producer, version),
            Letter::LogHasRoom => self.resume_paused(),
            Letter::Answer { to, command } => self.answer(to, &command),
            Letter::Open { name, opener } => self.open(name, opener),
            Letter::Loaded { name, outcome } => self.loaded(&name, *outcome),
            Letter::Accepted(accepted) => connection::begin(self, me, accepted),
            Letter::Judgement(call) | Letter::Call(call) => call(self),
        }
    }

    /// Ends the loop after this turn.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Ticks each topic that is due once: one that wants to go on at once does so in the next turn, after the sockets had theirs.
    fn fire_timers(&mut self) {
        let mut due = std::mem::take(&mut self.due);
        while let Some(topic) = self.timers.due(self.now.monotonic_ms) {
            due.push(topic);
        }
        for (at, slot, generation) in due.drain(..) {
            self.tick_topic(at, slot, generation);
        }
        self.due = due;
    }

    fn send_outboxes(&mut self) {
        for (mailbox, outbox) in self.shared.mailboxes.iter().zip(&mut self.outboxes) {
            if outbox.is_empty() {
                continue;
            }
            self.stats.letters_sent += outbox.len() as u64;
            self.stats.batches_sent += 1;
            mailbox.post_all(outbox);
        }
    }

    fn sweep(&mut self) {
        // A disk that is full must be asked whether it has space again even when nobody is connected.
        if self.connections.len() == 0 && self.store_health == StoreHealth::Ready {
            self.next_sweep = None;
            return;
        }
        let now = self.now.monotonic_ms;
        if self.next_sweep.is_none_or(|at| at <= now) {
            self.next_sweep = Some(now + SWEEP_MS);
            self.check_store();
            self.sweep_connections();
            self.check_proofs();
        }
    }

    /// Counts an ended connection out.
    pub(crate) fn left(&mut self, ip: std::net::IpAddr, speaks: Speaks) {
        self.shared.admission.leave(ip, speaks);
        if let Some(load) = self.shared.loads.get(usize::from(self.index)) {
            load.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A copy of the counters.
    pub(crate) fn counters(&mut self) -> WorkerStats {
        WorkerStats {
            connections: self.shared.loads.get(usize::from(self.index)).map_or(0, |load| load.load(Ordering::Relaxed)) as u64,
            blocks: self.storage.blocks,
            pending_publish_bytes: self.publish_bytes as u64,
            held_publish_bytes: self.held_publishes as u64,
            out_buffer_bytes: self.out_held as u64,
            cache_bytes: self.cache.bytes() as u64,
            topics: self.topics.len() as u64,
            cpu: thread_cpu(),
            busy: self.period.busy(),
            writes: self.period.writes(),
            ..self.stats.clone()
        }
    }
}

/// The worker's main task: a turn whenever there is a reason for one, until the worker is told to stop.
pub(crate) async fn turns(me: Rc<RefCell<Worker>>) {
    let (shared, index, signal) = {
        let worker = me.borrow();
        (worker.shared.clone(), usize::from(worker.index), worker.signal.clone())
    };
    let Some(mailbox) = shared.mailboxes.get(index) else { return };
    let mut timer = std::pin::pin!(tokio::time::sleep(std::time::Duration::ZERO));
    let mut armed: Option<u64> = None;
    loop {
        mailbox.awake();
        signal.due.set(false);
        let next = me.borrow_mut().turn(&me);
        if me.borrow().stopped {
            return;
        }
        if signal.due.get() || next.is_some_and(|at| at <= me.borrow().now.monotonic_ms) {
            // More to do: let the sockets have their say first.
            tokio::task::yield_now().await;
            continue;
        }
        if !me.borrow().gather.is_steady() {
            poll_fn(|cx| {
                mailbox.set_waker(cx.waker());
                signal.set_waker(cx.waker());
                if signal.due.get() || is_time(&me, next, timer.as_mut(), &mut armed, cx) || !mailbox.sleep() {
                    return Poll::Ready(());
                }
                me.borrow_mut().stats.sleeps += 1;
                Poll::Pending
            })
            .await;
        }
        let rest = me.borrow().gather.rest(Instant::now());
        if let Some(rest) = rest {
            // Nobody needs to wake the loop while it rests.
            mailbox.awake();
            me.borrow_mut().stats.sleeps += 1;
            std::thread::sleep(rest);
        }
        // What became readable meanwhile is read before the turn.
        if rest.is_some() || me.borrow().gather.is_steady() {
            tokio::task::yield_now().await;
        }
    }
}

/// Whether the next deadline has come; if not, the task is woken when it does.
fn is_time(
    me: &RefCell<Worker>,
    next: Option<u64>,
    mut timer: Pin<&mut tokio::time::Sleep>,
    armed: &mut Option<u64>,
    cx: &mut Context<'_>,
) -> bool {
    let Some(at) = next else { return false };
    if *armed != Some(at) {
        *armed = Some(at);
        let instant = me.borrow().clock_instant(at);
        timer.as_mut().reset(instant.into());
    }
    let is_time = timer.poll(cx).is_ready();
    if is_time {
        *armed = None;
    }
    is_time
}
