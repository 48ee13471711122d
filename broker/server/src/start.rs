//! Starting and draining: sockets first, then one thread per event loop.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use ledger::{LedgerStore, StoreHealth};
use metadata::{MetadataStore, Watch};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;

use crate::admission::Admission;
use crate::auth::Auth;
use crate::bustle::Bustle;
use crate::compaction::Compactions;
use crate::control::Control;
use crate::crowding::Crowding;
use crate::handle::{Endpoints, Handle};
use crate::letter::Letter;
use crate::listener::{self, Listening, Speaks};
use crate::log_room::LogRoom;
use crate::mailbox::Mailbox;
use crate::metrics::SharedCounters;
use crate::settings::{Listen, ServerSettings};
use crate::shared::{HttpService, Shared};
use crate::tls::Tls;
use crate::volatile::VolatileTopics;
use crate::watch::TopicWatchers;
use crate::worker::{self, Worker};
use crate::{auth, loader, orphans, policies, schemas, tls};

/// Listening sockets: the ports are known, nobody is served yet.
#[derive(Debug)]
pub struct Bound {
    settings: ServerSettings,
    tls: Option<Tls>,
    auth: Option<Auth>,
    listeners: Vec<Listening>,
    /// The port of the Pulsar protocol, if it is served.
    pub pulsar_port: Option<u16>,
    /// The port of the Pulsar protocol over TLS, if it is served.
    pub pulsar_tls_port: Option<u16>,
    /// The port of HTTP, if it is served.
    pub http_port: Option<u16>,
    /// The port of HTTP over TLS, if it is served.
    pub https_port: Option<u16>,
}

/// A running server.
pub struct Server {
    handle: Handle,
    threads: Vec<JoinHandle<()>>,
    /// Ends with the server.
    _policies: (policies::Followed, [Watch; 2]),
}

/// Reads keys and certificates, and binds every address of the settings.
///
/// # Errors
/// The first file that cannot be used, or the first address that cannot be bound, by name.
pub fn bind(settings: ServerSettings) -> io::Result<Bound> {
    let over_tls = !settings.pulsar_tls.is_empty() || !settings.https.is_empty();
    let tls = settings.tls.clone().filter(|_| over_tls).map(Tls::load).transpose()?;
    if over_tls && tls.is_none() {
        return Err(io::Error::other("TLS needs a certificate and its key: set tlsCertificateFilePath and tlsKeyFilePath"));
    }
    let auth = settings.auth.clone().map(Auth::load).transpose().map_err(io::Error::other)?;
    let mut listeners = Vec::new();
    let mut bind = |sockets: &[Listen], speaks, over_tls| bind_all(sockets, speaks, over_tls, &mut listeners);
    let pulsar_port = bind(&settings.pulsar, Speaks::Pulsar, false)?;
    let pulsar_tls_port = bind(&settings.pulsar_tls, Speaks::Pulsar, true)?;
    let http_port = bind(&settings.http, Speaks::Http, false)?;
    let https_port = bind(&settings.https, Speaks::Http, true)?;
    Ok(Bound { settings, tls, auth, listeners, pulsar_port, pulsar_tls_port, http_port, https_port })
}

/// Binds the sockets of one protocol; returns the port of the first.
fn bind_all(sockets: &[Listen], speaks: Speaks, over_tls: bool, listeners: &mut Vec<Listening>) -> io::Result<Option<u16>> {
    let mut port = None;
    for Listen { address, optional } in sockets {
        let wanted = if address.port() == 0 { SocketAddr::new(address.ip(), port.unwrap_or(0)) } else { *address };
        match listener::bind(wanted) {
            Ok(listener) => {
                port = Some(port.unwrap_or(listener.local_addr()?.port()));
                listeners.push(Listening { listener, speaks, over_tls });
            }
            Err(error) if *optional => tracing::debug!(address = %wanted, %error, "not listening there"),
            Err(error) => {
                let advice = "is another broker running? Choose another port, or 0 for a free one";
                return Err(io::Error::new(error.kind(), format!("cannot listen on {wanted}: {error}: {advice}")));
            }
        }
    }
    Ok(port)
}

impl Bound {
    /// Starts the event loops and serves; `endpoints` is what clients are told.
    ///
    /// # Errors
    /// A thread that could not be started.
    pub fn start(
        self,
        endpoints: Endpoints,
        store: Arc<dyn LedgerStore>,
        metadata: Arc<dyn MetadataStore>,
        http: impl FnOnce(Handle) -> HttpService,
    ) -> io::Result<Server> {
        let workers = self.settings.io_threads.get();
        let shared = Arc::new(Shared {
            endpoints,
            tls: self.tls,
            auth: self.auth,
            mailboxes: (0..workers).map(|_| Mailbox::new()).collect(),
            loads: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
            bustle: Bustle::new(workers, Instant::now()),
            crowding: Crowding::new(self.settings.unacked, workers),
            admission: Admission::new(&self.settings),
            counters: SharedCounters::default(),
            store,
            log_room: LogRoom::new(self.settings.log_queue_bytes, workers),
            metadata,
            control: Control::start(self.settings.control_threads, self.settings.max_topic_loads)?,
            compactions: Compactions::default(),
            http: OnceLock::new(),
            topic_watchers: TopicWatchers::default(),
            volatile_topics: VolatileTopics::default(),
            enforcing: schemas::EnforcingNamespaces::new(),
            lookups: AtomicUsize::new(0),
            reported: Mutex::new(StoreHealth::Ready),
            failed: watch::Sender::new(None),
            draining: AtomicBool::new(false),
            policy_changes: AtomicU64::new(0),
            live: RwLock::new(Arc::new(self.settings.clone())),
            telling_policies: Mutex::new(()),
            settings: self.settings,
        });
        let handle = Handle { shared: shared.clone() };
        let _ = shared.http.set(http(handle.clone()));
        find_orphans(&shared);
        let policies = (policies::follow(&shared).map_err(io::Error::other)?, schemas::follow(&shared).map_err(io::Error::other)?);
        let mut listeners = Some(self.listeners);
        let mut threads = Vec::new();
        for index in 0..workers {
            let shared = shared.clone();
            // The first loop accepts for all: accepting is rare, and so the choice of a worker sees every connection.
            let accepts = listeners.take().unwrap_or_default();
            let index = u16::try_from(index).unwrap_or(u16::MAX);
            threads.push(std::thread::Builder::new().name(format!("geminga-io-{index}")).spawn(move || run(index, shared, accepts))?);
        }
        Ok(Server { handle, threads, _policies: policies })
    }
}

/// Lists what is stored before anything is served, and compares it with the tree on a control thread.
fn find_orphans(shared: &Arc<Shared>) {
    match loader::wait(|done| shared.store.list(done)) {
        Ok(found) if found.is_empty() => {}
        Ok(found) => {
            let of = shared.clone();
            shared.control.run(move || orphans::delete(found, &*of.store, &*of.metadata));
        }
        Err(error) => tracing::warn!(%error, "orphaned ledgers are not looked for"),
    }
}

fn run(index: u16, shared: Arc<Shared>, accepts: Vec<Listening>) {
    let runtime = match Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(worker = index, %error, "an event loop could not start");
            return;
        }
    };
    runtime.block_on(async move {
        let me = Rc::new(RefCell::new(Worker::new(index, shared.clone())));
        if !accepts.is_empty() && shared.tls.is_some() {
            tokio::task::spawn_local(tls::keep_fresh(shared.clone()));
        }
        if !accepts.is_empty() && shared.auth.is_some() {
            tokio::task::spawn_local(auth::keep_fresh(shared.clone()));
        }
        for listening in accepts {
            let shared = shared.clone();
            tokio::task::spawn_local(async move {
                if let Err(error) = listener::accept(listening, shared).await {
                    tracing::error!(%error, "a listener ended");
                }
            });
        }
        // The turn is a task like the others: waking it from its own loop costs no system call.
        let _ = tokio::task::spawn_local(worker::turns(me)).await;
    });
}

impl Server {
    /// For calls into the server.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Lets go of every topic in order (cursors are written, clients told), then ends the loops. Returns false if that took
    /// longer than the settings allow; what was not written then is redelivered after the next start.
    #[must_use]
    pub fn drain(self) -> bool {
        let shared = &self.handle.shared;
        let deadline = Instant::now() + shared.settings.shutdown_timeout;
        shared.draining.store(true, Ordering::Release);
        let (done, all_done) = mpsc::channel::<()>();
        for mailbox in &shared.mailboxes {
            let done = done.clone();
            mailbox.post(Letter::Call(Box::new(move |worker| worker.unload_all(&done))));
        }
        drop(done);
        // Nobody sends: the channel ends when every topic has dropped its end.
        let in_time =
            matches!(all_done.recv_timeout(deadline.saturating_duration_since(Instant::now())), Err(mpsc::RecvTimeoutError::Disconnected));
        for mailbox in &shared.mailboxes {
            mailbox.post(Letter::Call(Box::new(Worker::stop)));
        }
        for thread in self.threads {
            let _ = thread.join();
        }
        shared.control.stop();
        in_time
    }
}

impl Worker {
    fn unload_all(&mut self, done: &mpsc::Sender<()>) {
        let keys: Vec<_> = self.topics.iter_mut().map(|(_, _, hosted)| hosted.key).collect();
        for key in keys {
            if let Some(hosted) = self.topics.get_mut(key.slot, key.generation) {
                let done = done.clone();
                hosted.leaving.push(Box::new(move || drop(done)));
            }
            self.begin_unload(key);
        }
    }
}
