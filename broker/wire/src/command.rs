//! A command and its envelope.
//!
//! The envelope (`BaseCommand`) is a type number and the one body whose field has that number. Every client writes them in this order and
//! nothing else, which is read here directly; for anything else the generated `BaseCommand` takes over, slowly.

use bytes::{Bytes, BytesMut};
use prost::Message as _;

use crate::{
    Ack, Flow, Message, Send, SendReceipt,
    field::{Body, Length, Sink, take_varint},
    hot::Stop,
    proto::{self, BaseCommand},
    required::{Incomplete, check_command},
};

/// Why the bytes of a command are none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not even the envelope could be read.
    #[error("malformed command: {0}")]
    Envelope(prost::DecodeError),
    /// The body of the named command could not be read.
    #[error("malformed {command}: {error}")]
    Body {
        /// The command.
        command: &'static str,
        /// What the decoder says.
        error: prost::DecodeError,
    },
    /// The envelope names a command that it does not hold.
    #[error("{command} without its body")]
    MissingBody {
        /// The command.
        command: &'static str,
    },
    /// A field is missing that the command cannot be without.
    #[error("{command} without {field}")]
    MissingField {
        /// The command.
        command: &'static str,
        /// The field.
        field: &'static str,
    },
    /// It nests deeper than any command, or uses groups, which the protocol has none of.
    #[error("{command} is encoded in a way that is not supported")]
    Unreadable {
        /// The command.
        command: &'static str,
    },
    /// An ACK that is neither individual nor cumulative.
    #[error("ACK of unknown type {0}")]
    AckType(i32),
}

/// Writes everything that differs by command once: variant, type number, name, and the body's field in `BaseCommand`.
macro_rules! commands {
    (
        hot { $($hot:ident $hot_number:literal $hot_name:literal $hot_field:ident;)* }
        empty { $($empty:ident $empty_number:literal $empty_name:literal $empty_field:ident;)* }
        cold { $($cold:ident $cold_number:literal $cold_name:literal $cold_field:ident $cold_body:ident;)* }
    ) => {
        /// A command of the protocol.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "the large ones are the hot ones; a box would cost them an allocation per message")]
        pub enum Command {
            $(#[doc = $hot_name] $hot($hot),)*
            $(#[doc = $empty_name] $empty,)*
            $(#[doc = $cold_name] $cold(Box<proto::$cold_body>),)*
            /// A command this version does not know, by its type number; its body is not kept.
            Unknown(i32),
        }

        impl Command {
            /// The number of its type, which is also the number of its body's field in the envelope.
            pub fn type_number(&self) -> i32 {
                match self {
                    $(Command::$hot(_) => $hot_number,)*
                    $(Command::$empty => $empty_number,)*
                    $(Command::$cold(_) => $cold_number,)*
                    Command::Unknown(number) => *number,
                }
            }

            fn is_hot(&self) -> bool {
                matches!(self, $(Command::$hot(_))|*)
            }

            /// Its name in the protocol, for logs and errors.
            pub fn name(&self) -> &'static str {
                type_name(self.type_number()).unwrap_or("UNKNOWN")
            }

            /// A command of the message road as every client spells it; anything else, and what is malformed, is for
            /// [`decode`](Self::decode).
            pub(crate) fn decode_hot(command: &[u8]) -> Option<Command> {
                let (number, at) = usual_envelope(command)?;
                let body = command.get(at..)?;
                match number {
                    $($hot_number => $hot::decode(body).ok().map(Command::$hot),)*
                    _ => None,
                }
            }

            fn decode_usual(number: i32, at: usize, command: &Bytes) -> Result<Command, Stopped> {
                let body = command.get(at..).unwrap_or_default();
                Ok(match number {
                    $($hot_number => Command::$hot($hot::decode(body)?),)*
                    $($empty_number if body.is_empty() => Command::$empty,)*
                    $($cold_number => Command::$cold(Box::new(proto::$cold_body::decode(command.slice(at..))?)),)*
                    _ => return Err(Stopped::Hot(Stop::Unexpected)),
                })
            }

            fn from_generated(mut base: Box<BaseCommand>) -> Result<Command, DecodeError> {
                Ok(match base.r#type {
                    $($hot_number => Command::$hot(base.$hot_field.take().ok_or(missing($hot_name))?.try_into()?),)*
                    $($empty_number => base.$empty_field.take().map(|_| Command::$empty).ok_or(missing($empty_name))?,)*
                    $($cold_number => Command::$cold(Box::new(base.$cold_field.take().ok_or(missing($cold_name))?)),)*
                    unknown => Command::Unknown(unknown),
                })
            }

            fn write_envelope(&self, out: &mut BytesMut, payload: usize) {
                match self {
                    $(Command::$hot(body) => envelope(out, $hot_number, body, payload),)*
                    $(Command::$empty => envelope(out, $empty_number, &Empty, payload),)*
                    $(Command::$cold(body) => envelope(out, $cold_number, &Generated(&**body), payload),)*
                    Command::Unknown(number) => bare(out, *number, payload),
                }
            }
        }

        $(impl From<proto::$cold_body> for Command {
            fn from(body: proto::$cold_body) -> Command {
                Command::$cold(Box::new(body))
            }
        })*

        $(impl From<$hot> for Command {
            fn from(body: $hot) -> Command {
                Command::$hot(body)
            }
        })*

        /// The protocol's name of a command type, if it is known.
        pub fn type_name(number: i32) -> Option<&'static str> {
            Some(match number {
                $($hot_number => $hot_name,)*
                $($empty_number => $empty_name,)*
                $($cold_number => $cold_name,)*
                _ => return None,
            })
        }
    };
}

commands! {
    hot {
        Send 6 "SEND" send;
        SendReceipt 7 "SEND_RECEIPT" send_receipt;
        Message 9 "MESSAGE" message;
        Ack 10 "ACK" ack;
        Flow 11 "FLOW" flow;
    }
    empty {
        Ping 18 "PING" ping;
        Pong 19 "PONG" pong;
    }
    cold {
        Connect 2 "CONNECT" connect CommandConnect;
        Connected 3 "CONNECTED" connected CommandConnected;
        Subscribe 4 "SUBSCRIBE" subscribe CommandSubscribe;
        Producer 5 "PRODUCER" producer CommandProducer;
        SendError 8 "SEND_ERROR" send_error CommandSendError;
        Unsubscribe 12 "UNSUBSCRIBE" unsubscribe CommandUnsubscribe;
        Success 13 "SUCCESS" success CommandSuccess;
        Error 14 "ERROR" error CommandError;
        CloseProducer 15 "CLOSE_PRODUCER" close_producer CommandCloseProducer;
        CloseConsumer 16 "CLOSE_CONSUMER" close_consumer CommandCloseConsumer;
        ProducerSuccess 17 "PRODUCER_SUCCESS" producer_success CommandProducerSuccess;
        RedeliverUnacknowledgedMessages 20 "REDELIVER_UNACKNOWLEDGED_MESSAGES"
            redeliver_unacknowledged_messages CommandRedeliverUnacknowledgedMessages;
        PartitionedTopicMetadata 21 "PARTITIONED_METADATA" partitioned_metadata CommandPartitionedTopicMetadata;
        PartitionedTopicMetadataResponse 22 "PARTITIONED_METADATA_RESPONSE"
            partitioned_metadata_response CommandPartitionedTopicMetadataResponse;
        LookupTopic 23 "LOOKUP" lookup CommandLookupTopic;
        LookupTopicResponse 24 "LOOKUP_RESPONSE" lookup_response CommandLookupTopicResponse;
        ConsumerStats 25 "CONSUMER_STATS" consumer_stats CommandConsumerStats;
        ConsumerStatsResponse 26 "CONSUMER_STATS_RESPONSE" consumer_stats_response CommandConsumerStatsResponse;
        ReachedEndOfTopic 27 "REACHED_END_OF_TOPIC" reached_end_of_topic CommandReachedEndOfTopic;
        Seek 28 "SEEK" seek CommandSeek;
        GetLastMessageId 29 "GET_LAST_MESSAGE_ID" get_last_message_id CommandGetLastMessageId;
        GetLastMessageIdResponse 30 "GET_LAST_MESSAGE_ID_RESPONSE" get_last_message_id_response CommandGetLastMessageIdResponse;
        ActiveConsumerChange 31 "ACTIVE_CONSUMER_CHANGE" active_consumer_change CommandActiveConsumerChange;
        GetTopicsOfNamespace 32 "GET_TOPICS_OF_NAMESPACE" get_topics_of_namespace CommandGetTopicsOfNamespace;
        GetTopicsOfNamespaceResponse 33 "GET_TOPICS_OF_NAMESPACE_RESPONSE"
            get_topics_of_namespace_response CommandGetTopicsOfNamespaceResponse;
        GetSchema 34 "GET_SCHEMA" get_schema CommandGetSchema;
        GetSchemaResponse 35 "GET_SCHEMA_RESPONSE" get_schema_response CommandGetSchemaResponse;
        AuthChallenge 36 "AUTH_CHALLENGE" auth_challenge CommandAuthChallenge;
        AuthResponse 37 "AUTH_RESPONSE" auth_response CommandAuthResponse;
        AckResponse 38 "ACK_RESPONSE" ack_response CommandAckResponse;
        GetOrCreateSchema 39 "GET_OR_CREATE_SCHEMA" get_or_create_schema CommandGetOrCreateSchema;
        GetOrCreateSchemaResponse 40 "GET_OR_CREATE_SCHEMA_RESPONSE" get_or_create_schema_response CommandGetOrCreateSchemaResponse;
        NewTxn 50 "NEW_TXN" new_txn CommandNewTxn;
        NewTxnResponse 51 "NEW_TXN_RESPONSE" new_txn_response CommandNewTxnResponse;
        AddPartitionToTxn 52 "ADD_PARTITION_TO_TXN" add_partition_to_txn CommandAddPartitionToTxn;
        AddPartitionToTxnResponse 53 "ADD_PARTITION_TO_TXN_RESPONSE" add_partition_to_txn_response CommandAddPartitionToTxnResponse;
        AddSubscriptionToTxn 54 "ADD_SUBSCRIPTION_TO_TXN" add_subscription_to_txn CommandAddSubscriptionToTxn;
        AddSubscriptionToTxnResponse 55 "ADD_SUBSCRIPTION_TO_TXN_RESPONSE"
            add_subscription_to_txn_response CommandAddSubscriptionToTxnResponse;
        EndTxn 56 "END_TXN" end_txn CommandEndTxn;
        EndTxnResponse 57 "END_TXN_RESPONSE" end_txn_response CommandEndTxnResponse;
        EndTxnOnPartition 58 "END_TXN_ON_PARTITION" end_txn_on_partition CommandEndTxnOnPartition;
        EndTxnOnPartitionResponse 59 "END_TXN_ON_PARTITION_RESPONSE" end_txn_on_partition_response CommandEndTxnOnPartitionResponse;
        EndTxnOnSubscription 60 "END_TXN_ON_SUBSCRIPTION" end_txn_on_subscription CommandEndTxnOnSubscription;
        EndTxnOnSubscriptionResponse 61 "END_TXN_ON_SUBSCRIPTION_RESPONSE"
            end_txn_on_subscription_response CommandEndTxnOnSubscriptionResponse;
        TcClientConnectRequest 62 "TC_CLIENT_CONNECT_REQUEST" tc_client_connect_request CommandTcClientConnectRequest;
        TcClientConnectResponse 63 "TC_CLIENT_CONNECT_RESPONSE" tc_client_connect_response CommandTcClientConnectResponse;
        WatchTopicList 64 "WATCH_TOPIC_LIST" watch_topic_list CommandWatchTopicList;
        WatchTopicListSuccess 65 "WATCH_TOPIC_LIST_SUCCESS" watch_topic_list_success CommandWatchTopicListSuccess;
        WatchTopicUpdate 66 "WATCH_TOPIC_UPDATE" watch_topic_update CommandWatchTopicUpdate;
        WatchTopicListClose 67 "WATCH_TOPIC_LIST_CLOSE" watch_topic_list_close CommandWatchTopicListClose;
        TopicMigrated 68 "TOPIC_MIGRATED" topic_migrated CommandTopicMigrated;
    }
}

impl Command {
    /// Reads the bytes of a command, without the sizes around it. `bytes` fields of the result share `command`'s memory.
    pub fn decode(command: Bytes) -> Result<Command, DecodeError> {
        let Some((number, at)) = usual_envelope(&command) else {
            return Self::decode_unusual(command);
        };
        match Self::decode_usual(number, at, &command) {
            // Hot commands have looked for their required fields on the way.
            Ok(decoded) if decoded.is_hot() => Ok(decoded),
            Ok(decoded) => complete(number, &command).map(|()| decoded),
            Err(Stopped::Hot(Stop::Unexpected)) => Self::decode_unusual(command),
            Err(Stopped::Hot(Stop::Missing(field))) => Err(DecodeError::MissingField { command: known_name(number), field }),
            Err(Stopped::Cold(error)) => Err(DecodeError::Body { command: known_name(number), error }),
        }
    }

    #[cold]
    fn decode_unusual(command: Bytes) -> Result<Command, DecodeError> {
        let base = Box::new(BaseCommand::decode(command.clone()).map_err(|error| match usual_envelope(&command) {
            Some((number, _)) if type_name(number).is_some() => DecodeError::Body { command: known_name(number), error },
            _ => DecodeError::Envelope(error),
        })?);
        complete(base.r#type, &command)?;
        Self::from_generated(base)
    }

    /// Appends the whole frame: sizes and command, no payload.
    pub fn encode(&self, out: &mut BytesMut) {
        self.write_envelope(out, 0);
    }

    /// Appends sizes and command of a frame whose payload of `payload` bytes the caller appends after it.
    pub fn encode_before_payload(&self, out: &mut BytesMut, payload: usize) {
        self.write_envelope(out, payload);
    }
}

enum Stopped {
    Hot(Stop),
    Cold(prost::DecodeError),
}

impl From<Stop> for Stopped {
    fn from(stop: Stop) -> Self {
        Stopped::Hot(stop)
    }
}

impl From<prost::DecodeError> for Stopped {
    fn from(error: prost::DecodeError) -> Self {
        Stopped::Cold(error)
    }
}

impl From<std::convert::Infallible> for DecodeError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

fn complete(number: i32, command: &[u8]) -> Result<(), DecodeError> {
    check_command(command).map_err(|incomplete| match (incomplete, known_name(number)) {
        (Incomplete::Missing(field), command) => DecodeError::MissingField { command, field },
        (Incomplete::Unreadable, command) => DecodeError::Unreadable { command },
    })
}

fn missing(command: &'static str) -> DecodeError {
    DecodeError::MissingBody { command }
}

fn known_name(number: i32) -> &'static str {
    type_name(number).unwrap_or("UNKNOWN")
}

/// The type number and where its body begins, if the envelope is the type, then exactly its body.
fn usual_envelope(command: &[u8]) -> Option<(i32, usize)> {
    let mut rest = command;
    if take_varint(&mut rest).ok()? != TYPE_TAG {
        return None;
    }
    let number = take_varint(&mut rest).ok()?;
    if take_varint(&mut rest).ok()? != body_tag(number) {
        return None;
    }
    let length = take_varint(&mut rest).ok()?;
    (length == rest.len() as u64).then_some((i32::try_from(number).ok()?, command.len() - rest.len()))
}

pub(crate) const TYPE_TAG: u64 = 1 << 3;

pub(crate) const fn body_tag(number: u64) -> u64 {
    number << 3 | 2
}

/// Writes sizes, type and body. Everything is measured first, so that nothing is moved or patched afterwards.
pub(crate) fn envelope(out: &mut BytesMut, number: u64, body: &impl Body, payload: usize) {
    let body_length = body.length();
    let mut command = Length(body_length);
    head(&mut command, number, body_length);
    sizes(out, command.0, payload);
    head(out, number, body_length);
    body.write(out);
}

/// Writes a type that has no body, which only the commands have that are not known here.
fn bare(out: &mut BytesMut, number: i32, payload: usize) {
    let mut command = Length::default();
    command.i32(1, number);
    sizes(out, command.0, payload);
    out.i32(1, number);
}

fn sizes(out: &mut BytesMut, command: usize, payload: usize) {
    out.reserve(2 * size_of::<u32>() + command);
    out.extend_from_slice(&frame_size(size_of::<u32>() + command + payload).to_be_bytes());
    out.extend_from_slice(&frame_size(command).to_be_bytes());
}

fn head(out: &mut impl Sink, number: u64, body_length: usize) {
    out.varint(1, number);
    out.raw_varint(body_tag(number));
    out.raw_varint(body_length as u64);
}

pub(crate) fn frame_size(size: usize) -> u32 {
    u32::try_from(size).expect("what is sent was checked against the maximum message size, which is an i32")
}

struct Empty;

impl Body for Empty {
    fn fields(&self, _: &mut impl Sink) {}
}

/// A generated body; it measures and writes itself.
struct Generated<'a, M>(&'a M);

impl<M: prost::Message> Body for Generated<'_, M> {
    fn fields(&self, out: &mut impl Sink) {
        out.nested(self.0.encoded_len(), |out| self.0.encode_raw(out));
    }
}
