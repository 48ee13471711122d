//! Limits of the HTTP side.

use std::num::NonZeroU32;

use super::amounts::{ByteSize, SizeOr, SizeUnit, bytes, mebibytes};
use super::forms::{Flag, List, Number};
use super::table::settings;

settings! {
    /// Limits of the HTTP side.
    pub struct Http, "HTTP" {
        /// HTTP connections at most; further ones are refused.
        max_connections: NonZeroU32 = "maxHttpServerConnections", Number(NonZeroU32::MIN, NonZeroU32::MAX),
            default const { NonZeroU32::new(2_048).unwrap() };
        /// HTTP requests being answered at the same time at most; further ones get 503.
        max_requests: NonZeroU32 = "maxConcurrentHttpRequests", Number(NonZeroU32::MIN, NonZeroU32::MAX),
            default const { NonZeroU32::new(1_024).unwrap() };
        /// Largest request body.
        max_body: Option<ByteSize> = "httpMaxRequestSize", SizeOr(SizeUnit::Bytes, "1 MiB"), default None, pulsar "-1, without limit";
        /// Largest request head.
        max_head: ByteSize = "httpMaxRequestHeaderSize", bytes(1_024, 1 << 20), default ByteSize::kib(8);
        /// Whether every call over HTTP that changes something is refused: for brokers that are administered by files and by nothing else.
        read_only: bool = "adminReadOnly", Flag, default false;
        /// Whether it is written down who changed what over HTTP, and who was turned away: in `audit` below the data directory.
        audit: bool = "auditLogEnabled", Flag, default true;
        /// Size of one of the two files that keep it; when the newer is full, the older goes.
        audit_size: ByteSize = "auditLogMaxSizeMB", mebibytes(1), default ByteSize::mib(32);
        /// Fields of messages whose values are not shown to those who look at messages over HTTP.
        masked_fields: Vec<String> = "messageBrowseMaskedFields", List, default Vec::new();
    }
}
