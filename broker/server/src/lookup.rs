//! Questions that no topic has to be asked: where a topic is, how many partitions it has, which topics there are.

use std::sync::atomic::Ordering;

use metadata::MetadataStore;
use topic::ConnectionKey;
use wire::proto::{self, LookupOutcome, PartitionedMetadataOutcome, TopicsMode};
use wire::{Command, NamespaceName, ServerError, TopicName};

use crate::auth::Wanted;
use crate::catalog;
use crate::handle::TopicError;
use crate::letter::Letter;
use crate::pattern::{TopicPattern, topics_hash};
use crate::session::Offence;
use crate::worker::Worker;

impl Worker {
    /// Commands that are answered from metadata, or by saying that there is no such thing here.
    pub(crate) fn look_up(&mut self, key: ConnectionKey, command: Command) -> Result<(), Offence> {
        match command {
            Command::LookupTopic(lookup) => self.lookup_topic(key, *lookup),
            Command::PartitionedTopicMetadata(get) => self.partitioned_metadata(key, *get),
            Command::WatchTopicList(watch) => self.watch_topics(key, *watch),
            Command::WatchTopicListClose(close) => self.close_watch(key, *close),
            Command::GetSchema(get) => self.get_schema(key, *get),
            Command::GetOrCreateSchema(get) => self.get_or_create_schema(key, *get),
            Command::GetTopicsOfNamespace(get) => self.topics_of_namespace(key, *get),
            // Of a newer protocol: clients use what the handshake offered, and an answer to this could not be spelt.
            Command::Unknown(number) => tracing::debug!(connection = key.slot, number, "a command of an unknown type is ignored"),
            other => match absent(&other) {
                Some(answer) => self.tell(key, &answer),
                None => return Err(Offence::unexpected(&other)),
            },
        }
        Ok(())
    }

    /// Has a control job make the answer to a request, unless too many are being answered: then `fail` words the refusal.
    pub(crate) fn answer_from_metadata(
        &mut self,
        to: ConnectionKey,
        fail: impl FnOnce(ServerError, String) -> Command + Send + 'static,
        (wanted, refusal): (Wanted, &'static str),
        job: impl FnOnce(&dyn MetadataStore) -> Command + Send + 'static,
    ) {
        let shared = self.shared.clone();
        let max = self.settings.max_lookups;
        if shared.lookups.fetch_add(1, Ordering::Relaxed) >= max {
            shared.lookups.fetch_sub(1, Ordering::Relaxed);
            let message = format!("{max} lookups are being answered, the most there may be (maxConcurrentLookupRequest): try again");
            return self.tell(to, &fail(ServerError::TooManyRequests, message));
        }
        let who = self.asks_whether(to);
        self.shared.control.run(move || {
            let command = match who.as_ref().map_or(Ok(true), |who| shared.allows(who, &wanted)) {
                Ok(true) => job(&*shared.metadata),
                Ok(false) => fail(ServerError::AuthorizationError, refusal.to_owned()),
                Err(error) => fail(ServerError::MetadataError, error.to_string()),
            };
            shared.lookups.fetch_sub(1, Ordering::Relaxed);
            shared.post(to.worker, Letter::Answer { to, command });
        });
    }

    fn lookup_topic(&mut self, key: ConnectionKey, lookup: proto::CommandLookupTopic) {
        let request_id = lookup.request_id;
        let (pulsar, pulsar_tls) = match self.advertised(lookup.advertised_listener_name.as_deref()) {
            Ok(urls) => urls,
            Err(message) => return self.tell(key, &lookup_failed(request_id, ServerError::ServiceNotReady, message)),
        };
        let name = match self.usable_topic(&lookup.topic) {
            Ok(name) => name,
            Err((error, message)) => return self.tell(key, &lookup_failed(request_id, error, message)),
        };
        let fail = move |error, message| lookup_failed(request_id, error, message);
        let wanted = (Wanted::Use(name.clone()), "Client is not authorized to Lookup");
        self.answer_from_metadata(key, fail, wanted, move |metadata| match catalog::namespace_exists(metadata, &name.namespace()) {
            Ok(true) => proto::CommandLookupTopicResponse {
                broker_service_url: pulsar,
                broker_service_url_tls: pulsar_tls,
                response: Some(LookupOutcome::Connect.into()),
                request_id,
                authoritative: Some(true),
                proxy_through_service_url: Some(false),
                ..Default::default()
            }
            .into(),
            Ok(false) => lookup_failed(request_id, ServerError::TopicNotFound, no_namespace(&name)),
            Err(error) => lookup_failed(request_id, ServerError::MetadataError, error.to_string()),
        });
    }

    /// The URLs for clients of a listener. Clients look for the wording of the failure.
    fn advertised(&self, listener: Option<&str>) -> Result<(Option<String>, Option<String>), String> {
        let endpoints = &self.shared.endpoints;
        let Some(name) = listener.filter(|name| !name.is_empty()) else {
            return Ok((Some(endpoints.pulsar.clone()), endpoints.pulsar_tls.clone()));
        };
        let named = endpoints.listeners.iter().find(|l| l.name == name).ok_or_else(|| format!("the broker do not have {name} listener"))?;
        Ok((named.pulsar.clone(), named.pulsar_tls.clone()))
    }

    fn partitioned_metadata(&mut self, key: ConnectionKey, get: proto::CommandPartitionedTopicMetadata) {
        let request_id = get.request_id;
        let name = match self.usable_topic(&get.topic) {
            Ok(name) => name,
            Err((error, message)) => return self.tell(key, &partitions_failed(request_id, error, message)),
        };
        let (shared, create) = (self.shared.clone(), get.metadata_auto_creation_enabled());
        let fail = move |error, message| partitions_failed(request_id, error, message);
        let wanted = (Wanted::Use(name.clone()), "Client is not authorized to Get Partition Metadata");
        self.answer_from_metadata(key, fail, wanted, move |metadata| {
            match catalog::partitions_for_client(metadata, &shared.live(), &name, create) {
                Ok(partitions) => proto::CommandPartitionedTopicMetadataResponse {
                    partitions: Some(partitions),
                    request_id,
                    response: Some(PartitionedMetadataOutcome::Success.into()),
                    ..Default::default()
                }
                .into(),
                Err(error @ (TopicError::NoSuchNamespace(_) | TopicError::NotFound(_))) => {
                    partitions_failed(request_id, ServerError::TopicNotFound, error.to_string())
                }
                Err(error @ (TopicError::NotAllowed(_) | TopicError::TooMany(_))) => {
                    partitions_failed(request_id, ServerError::NotAllowedError, error.to_string())
                }
                Err(error) => partitions_failed(request_id, ServerError::MetadataError, error.to_string()),
            }
        });
    }

    fn topics_of_namespace(&mut self, key: ConnectionKey, get: proto::CommandGetTopicsOfNamespace) {
        let request_id = get.request_id;
        let namespace = match get.namespace.parse::<NamespaceName>() {
            Ok(namespace) => namespace,
            Err(error) => return self.tell_error(key, request_id, ServerError::InvalidTopicName, &error.to_string()),
        };
        let (persistent, non_persistent) = (get.mode() != TopicsMode::NonPersistent, get.mode() != TopicsMode::Persistent);
        let settings = &self.shared.settings;
        // A pattern that cannot be used here is the client's to apply.
        let pattern = get.topics_pattern.as_deref().filter(|_| settings.pattern_evaluation);
        let pattern = pattern.and_then(|pattern| TopicPattern::new(pattern, settings.pattern_max_length).ok());
        let mut loaded = if non_persistent { self.shared.volatile_topics.of(&namespace) } else { Vec::new() };
        let fail = move |error: ServerError, message| proto::CommandError { request_id, error: error.into(), message }.into();
        let wanted = (Wanted::Namespace(namespace.clone()), "Client is not authorized to list the topics of this namespace");
        self.answer_from_metadata(key, fail, wanted, move |metadata| {
            let topics = match catalog::topics(metadata, &namespace) {
                Ok(mut topics) if persistent => {
                    topics.append(&mut loaded);
                    topics
                }
                Ok(_) => loaded,
                Err(TopicError::NoSuchNamespace(_)) => Vec::new(),
                Err(error) => {
                    return proto::CommandError { request_id, error: ServerError::MetadataError.into(), message: error.to_string() }.into();
                }
            };
            let shown = |topic: &&TopicName| pattern.as_ref().is_none_or(|pattern| pattern.shows(topic));
            let mut topics: Vec<String> = topics.iter().filter(shown).map(TopicName::to_string).collect();
            topics.sort_unstable();
            let hash = topics_hash(topics.iter().map(String::as_str));
            let changed = get.topics_hash.as_ref() != Some(&hash);
            if !changed {
                topics.clear();
            }
            proto::CommandGetTopicsOfNamespaceResponse {
                request_id,
                topics,
                filtered: Some(pattern.is_some()),
                topics_hash: Some(hash),
                changed: Some(changed),
            }
            .into()
        });
    }
}

/// The answer to a request for something this broker does not have: the protocol's own error, at once. None for a command
/// that no client may send.
fn absent(command: &Command) -> Option<Command> {
    let no = ServerError::NotAllowedError;
    let code = Some(no.into());
    let transactions = Some(crate::session::NO_TRANSACTIONS.to_owned());
    Some(match command {
        Command::TcClientConnectRequest(c) => {
            proto::CommandTcClientConnectResponse { request_id: c.request_id, error: code, message: transactions }.into()
        }
        Command::NewTxn(c) => {
            proto::CommandNewTxnResponse { request_id: c.request_id, error: code, message: transactions, ..Default::default() }.into()
        }
        Command::AddPartitionToTxn(c) => {
            proto::CommandAddPartitionToTxnResponse { request_id: c.request_id, error: code, message: transactions, ..Default::default() }
                .into()
        }
        Command::AddSubscriptionToTxn(c) => proto::CommandAddSubscriptionToTxnResponse {
            request_id: c.request_id,
            error: code,
            message: transactions,
            ..Default::default()
        }
        .into(),
        Command::EndTxn(c) => {
            proto::CommandEndTxnResponse { request_id: c.request_id, error: code, message: transactions, ..Default::default() }.into()
        }
        Command::EndTxnOnPartition(c) => {
            proto::CommandEndTxnOnPartitionResponse { request_id: c.request_id, error: code, message: transactions, ..Default::default() }
                .into()
        }
        Command::EndTxnOnSubscription(c) => proto::CommandEndTxnOnSubscriptionResponse {
            request_id: c.request_id,
            error: code,
            message: transactions,
            ..Default::default()
        }
        .into(),
        _ => return None,
    })
}

fn no_namespace(name: &TopicName) -> String {
    format!("namespace {} does not exist", name.namespace_str())
}

fn lookup_failed(request_id: u64, error: ServerError, message: String) -> Command {
    proto::CommandLookupTopicResponse {
        response: Some(LookupOutcome::Failed.into()),
        request_id,
        error: Some(error.into()),
        message: Some(message),
        ..Default::default()
    }
    .into()
}

fn partitions_failed(request_id: u64, error: ServerError, message: String) -> Command {
    proto::CommandPartitionedTopicMetadataResponse {
        request_id,
        response: Some(PartitionedMetadataOutcome::Failed.into()),
        error: Some(error.into()),
        message: Some(message),
        ..Default::default()
    }
    .into()
}
