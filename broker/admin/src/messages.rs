//! Single messages: peeked at, found by id, counted from either end; and where the first one since a time is.
//!
//! The body is the message as it was before it was compressed; of a batch all of it, each message with its metadata in front. What is
//! encrypted stays so. What else is known of it stands in headers, spelt as Pulsar spells them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{HeaderName, HeaderValue};
use server::{Position, WhichEntry};
use wire::payload;
use wire::proto::{CompressionType, MessageMetadata};

use crate::errors::Refusal;
use crate::json::MessageIdJson;
use crate::reply::Reply;
use crate::request::Call;
use crate::rfc3339;
use crate::subscriptions::{number, one};

/// A message that is larger than this when unpacked is not shown.
const MOST_BYTES: usize = 64 << 20;

/// GET: the n-th message that a subscription has not acked.
pub(crate) async fn peek(call: Call) -> Result<Reply, Refusal> {
    let topic = one(&call, "Peek messages").await?;
    let n = number(call.param("position"), "the position")?;
    show(&call, topic, WhichEntry::Unacked(call.param("subscription").to_owned(), n.max(1))).await
}

/// GET: the message of this id.
pub(crate) async fn by_id(call: Call) -> Result<Reply, Refusal> {
    let topic = one(&call, "Get message ID").await?;
    let (ledger, entry) = (number(call.param("ledger"), "the ledger id")?, number(call.param("entry"), "the entry id")?);
    let signed = |id: u64| i64::try_from(id).map_err(|_| Refusal::not_found("Message id not found"));
    show(&call, topic, WhichEntry::At(server::position(signed(ledger)?, signed(entry)?))).await
}

/// GET: the n-th message from the first, or back from the last.
pub(crate) async fn examine(call: Call) -> Result<Reply, Refusal> {
    let topic = one(&call, "Examine messages").await?;
    let n = number(call.query.get("messagePosition").unwrap_or("1"), "messagePosition")?;
    let which = match call.query.get("initialPosition").unwrap_or("latest") {
        "latest" => WhichEntry::FromLast(n),
        "earliest" => WhichEntry::FromFirst(n),
        other => return Err(Refusal::precondition(format!("initialPosition is latest or earliest, not {other:?}"))),
    };
    show(&call, topic, which).await
}

/// GET: where the first message is that was published at or after a time.
pub(crate) async fn id_at_time(call: Call) -> Result<Reply, Refusal> {
    let topic = one(&call, "Get message ID by timestamp").await?;
    let time = number(call.param("timestamp"), "the time in milliseconds since the epoch")?;
    let partition_index = partition_index(&topic);
    let at = call.handle().message_at_time(topic, time).await?;
    Reply::json(&MessageIdJson { ledger_id: at.ledger.0, entry_id: at.entry.0, partition_index })
}

pub(crate) fn partition_index(topic: &wire::TopicName) -> i32 {
    topic.partition_index().and_then(|n| i32::try_from(n).ok()).unwrap_or(-1)
}

async fn show(call: &Call, topic: wire::TopicName, which: WhichEntry) -> Result<Reply, Refusal> {
    let partition = topic.partition_index();
    match call.handle().entry(topic, which).await? {
        Some((at, entry)) => shown(at, partition, &entry),
        None => Err(Refusal::not_found("Message not found")),
    }
}

fn shown(at: Position, partition: Option<u32>, entry: &[u8]) -> Result<Reply, Refusal> {
    let unreadable = |error: payload::PayloadError| Refusal::internal(format!("the message at {at} cannot be read: {error}"));
    let metadata = payload::metadata(entry).map_err(unreadable)?;
    let message = payload::parts(entry).map_err(unreadable)?.message;
    let encrypted = !metadata.encryption_keys.is_empty();
    let body = match metadata.compression {
        Some(kind) if !encrypted => payload::decompress(kind, message, metadata.uncompressed_size(), MOST_BYTES).map_err(unreadable)?,
        _ => message.to_vec(),
    };
    let mut headers = Headers::default();
    headers.put(
        "X-Pulsar-Message-ID",
        match partition {
            Some(partition) => format!("{at}:{partition}"),
            None => at.to_string(),
        },
    );
    describe(&metadata, &mut headers);
    if let Some(noted) = payload::broker_entry_metadata(entry).map_err(unreadable)? {
        headers.maybe("X-Pulsar-Broker-Entry-METADATA-timestamp", noted.broker_timestamp.map(rfc3339::from_ms));
        headers.maybe("X-Pulsar-Broker-Entry-METADATA-index", noted.index);
    }
    if metadata.num_messages_in_batch.is_some() {
        headers.put("X-Pulsar-batch-size", body.len());
    }
    Ok(Reply::octets(body, headers.0))
}

/// What a message's metadata says, header by header.
fn describe(metadata: &MessageMetadata, headers: &mut Headers) {
    headers.put("X-Pulsar-producer-name", &metadata.producer_name);
    headers.put("X-Pulsar-sequence-id", metadata.sequence_id);
    headers.put("X-Pulsar-publish-time", rfc3339::from_ms(metadata.publish_time));
    headers.maybe("X-Pulsar-event-time", metadata.event_time.filter(|time| *time > 0).map(rfc3339::from_ms));
    headers.maybe("X-Pulsar-deliver-at-time", metadata.deliver_at_time.and_then(|at| u64::try_from(at).ok()).map(rfc3339::from_ms));
    headers.maybe("X-Pulsar-highest-sequence-id", metadata.highest_sequence_id.filter(|id| *id > 0));
    headers.maybe("X-Pulsar-replicated-from", metadata.replicated_from.as_ref());
    for cluster in &metadata.replicate_to {
        headers.put("X-Pulsar-replicated-to", cluster);
    }
    headers.maybe("X-Pulsar-partition-key", metadata.partition_key.as_ref());
    headers.maybe("X-Pulsar-partition-key-b64-encoded", metadata.partition_key_b64_encoded);
    headers.maybe("X-Pulsar-null-partition-key", metadata.null_partition_key);
    headers.maybe("X-Pulsar-Base64-ordering-key", metadata.ordering_key.as_ref().map(|key| STANDARD.encode(key)));
    headers.maybe("X-Pulsar-compression", metadata.compression.and_then(|kind| CompressionType::try_from(kind).ok()).map(compression_name));
    headers.maybe("X-Pulsar-uncompressed-size", metadata.uncompressed_size);
    headers.maybe("X-Pulsar-encryption-algo", metadata.encryption_algo.as_ref());
    headers.maybe("X-Pulsar-Base64-encryption-param", metadata.encryption_param.as_ref().map(|param| STANDARD.encode(param)));
    for key in &metadata.encryption_keys {
        headers.put("X-Pulsar-Base64-encryption-keys", format!("{}:{}", key.key, STANDARD.encode(&key.value)));
    }
    headers.maybe("X-Pulsar-Base64-schema-version-b64encoded", metadata.schema_version.as_ref().map(|version| STANDARD.encode(version)));
    headers.maybe("X-Pulsar-num-batch-message", metadata.num_messages_in_batch);
    headers.maybe("X-Pulsar-uuid", metadata.uuid.as_ref());
    headers.maybe("X-Pulsar-num-chunks-from-msg", metadata.num_chunks_from_msg);
    headers.maybe("X-Pulsar-total-chunk-msg-size", metadata.total_chunk_msg_size);
    headers.maybe("X-Pulsar-chunk-id", metadata.chunk_id);
    headers.maybe("X-Pulsar-marker-type", metadata.marker_type);
    headers.maybe("X-Pulsar-txnid-least-bits", metadata.txnid_least_bits);
    headers.maybe("X-Pulsar-txnid-most-bits", metadata.txnid_most_bits);
    headers.maybe("X-Pulsar-null-value", metadata.null_value);
    if !metadata.properties.is_empty() {
        let noted: serde_json::Map<String, serde_json::Value> =
            metadata.properties.iter().map(|pair| (pair.key.clone(), pair.value.clone().into())).collect();
        headers.put("X-Pulsar-PROPERTY", ascii(&serde_json::Value::Object(noted).to_string()));
    }
}

fn compression_name(kind: CompressionType) -> &'static str {
    match kind {
        CompressionType::None => "NONE",
        CompressionType::Lz4 => "LZ4",
        CompressionType::Zlib => "ZLIB",
        CompressionType::Zstd => "ZSTD",
        CompressionType::Snappy => "SNAPPY",
    }
}

/// JSON without a character that a header cannot hold.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut units = [0; 2];
    for character in json.chars() {
        if character.is_ascii() {
            out.push(character);
        } else {
            character.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

#[derive(Default)]
struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Headers {
    /// A value that a header cannot hold as it is loses what it cannot hold.
    fn put(&mut self, name: &'static str, value: impl ToString) {
        let value: String = value.to_string().chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value)) {
            self.0.push((name, value));
        }
    }

    fn maybe(&mut self, name: &'static str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_header_cannot_hold_is_escaped_or_replaced() {
        assert_eq!(ascii(r#"{"ä":"😀"}"#), r#"{"\u00e4":"\ud83d\ude00"}"#);
        let mut headers = Headers::default();
        headers.put("X-Pulsar-producer-name", "a\r\nb ö");
        assert_eq!(headers.0[0].1, "a??b ?");
    }
}
