//! What a client says, command by command: checked here, then sent to whoever knows the answer.

use bytes::{Bytes, BytesMut};
use ledger::{AckSet, Position};
use topic::{
    AccessMode, Ack, AckIds, AttachConsumer, AttachProducer, ConnectionKey, ConsumerKey, ConsumerSlot, HashRange, KeySharedPolicy,
    KeySplit, ProducerKey, Publish, SeekTo, StartAt, SubscriptionKind,
};
use wire::proto::{self, InitialPosition, KeySharedMode, SubscriptionType};
use wire::{AckType, Command, Frame, MessageId, NO_REQUEST, ProducerAccessMode, ServerError, TopicName};

use crate::auth::Wanted;
use crate::catalog;
use crate::clock::wall_ms;
use crate::connection::Connection;
use crate::letter::{Letter, Opener, TopicEvent, TopicRef};
use crate::lull;
use crate::route::{Route, Stage};
use crate::schemas::Brought;
use crate::worker::Worker;

/// Told to whoever names a transaction; clients look for the words.
pub(crate) const NO_TRANSACTIONS: &str = "Transactions are not enabled";

/// How a client begins that speaks TLS.
const TLS_HELLO: &[u8] = &[0x16, 0x03];
const NO_TLS_HERE: &str = "this port does not speak TLS: use pulsar:// here, or pulsar+ssl:// with the port of brokerServicePortTls";

/// Why a connection cannot go on. The peer is told, then it is closed.
pub(crate) struct Offence(String);

impl Offence {
    /// A command that no client may send.
    pub(crate) fn unexpected(command: &Command) -> Offence {
        Offence(format!("unexpected {}", command.name()))
    }
}

impl From<String> for Offence {
    fn from(reason: String) -> Offence {
        Offence(reason)
    }
}

impl From<&str> for Offence {
    fn from(reason: &str) -> Offence {
        Offence(reason.to_owned())
    }
}

impl Worker {
    /// Bytes came in. Returns how many more the frame at hand needs at least.
    pub(crate) fn received(&mut self, key: ConnectionKey, buffer: &mut BytesMut) -> usize {
        let now = self.now.monotonic_ms;
        let log_is_full = self.shared.log_room.is_spent(self.index);
        let budget = if log_is_full { 0 } else { self.shares.publish_bytes };
        loop {
            let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return 0 };
            connection.heard_ms = now;
            connection.pinged = false;
            if connection.closing {
                // Nobody will look at it, and it must not pile up while the last words are being written.
                buffer.clear();
                return 0;
            }
            if connection.link.is_paused() {
                return 0;
            }
            // What others hold must be answered before this one adds to it.
            if self.publish_bytes >= budget && !connection.producers.is_empty() {
                self.pause(key);
                return 0;
            }
            let outcome = match connection.decoder.decode(buffer) {
                Ok(Some(frame)) => self.obey(key, frame),
                Ok(None) => return connection.decoder.missing(buffer).unwrap_or(0),
                Err(_) if buffer.starts_with(TLS_HELLO) => Err(NO_TLS_HERE.into()),
                Err(error) => Err(Offence(error.to_string())),
            };
            if let Err(Offence(reason)) = outcome {
                self.expel(key, &reason);
                return 0;
            }
        }
    }

    /// Ends a connection for what it sent: the reason goes to the peer and to the log.
    fn expel(&mut self, key: ConnectionKey, reason: &str) {
        self.stats.protocol_errors += 1;
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return };
        tracing::warn!(peer = %connection.address, reason, "connection closed: the peer broke the protocol");
        connection.closing = true;
        self.tell_error(key, NO_REQUEST, ServerError::UnknownError, reason);
    }

    fn obey(&mut self, key: ConnectionKey, frame: Frame) -> Result<(), Offence> {
        let Frame { command, payload } = frame;
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return Ok(()) };
        if connection.peer.is_none() {
            return match command {
                Command::Connect(connect) => self.connect(key, &connect),
                other => Err(format!("{} before CONNECT", other.name()).into()),
            };
        }
        match command {
            Command::Send(send) => return self.publish(key, &send, payload),
            Command::Ack(ack) => self.ack(key, ack),
            Command::Flow(flow) => {
                if let Some(route) = connection.consumers.get_mut(&flow.consumer_id) {
                    route.permits = route.permits.saturating_add(i64::from(flow.permits));
                    connection.needs_permits = lull::are_few(route.permits);
                }
                self.pass_on(key, flow.consumer_id, |key, slot| TopicEvent::Flow { key, slot, permits: flow.permits });
            }
            Command::Ping => self.tell(key, &Command::Pong),
            Command::Pong => {}
            Command::Producer(producer) => self.producer(key, *producer),
            Command::Subscribe(subscribe) => self.subscribe(key, *subscribe),
            Command::CloseProducer(close) => self.close_producer(key, close.producer_id, close.request_id),
            Command::CloseConsumer(close) => self.close_consumer(key, close.consumer_id, close.request_id),
            Command::Unsubscribe(u) => self.unsubscribe(key, u.consumer_id, u.request_id, u.force()),
            Command::RedeliverUnacknowledgedMessages(redeliver) => self.redeliver(key, *redeliver),
            Command::Seek(seek) => self.seek(key, &seek),
            Command::GetLastMessageId(get) => {
                self.ask_consumer(key, get.consumer_id, get.request_id, |key| TopicEvent::LastMessageId { key, request: get.request_id });
            }
            Command::ConsumerStats(get) => self.consumer_stats(key, get.consumer_id, get.request_id),
            Command::AuthResponse(response) => self.auth_response(key, &response),
            Command::Connect(_) => return Err("a second CONNECT".into()),
            other => return self.look_up(key, other),
        }
        Ok(())
    }

    fn publish(&mut self, key: ConnectionKey, send: &wire::Send, payload: Bytes) -> Result<(), Offence> {
        let max_pending = self.settings.max_pending_publishes;
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return Ok(()) };
        let Some((topic, slot)) = connection.producers.get(&send.producer_id).and_then(Route::attached) else {
            // A producer that was closed a moment ago may have SENDs on the way.
            return match connection.closed_lately(send.producer_id) {
                true => Ok(()),
                false => Err(format!("SEND by unknown producer {}", send.producer_id).into()),
            };
        };
        if send.txn.is_some() {
            self.tell_refusal(key, send.producer_id, send.sequence_id, ServerError::NotAllowedError, NO_TRANSACTIONS.to_owned());
            return Ok(());
        }
        if let Err(error) = wire::payload::verify(&payload) {
            self.tell_refusal(key, send.producer_id, send.sequence_id, ServerError::ChecksumError, error.to_string());
            return Ok(());
        }
        let messages = u64::from(send.messages());
        connection.pending_publishes += 1;
        let full = connection.pending_publishes >= max_pending;
        self.publish_bytes += payload.len();
        self.stats.messages_in += messages;
        self.stats.bytes_in += payload.len() as u64;
        let publish = Publish {
            key: ProducerKey { connection: key, id: send.producer_id },
            slot,
            sequence: send.sequence_id,
            highest_sequence: send.highest_sequence_id.unwrap_or(0),
            bytes: payload,
        };
        self.send(topic.worker, Letter::ToTopic { topic, event: TopicEvent::Publish(publish) });
        if full {
            self.pause(key);
        }
        Ok(())
    }

    fn ack(&mut self, key: ConnectionKey, ack: wire::Ack) {
        let Some((topic, slot)) = self.consumer_route(key, ack.consumer_id) else {
            if let Some(request) = ack.request_id {
                let message = format!("there is no consumer {} on this connection", ack.consumer_id);
                self.tell_ack(key, ack.consumer_id, request, Some((ServerError::ConsumerNotFound, message)));
            }
            return;
        };
        if ack.txn.is_some() {
            if let Some(request) = ack.request_id {
                self.tell_ack(key, ack.consumer_id, request, Some((ServerError::NotAllowedError, NO_TRANSACTIONS.to_owned())));
            }
            return;
        }
        let key = ConsumerKey { connection: key, id: ack.consumer_id };
        let cumulative = ack.ack_type == AckType::Cumulative;
        let ids = match ack.ids {
            wire::AckIds::One(id) if id.ack_set.is_empty() && !cumulative => AckIds::One(position(&id)),
            wire::AckIds::One(id) if cumulative => cumulative_to(id),
            wire::AckIds::One(id) => AckIds::Many(vec![part_of_batch(id)]),
            wire::AckIds::Many(mut ids) if cumulative => match ids.pop() {
                Some(id) => cumulative_to(id),
                None => AckIds::Many(Vec::new()),
            },
            wire::AckIds::Many(ids) => AckIds::Many(ids.into_iter().map(part_of_batch).collect()),
        };
        let event = TopicEvent::Ack(Ack { key, slot, request: ack.request_id, ids });
        self.send(topic.worker, Letter::ToTopic { topic, event });
    }

    fn producer(&mut self, key: ConnectionKey, mut command: proto::CommandProducer) {
        let request = command.request_id;
        let name = match self.usable_topic(&command.topic) {
            Ok(name) => name,
            Err((error, message)) => return self.tell_error(key, request, error, &message),
        };
        let limit = self.settings.max_clients_per_connection;
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return };
        if connection.is_crowded(limit) && !connection.producers.contains_key(&command.producer_id) {
            return self.tell_error(key, request, ServerError::NotAllowedError, &crowded(limit));
        }
        let mode = access(command.producer_access_mode());
        let creating = |route: &Route<_>| matches!(route.stage, Stage::Attaching { .. } | Stage::Waiting { .. });
        if connection.producers.get(&command.producer_id).is_some_and(creating) {
            return self.tell_error(key, request, ServerError::ServiceNotReady, "this producer is being created already");
        }
        // Some clients always send the field: empty stands for none.
        let initial_subscription = command.initial_subscription_name.take().filter(|initial| !initial.is_empty());
        if let Some(Err(message)) = initial_subscription.as_deref().map(|initial| catalog::check_subscription(&name, initial)) {
            return self.tell_error(key, request, ServerError::NotAllowedError, &message);
        }
        let schema = match Brought::by_producer(command.schema.take()) {
            Ok(schema) => schema,
            Err(message) => return self.tell_error(key, request, ServerError::IncompatibleSchema, &message),
        };
        let attach = AttachProducer {
            key: ProducerKey { connection: key, id: command.producer_id },
            request,
            user_provided_name: command.user_provided_producer_name(),
            epoch: command.epoch(),
            access: mode,
            topic_epoch: command.topic_epoch,
            initial_subscription,
            name: command.producer_name.filter(|n| !n.is_empty()),
            properties: properties(command.metadata),
            address: connection.address.to_string(),
            client_version: client_version(connection),
        };
        connection.producers.entry(command.producer_id).or_insert_with(|| Route::attaching(request, name.partition_index()));
        let wanted = Wanted::Produce(name.clone());
        self.open_if_allowed(key, name, wanted, Opener::Producer { attach: Box::new(attach), schema });
    }

    fn subscribe(&mut self, key: ConnectionKey, mut command: proto::CommandSubscribe) {
        let request = command.request_id;
        let name = match self.usable_topic(&command.topic) {
            Ok(name) => name,
            Err((error, message)) => return self.tell_error(key, request, error, &message),
        };
        if let Err(message) = catalog::check_subscription(&name, &command.subscription) {
            return self.tell_error(key, request, ServerError::NotAllowedError, &message);
        }
        let key_shared = match key_shared(&command) {
            Ok(policy) => policy,
            Err(message) => return self.tell_error(key, request, ServerError::ConsumerAssignError, &message),
        };
        let limit = self.settings.max_clients_per_connection;
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return };
        if connection.is_crowded(limit) && !connection.consumers.contains_key(&command.consumer_id) {
            return self.tell_error(key, request, ServerError::NotAllowedError, &crowded(limit));
        }
        if matches!(connection.consumers.get(&command.consumer_id), Some(Route { stage: Stage::Attaching { .. }, .. })) {
            return self.tell_error(key, request, ServerError::ServiceNotReady, "this consumer is being created already");
        }
        let schema = match Brought::by_consumer(command.schema.take()) {
            Ok(schema) => schema,
            Err(message) => return self.tell_error(key, request, ServerError::IncompatibleSchema, &message),
        };
        let attach = AttachConsumer {
            key: ConsumerKey { connection: key, id: command.consumer_id },
            request,
            kind: kind(command.sub_type()),
            durable: command.durable(),
            start: start(&command),
            priority: command.priority_level(),
            epoch: command.consumer_epoch,
            key_shared,
            read_compacted: command.read_compacted(),
            subscription_properties: properties(command.subscription_properties.clone()),
            name: command.consumer_name.clone().filter(|n| !n.is_empty()).unwrap_or_else(|| format!("{:010x}", fastrand::u64(..) >> 24)),
            properties: properties(command.metadata.clone()),
            subscription: command.subscription.clone(),
            address: connection.address.to_string(),
            client_version: client_version(connection),
        };
        let create_topic = command.force_topic_creation();
        connection.consumers.entry(command.consumer_id).or_insert_with(|| Route::attaching(request, name.partition_index()));
        let wanted = Wanted::Consume(name.clone(), command.subscription);
        self.open_if_allowed(key, name, wanted, Opener::Consumer { attach: Box::new(attach), create_topic, schema });
    }

    fn close_producer(&mut self, key: ConnectionKey, id: u64, request: u64) {
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return };
        if let Some(Ok(earlier)) = connection.producers.get_mut(&id).map(|route| route.close_when_attached(request)) {
            return earlier.into_iter().for_each(|earlier| self.tell_success(key, earlier));
        }
        match connection.forget_producer(id).and_then(|route| route.topic()) {
            Some(topic) => {
                let event = TopicEvent::DetachProducer { key: ProducerKey { connection: key, id }, request: Some(request) };
                self.send(topic.worker, Letter::ToTopic { topic, event });
            }
            None => self.tell_success(key, request),
        }
    }

    fn close_consumer(&mut self, key: ConnectionKey, id: u64, request: u64) {
        let Some(connection) = self.connections.get_mut(key.slot, key.generation) else { return };
        if let Some(Ok(earlier)) = connection.consumers.get_mut(&id).map(|route| route.close_when_attached(request)) {
            return earlier.into_iter().for_each(|earlier| self.tell_success(key, earlier));
        }
        match connection.consumers.remove(&id).and_then(|route| route.attached()) {
            Some((topic, _)) => {
                let event = TopicEvent::DetachConsumer { key: ConsumerKey { connection: key, id }, request: Some(request) };
                self.send(topic.worker, Letter::ToTopic { topic, event });
            }
            None => self.tell_success(key, request),
        }
    }

    fn unsubscribe(&mut self, key: ConnectionKey, id: u64, request: u64, force: bool) {
        if self.consumer_route(key, id).is_some()
            && let Some(connection) = self.connections.get_mut(key.slot, key.generation)
        {
            connection.unsubscribing.push((request, id));
        }
        self.ask_consumer(key, id, request, |key| TopicEvent::Unsubscribe { key, request, force });
    }

    fn redeliver(&mut self, key: ConnectionKey, command: proto::CommandRedeliverUnacknowledgedMessages) {
        let ids = command.message_ids.iter().map(|id| Position::new(id.ledger_id.cast_signed(), id.entry_id.cast_signed())).collect();
        let epoch = command.consumer_epoch;
        self.pass_on(key, command.consumer_id, |key, slot| TopicEvent::Redeliver { key, slot, ids, epoch });
    }

    fn seek(&mut self, key: ConnectionKey, command: &proto::CommandSeek) {
        let request = command.request_id;
        let to = match (&command.message_id, command.message_publish_time) {
            (Some(id), _) => SeekTo::Message(Position::new(id.ledger_id.cast_signed(), id.entry_id.cast_signed())),
            (None, Some(time)) => SeekTo::Time(time),
            (None, None) => return self.tell_error(key, request, ServerError::MetadataError, "SEEK needs a message id or a publish time"),
        };
        self.ask_consumer(key, command.consumer_id, request, |key| TopicEvent::Seek { key, request, to });
    }

    fn consumer_stats(&mut self, key: ConnectionKey, id: u64, request: u64) {
        match self.consumer_route(key, id) {
            Some((topic, _)) => {
                let event = TopicEvent::ConsumerStats { key: ConsumerKey { connection: key, id }, request };
                self.send(topic.worker, Letter::ToTopic { topic, event });
            }
            None => {
                let response = proto::CommandConsumerStatsResponse {
                    request_id: request,
                    error_code: Some(ServerError::ConsumerNotFound.into()),
                    error_message: Some(no_consumer(id)),
                    ..Default::default()
                };
                self.tell(key, &response.into());
            }
        }
    }

    /// Passes a request on to the topic of a consumer, or answers that there is no such consumer.
    fn ask_consumer(&mut self, key: ConnectionKey, id: u64, request: u64, event: impl FnOnce(ConsumerKey) -> TopicEvent) {
        match self.consumer_route(key, id) {
            Some((topic, _)) => {
                let event = event(ConsumerKey { connection: key, id });
                self.send(topic.worker, Letter::ToTopic { topic, event });
            }
            None => self.tell_error(key, request, ServerError::MetadataError, &no_consumer(id)),
        }
    }

    /// Passes something unanswered on to the topic of a consumer; for an unknown consumer it is dropped, since it may just have been closed.
    fn pass_on(&mut self, key: ConnectionKey, id: u64, event: impl FnOnce(ConsumerKey, ConsumerSlot) -> TopicEvent) {
        if let Some((topic, slot)) = self.consumer_route(key, id) {
            let event = event(ConsumerKey { connection: key, id }, slot);
            self.send(topic.worker, Letter::ToTopic { topic, event });
        }
    }

    fn consumer_route(&mut self, key: ConnectionKey, id: u64) -> Option<(TopicRef, ConsumerSlot)> {
        self.connections.get_mut(key.slot, key.generation)?.consumers.get(&id).and_then(Route::attached)
    }

    /// A topic name that this broker can serve.
    pub(crate) fn usable_topic(&self, text: &str) -> Result<TopicName, (ServerError, String)> {
        let name = text.parse::<TopicName>().map_err(|e| (ServerError::InvalidTopicName, e.to_string()))?;
        let settings = &self.shared.settings;
        let (serves, what) = match name.is_persistent() {
            true => (settings.persistent_topics, "persistent topics are switched off (enablePersistentTopics)"),
            false => (settings.non_persistent_topics, "non-persistent topics are switched off (enableNonPersistentTopics)"),
        };
        if !serves {
            return Err((ServerError::NotAllowedError, format!("{name}: {what}")));
        }
        catalog::check_topic(&name).map_err(|message| (ServerError::InvalidTopicName, message))?;
        Ok(name)
    }
}

fn crowded(limit: usize) -> String {
    format!(
        "this connection has {limit} producers and consumers, the most it may have (maxProducersAndConsumersPerConnection): use another one"
    )
}

fn no_consumer(id: u64) -> String {
    format!("there is no consumer {id} on this connection")
}

fn client_version(connection: &Connection) -> String {
    connection.peer.as_ref().map(|p| p.client_version.clone()).unwrap_or_default()
}

fn properties(pairs: Vec<proto::KeyValue>) -> Vec<(String, String)> {
    pairs.into_iter().map(|kv| (kv.key, kv.value)).collect()
}

fn kind(sub_type: SubscriptionType) -> SubscriptionKind {
    match sub_type {
        SubscriptionType::Exclusive => SubscriptionKind::Exclusive,
        SubscriptionType::Shared => SubscriptionKind::Shared,
        SubscriptionType::Failover => SubscriptionKind::Failover,
        SubscriptionType::KeyShared => SubscriptionKind::KeyShared,
    }
}

fn access(mode: ProducerAccessMode) -> AccessMode {
    match mode {
        ProducerAccessMode::Shared => AccessMode::Shared,
        ProducerAccessMode::Exclusive => AccessMode::Exclusive,
        ProducerAccessMode::WaitForExclusive => AccessMode::WaitForExclusive,
        ProducerAccessMode::ExclusiveWithFencing => AccessMode::ExclusiveWithFencing,
    }
}

/// How keys are split, as SUBSCRIBE says it; errs for what is no range of slots.
fn key_shared(command: &proto::CommandSubscribe) -> Result<KeySharedPolicy, String> {
    let Some(meta) = &command.key_shared_meta else { return Ok(KeySharedPolicy::default()) };
    let range = |range: &proto::IntRange| {
        HashRange::new(range.start, range.end)
            .ok_or_else(|| format!("{}-{} is no range of key hashes from 0 to 65535", range.start, range.end))
    };
    let split = match meta.key_shared_mode() {
        KeySharedMode::AutoSplit => KeySplit::Auto,
        KeySharedMode::Sticky => KeySplit::Sticky(meta.hash_ranges.iter().map(range).collect::<Result<_, _>>()?),
    };
    Ok(KeySharedPolicy { split, allow_out_of_order: meta.allow_out_of_order_delivery() })
}

/// Where a new cursor starts, as SUBSCRIBE says it.
fn start(command: &proto::CommandSubscribe) -> Option<StartAt> {
    if let Some(id) = &command.start_message_id {
        let at = Position::new(id.ledger_id.cast_signed(), id.entry_id.cast_signed());
        return Some(match at {
            Position::EARLIEST => StartAt::Earliest,
            Position::LATEST => StartAt::Latest,
            at => StartAt::At(at),
        });
    }
    if let Some(seconds) = command.start_message_rollback_duration_sec.filter(|s| *s > 0) {
        return Some(StartAt::Time(wall_ms().saturating_sub(seconds.saturating_mul(1000))));
    }
    command.durable().then(|| match command.initial_position() {
        InitialPosition::Latest => StartAt::Latest,
        InitialPosition::Earliest => StartAt::Earliest,
    })
}

fn position(id: &MessageId) -> Position {
    Position::new(id.ledger.cast_signed(), id.entry.cast_signed())
}

fn part_of_batch(id: MessageId) -> (Position, Option<AckSet>, Option<u32>) {
    let at = position(&id);
    let size = id.batch_size.and_then(|n| u32::try_from(n).ok());
    (at, (!id.ack_set.is_empty()).then_some(AckSet(id.ack_set)), size)
}

fn cumulative_to(id: MessageId) -> AckIds {
    let (at, set, size) = part_of_batch(id);
    AckIds::Cumulative(at, set, size)
}
