//! Frames: cut whole ones out of a byte stream, and write those of the message road.
//!
//! A frame is `total size (u32)`, `command size (u32)`, the command, and what is left: the payload. The total size does not count itself.

use bytes::{Buf, Bytes, BytesMut};

use crate::{
    Command, DecodeError, Send,
    command::envelope,
    field::{Body, Sink},
    short::short_envelope,
};

/// How much larger than the largest message a frame may be: room for the command and the message's metadata.
pub const FRAME_PADDING: usize = 10 * 1024;

/// The largest message unless configured otherwise (`maxMessageSize`).
pub const DEFAULT_MAX_MESSAGE_SIZE: usize = 5 * 1024 * 1024;

/// A command and what follows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The command.
    pub command: Command,
    /// Everything after the command; empty for all but SEND and MESSAGE. Shares the memory of the receive buffer.
    pub payload: Bytes,
}

/// Why the stream cannot be read on. Nothing after it can be trusted: close the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Larger than the maximum message size and its padding.
    #[error("frame of {size} bytes is over the limit of {limit} bytes")]
    TooLarge {
        /// Its total size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// Too small to hold even the size of its command.
    #[error("frame of {size} bytes has no command size")]
    TooSmall {
        /// Its total size.
        size: usize,
    },
    /// A command of no bytes.
    #[error("frame with an empty command")]
    EmptyCommand,
    /// The command would end after its frame.
    #[error("command of {command} bytes in a frame with {available} bytes left")]
    CommandTooLong {
        /// The command's size.
        command: usize,
        /// What the frame has left for it.
        available: usize,
    },
    /// The command could not be read.
    #[error(transparent)]
    Command(#[from] DecodeError),
}

/// Cuts frames out of one connection's bytes.
#[derive(Clone, Copy, Debug)]
pub struct FrameDecoder {
    limit: usize,
}

impl FrameDecoder {
    /// For messages up to this size; a frame may be [`FRAME_PADDING`] larger.
    pub const fn new(max_message_size: usize) -> Self {
        Self { limit: max_message_size.saturating_add(FRAME_PADDING) }
    }

    /// The largest total size it accepts.
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// Takes the first whole frame off `received`, or returns `None` and leaves it alone: then [`FrameDecoder::missing`] tells how much to wait
    /// for. The frame is not copied. An oversized frame is refused by its first four bytes.
    pub fn decode(&self, received: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        let Some(size) = self.size_of_next(received)? else {
            return Ok(None);
        };
        if received.len() < SIZE + size {
            return Ok(None);
        }
        let length = received.get(SIZE..).and_then(<[u8]>::first_chunk).map_or(0, |length| u32::from_be_bytes(*length) as usize);
        if length == 0 {
            return Err(FrameError::EmptyCommand);
        }
        let available = size - SIZE;
        let Some(command) = received.get(2 * SIZE..2 * SIZE + available).and_then(|rest| rest.get(..length)) else {
            return Err(FrameError::CommandTooLong { command: length, available });
        };
        // A hot command keeps nothing of its bytes, and most have no payload: then nobody has to share the buffer.
        if let Some(command) = Command::decode_hot(command) {
            received.advance(2 * SIZE + length);
            let payload = if length == available { Bytes::new() } else { received.split_to(available - length).freeze() };
            return Ok(Some(Frame { command, payload }));
        }
        received.advance(2 * SIZE);
        let mut frame = received.split_to(available).freeze();
        let command = Command::decode(frame.split_to(length))?;
        Ok(Some(Frame { command, payload: frame }))
    }

    /// How many bytes, at least, the next frame lacks: what is worth reserving before the next read. Zero when it is whole.
    pub fn missing(&self, received: &[u8]) -> Result<usize, FrameError> {
        let whole = self.size_of_next(received)?.map_or(SIZE, |size| SIZE + size);
        Ok(whole.saturating_sub(received.len()))
    }

    fn size_of_next(&self, received: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some(size) = received.first_chunk().map(|size| u32::from_be_bytes(*size) as usize) else {
            return Ok(None);
        };
        if size > self.limit {
            return Err(FrameError::TooLarge { size, limit: self.limit });
        }
        if size < SIZE {
            return Err(FrameError::TooSmall { size });
        }
        Ok(Some(size))
    }
}

const SIZE: usize = size_of::<u32>();

/// Appends a SEND with its payload.
pub fn encode_send(out: &mut BytesMut, send: &Send, payload: &[u8]) {
    envelope(out, 6, send, payload.len());
    out.extend_from_slice(payload);
}

/// What a delivery says about its payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// The consumer.
    pub consumer_id: u64,
    /// The ledger.
    pub ledger: u64,
    /// The entry in it.
    pub entry: u64,
    /// The topic's index if it is a partition, else −1: not sent.
    pub partition: i32,
    /// How often the entry was delivered before; zero is not sent.
    pub redelivery_count: u32,
    /// Which messages of the batch are still unacked; empty: all.
    pub ack_set: &'a [u64],
    /// The consumer's epoch, if it has one.
    pub consumer_epoch: Option<u64>,
}

/// Appends a MESSAGE up to where its payload of `payload` bytes follows.
pub fn encode_message_header(out: &mut BytesMut, delivery: &Delivery<'_>, payload: usize) {
    short_envelope(out, 9, delivery, payload);
}

/// What a receipt says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// The producer.
    pub producer_id: u64,
    /// The sequence id of the SEND.
    pub sequence_id: u64,
    /// The highest sequence id of the SEND, if it had one.
    pub highest_sequence_id: Option<u64>,
    /// The ledger, `u64::MAX` for a duplicate.
    pub ledger: u64,
    /// The entry, `u64::MAX` for a duplicate.
    pub entry: u64,
    /// The topic's index if it is a partition, else −1: not sent.
    pub partition: i32,
}

/// Appends a SEND_RECEIPT.
pub fn encode_receipt(out: &mut BytesMut, receipt: &Receipt) {
    short_envelope(out, 7, receipt, 0);
}

/// A message id without a batch, borrowed from nowhere.
struct Place {
    ledger: u64,
    entry: u64,
    partition: i32,
}

impl Body for Place {
    fn fields(&self, out: &mut impl Sink) {
        out.varint(1, self.ledger);
        out.varint(2, self.entry);
        if self.partition >= 0 {
            out.i32(3, self.partition);
        }
    }
}

impl Body for Delivery<'_> {
    fn fields(&self, out: &mut impl Sink) {
        out.varint(1, self.consumer_id);
        out.message(2, &Place { ledger: self.ledger, entry: self.entry, partition: self.partition });
        if self.redelivery_count > 0 {
            out.varint(3, u64::from(self.redelivery_count));
        }
        for &word in self.ack_set {
            out.varint(4, word);
        }
        if let Some(epoch) = self.consumer_epoch {
            out.varint(5, epoch);
        }
    }
}

impl Body for Receipt {
    fn fields(&self, out: &mut impl Sink) {
        out.varint(1, self.producer_id);
        out.varint(2, self.sequence_id);
        out.message(3, &Place { ledger: self.ledger, entry: self.entry, partition: self.partition });
        if let Some(highest) = self.highest_sequence_id {
            out.varint(4, highest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AckIds, AckType, Flow, Message, MessageId, SendReceipt};

    fn whole(command: &Command) -> BytesMut {
        let mut out = BytesMut::new();
        command.encode(&mut out);
        out
    }

    #[test]
    fn a_frame_is_cut_whatever_the_boundaries_of_its_reads() {
        let mut stream = BytesMut::new();
        encode_send(&mut stream, &Send { producer_id: 1, sequence_id: 300, ..Send::default() }, b"payload");
        Command::from(Flow { consumer_id: 2, permits: 1000 }).encode(&mut stream);
        for cut in 0..=stream.len() {
            let (first, second) = stream.split_at(cut);
            let decoder = FrameDecoder::new(1024);
            let mut received = BytesMut::from(first);
            let mut frames = Vec::new();
            while let Some(frame) = decoder.decode(&mut received).unwrap() {
                frames.push(frame);
            }
            let missing = decoder.missing(&received).unwrap();
            assert!(missing > 0 && (second.is_empty() || missing <= second.len()));
            received.extend_from_slice(second);
            while let Some(frame) = decoder.decode(&mut received).unwrap() {
                frames.push(frame);
            }
            assert_eq!(frames.len(), 2, "cut at {cut}");
            assert_eq!(frames[0].payload, "payload");
            assert_eq!(frames[1].command, Command::Flow(Flow { consumer_id: 2, permits: 1000 }));
            assert!(received.is_empty() && frames[1].payload.is_empty());
        }
    }

    #[test]
    fn a_payload_shares_the_memory_of_the_receive_buffer() {
        let mut stream = BytesMut::new();
        encode_send(&mut stream, &Send::default(), b"payload");
        let end = stream.as_ptr_range().end;
        let frame = FrameDecoder::new(1024).decode(&mut stream).unwrap().unwrap();
        assert_eq!(frame.payload.as_ptr_range().end, end);
    }

    #[test]
    fn the_limit_is_the_message_size_and_its_padding() {
        let decoder = FrameDecoder::new(1000);
        let mut over = BytesMut::from(&11_241u32.to_be_bytes()[..]);
        assert_eq!(decoder.decode(&mut over), Err(FrameError::TooLarge { size: 11_241, limit: 11_240 }));
        let mut at = BytesMut::from(&11_240u32.to_be_bytes()[..]);
        assert_eq!((decoder.decode(&mut at), decoder.missing(&at)), (Ok(None), Ok(11_240)));
    }

    #[test]
    fn impossible_sizes_are_told_apart() {
        let decode = |bytes: &[u8]| FrameDecoder::new(1000).decode(&mut BytesMut::from(bytes)).unwrap_err();
        assert_eq!(decode(&[0, 0, 0, 3]), FrameError::TooSmall { size: 3 });
        assert_eq!(decode(&[0, 0, 0, 4, 0, 0, 0, 0]), FrameError::EmptyCommand);
        assert_eq!(decode(&[0, 0, 0, 5, 0, 0, 0, 2, 8]), FrameError::CommandTooLong { command: 2, available: 1 });
        assert_eq!(decode(&[0, 0, 0, 5, 255, 255, 255, 255, 8]), FrameError::CommandTooLong { command: u32::MAX as usize, available: 1 });
    }

    #[test]
    fn a_delivery_is_the_message_it_stands_for() {
        let delivery = Delivery {
            consumer_id: 7,
            ledger: 3,
            entry: 300,
            partition: 2,
            redelivery_count: 1,
            ack_set: &[u64::MAX, 1],
            consumer_epoch: Some(4),
        };
        let message = Message {
            consumer_id: 7,
            message_id: MessageId::of_partition(3, 300, 2),
            redelivery_count: Some(1),
            ack_set: vec![u64::MAX, 1],
            consumer_epoch: Some(4),
        };
        let (mut direct, mut by_command) = (BytesMut::new(), BytesMut::new());
        encode_message_header(&mut direct, &delivery, 5);
        Command::from(message).encode_before_payload(&mut by_command, 5);
        assert_eq!(direct, by_command);
        direct.extend_from_slice(b"12345");
        assert_eq!(FrameDecoder::new(0).decode(&mut direct).unwrap().unwrap().payload, "12345");
    }

    #[test]
    fn what_a_delivery_does_not_say_is_not_sent() {
        let mut out = BytesMut::new();
        encode_message_header(&mut out, &Delivery { consumer_id: 1, ledger: 2, entry: 3, partition: -1, ..Delivery::default() }, 0);
        let message = Message { consumer_id: 1, message_id: MessageId::new(2, 3), ..Message::default() };
        assert_eq!(out, whole(&message.into()));
    }

    #[test]
    fn a_receipt_is_the_command_it_stands_for() {
        let mut out = BytesMut::new();
        let duplicate =
            Receipt { producer_id: 1, sequence_id: 5, highest_sequence_id: Some(9), ledger: u64::MAX, entry: u64::MAX, partition: -1 };
        encode_receipt(&mut out, &duplicate);
        let receipt = SendReceipt {
            producer_id: 1,
            sequence_id: 5,
            highest_sequence_id: Some(9),
            message_id: Some(MessageId::new(u64::MAX, u64::MAX)),
        };
        assert_eq!(out, whole(&receipt.into()));
        out.clear();
        encode_receipt(&mut out, &Receipt { partition: 0, highest_sequence_id: None, ..duplicate });
        let Command::SendReceipt(read) = FrameDecoder::new(0).decode(&mut out).unwrap().unwrap().command else { panic!("not a receipt") };
        assert_eq!((read.highest_sequence_id, read.message_id.unwrap().partition), (None, Some(0)));
    }

    #[test]
    fn one_plain_ack_does_not_make_a_list() {
        let ack = crate::Ack {
            consumer_id: 1,
            ack_type: AckType::Individual,
            ids: AckIds::One(MessageId::new(1, 2)),
            validation_error: None,
            properties: Vec::new(),
            txn: None,
            request_id: None,
        };
        let frame = FrameDecoder::new(0).decode(&mut whole(&ack.clone().into())).unwrap().unwrap();
        assert_eq!(frame.command, Command::Ack(ack));
    }
}
