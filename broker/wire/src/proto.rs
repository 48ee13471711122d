//! The generated types of `proto/pulsar.proto`, and the names that the protocol gives its numbers.
//!
//! A generated type by itself reads a missing required field as zero or empty; [`crate::Command::decode`] refuses it.

#[allow(missing_docs, reason = "generated; the fields are described in the proto file")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/pulsar.rs"));
}

pub use generated::*;

impl ServerError {
    /// The error as the protocol names it; clients and logs of every language use this spelling.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownError => "UnknownError",
            Self::MetadataError => "MetadataError",
            Self::PersistenceError => "PersistenceError",
            Self::AuthenticationError => "AuthenticationError",
            Self::AuthorizationError => "AuthorizationError",
            Self::ConsumerBusy => "ConsumerBusy",
            Self::ServiceNotReady => "ServiceNotReady",
            Self::ProducerBlockedQuotaExceededError => "ProducerBlockedQuotaExceededError",
            Self::ProducerBlockedQuotaExceededException => "ProducerBlockedQuotaExceededException",
            Self::ChecksumError => "ChecksumError",
            Self::UnsupportedVersionError => "UnsupportedVersionError",
            Self::TopicNotFound => "TopicNotFound",
            Self::SubscriptionNotFound => "SubscriptionNotFound",
            Self::ConsumerNotFound => "ConsumerNotFound",
            Self::TooManyRequests => "TooManyRequests",
            Self::TopicTerminatedError => "TopicTerminatedError",
            Self::ProducerBusy => "ProducerBusy",
            Self::InvalidTopicName => "InvalidTopicName",
            Self::IncompatibleSchema => "IncompatibleSchema",
            Self::ConsumerAssignError => "ConsumerAssignError",
            Self::TransactionCoordinatorNotFound => "TransactionCoordinatorNotFound",
            Self::InvalidTxnStatus => "InvalidTxnStatus",
            Self::NotAllowedError => "NotAllowedError",
            Self::TransactionConflict => "TransactionConflict",
            Self::TransactionNotFound => "TransactionNotFound",
            Self::ProducerFenced => "ProducerFenced",
        }
    }
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl SubscriptionType {
    /// The type as stats and the admin API spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "Exclusive",
            Self::Shared => "Shared",
            Self::Failover => "Failover",
            Self::KeyShared => "Key_Shared",
        }
    }
}

impl std::fmt::Display for SubscriptionType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
