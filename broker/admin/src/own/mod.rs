//! Our own API, `/geminga/v1`: what people and programs ask that Pulsar's has no words for.
//!
//! ```text
//! routes.rs        the rows                                         problem.rs      what a refusal looks like
//! page.rs          lists in pages                                   rows.rs         what is in them
//! revision.rs      ETag, If-Match                                   idempotency.rs  POSTs that come twice
//! operations.rs    work that takes its time                         audit.rs        who did what
//! inventory.rs     what there is, taken a little at a time          sampler.rs      the one task that looks by itself
//! overview.rs lists.rs messages.rs series.rs alarms.rs events.rs definitions.rs config.rs whoami.rs openapi.rs
//! ```
//!
//! A new resource needs little: a `columns!` for its rows and [`page::Listing`] make its list, `Call::shown_at` and `Call::means` its
//! revisions, `Call::operate` its long work, `own.events.tell` its events; refusals become problem documents by themselves.

pub(crate) mod alarms;
pub(crate) mod audit;
pub(crate) mod clock;
pub(crate) mod config;
pub(crate) mod definitions;
pub(crate) mod events;
pub(crate) mod idempotency;
pub(crate) mod inventory;
pub(crate) mod lists;
pub(crate) mod messages;
pub(crate) mod openapi;
pub(crate) mod operations;
pub(crate) mod overview;
pub(crate) mod page;
pub(crate) mod problem;
pub(crate) mod revision;
pub(crate) mod routes;
pub(crate) mod rows;
pub(crate) mod sampler;
pub(crate) mod series;
pub(crate) mod whoami;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use tokio::sync::Notify;

/// What the requests of our own API share.
pub(crate) struct Own {
    pub(crate) began: Instant,
    /// Tells the ids of requests of one run from those of another.
    pub(crate) run: u64,
    pub(crate) requests: AtomicU64,
    pub(crate) inventory: inventory::Inventory,
    pub(crate) operations: operations::Operations,
    pub(crate) answers: idempotency::Answers,
    pub(crate) series: series::Series,
    pub(crate) standing: alarms::Standing,
    pub(crate) events: events::Events,
    pub(crate) audit: audit::Audit,
    pub(crate) tickets: whoami::Tickets,
    /// Whether the sampler has begun, and what wakes it early.
    pub(crate) sampling: AtomicBool,
    pub(crate) pulse: Notify,
}

impl Default for Own {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            run: clock::now_ms(),
            requests: AtomicU64::new(0),
            inventory: inventory::Inventory::default(),
            operations: operations::Operations::default(),
            answers: idempotency::Answers::default(),
            series: series::Series::default(),
            standing: alarms::Standing::default(),
            events: events::Events::default(),
            audit: audit::Audit::default(),
            tickets: whoami::Tickets::default(),
            sampling: AtomicBool::new(false),
            pulse: Notify::new(),
        }
    }
}
