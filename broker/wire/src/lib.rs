//! Pulsar's frames, commands, names and ids, as bytes and as types.

mod command;
pub mod features;
mod field;
mod frame;
mod generated_hot;
pub mod hash;
mod hot;
mod ids;
pub mod names;
pub mod payload;
pub mod proto;
mod required;

pub use command::{Command, DecodeError, type_name};
pub use frame::{
    DEFAULT_MAX_MESSAGE_SIZE, Delivery, FRAME_PADDING, Frame, FrameDecoder, FrameError, Receipt, encode_message_header, encode_receipt,
    encode_send,
};
pub use hot::{Ack, AckIds, Flow, Message, Send, SendReceipt};
pub use ids::{MessageId, NO_REQUEST, TxnId};
pub use names::{BundleRange, Domain, NamespaceName, NamespaceNameError, SubscriptionName, TopicName, TopicNameError};
pub use proto::{AckType, CompressionType, InitialPosition, KeySharedMode, ProducerAccessMode, ServerError, SubscriptionType};
