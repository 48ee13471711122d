//! What a connection has read and not yet handed out.

use bytes::BytesMut;
use wire::{Frame, FrameDecoder, FrameError};

/// A read buffer that grows with the traffic: a client may have thousands of connections, most of them quiet.
#[derive(Debug)]
pub(crate) struct Frames {
    decoder: FrameDecoder,
    buffer: BytesMut,
    read_size: usize,
    /// Where the last read began, to see whether it filled its room.
    read_from: usize,
}

const SMALLEST_READ: usize = 2 * 1024;
const LARGEST_READ: usize = 256 * 1024;

impl Frames {
    pub(crate) fn new(max_message_size: usize) -> Self {
        Self { decoder: FrameDecoder::new(max_message_size), buffer: BytesMut::new(), read_size: SMALLEST_READ, read_from: 0 }
    }

    pub(crate) fn limit(&mut self, max_message_size: usize) {
        self.decoder = FrameDecoder::new(max_message_size);
    }

    /// The buffer, with room for the next read.
    pub(crate) fn room(&mut self) -> &mut BytesMut {
        if self.buffer.len() - self.read_from.min(self.buffer.len()) >= self.read_size {
            self.read_size = (self.read_size * 2).min(LARGEST_READ);
        }
        if self.buffer.capacity() - self.buffer.len() < self.read_size / 2 {
            self.buffer.reserve(self.read_size);
        }
        self.read_from = self.buffer.len();
        &mut self.buffer
    }

    /// The next whole frame.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        self.decoder.decode(&mut self.buffer)
    }
}
