//! Pulsar's frames, commands, names and ids, as bytes and as types.
//!
//! Bytes come in through [`FrameDecoder`], which gives a [`Command`] and the payload beside it; [`payload`] looks into that. What a message needs on
//! its way is decoded and encoded directly and allocates nothing after warm-up; everything else goes through the generated types of [`proto`].
//! Nothing here waits, reads a clock or knows a file, and no bytes make it panic.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "the input is a stranger's"))]

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
mod short;

pub use command::{Command, DecodeError, type_name};
pub use frame::{
    DEFAULT_MAX_MESSAGE_SIZE, Delivery, FRAME_PADDING, Frame, FrameDecoder, FrameError, Receipt, encode_message_header, encode_receipt,
    encode_send,
};
pub use hot::{Ack, AckIds, Flow, Message, Send, SendReceipt};
pub use ids::{MessageId, NO_REQUEST, TxnId};
pub use names::{BundleRange, Domain, NamespaceName, NamespaceNameError, SubscriptionName, TopicName, TopicNameError};
pub use proto::{AckType, CompressionType, InitialPosition, KeySharedMode, ProducerAccessMode, ServerError, SubscriptionType};
