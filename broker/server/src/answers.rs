//! What goes back to a client: the effects of topics, spelt as frames into the connection's out buffer.

use topic::{ConnectionKey, Effect, Reply};
use wire::{Command, Delivery, NO_REQUEST, Receipt, ServerError, proto};

use crate::connection::Connection;
use crate::letter::{Letter, TopicEvent, TopicRef};
use crate::lull;
use crate::route::{self, Welcome};
use crate::worker::Worker;

/// To a request that was overtaken by a close.
const CLOSED_MEANWHILE: &str = "closed before it was attached";

impl Worker {
    /// An effect for a connection of this worker.
    pub(crate) fn on_connection(&mut self, from: TopicRef, effect: Effect) {
        match effect {
            Effect::Receipt { to, sequence, highest_sequence, at, bytes } => {
                let Some(connection) = self.settle(to.connection, bytes) else { return };
                let (ledger, entry) = at.map_or((-1_i64, -1_i64), |at| (at.ledger.0, at.entry.0));
                let partition = connection.producers.get(&to.id).map_or(-1, |route| route.partition);
                let receipt = Receipt {
                    producer_id: to.id,
                    sequence_id: sequence,
                    highest_sequence_id: (highest_sequence > 0).then_some(highest_sequence),
                    ledger: ledger.cast_unsigned(),
                    entry: entry.cast_unsigned(),
                    partition,
                };
                wire::encode_receipt(connection.out.tail(), &receipt);
                self.mark_dirty(to.connection.slot, to.connection.generation);
            }
            Effect::Refused { to, sequence, error, message, bytes } => {
                let Some(_) = self.settle(to.connection, bytes) else { return };
                self.tell_refusal(to.connection, to.id, sequence, error, message);
            }
            Effect::Forgotten { to, bytes } => drop(self.settle(to.connection, bytes)),
            Effect::Held { to, bytes } => self.publish_held(to.connection, bytes),
            Effect::Released { to, bytes } => self.publish_released(to.connection, bytes),
            Effect::Deliver { .. } => self.deliver(effect),
            Effect::Reply { to, reply } => self.reply(from, to, reply),
            _ => {}
        }
    }

    /// A publish was answered: its budget goes back.
    fn settle(&mut self, key: ConnectionKey, bytes: u32) -> Option<&mut Connection> {
        let budget = self.shares.publish_bytes;
        let was_spent = self.publish_bytes >= budget;
        self.publish_bytes = self.publish_bytes.saturating_sub(bytes as usize);
        if was_spent && self.publish_bytes < budget {
            self.resume_paused();
        }
        let connection = self.connections.get_mut(key.slot, key.generation)?;
        connection.pending_publishes = connection.pending_publishes.saturating_sub(1);
        if connection.link.is_paused() {
            self.reconsider_pause(key.slot, key.generation);
        }
        self.connections.get_mut(key.slot, key.generation)
    }

    fn deliver(&mut self, effect: Effect) {
        let Effect::Deliver { to, at, messages, redeliveries, ack_set, epoch, bytes } = effect else { return };
        let limit = self.shares.out_limit(self.out_held);
        let key = to.connection;
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return };
        let Some(route) = connection.consumers.get_mut(&to.id) else { return };
        route.permits -= i64::from(messages);
        if lull::are_few(route.permits) {
            connection.needs_permits = true;
            connection.link.end_lull();
        }
        let partition = route.partition;
        let delivery = Delivery {
            consumer_id: to.id,
            ledger: at.ledger.0.cast_unsigned(),
            entry: at.entry.0.cast_unsigned(),
            partition,
            redelivery_count: redeliveries,
            ack_set: ack_set.as_deref().map_or(&[][..], |set| &set.0),
            consumer_epoch: epoch,
        };
        self.stats.messages_out += u64::from(messages);
        self.stats.bytes_out += bytes.len() as u64;
        wire::encode_message_header(connection.out.tail(), &delivery, bytes.len());
        connection.out.payload(bytes);
        if !connection.stalled && connection.out.len() > limit {
            connection.stalled = true;
            self.set_writable(key.slot, key.generation, false);
        }
        self.mark_dirty(key.slot, key.generation);
    }

    fn reply(&mut self, from: TopicRef, to: ConnectionKey, reply: Reply) {
        if self.callers.is_for(to) {
            return self.callers.answer(reply);
        }
        match reply {
            // Only callers ask for places.
            Reply::Place { .. } => {}
            Reply::EndOfTopic { consumer } => {
                let attached = self.connections.get_mut(to.slot, to.generation).is_some_and(|c| c.consumers.contains_key(&consumer.id));
                if attached {
                    self.tell(to, &proto::CommandReachedEndOfTopic { consumer_id: consumer.id }.into());
                }
            }
            Reply::Success { request } => {
                if let Some(consumer) = self.unsubscribed(to, request)
                    && let Some(connection) = self.connections.get_mut(to.slot, to.generation)
                {
                    connection.consumers.remove(&consumer);
                }
                self.tell_success(to, request);
            }
            Reply::Error { request, error, message } => self.failed(to, request, error, &message),
            Reply::ProducerReady { request, producer, slot, name, last_sequence, topic_epoch } => {
                let success = proto::CommandProducerSuccess {
                    request_id: request,
                    producer_name: name,
                    last_sequence_id: Some(last_sequence),
                    schema_version: None,
                    topic_epoch,
                    producer_ready: Some(true),
                };
                self.producer_ready(from, producer, slot, success);
            }
            Reply::ProducerWaiting { request, producer, name } => self.producer_waiting(from, producer, request, name),
            Reply::ActiveChange { consumer, active } => {
                let attached = self
                    .connections
                    .get_mut(to.slot, to.generation)
                    .is_some_and(|c| c.consumers.get(&consumer.id).is_some_and(|r| r.attached().is_some()));
                if attached {
                    self.tell(to, &proto::CommandActiveConsumerChange { consumer_id: consumer.id, is_active: Some(active) }.into());
                }
            }
            Reply::ConsumerReady { request, consumer, slot } => self.consumer_ready(from, consumer, slot, request),
            Reply::CloseProducer { producer } => {
                // The client may have closed it already and given its id to another, on another topic.
                if let Some(connection) = self.connections.get_mut(to.slot, to.generation)
                    && connection.producers.get(&producer.id).is_some_and(|route| route.leads_to(from))
                {
                    connection.forget_producer(producer.id);
                    self.tell(
                        to,
                        &proto::CommandCloseProducer { producer_id: producer.id, request_id: NO_REQUEST, ..Default::default() }.into(),
                    );
                }
            }
            Reply::CloseConsumer { consumer } => {
                if let Some(connection) = self.connections.get_mut(to.slot, to.generation)
                    && connection.consumers.get(&consumer.id).is_some_and(|route| route.leads_to(from))
                {
                    connection.consumers.remove(&consumer.id);
                    self.tell(
                        to,
                        &proto::CommandCloseConsumer { consumer_id: consumer.id, request_id: NO_REQUEST, ..Default::default() }.into(),
                    );
                }
            }
            Reply::AckDone { request, consumer, error } => self.tell_ack(to, consumer.id, request, error),
            Reply::LastMessageId { request, at, partition, batch_index, mark_delete } => {
                let mut last = message_id(at);
                last.partition = Some(partition);
                last.batch_index = Some(batch_index);
                let response = proto::CommandGetLastMessageIdResponse {
                    last_message_id: last,
                    request_id: request,
                    consumer_mark_delete_position: Some(message_id(mark_delete)),
                };
                self.tell(to, &response.into());
            }
            Reply::ConsumerStats { request, stats } => self.tell(to, &consumer_stats(request, *stats).into()),
        }
    }

    fn producer_ready(
        &mut self,
        from: TopicRef,
        producer: topic::ProducerKey,
        slot: topic::ProducerSlot,
        mut success: proto::CommandProducerSuccess,
    ) {
        let (key, request) = (producer.connection, success.request_id);
        let detach = |request| Letter::ToTopic { topic: from, event: TopicEvent::DetachProducer { key: producer, request } };
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else {
            // The connection went away while its producer was being attached.
            return self.send(from.worker, detach(None));
        };
        success.schema_version = Some(version_of_schema(connection, producer.id));
        let welcome = connection.producers.get_mut(&producer.id).map_or(Welcome::Stranger, |route| route.attach(from, slot));
        if matches!(welcome, Welcome::Closed { .. }) {
            connection.forget_producer(producer.id);
        }
        if self.turned_away("producer", key, request, &welcome, |close| (from.worker, detach(close))) {
            return;
        }
        self.tell(key, &success.into());
    }

    /// What the topic let in is not wanted any more: the request is told why, and the topic to let go of it, by the letter that
    /// `detach` makes of the request to close. False for one that is welcome.
    fn turned_away(
        &mut self,
        what: &str,
        key: ConnectionKey,
        request: u64,
        welcome: &Welcome,
        detach: impl FnOnce(Option<u64>) -> (u16, Letter),
    ) -> bool {
        let close = match welcome {
            Welcome::In => return false,
            Welcome::Closed { close } => Some(*close),
            Welcome::Stranger | Welcome::Elsewhere => None,
        };
        if matches!(welcome, Welcome::Elsewhere) {
            let message = format!("this {what} id is in use for another topic: close it first");
            self.tell_error(key, request, ServerError::NotAllowedError, &message);
        } else {
            self.tell_error(key, request, ServerError::ServiceNotReady, CLOSED_MEANWHILE);
        }
        let (worker, letter) = detach(close);
        self.send(worker, letter);
        true
    }

    /// The client is told at once, so that it does not give up; the same request is answered again when the producer may begin.
    fn producer_waiting(&mut self, from: TopicRef, producer: topic::ProducerKey, request: u64, name: String) {
        let key = producer.connection;
        let detach = |request| Letter::ToTopic { topic: from, event: TopicEvent::DetachProducer { key: producer, request } };
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return self.send(from.worker, detach(None)) };
        let schema_version = Some(version_of_schema(connection, producer.id));
        let welcome = connection.producers.get_mut(&producer.id).map_or(Welcome::Stranger, |route| route.wait(from));
        if matches!(welcome, Welcome::Closed { .. }) {
            connection.forget_producer(producer.id);
        }
        if self.turned_away("producer", key, request, &welcome, |close| (from.worker, detach(close))) {
            return;
        }
        let waiting = proto::CommandProducerSuccess {
            request_id: request,
            producer_name: name,
            last_sequence_id: Some(-1),
            schema_version,
            topic_epoch: None,
            producer_ready: Some(false),
        };
        self.tell(key, &waiting.into());
    }

    fn consumer_ready(&mut self, from: TopicRef, consumer: topic::ConsumerKey, slot: topic::ConsumerSlot, request: u64) {
        let key = consumer.connection;
        let detach = |request| Letter::ToTopic { topic: from, event: TopicEvent::DetachConsumer { key: consumer, request } };
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else {
            return self.send(from.worker, detach(None));
        };
        let welcome = connection.consumers.get_mut(&consumer.id).map_or(Welcome::Stranger, |route| route.attach(from, slot));
        if matches!(welcome, Welcome::Closed { .. }) {
            connection.consumers.remove(&consumer.id);
        }
        if self.turned_away("consumer", key, request, &welcome, |close| (from.worker, detach(close))) {
            return;
        }
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return };
        let stalled = connection.stalled;
        self.tell_success(key, request);
        if stalled {
            self.send(
                from.worker,
                Letter::ToTopic { topic: from, event: TopicEvent::SetWritable { key: consumer, slot, writable: false } },
            );
        }
    }

    /// A request failed; if it was to attach something, that is not attached, and a close that waited for it is answered.
    fn failed(&mut self, to: ConnectionKey, request: u64, error: ServerError, message: &str) {
        let stays = self.unsubscribed(to, request);
        let Some(connection) = self.connections.get_mut(to.slot, to.generation) else { return };
        let close =
            route::give_up(&mut connection.producers, request).or_else(|| route::give_up(&mut connection.consumers, request)).flatten();
        self.tell_error(to, request, error, message);
        if let Some(closing) = close {
            self.tell_success(to, closing);
        }
        // The topic had to let go in the middle of it, when it no longer knew the consumer: it is closed so that it comes back.
        if let Some(consumer) = stays.filter(|_| error == ServerError::ServiceNotReady) {
            self.close_lost_consumer(to, consumer);
        }
    }

    fn close_lost_consumer(&mut self, to: ConnectionKey, consumer: u64) {
        let Some(connection) = self.connections.get_mut(to.slot, to.generation) else { return };
        let Some((topic, _)) = connection.consumers.remove(&consumer).and_then(|route| route.attached()) else { return };
        let event = TopicEvent::DetachConsumer { key: topic::ConsumerKey { connection: to, id: consumer }, request: None };
        self.send(topic.worker, Letter::ToTopic { topic, event });
        self.tell(to, &proto::CommandCloseConsumer { consumer_id: consumer, request_id: NO_REQUEST, ..Default::default() }.into());
    }

    /// The consumer that this request was to unsubscribe, if it was one; it was answered.
    fn unsubscribed(&mut self, to: ConnectionKey, request: u64) -> Option<u64> {
        let connection = self.connections.get_mut(to.slot, to.generation)?;
        let index = connection.unsubscribing.iter().position(|(r, _)| *r == request)?;
        Some(connection.unsubscribing.swap_remove(index).1)
    }

    /// A finished frame from a control job.
    pub(crate) fn answer(&mut self, to: ConnectionKey, command: &Command) {
        self.tell(to, command);
    }

    pub(crate) fn tell(&mut self, to: ConnectionKey, command: &Command) {
        let limit = self.shared.settings.out_buffer_bytes;
        let Some(connection) = self.connections.get_mut(to.slot, to.generation) else { return };
        command.encode(connection.out.tail());
        // A peer that asks and does not read the answers is not read either.
        let flooded = connection.out.len() > 2 * limit && !connection.link.is_paused();
        self.mark_dirty(to.slot, to.generation);
        if flooded {
            self.pause(to);
        }
    }

    pub(crate) fn tell_success(&mut self, to: ConnectionKey, request: u64) {
        self.tell(to, &proto::CommandSuccess { request_id: request, schema: None }.into());
    }

    pub(crate) fn tell_error(&mut self, to: ConnectionKey, request: u64, error: ServerError, message: &str) {
        self.tell(to, &proto::CommandError { request_id: request, error: error.into(), message: message.to_owned() }.into());
    }

    /// A SEND was refused.
    pub(crate) fn tell_refusal(&mut self, to: ConnectionKey, producer_id: u64, sequence_id: u64, error: ServerError, message: String) {
        self.tell(to, &proto::CommandSendError { producer_id, sequence_id, error: error.into(), message }.into());
    }

    pub(crate) fn tell_ack(&mut self, to: ConnectionKey, consumer: u64, request: u64, error: Option<(ServerError, String)>) {
        let (error, message) = match error {
            Some((error, message)) => (Some(error.into()), Some(message)),
            // A message, even an empty one, would be read as a failure.
            None => (None, None),
        };
        let response = proto::CommandAckResponse { consumer_id: consumer, request_id: Some(request), error, message, ..Default::default() };
        self.tell(to, &response.into());
    }
}

/// Of what a producer brought along; empty if it brought none.
fn version_of_schema(connection: &Connection, producer: u64) -> bytes::Bytes {
    crate::schemas::version_bytes(connection.producers.get(&producer).and_then(|route| route.schema_version))
}

fn message_id(at: ledger::Position) -> proto::MessageIdData {
    proto::MessageIdData { ledger_id: at.ledger.0.cast_unsigned(), entry_id: at.entry.0.cast_unsigned(), ..Default::default() }
}

fn consumer_stats(request: u64, stats: topic::stats::ConsumerStats) -> proto::CommandConsumerStatsResponse {
    proto::CommandConsumerStatsResponse {
        request_id: request,
        consumer_name: Some(stats.name),
        available_permits: Some(stats.available_permits.max(0).cast_unsigned()),
        unacked_messages: Some(stats.unacked_messages),
        blocked_consumer_on_unacked_msgs: Some(stats.blocked_on_unacked),
        address: Some(stats.address),
        connected_since: Some(stats.connected_since_ms.to_string()),
        r#type: Some(stats.kind.to_owned()),
        msg_backlog: Some(stats.backlog),
        ..Default::default()
    }
}
