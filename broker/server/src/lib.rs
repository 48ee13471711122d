//! The running broker: listeners, connections, and the fixed pool of event loops.
//!
//! A worker owns its connections and topics by value and reaches them by `&mut`; workers exchange batches of letters.
//! Reading order: `start`, then `worker` (the turn), `connection`, `session` (what a client says), `hosting`
//! (what happens to topics), `answers` (what goes back). Beside the road: `tls` (how connections are encrypted) and `auth` (who may do what).

mod administration;
mod admission;
mod answers;
mod auth;
mod bustle;
mod callers;
mod catalog;
mod catch_up;
mod clock;
mod compaction;
mod connection;
mod control;
mod crowding;
mod gather;
mod handle;
mod health;
mod held;
mod hosting;
mod id_map;
mod inspect;
mod introduction;
mod letter;
mod listener;
mod live;
mod loader;
mod log_room;
mod lookup;
mod lull;
mod mailbox;
mod metrics;
mod orphans;
mod out_buffer;
mod patience;
mod pattern;
mod period;
mod placement;
mod policies;
mod removal;
mod room;
mod route;
mod schemas;
mod session;
mod settings;
mod shared;
mod shares;
mod slots;
mod start;
mod storage;
mod stream;
mod survey;
mod timers;
mod tls;
mod unloading;
mod volatile;
mod watch;
mod worker;

pub use administration::{BacklogScan, WhichEntry, position};
pub use auth::{Access, Algorithm, AuthSettings, Credentials, Denied, Identity, Secret, Signer, TokenSettings, new_key_pair, random_name};
pub use handle::{AdvertisedListener, Endpoints, Handle, TopicError};
/// A place in a topic, and what may be asked about one, so that callers need not know the rooms below.
pub use ledger::Position;
pub use metrics::{ServerStats, WorkerStats};
pub use period::WriteLatency;
pub use policies::{AutoCreation, Said};
pub use settings::{CrowdLimit, Listen, ServerSettings};
pub use shared::HttpService;
pub use start::{Bound, Server, bind};
pub use stream::{Caller, Stream};
pub use survey::ConnectionStats;
pub use tls::{TlsSettings, TlsVersion};

/// Counts of values by their size, in microseconds.
pub type Histogram = hdrhistogram::Histogram<u32>;

/// Numbers of topics, so that callers need not know the topic room.
pub use topic::stats;
pub use topic::{CompactionStatus, SeekTo, StartAt};
