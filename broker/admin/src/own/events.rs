//! What happens, as it happens, to whoever listens (server-sent events): the state of a channel at first, then what it is later. What
//! is told is spelt once for all who listen. A listener that is slow loses what was overtaken meanwhile, is told so, and costs no more
//! memory than its queue.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep, sleep};

use super::clock::now_ms;
use crate::body::Feed;
use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::Call;
use crate::rfc3339;

/// Streams at most, and of one principal (or of one address, where nobody is asked).
pub(crate) const MOST_STREAMS: usize = 64;
const MOST_OF_ONE: usize = 4;
/// Channels of one stream.
const MOST_CHANNELS: usize = 16;
/// Frames that wait for one stream.
const MOST_WAITING: usize = 64;
/// Events that a stream which comes back can catch up on.
const MOST_REMEMBERED: usize = 4_096;
const MOST_REMEMBERED_BYTES: usize = 1 << 20;
/// A stream on which nothing happens shows that it lives.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The channels there are, besides `topic:` and a topic's name. Those of `STATES` have a state; the others only tell.
const STATES: [&str; 3] = ["overview", "connections", "alarms"];
const TELLING: [&str; 2] = ["audit", "ops"];

/// See the module.
pub(crate) struct Events(Mutex<Streams>);

struct Streams {
    /// Tells the runs of a broker apart.
    epoch: String,
    sequence: u64,
    remembered: VecDeque<Told>,
    remembered_bytes: usize,
    open: Vec<Arc<Queue>>,
    /// What each channel with a state was last.
    states: Vec<(String, Value)>,
}

/// Something that was told.
#[derive(Clone)]
struct Told {
    sequence: u64,
    channel: Arc<str>,
    /// Whether a later one of its channel says all that it does.
    overtaken: bool,
    frame: Bytes,
}

/// One stream's side of it.
struct Queue {
    channels: Vec<String>,
    /// Every how many looks it wants to hear of states.
    every: u64,
    owner: String,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    frames: VecDeque<Told>,
    /// Frames that were dropped, by channel, and not told of yet.
    lost: Vec<(Arc<str>, u64)>,
    waker: Option<Waker>,
}

impl Default for Events {
    fn default() -> Self {
        let epoch = format!("{:x}", now_ms());
        let (remembered, open, states) = (VecDeque::new(), Vec::new(), Vec::new());
        Self(Mutex::new(Streams { epoch, sequence: 0, remembered, remembered_bytes: 0, open, states }))
    }
}

impl Events {
    /// Channels with a state that somebody listens to, and so are worth a look.
    pub(crate) fn wanted(&self) -> Vec<String> {
        let mut streams = self.lock();
        let mut wanted: Vec<_> = streams.open.iter().flat_map(|queue| &queue.channels).filter(|c| has_state(c)).cloned().collect();
        wanted.sort();
        wanted.dedup();
        // What nobody listens to is not kept up to date, and so is nothing to begin with.
        streams.states.retain(|(channel, _)| wanted.contains(channel));
        wanted
    }

    /// Tells what a channel is now, at the n-th look.
    pub(crate) fn tell_state(&self, channel: &str, look: u64, state: Value) {
        let mut streams = self.lock();
        let last = streams.states.iter().find(|(known, _)| known == channel);
        // Alarms are told when they change, everything else at each look.
        if channel == "alarms" && last.is_some_and(|(_, last)| *last == state) {
            return;
        }
        let kind = if channel == "alarms" { "alarm" } else { "delta" };
        let told = streams.told(channel, kind, true, &state);
        match streams.states.iter_mut().find(|(known, _)| known == channel) {
            Some((_, last)) => *last = state,
            None => streams.states.push((channel.to_owned(), state)),
        }
        streams.spread(told, |queue| look.is_multiple_of(queue.every));
    }

    /// Tells that something happened.
    pub(crate) fn tell(&self, channel: &str, event: &Value) {
        let mut streams = self.lock();
        let told = streams.told(channel, "event", false, event);
        streams.spread(told, |_| true);
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_state(channel: &str) -> bool {
    STATES.contains(&channel) || channel.starts_with("topic:")
}

impl Streams {
    fn told(&mut self, channel: &str, kind: &str, overtaken: bool, data: &Value) -> Told {
        self.sequence += 1;
        let frame = frame(Some((self.epoch.as_str(), self.sequence)), kind, &with_channel(channel, data));
        Told { sequence: self.sequence, channel: channel.into(), overtaken, frame }
    }

    fn spread(&mut self, told: Told, wants: impl Fn(&Queue) -> bool) {
        for queue in self.open.iter().filter(|queue| queue.hears(&told.channel) && wants(queue)) {
            queue.push(told.clone());
        }
        self.remembered_bytes += told.frame.len();
        self.remembered.push_back(told);
        while self.remembered.len() > MOST_REMEMBERED || self.remembered_bytes > MOST_REMEMBERED_BYTES {
            let Some(oldest) = self.remembered.pop_front() else { return };
            self.remembered_bytes -= oldest.frame.len();
        }
    }

    /// Everything since an event that a stream has seen; none if that is forgotten, or of another run.
    fn since(&self, last: &str) -> Option<Vec<Told>> {
        let (epoch, sequence) = last.rsplit_once('.')?;
        let sequence: u64 = sequence.parse().ok().filter(|_| epoch == self.epoch)?;
        let oldest = self.remembered.front().map_or(self.sequence + 1, |told| told.sequence);
        (sequence + 1 >= oldest && sequence <= self.sequence)
            .then(|| self.remembered.iter().filter(|told| told.sequence > sequence).cloned().collect())
    }

    fn snapshots(&self, channels: &[String]) -> Vec<Told> {
        let of = |channel: &String| {
            let (_, state) = self.states.iter().find(|(known, _)| known == channel)?;
            let frame = frame(Some((self.epoch.as_str(), self.sequence)), "snapshot", &with_channel(channel, state));
            Some(Told { sequence: self.sequence, channel: channel.as_str().into(), overtaken: true, frame })
        };
        channels.iter().filter_map(of).collect()
    }
}

impl Queue {
    fn hears(&self, channel: &str) -> bool {
        self.channels.iter().any(|known| known == channel)
    }

    fn push(&self, told: Told) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // The newest state of a channel says all that an older one does.
        let overtaken = waiting.frames.iter().position(|old| old.overtaken && told.overtaken && old.channel == told.channel);
        let lost = overtaken.or_else(|| (waiting.frames.len() >= MOST_WAITING).then_some(0)).and_then(|at| waiting.frames.remove(at));
        if let Some(lost) = lost {
            match waiting.lost.iter_mut().find(|(channel, _)| *channel == lost.channel) {
                Some((_, count)) => *count += 1,
                None => waiting.lost.push((lost.channel, 1)),
            }
        }
        waiting.frames.push_back(told);
        if let Some(waker) = waiting.waker.take() {
            waker.wake();
        }
    }
}

fn with_channel(channel: &str, data: &Value) -> Value {
    let mut all = serde_json::Map::new();
    all.insert("ch".into(), channel.into());
    all.insert("t".into(), rfc3339::from_ms(now_ms()).into());
    match data {
        Value::Object(fields) => all.extend(fields.clone()),
        other => drop(all.insert("value".into(), other.clone())),
    }
    all.into()
}

fn frame(id: Option<(&str, u64)>, kind: &str, data: &Value) -> Bytes {
    let id = id.map(|(epoch, sequence)| format!("id: {epoch}.{sequence}\n")).unwrap_or_default();
    format!("{id}event: {kind}\ndata: {data}\n\n").into()
}

/// The frames of one stream, for as long as it is read.
struct Stream {
    queue: Arc<Queue>,
    site: Arc<crate::Site>,
    heartbeat: Pin<Box<Sleep>>,
}

impl Feed for Stream {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut waiting = self.queue.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let next = match waiting.lost.pop() {
            Some((channel, dropped)) => Some(frame(None, "lag", &json!({ "ch": &*channel, "dropped": dropped }))),
            None => waiting.frames.pop_front().map(|told| told.frame),
        };
        if next.is_none() {
            waiting.waker = Some(cx.waker().clone());
        }
        drop(waiting);
        if next.is_some() {
            self.heartbeat.as_mut().reset(Instant::now() + HEARTBEAT);
            return Poll::Ready(next);
        }
        if self.heartbeat.as_mut().poll(cx).is_ready() {
            self.heartbeat.as_mut().reset(Instant::now() + HEARTBEAT);
            return Poll::Ready(Some(Bytes::from_static(b": still here\n\n")));
        }
        Poll::Pending
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.site.own.events.lock().open.retain(|queue| !Arc::ptr_eq(queue, &self.queue));
    }
}

/// GET: the channels asked for, until the other side has heard enough.
pub(crate) async fn stream(call: Call) -> Result<Reply, Refusal> {
    let channels = channels(call.query.get("channels").unwrap_or("overview"))?;
    let interval = match call.query.get("intervalMs") {
        None => 1_000,
        Some(text) => text
            .parse()
            .ok()
            .filter(|ms| (1_000..=60_000).contains(ms))
            .ok_or_else(|| Refusal::bad_request(format!("intervalMs is a number from 1000 to 60000, not {text:?}")))?,
    };
    let owner = call.who.as_ref().map_or_else(|| call.peer.ip().to_string(), |who| who.role.to_string());
    let queue = Arc::new(Queue { channels, every: interval / 1_000, owner, waiting: Mutex::default() });
    let last = call.headers.get("last-event-id").and_then(|value| value.to_str().ok()).or_else(|| call.query.get("lastEventId"));
    let mut streams = call.site.own.events.lock();
    if streams.open.len() >= MOST_STREAMS {
        return Err(Refusal::too_many(format!("{MOST_STREAMS} streams of events are open, the most there may be"), 10));
    }
    if streams.open.iter().filter(|open| open.owner == queue.owner).count() >= MOST_OF_ONE {
        return Err(Refusal::too_many(format!("{} has {MOST_OF_ONE} streams of events open, the most there may be", queue.owner), 10));
    }
    let hello = json!({ "epoch": streams.epoch, "intervalMs": queue.every * 1_000, "channels": queue.channels });
    let hello = Told { sequence: 0, channel: "".into(), overtaken: false, frame: frame(None, "hello", &hello) };
    let caught_up = last.and_then(|last| streams.since(last));
    let first = caught_up.unwrap_or_else(|| streams.snapshots(&queue.channels));
    queue.push(hello);
    first.into_iter().filter(|told| queue.hears(&told.channel)).for_each(|told| queue.push(told));
    streams.open.push(queue.clone());
    drop(streams);
    call.site.own.pulse.notify_one();
    Ok(Reply::events(Stream { queue, site: call.site.clone(), heartbeat: Box::pin(sleep(HEARTBEAT)) }))
}

fn channels(text: &str) -> Result<Vec<String>, Refusal> {
    let mut channels: Vec<String> = text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    channels.sort();
    channels.dedup();
    if channels.is_empty() || channels.len() > MOST_CHANNELS {
        return Err(Refusal::bad_request(format!("channels: 1 to {MOST_CHANNELS} of them, not {}", channels.len())));
    }
    match channels.iter().find(|channel| !has_state(channel) && !TELLING.contains(&channel.as_str())) {
        Some(unknown) => Err(Refusal::bad_request(format!(
            "channels: there is no channel {unknown:?}, only {}, {} and topic:<full name>",
            STATES.join(", "),
            TELLING.join(", ")
        ))),
        None => Ok(channels),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(channels: &[&str]) -> Arc<Queue> {
        let channels = channels.iter().map(|&c| c.to_owned()).collect();
        Arc::new(Queue { channels, every: 1, owner: "o".into(), waiting: Mutex::default() })
    }

    fn waiting(queue: &Queue) -> usize {
        queue.waiting.lock().unwrap().frames.len()
    }

    #[test]
    fn a_slow_reader_keeps_the_newest_state_and_is_told_what_it_missed() {
        let (events, slow) = (Events::default(), queue(&["overview", "audit"]));
        events.lock().open.push(slow.clone());
        for n in 0..1_000 {
            events.tell_state("overview", n, json!({ "n": n }));
        }
        assert_eq!(waiting(&slow), 1);
        assert_eq!(slow.waiting.lock().unwrap().lost, [("overview".into(), 999)]);
        for n in 0..1_000 {
            events.tell("audit", &json!({ "n": n }));
        }
        assert_eq!(waiting(&slow), MOST_WAITING, "a queue has a bound");
        let newest = slow.waiting.lock().unwrap().frames.back().unwrap().frame.clone();
        assert!(String::from_utf8_lossy(&newest).contains("\"n\":999"));
    }

    #[test]
    fn a_stream_that_comes_back_gets_what_it_missed_or_the_state() {
        let events = Events::default();
        for n in 0..10 {
            events.tell("audit", &json!({ "n": n }));
        }
        let streams = events.lock();
        let missed = streams.since(&format!("{}.7", streams.epoch)).unwrap();
        assert_eq!(missed.iter().map(|told| told.sequence).collect::<Vec<_>>(), [8, 9, 10]);
        assert!(streams.since("another.7").is_none());
        assert!(streams.since(&format!("{}.11", streams.epoch)).is_none(), "what never was cannot be gone on from");
    }

    #[test]
    fn what_is_remembered_has_a_bound_in_number_and_in_bytes() {
        let events = Events::default();
        let large = "x".repeat(MOST_REMEMBERED_BYTES / 8);
        for n in 0..2 * MOST_REMEMBERED {
            events.tell("audit", &json!({ "n": n }));
        }
        assert!(events.lock().remembered.len() <= MOST_REMEMBERED);
        for _ in 0..20 {
            events.tell("audit", &json!({ "large": large }));
        }
        assert!(events.lock().remembered_bytes <= MOST_REMEMBERED_BYTES);
        let first = format!("{}.1", events.lock().epoch);
        assert!(events.lock().since(&first).is_none(), "too long ago");
    }

    #[test]
    fn alarms_are_told_when_they_change() {
        let (events, reader) = (Events::default(), queue(&["alarms"]));
        events.lock().open.push(reader.clone());
        events.tell_state("alarms", 1, json!([1]));
        events.tell_state("alarms", 2, json!([1]));
        assert_eq!(events.lock().sequence, 1);
        events.tell_state("alarms", 3, json!([]));
        assert_eq!(events.lock().sequence, 2);
        assert_eq!(waiting(&reader), 1);
    }

    #[test]
    fn only_channels_that_there_are_can_be_heard() {
        assert_eq!(channels("overview, audit,overview").unwrap(), ["audit", "overview"]);
        assert_eq!(channels("topic:persistent://a/b/c").unwrap().len(), 1);
        assert!(channels("weather").unwrap_err().reason.contains("weather"));
        assert!(channels("").is_err());
    }
}
