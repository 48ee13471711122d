//! Hot commands to and from their generated types: for the slow decoder, and for commands that carry a message id in their body.

use crate::{
    Ack, AckType, Flow, Message, MessageId, Send, SendReceipt, TxnId,
    command::DecodeError,
    proto::{CommandAck, CommandFlow, CommandMessage, CommandSend, CommandSendReceipt, MessageIdData},
};

impl From<MessageIdData> for MessageId {
    fn from(id: MessageIdData) -> Self {
        MessageId {
            ledger: id.ledger_id,
            entry: id.entry_id,
            partition: id.partition,
            batch_index: id.batch_index,
            batch_size: id.batch_size,
            ack_set: unsigned(id.ack_set),
            first_chunk: id.first_chunk_message_id.map(|first| Box::new((*first).into())),
        }
    }
}

impl From<MessageId> for MessageIdData {
    fn from(id: MessageId) -> Self {
        MessageIdData {
            ledger_id: id.ledger,
            entry_id: id.entry,
            partition: id.partition,
            batch_index: id.batch_index,
            ack_set: id.ack_set.into_iter().map(|word| word as i64).collect(),
            batch_size: id.batch_size,
            first_chunk_message_id: id.first_chunk.map(|first| Box::new((*first).into())),
        }
    }
}

impl From<CommandSend> for Send {
    fn from(send: CommandSend) -> Self {
        Send {
            producer_id: send.producer_id,
            sequence_id: send.sequence_id,
            num_messages: send.num_messages,
            txn: TxnId::from_halves(send.txnid_most_bits, send.txnid_least_bits),
            highest_sequence_id: send.highest_sequence_id,
            is_chunk: send.is_chunk,
            marker: send.marker,
            message_id: send.message_id.map(|id| Box::new(id.into())),
        }
    }
}

impl From<CommandSendReceipt> for SendReceipt {
    fn from(receipt: CommandSendReceipt) -> Self {
        SendReceipt {
            producer_id: receipt.producer_id,
            sequence_id: receipt.sequence_id,
            message_id: receipt.message_id.map(Into::into),
            highest_sequence_id: receipt.highest_sequence_id,
        }
    }
}

impl From<CommandMessage> for Message {
    fn from(message: CommandMessage) -> Self {
        Message {
            consumer_id: message.consumer_id,
            message_id: message.message_id.into(),
            redelivery_count: message.redelivery_count,
            ack_set: unsigned(message.ack_set),
            consumer_epoch: message.consumer_epoch,
        }
    }
}

impl TryFrom<CommandAck> for Ack {
    type Error = DecodeError;

    fn try_from(ack: CommandAck) -> Result<Self, DecodeError> {
        Ok(Ack {
            consumer_id: ack.consumer_id,
            ack_type: AckType::try_from(ack.ack_type).map_err(|_| DecodeError::AckType(ack.ack_type))?,
            ids: ack.message_id.into_iter().map(MessageId::from).collect(),
            validation_error: ack.validation_error,
            properties: ack.properties,
            txn: TxnId::from_halves(ack.txnid_most_bits, ack.txnid_least_bits),
            request_id: ack.request_id,
        })
    }
}

impl From<CommandFlow> for Flow {
    fn from(flow: CommandFlow) -> Self {
        Flow { consumer_id: flow.consumer_id, permits: flow.message_permits }
    }
}

fn unsigned(words: Vec<i64>) -> Vec<u64> {
    words.into_iter().map(|word| word as u64).collect()
}
