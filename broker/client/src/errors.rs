//! What can go wrong between a client and its broker, and what the caller can do about it.

use std::{io, sync::Arc, time::Duration};

use wire::ServerError;

/// Why a call failed. Cheap to clone: one broken connection is reported to everything that used it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The service URL cannot be used.
    #[error("`{url}` is not a service URL: {reason}")]
    InvalidUrl {
        /// As it was given.
        url: Arc<str>,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The topic's name is none.
    #[error("`{topic}` is not a topic name: {reason}")]
    InvalidTopic {
        /// As it was given.
        topic: Arc<str>,
        /// What is wrong with it.
        reason: Arc<str>,
    },
    /// No connection came about.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// Host and port that were tried.
        address: Arc<str>,
        /// What the system said.
        kind: io::ErrorKind,
        /// The same in words.
        reason: Arc<str>,
    },
    /// No connection over TLS came about: a file cannot be used, or one end does not accept the other.
    #[error("TLS: {reason}")]
    Tls {
        /// What was wrong.
        reason: Arc<str>,
    },
    /// There is nothing to show who this client is.
    #[error("{reason}")]
    Credentials {
        /// What was wrong.
        reason: Arc<str>,
    },
    /// The connection broke, or was never more than half there.
    #[error("connection to {address} lost: {reason}")]
    Disconnected {
        /// Host and port of the other end.
        address: Arc<str>,
        /// What ended it.
        reason: Arc<str>,
    },
    /// The broker answered with an error.
    #[error("{request} was refused with {code:?}: {message}")]
    Server {
        /// What was asked.
        request: &'static str,
        /// The protocol's error number.
        code: ServerError,
        /// The broker's words.
        message: Arc<str>,
    },
    /// No answer came in time.
    #[error("{request} had no answer within {after:?}")]
    TimedOut {
        /// What was asked.
        request: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// The producer, consumer or client had been closed before, by this end or by the broker.
    #[error("{what} is closed: {reason}")]
    Closed {
        /// Which of them.
        what: &'static str,
        /// Who closed it.
        reason: &'static str,
    },
    /// The message is over the limit that the broker announced.
    #[error("a message of {size} bytes is over the broker's limit of {limit} bytes")]
    TooLarge {
        /// Bytes of the payload.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The other end does not speak the protocol as this end knows it.
    #[error("{address} does not speak the protocol: {reason}")]
    Protocol {
        /// Host and port of the other end.
        address: Arc<str>,
        /// What was strange.
        reason: Arc<str>,
    },
}

const TOPIC_NAMES: &str = "Give it as NAME, TENANT/NAMESPACE/NAME or persistent://TENANT/NAMESPACE/NAME.";

impl Error {
    pub(crate) fn connect(address: &Arc<str>, error: &io::Error) -> Self {
        Self::Connect { address: address.clone(), kind: error.kind(), reason: error.to_string().into() }
    }

    pub(crate) fn lost(address: &Arc<str>, reason: impl Into<Arc<str>>) -> Self {
        Self::Disconnected { address: address.clone(), reason: reason.into() }
    }

    pub(crate) fn protocol(address: &Arc<str>, reason: impl Into<Arc<str>>) -> Self {
        Self::Protocol { address: address.clone(), reason: reason.into() }
    }

    /// The broker's error number, when the broker gave one.
    #[must_use]
    pub fn code(&self) -> Option<ServerError> {
        match self {
            Self::Server { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether trying the same again, a little later, can help without anybody changing anything.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Disconnected { .. } | Self::TimedOut { .. } => true,
            Self::Server { code, .. } => matches!(
                code,
                ServerError::ServiceNotReady
                    | ServerError::PersistenceError
                    | ServerError::UnknownError
                    | ServerError::MetadataError
                    | ServerError::TooManyRequests
            ),
            _ => false,
        }
    }

    /// One sentence on what the user can do next, where there is something to say.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::InvalidUrl { .. } => "Give it as pulsar://HOST:PORT; several hosts are separated by commas.",
            Self::InvalidTopic { .. } => TOPIC_NAMES,
            Self::Connect { kind: io::ErrorKind::ConnectionRefused, .. } => {
                "Is the broker running? Start it with `geminga`; the URL it listens on is the last thing it prints."
            }
            Self::Connect { .. } => "Check the host name and port, and that the network lets you through.",
            Self::Tls { .. } => {
                "Is this the broker's TLS port (6651 by default), is the issuer of its certificate in the trust file, and is it for this host?"
            }
            Self::Disconnected { .. } => "Is the broker still running? Its log says why it closed the connection.",
            Self::TimedOut { .. } => "The broker is there but does not answer; look at its log and its load.",
            Self::TooLarge { .. } => "Send smaller messages, or raise maxMessageSize in the broker's configuration.",
            Self::Protocol { .. } => "Is this the broker's binary port (6650 by default) and not its HTTP port?",
            Self::Closed { .. } | Self::Credentials { .. } => return None,
            Self::Server { code, .. } => match code {
                ServerError::ConsumerBusy => {
                    "Another consumer has this subscription. Use another subscription name, or a Shared subscription at both ends."
                }
                ServerError::ProducerBusy => "A producer of this name is connected to the topic. Choose another name.",
                ServerError::ProducerFenced => "Another producer has the topic to itself.",
                ServerError::TopicNotFound => "Check tenant, namespace and topic; create what is missing with the admin API.",
                ServerError::SubscriptionNotFound => "Create the subscription first, or allow automatic creation.",
                ServerError::InvalidTopicName => TOPIC_NAMES,
                ServerError::PersistenceError => "The broker could not store the message; its log says why (is the disk full?).",
                ServerError::AuthenticationError => {
                    "This broker asks who you are: give a token (--token, GEMINGA_TOKEN), a user (--user) or a client certificate."
                }
                ServerError::AuthorizationError => {
                    "The broker knows who you are and does not allow this; an administrator of the tenant can grant it."
                }
                ServerError::ServiceNotReady => "The topic is just being loaded or moved; try again in a moment.",
                _ => return None,
            },
        })
    }
}
