//! One worker's shares of what all may hold together, worked out once instead of per message.

use crate::settings::ServerSettings;

/// Of a connection when the out buffers of its worker hold their share.
const SCARCE_OUT_BYTES: usize = 16 * 1024;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    /// Bytes of publishes that the worker's connections may have waiting. Never nothing: a single message is always let through, however
    /// large, and what was stopped for it goes on when it is answered.
    pub(crate) publish_bytes: usize,
    out_held: usize,
    out_bytes: usize,
}

impl Shares {
    pub(crate) fn of(settings: &ServerSettings) -> Shares {
        Shares {
            publish_bytes: settings.share(settings.publish_buffer_bytes).max(1),
            out_held: settings.share(settings.out_buffers_bytes),
            out_bytes: settings.out_buffer_bytes,
        }
    }

    /// Bytes that a connection may hold before its consumers get nothing more, when its worker's connections hold `held` in all.
    pub(crate) fn out_limit(&self, held: usize) -> usize {
        if held < self.out_held { self.out_bytes } else { self.out_bytes.min(SCARCE_OUT_BYTES) }
    }
}
