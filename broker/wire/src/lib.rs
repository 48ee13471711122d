//! Pulsar's frames, commands, names and ids, as bytes and as types.

mod command;
mod field;
mod generated_hot;
mod hot;
mod ids;
mod names;
pub mod proto;

pub use command::{Command, DecodeError, type_name};
pub use hot::{Ack, AckIds, Flow, Message, Send, SendReceipt};
pub use ids::{MessageId, NO_REQUEST, TxnId};
pub use proto::{AckType, CompressionType, InitialPosition, KeySharedMode, ProducerAccessMode, ServerError, SubscriptionType};
/// A full topic name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopicName(String);
