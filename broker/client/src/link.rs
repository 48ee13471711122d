//! One connection to a broker, as producers, consumers and requests see it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::oneshot;
use wire::{Command, proto};

use crate::{
    Credentials, Error,
    connect::{CLIENT_VERSION, PROTOCOL_VERSION},
    consumer,
    outbox::{Out, Outbox},
    producer,
    table::Table,
};

/// A connection after its handshake. The task that moves its bytes ([`crate::driver::Driver`]) lives as long as this does.
///
/// Locks are taken in the order routes, endpoint (producer or consumer), outbox.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) address: Arc<str>,
    /// Bytes of the largest payload the broker takes.
    pub(crate) max_message_size: usize,
    outbox: Arc<Outbox>,
    credentials: Option<Arc<Credentials>>,
    routes: Mutex<Routes>,
    next_request: AtomicU64,
}

#[derive(Debug, Default)]
struct Routes {
    producers: Table<Arc<producer::Core>>,
    consumers: Table<Arc<consumer::Core>>,
    requests: HashMap<u64, Request>,
    /// Set once, when the connection is gone.
    broken: Option<Error>,
}

#[derive(Debug)]
struct Request {
    name: &'static str,
    answer: oneshot::Sender<Result<Command, Error>>,
}

impl Link {
    pub(crate) fn new(address: Arc<str>, max_message_size: usize, outbox: Arc<Outbox>, credentials: Option<Arc<Credentials>>) -> Self {
        Self { address, max_message_size, outbox, credentials, routes: Mutex::default(), next_request: AtomicU64::new(1) }
    }

    /// Adds to what the connection writes next. On a broken connection the bytes go nowhere; whoever cares is told by [`Link::broke`].
    pub(crate) fn write<T>(&self, add: impl FnOnce(&mut Out) -> T) -> T {
        self.outbox.write(add)
    }

    /// Sends a command that carries a request id, and waits for the answer to it.
    pub(crate) async fn request(
        &self,
        name: &'static str,
        patience: Duration,
        build: impl FnOnce(u64) -> Command,
    ) -> Result<Command, Error> {
        let id = self.next_request.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        {
            let mut routes = self.routes();
            if let Some(error) = &routes.broken {
                return Err(error.clone());
            }
            routes.requests.insert(id, Request { name, answer });
        }
        let _forget = Forget { link: self, id };
        self.write(|out| out.command(&build(id)));
        match tokio::time::timeout(patience, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Error::lost(&self.address, "the client let go of it")),
            Err(_) => Err(Error::TimedOut { request: name, after: patience }),
        }
    }

    pub(crate) fn add_producer(&self, id: u64, core: &Arc<producer::Core>) -> Result<(), Error> {
        let mut routes = self.routes();
        routes.broken.clone().map_or(Ok(()), Err)?;
        routes.producers.insert(id, core.clone());
        Ok(())
    }

    pub(crate) fn remove_producer(&self, id: u64) -> Option<Arc<producer::Core>> {
        self.routes().producers.remove(id)
    }

    pub(crate) fn add_consumer(&self, id: u64, core: &Arc<consumer::Core>) -> Result<(), Error> {
        let mut routes = self.routes();
        routes.broken.clone().map_or(Ok(()), Err)?;
        routes.consumers.insert(id, core.clone());
        Ok(())
    }

    pub(crate) fn remove_consumer(&self, id: u64) -> Option<Arc<consumer::Core>> {
        self.routes().consumers.remove(id)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.routes().broken.is_some()
    }

    /// Everything that used the connection is told that it is gone.
    pub(crate) fn broke(&self, error: &Error) {
        let (producers, consumers, requests) = {
            let mut routes = self.routes();
            routes.broken = Some(error.clone());
            let Routes { producers, consumers, requests, .. } = &mut *routes;
            (producers.drain(), consumers.drain(), std::mem::take(requests))
        };
        for request in requests.into_values() {
            let _ = request.answer.send(Err(error.clone()));
        }
        producers.for_each(|core| core.detached(error));
        consumers.for_each(|core| core.detached(error));
    }

    /// Locks the routes for the frames of one read.
    pub(crate) fn dispatch(&self) -> Dispatch<'_> {
        Dispatch { link: self, routes: self.routes() }
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.outbox.close();
    }
}

/// Takes a request out of the books when its caller stops waiting.
struct Forget<'a> {
    link: &'a Link,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.link.routes().requests.remove(&self.id);
    }
}

/// Brings what the broker sent to whom it is for.
pub(crate) struct Dispatch<'a> {
    link: &'a Link,
    routes: MutexGuard<'a, Routes>,
}

impl Dispatch<'_> {
    /// One frame. An error ends the connection.
    pub(crate) fn frame(&mut self, command: Command, payload: Bytes) -> Result<(), Error> {
        match command {
            Command::Message(message) => {
                if let Some(core) = self.routes.consumers.get(message.consumer_id) {
                    consumer::Core::delivered(core, message, &payload).map_err(|error| self.nonsense(error.to_string()))?;
                }
            }
            Command::SendReceipt(receipt) => {
                if let Some(core) = self.routes.producers.get(receipt.producer_id) {
                    core.receipt(&receipt).map_err(|reason| self.nonsense(reason))?;
                }
            }
            Command::SendError(error) => {
                if let Some(core) = self.routes.producers.get(error.producer_id) {
                    core.refused(&error);
                }
            }
            Command::Ping => self.link.write(|out| out.command(&Command::Pong)),
            Command::Pong => {}
            other => self.control(other)?,
        }
        Ok(())
    }

    fn control(&mut self, command: Command) -> Result<(), Error> {
        match command {
            Command::Success(ref it) => self.answer(it.request_id, command),
            Command::ProducerSuccess(ref it) if it.producer_ready() => self.answer(it.request_id, command),
            Command::ProducerSuccess(_) => {}
            Command::PartitionedTopicMetadataResponse(ref it) => self.answer(it.request_id, command),
            Command::LookupTopicResponse(ref it) => self.answer(it.request_id, command),
            Command::ConsumerStatsResponse(ref it) => self.answer(it.request_id, command),
            Command::GetLastMessageIdResponse(ref it) => self.answer(it.request_id, command),
            Command::GetTopicsOfNamespaceResponse(ref it) => self.answer(it.request_id, command),
            Command::AckResponse(it) => match it.error {
                Some(_) => self.refuse(it.request_id(), it.error(), it.message()),
                None => self.answer(it.request_id(), Command::AckResponse(it)),
            },
            Command::Error(it) if it.request_id == wire::NO_REQUEST => {
                return Err(Error::lost(&self.link.address, format!("{:?}: {}", it.error(), it.message)));
            }
            Command::Error(it) => self.refuse(it.request_id, it.error(), &it.message),
            Command::CloseProducer(it) => {
                if let Some(core) = self.routes.producers.remove(it.producer_id) {
                    core.detached(&Error::Closed { what: "the producer", reason: "the broker closed it" });
                }
            }
            Command::CloseConsumer(it) => {
                if let Some(core) = self.routes.consumers.remove(it.consumer_id) {
                    core.detached(&Error::Closed { what: "the consumer", reason: "the broker closed it" });
                }
            }
            Command::ActiveConsumerChange(it) => {
                if let Some(core) = self.routes.consumers.get(it.consumer_id) {
                    core.active_changed(it.is_active());
                }
            }
            Command::AuthChallenge(_) => {
                let Some(credentials) = &self.link.credentials else {
                    return Err(self.nonsense("the broker asks for credentials, and this client has none"));
                };
                let shown = proto::AuthData {
                    auth_method_name: Some(credentials.method().to_owned()),
                    auth_data: Some(credentials.data()?.into()),
                };
                let response = proto::CommandAuthResponse {
                    client_version: Some(CLIENT_VERSION.to_owned()),
                    response: Some(shown),
                    protocol_version: Some(PROTOCOL_VERSION),
                };
                self.link.write(|out| out.command(&response.into()));
            }
            // What a newer broker tells all clients is no reason to leave it.
            _ => {}
        }
        Ok(())
    }

    fn answer(&mut self, id: u64, command: Command) {
        if let Some(request) = self.routes.requests.remove(&id) {
            let _ = request.answer.send(Ok(command));
        }
    }

    fn refuse(&mut self, id: u64, code: wire::ServerError, message: &str) {
        if let Some(request) = self.routes.requests.remove(&id) {
            let _ = request.answer.send(Err(Error::Server { request: request.name, code, message: message.into() }));
        }
    }

    fn nonsense(&self, reason: impl Into<Arc<str>>) -> Error {
        Error::protocol(&self.link.address, reason)
    }
}
