//! What all workers read: set once at the start, or behind locks that the road of a message never touches.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use ledger::{LedgerStore, StoreHealth};
use metadata::{MetadataError, MetadataStore};
use tokio::sync::watch;
use wire::TopicName;

use crate::admission::Admission;
use crate::auth::{Access, Auth, Credentials, Denied, Identity, Unproven, Wanted};
use crate::bustle::Bustle;
use crate::compaction::Compactions;
use crate::control::Control;
use crate::crowding::Crowding;
use crate::handle::Endpoints;
use crate::letter::Letter;
use crate::log_room::LogRoom;
use crate::mailbox::Mailbox;
use crate::metrics::SharedCounters;
use crate::schemas::EnforcingNamespaces;
use crate::settings::ServerSettings;
use crate::stream::{Caller, Stream};
use crate::tls::Tls;
use crate::volatile::VolatileTopics;
use crate::watch::TopicWatchers;

/// Serves one HTTP connection on the loop that owns it; the front door passes it in, so that the server knows no HTTP.
pub type HttpService = Arc<dyn Fn(Stream, Caller) -> Pin<Box<dyn Future<Output = ()>>> + Send + Sync>;

/// See the module.
pub(crate) struct Shared {
    /// As it was started.
    pub(crate) settings: ServerSettings,
    /// As it is now: see `live.rs`.
    pub(crate) live: RwLock<Arc<ServerSettings>>,
    pub(crate) endpoints: Endpoints,
    /// Keys and certificates, where TLS is spoken.
    pub(crate) tls: Option<Tls>,
    /// Who is believed and may do what, where that is asked.
    pub(crate) auth: Option<Auth>,
    pub(crate) mailboxes: Vec<Mailbox<Letter>>,
    /// Connections by worker.
    pub(crate) loads: Vec<AtomicUsize>,
    pub(crate) bustle: Bustle,
    pub(crate) crowding: Crowding,
    pub(crate) admission: Admission,
    pub(crate) counters: SharedCounters,
    pub(crate) store: Arc<dyn LedgerStore>,
    pub(crate) log_room: LogRoom,
    pub(crate) metadata: Arc<dyn MetadataStore>,
    pub(crate) control: Control,
    pub(crate) compactions: Compactions,
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
    /// Counts changes of policies, so that a load notices one that came while it was reading.
    pub(crate) policy_changes: AtomicU64,
    /// Held while policies are read and topics are told, so that what they are told never goes back in time.
    pub(crate) telling_policies: Mutex<()>,
}

impl Shared {
    /// The worker that owns, or would own, a topic.
    pub(crate) fn owner(&self, name: &TopicName) -> u16 {
        crate::placement::topic_worker(name, self.settings.loops())
    }

    /// Whether somebody may do something. Reads metadata: for control threads.
    pub(crate) fn allows(&self, who: &Identity, wanted: &Wanted) -> Result<bool, MetadataError> {
        self.auth.as_ref().map_or(Ok(true), |auth| auth.allows(&*self.metadata, Some(who), wanted))
    }

    /// Who shows these credentials, if they may do what they ask for. Blocks: for control threads.
    pub(crate) fn admit(
        &self,
        from: IpAddr,
        shown: &Credentials,
        original: Option<&str>,
        access: Access,
    ) -> Result<Option<Identity>, Denied> {
        let Some(auth) = &self.auth else { return Ok(None) };
        let who = auth.identify_from(from, shown).and_then(|who| auth.speak_for(who, original, None));
        let who = who.map_err(|error| match error {
            Unproven::Again(seconds) => Denied::Again(seconds),
            other => Denied::Unproven(other.to_string()),
        })?;
        let wanted = Wanted::from(access);
        match self.allows(&who, &wanted) {
            Ok(true) => Ok(Some(who)),
            // Whoever showed nothing may have something better to show.
            Ok(false) if who.is_anonymous() => Err(Denied::Unproven(wanted.refusal(&who))),
            Ok(false) => Err(Denied::Forbidden(wanted.refusal(&who))),
            Err(error) => Err(Denied::Failed(error.to_string())),
        }
    }

    pub(crate) fn post(&self, worker: u16, letter: Letter) {
        if let Some(mailbox) = self.mailboxes.get(usize::from(worker)) {
            mailbox.post(letter);
        }
    }
}
