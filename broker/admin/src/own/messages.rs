//! Looking at messages: read from storage without a subscription, batches unpacked, values shown as the topic's schema says. A question
//! reads so many bytes and takes so long at most, and says where to go on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use metadata::paths::Domain;
use metadata::schemas::{self, Registered};
use prost::Message;
use serde::Serialize;
use serde_json::Value;
use server::stats::TopicStats;
use wire::TopicName;
use wire::payload::{self, SingleMessages};
use wire::proto::{CompressionType, MessageMetadata, SingleMessageMetadata};

use crate::address::{partition, path};
use crate::errors::Refusal;
use crate::reply::Reply;
use crate::request::Call;
use crate::rfc3339;

/// What one question may read, and how long it may take.
const MOST_BYTES: usize = 8 << 20;
const MOST_TIME: Duration = Duration::from_secs(2);
/// Bytes asked of storage at once.
const READ_AT_ONCE: usize = 1 << 20;
const ENTRIES_AT_ONCE: i64 = 200;
const USUAL: usize = 20;
const MOST: usize = 500;
/// More of a value than this is cut.
const MOST_SHOWN: usize = 64 * 1024;
/// A compressed entry may not become larger than this.
const MOST_INFLATED: usize = 32 << 20;

/// A place among a topic's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    ledger: i64,
    entry: i64,
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let (ledger, entry) = text.split_once(':')?;
        // A third part would be the place within a batch.
        let entry = entry.split(':').next()?;
        Some(Self { ledger: ledger.parse().ok()?, entry: entry.parse().ok()? })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.ledger, self.entry)
    }
}

/// What a topic has stored: its ledgers with their entries, in order.
#[derive(Debug)]
struct Stored {
    ledgers: Vec<(i64, i64)>,
}

impl Stored {
    fn of(stats: &TopicStats) -> Self {
        let ledgers = stats.ledgers.iter().map(|(id, entries, _)| (*id, i64::try_from(*entries).unwrap_or(i64::MAX)));
        Self { ledgers: ledgers.filter(|(_, entries)| *entries > 0).collect() }
    }

    fn count(&self) -> i64 {
        self.ledgers.iter().map(|(_, entries)| entries).sum()
    }

    /// The n-th entry.
    fn at(&self, mut n: i64) -> Option<Place> {
        for (ledger, entries) in &self.ledgers {
            if n < *entries {
                return Some(Place { ledger: *ledger, entry: n.max(0) });
            }
            n -= entries;
        }
        None
    }

    /// How many entries are before a place.
    fn before(&self, place: Place) -> i64 {
        let of = |(ledger, entries): &(i64, i64)| match ledger.cmp(&place.ledger) {
            std::cmp::Ordering::Less => *entries,
            std::cmp::Ordering::Equal => place.entry.clamp(0, *entries),
            std::cmp::Ordering::Greater => 0,
        };
        self.ledgers.iter().map(of).sum()
    }
}

/// A message as it is shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_index: Option<u32>,
    publish_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_time: Option<String>,
    producer: String,
    sequence_id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_version: Option<i64>,
    size: usize,
    /// `json`, `text`, `base64`, or why the value is not shown.
    encoding: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    topic: String,
    messages: Vec<Shown>,
    /// Where to go on, as `from`.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_from: Option<String>,
    entries_read: u64,
    bytes_read: u64,
    /// Whether the question ended because it had read enough, not because it had found enough.
    budget_spent: bool,
}

/// What is asked for.
struct Question {
    limit: usize,
    key: Option<String>,
    contains: Option<String>,
    decode: Decode,
    masked: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Decode {
    Auto,
    Text,
    Base64,
}

/// GET: messages of a topic: `topic`, `from` (earliest, latest, a message id or a time), `limit`, `partition`, `key`, `contains`,
/// `decode` (auto, text or base64).
pub(crate) async fn browse(call: Call) -> Result<Reply, Refusal> {
    let question = Question::read(&call)?;
    let topic = one_topic(&call).await?;
    let stats = call.handle().topic_stats(topic.clone()).await?;
    let stored = Stored::of(&stats);
    let mut search = Search { call: &call, topic: topic.clone(), began: Instant::now(), bytes: 0, entries: 0, schemas: BTreeMap::new() };
    let mut at = search.begin(&stored, call.query.get("from").unwrap_or("latest"), question.limit).await?;
    let mut messages = Vec::new();
    while messages.len() < question.limit && !search.is_spent() {
        let Some(place) = stored.at(at) else { break };
        let read = search.read(&stored, place).await?;
        if read.is_empty() {
            // Deleted a moment ago: behind it there may be more.
            at = at.max(0) + 1;
            continue;
        }
        for (entry, bytes) in read {
            at += 1;
            let place = Place { ledger: place.ledger, entry };
            for shown in search.unpack(place, bytes, &question).await? {
                if question.fits(&shown) {
                    messages.push(question.finish(shown));
                }
            }
            if messages.len() >= question.limit || search.is_spent() {
                break;
            }
        }
    }
    let spent = messages.len() < question.limit && search.is_spent();
    let next_from = stored.at(at).map(|place| place.to_string());
    let found = Found {
        topic: topic.to_string(),
        messages,
        next_from,
        entries_read: search.entries,
        bytes_read: search.bytes as u64,
        budget_spent: spent,
    };
    Reply::json(&found)
}

async fn one_topic(call: &Call) -> Result<TopicName, Refusal> {
    let wanted =
        call.query.get("topic").ok_or_else(|| Refusal::bad_request("topic: name the topic, as in persistent://public/default/t"))?;
    let topic: TopicName = wanted.parse().map_err(|error| Refusal::precondition(format!("topic: {error}")))?;
    if !topic.is_persistent() {
        return Err(Refusal::not_allowed("A non-persistent topic stores no messages"));
    }
    let partitions = call.handle().partitions(topic.clone()).await?;
    let asked = call
        .query
        .get("partition")
        .map(|text| text.parse::<u32>().map_err(|_| Refusal::bad_request("partition is a number")))
        .transpose()?;
    match (partitions, asked) {
        (None, _) => Ok(topic),
        (Some(count), None) => {
            Err(Refusal::bad_request(format!("{topic} has {count} partitions: name one with partition=0 to {}", count.saturating_sub(1))))
        }
        (Some(count), Some(n)) if n >= count => Err(Refusal::not_found(format!("{topic} has {count} partitions and no partition {n}"))),
        (Some(_), Some(n)) => partition(&topic, n),
    }
}

impl Question {
    fn read(call: &Call) -> Result<Self, Refusal> {
        let limit = match call.query.get("limit") {
            None => USUAL,
            Some(text) => text
                .parse()
                .ok()
                .filter(|limit| (1..=MOST).contains(limit))
                .ok_or_else(|| Refusal::bad_request(format!("limit is a number from 1 to {MOST}, not {text:?}")))?,
        };
        let decode = match call.query.get("decode").unwrap_or("auto") {
            "auto" => Decode::Auto,
            "text" => Decode::Text,
            "base64" => Decode::Base64,
            other => return Err(Refusal::bad_request(format!("decode is auto, text or base64, not {other:?}"))),
        };
        let owned = |name: &str| call.query.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
        Ok(Self { limit, key: owned("key"), contains: owned("contains"), decode, masked: call.options().masked_fields.clone() })
    }

    fn fits(&self, (shown, value): &(Shown, Bytes)) -> bool {
        let contained = |text: &String| value.windows(text.len()).any(|window| window == text.as_bytes());
        self.key.as_ref().is_none_or(|key| shown.key.as_ref() == Some(key)) && self.contains.as_ref().is_none_or(contained)
    }

    fn finish(&self, (mut shown, _): (Shown, Bytes)) -> Shown {
        if let Some(value) = &mut shown.value {
            mask(value, &self.masked);
        }
        shown
    }
}

/// Hides what is in fields of these names, however deep.
fn mask(value: &mut Value, fields: &[String]) {
    match value {
        Value::Object(all) => {
            for (name, value) in all {
                if fields.iter().any(|field| field.eq_ignore_ascii_case(name)) {
                    *value = Value::String("********".to_owned());
                } else {
                    mask(value, fields);
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|value| mask(value, fields)),
        _ => {}
    }
}

/// A question under way.
struct Search<'c> {
    call: &'c Call,
    topic: TopicName,
    began: Instant,
    bytes: usize,
    entries: u64,
    /// Versions that were looked up; none for those that are not there.
    schemas: BTreeMap<i64, Option<Registered>>,
}

impl Search<'_> {
    fn is_spent(&self) -> bool {
        self.bytes >= MOST_BYTES || self.began.elapsed() >= MOST_TIME
    }

    /// The number of the entry to begin with.
    async fn begin(&mut self, stored: &Stored, from: &str, limit: usize) -> Result<i64, Refusal> {
        match from {
            "earliest" => Ok(0),
            "latest" => Ok((stored.count() - i64::try_from(limit).unwrap_or(0)).max(0)),
            other => match (Place::parse(other), time(other)) {
                (_, Some(ms)) => self.published_at(stored, ms).await,
                (Some(place), None) => Ok(stored.before(place)),
                (None, None) => Err(Refusal::bad_request(format!(
                    "from is earliest, latest, a message id like 12:3, or a time like 2026-01-05T10:00:00Z, not {other:?}"
                ))),
            },
        }
    }

    /// The first entry published then or later; publish times only go up, as far as clocks do.
    async fn published_at(&mut self, stored: &Stored, ms: u64) -> Result<i64, Refusal> {
        let (mut low, mut high) = (0, stored.count());
        while low < high && !self.is_spent() {
            let middle = low + (high - low) / 2;
            let Some(place) = stored.at(middle) else { break };
            let read = self.read_some(place, place.entry, 1).await?;
            let published = read.first().and_then(|(_, bytes)| MessageMetadata::decode(payload::parts(bytes).ok()?.metadata).ok());
            match published {
                Some(metadata) if metadata.publish_time < ms => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    async fn read(&mut self, stored: &Stored, place: Place) -> Result<Vec<(i64, Bytes)>, Refusal> {
        let entries = stored.ledgers.iter().find(|(ledger, _)| *ledger == place.ledger).map_or(0, |(_, entries)| *entries);
        let last = (entries - 1).min(place.entry.saturating_add(ENTRIES_AT_ONCE - 1));
        self.read_some(place, last, READ_AT_ONCE).await
    }

    async fn read_some(&mut self, place: Place, last: i64, max_bytes: usize) -> Result<Vec<(i64, Bytes)>, Refusal> {
        let read = self.call.handle().entries(place.ledger, place.entry..=last, max_bytes).await?;
        self.bytes += read.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        self.entries += read.len() as u64;
        Ok(read)
    }

    /// The messages of an entry.
    async fn unpack(&mut self, place: Place, bytes: Bytes, question: &Question) -> Result<Vec<(Shown, Bytes)>, Refusal> {
        let Ok(parts) = payload::parts(&bytes) else { return Ok(Vec::new()) };
        let Ok(metadata) = MessageMetadata::decode(parts.metadata) else { return Ok(Vec::new()) };
        let message = bytes.slice_ref(parts.message);
        let schema = self.schema(&metadata).await?;
        let shown = |single: Option<(u32, &SingleMessageMetadata)>, value: Result<&Bytes, &'static str>| {
            let mut shown = describe(place, &metadata, single);
            shown.schema_version = schema.as_ref().map(|schema| schema.version);
            show(&mut shown, value, schema.as_ref(), question.decode);
            (shown, value.cloned().unwrap_or_default())
        };
        let value = match readable(&metadata, message) {
            Ok(value) => value,
            Err(why) => return Ok(vec![shown(None, Err(why))]),
        };
        match metadata.num_messages_in_batch {
            Some(count) => {
                let singles = SingleMessages::new(value, u32::try_from(count).unwrap_or(0)).enumerate();
                let unpacked = singles.map_while(|(n, single)| {
                    let (single, value) = single.ok()?;
                    Some(shown(Some((u32::try_from(n).unwrap_or(u32::MAX), &single)), Ok(&value)))
                });
                Ok(unpacked.collect())
            }
            None => Ok(vec![shown(None, Ok(&value))]),
        }
    }

    async fn schema(&mut self, metadata: &MessageMetadata) -> Result<Option<Registered>, Refusal> {
        let Some(version) =
            metadata.schema_version.as_ref().and_then(|bytes| Some(i64::from_be_bytes(<[u8; 8]>::try_from(&bytes[..]).ok()?)))
        else {
            return Ok(None);
        };
        if let Some(known) = self.schemas.get(&version) {
            return Ok(known.clone());
        }
        let whole = self.topic.partitioned();
        let found = self
            .call
            .handle()
            .control(move |m| schemas::get(m, path(&whole.namespace()).topic(Domain::Persistent, whole.local()), Some(version)));
        let found = found.await?.ok().flatten();
        self.schemas.insert(version, found.clone());
        Ok(found)
    }
}

/// The bytes of an entry as its producer had them, or why they cannot be shown.
fn readable(metadata: &MessageMetadata, message: Bytes) -> Result<Bytes, &'static str> {
    if !metadata.encryption_keys.is_empty() {
        return Err("encrypted");
    }
    if metadata.chunk_id.is_some() && metadata.num_chunks_from_msg.is_some_and(|chunks| chunks > 1) {
        return Err("chunk");
    }
    match metadata.compression() {
        CompressionType::None => Ok(message),
        kind => {
            let inflated = payload::decompress(kind.into(), &message, metadata.uncompressed_size(), MOST_INFLATED);
            inflated.map(Bytes::from).map_err(|_| "damaged, or too large to be inflated")
        }
    }
}

fn describe(place: Place, metadata: &MessageMetadata, single: Option<(u32, &SingleMessageMetadata)>) -> Shown {
    let properties = single.map_or(&metadata.properties, |(_, single)| &single.properties);
    let key = single.map_or_else(|| metadata.partition_key.clone(), |(_, single)| single.partition_key.clone());
    let event_time = single.map_or(metadata.event_time, |(_, single)| single.event_time).filter(|ms| *ms > 0);
    Shown {
        id: place.to_string(),
        batch_index: single.map(|(n, _)| n),
        publish_time: rfc3339::from_ms(metadata.publish_time),
        event_time: event_time.map(rfc3339::from_ms),
        producer: metadata.producer_name.clone(),
        sequence_id: single.and_then(|(_, single)| single.sequence_id).unwrap_or(metadata.sequence_id),
        key,
        properties: properties.iter().map(|pair| (pair.key.clone(), pair.value.clone())).collect(),
        schema_version: None,
        size: single.map_or(0, |(_, single)| usize::try_from(single.payload_size).unwrap_or(0)),
        encoding: "base64",
        value: None,
        truncated: false,
    }
}

fn show(shown: &mut Shown, value: Result<&Bytes, &'static str>, schema: Option<&Registered>, decode: Decode) {
    let bytes = match value {
        Ok(bytes) => bytes,
        Err(why) => {
            shown.encoding = why;
            return;
        }
    };
    shown.size = bytes.len();
    if decode == Decode::Auto
        && bytes.len() <= MOST_SHOWN
        && let Some(decoded) = decoded(bytes, schema)
    {
        (shown.encoding, shown.value) = ("json", Some(decoded));
        return;
    }
    let head = bytes.get(..bytes.len().min(MOST_SHOWN)).unwrap_or_default();
    shown.truncated = head.len() < bytes.len();
    let text = match std::str::from_utf8(head) {
        Ok(text) => Some(text),
        // What was cut within a letter is still text.
        Err(error) if shown.truncated && error.error_len().is_none() => {
            head.get(..error.valid_up_to()).and_then(|head| std::str::from_utf8(head).ok())
        }
        Err(_) => None,
    };
    match text
        .filter(|text| decode != Decode::Base64 && (decode == Decode::Text || !text.chars().any(|c| c.is_control() && !c.is_whitespace())))
    {
        Some(text) => (shown.encoding, shown.value) = ("text", Some(text.into())),
        None => shown.value = Some(BASE64_STANDARD.encode(head).into()),
    }
}

/// The value as JSON, if the schema says how, or if it is an object or an array of JSON anyway.
fn decoded(bytes: &[u8], schema: Option<&Registered>) -> Option<Value> {
    match schema {
        Some(registered) => schemas::decode(&registered.schema, bytes).ok(),
        None if bytes.trim_ascii_start().starts_with(b"{") || bytes.trim_ascii_start().starts_with(b"[") => {
            serde_json::from_slice(bytes).ok()
        }
        None => None,
    }
}

/// Milliseconds since the epoch: of `2026-01-05T10:00:00Z`, or as a number.
fn time(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| rfc3339::to_ms(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_across_ledgers() {
        let stored = Stored { ledgers: vec![(3, 2), (7, 5)] };
        assert_eq!(stored.count(), 7);
        assert_eq!(stored.at(1), Some(Place { ledger: 3, entry: 1 }));
        assert_eq!(stored.at(2), Some(Place { ledger: 7, entry: 0 }));
        assert_eq!(stored.at(7), None);
        for n in 0..7 {
            assert_eq!(stored.before(stored.at(n).unwrap()), n);
        }
        assert_eq!(stored.before(Place { ledger: 5, entry: 0 }), 2, "between two ledgers");
        assert_eq!(stored.before(Place { ledger: i64::MAX, entry: i64::MAX }), 7);
        assert_eq!(Stored { ledgers: Vec::new() }.at(0), None);
    }

    #[test]
    fn what_shall_not_be_seen_is_hidden_however_deep() {
        let mut value = serde_json::json!({"a": 1, "PIN": 2, "b": [{"pin": {"c": 3}}]});
        mask(&mut value, &["pin".to_owned()]);
        assert_eq!(value, serde_json::json!({"a": 1, "PIN": "********", "b": [{"pin": "********"}]}));
    }

    #[test]
    fn values_are_shown_as_what_they_are() {
        let shown_as = |bytes: &'static [u8], decode| {
            let mut shown = describe(Place { ledger: 1, entry: 2 }, &MessageMetadata::default(), None);
            show(&mut shown, Ok(&Bytes::from_static(bytes)), None, decode);
            (shown.encoding, shown.value.unwrap())
        };
        assert_eq!(shown_as(b"{\"a\":1}", Decode::Auto), ("json", serde_json::json!({"a": 1})));
        assert_eq!(shown_as(b"{\"a\":1}", Decode::Text), ("text", "{\"a\":1}".into()));
        assert_eq!(shown_as(b"{not json", Decode::Auto), ("text", "{not json".into()));
        assert_eq!(shown_as(b"\xff\x00", Decode::Auto), ("base64", "/wA=".into()));
        assert_eq!(shown_as(b"text", Decode::Base64), ("base64", "dGV4dA==".into()));
    }

    #[test]
    fn a_place_may_name_a_message_of_a_batch_and_nothing_strange() {
        assert_eq!(Place::parse("12:3"), Some(Place { ledger: 12, entry: 3 }));
        assert_eq!(Place::parse("12:3:4"), Some(Place { ledger: 12, entry: 3 }));
        for strange in ["", "12", "a:b", ":", "12:"] {
            assert_eq!(Place::parse(strange), None, "{strange}");
        }
    }
}
