//! Limits of the HTTP side.

use std::num::NonZeroU32;

use super::amounts::{ByteSize, SizeOr, SizeUnit, bytes};
use super::forms::Number;
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
    }
}
