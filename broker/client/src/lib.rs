//! A lean Pulsar client: for the command line, for tests, and for driving hundreds of client identities from a few threads.
//!
//! Every connection is one task, which reads, hands out and writes; what is published or acknowledged before it runs leaves in one write.
//! Nothing else is spawned per message or per producer. Waiting is optional: [`Producer::send`] waits for the receipt, [`Producer::enqueue`]
//! gives a future for it, and [`Producer::try_send`] sends it to a [`Receipts`] that producers may share, as consumers may share an [`Inbox`].
//!
//! It works in tokio's single-threaded and multi-threaded runtimes, and must be used within one.

mod address;
mod backoff;
mod client;
mod connect;
mod consumer;
mod credentials;
mod driver;
mod encode;
mod errors;
mod frames;
mod http;
mod inbox;
mod link;
mod message;
mod metadata;
mod outbox;
mod producer;
pub mod raw;
mod receipts;
mod reconnect;
mod stream;
mod table;
mod tls;

pub use address::ServiceUrl;
pub use client::{Client, Options};
pub use consumer::{Consumer, ConsumerOptions, Start};
pub use credentials::Credentials;
pub use errors::Error;
pub use http::{Answer, Http};
pub use hyper::{HeaderMap as Headers, Method};
pub use inbox::{Inbox, Item};
pub use message::{Key, LastMessage, Message, MessageId, Received, TrySendError};
pub use metadata::Metadata;
pub use producer::{Producer, ProducerOptions, Sending};
pub use receipts::{Receipt, Receipts};
pub use tls::TlsOptions;
pub use wire::{ProducerAccessMode, ServerError, SubscriptionType};
