//! What all workers read: set once at the start, or behind locks that the road of a message never touches.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock};

use ledger::{LedgerStore, StoreHealth};
use metadata::MetadataStore;
use tokio::net::TcpStream;
use tokio::sync::watch;
use wire::TopicName;

use crate::admission::Admission;
use crate::control::Control;
use crate::crowding::Crowding;
use crate::handle::Endpoints;
use crate::letter::Letter;
use crate::log_room::LogRoom;
use crate::mailbox::Mailbox;
use crate::metrics::SharedCounters;
use crate::schemas::EnforcingNamespaces;
use crate::settings::ServerSettings;
use crate::volatile::VolatileTopics;
use crate::watch::TopicWatchers;

/// Serves one HTTP connection on the loop that owns it; the front door passes it in, so that the server knows no HTTP.
pub type HttpService = Arc<dyn Fn(TcpStream, SocketAddr) -> Pin<Box<dyn Future<Output = ()>>> + Send + Sync>;

/// See the module.
pub(crate) struct Shared {
    pub(crate) settings: ServerSettings,
    pub(crate) endpoints: Endpoints,
    pub(crate) mailboxes: Vec<Mailbox<Letter>>,
    /// Connections by worker.
    pub(crate) loads: Vec<AtomicUsize>,
    pub(crate) crowding: Crowding,
    pub(crate) admission: Admission,
    pub(crate) counters: SharedCounters,
    pub(crate) store: Arc<dyn LedgerStore>,
    pub(crate) log_room: LogRoom,
    pub(crate) metadata: Arc<dyn MetadataStore>,
    pub(crate) control: Control,
    /// Set right after the rest, since it holds a handle to it.
    pub(crate) http: OnceLock<HttpService>,
    /// Who watches which topics there are.
    pub(crate) topic_watchers: TopicWatchers,
    /// Loaded topics that no metadata tells of.
    pub(crate) volatile_topics: VolatileTopics,
    /// Which namespaces may keep producers without a schema away.
    pub(crate) enforcing: EnforcingNamespaces,
    /// Questions that control threads are asked and have not answered.
    pub(crate) lookups: AtomicUsize,
    /// The state of the store that the operator was last told.
    pub(crate) reported: Mutex<StoreHealth>,
    /// Why the log failed, once it has.
    pub(crate) failed: watch::Sender<Option<String>>,
    /// Set when a drain begins: nothing is loaded any more.
    pub(crate) draining: AtomicBool,
    /// Counts changes of namespace policies, so that a load notices one that came while it was reading.
    pub(crate) policy_changes: AtomicU64,
}

impl Shared {
    /// The worker that owns, or would own, a topic.
    pub(crate) fn owner(&self, name: &TopicName) -> u16 {
        crate::placement::topic_worker(name, self.mailboxes.len())
    }

    pub(crate) fn post(&self, worker: u16, letter: Letter) {
        if let Some(mailbox) = self.mailboxes.get(usize::from(worker)) {
            mailbox.post(letter);
        }
    }
}
