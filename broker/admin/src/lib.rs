//! Pulsar's HTTP surface and our own: admin, HTTP lookup, metrics, and the first page a browser sees.
//!
//! [`service`] makes the handler that the server gives its HTTP connections to. Each connection is served on the event loop that
//! owns it; nothing here blocks: what needs a topic goes through [`server::Handle`] to the topic's owner, what needs the metadata
//! store runs on the control pool (`Handle::control`).
//!
//! A request walks through few files:
//!
//! ```text
//! connection.rs   hyper cuts the request; limits of header, body, time and number     pulse.rs  when to lose patience
//! router.rs       method and path -> a row of routes.rs, parameters decoded
//! routes.rs       the one table: method, path, handler, who may call it, how much it matters
//! policies/       the slots of policies, from which the table has its other rows
//! request.rs      query and body, read leniently                                      address.rs  names of topics and namespaces
//! clusters.rs tenants.rs namespaces.rs bundles.rs backlogs.rs properties.rs resource_groups.rs permissions.rs topics.rs topic_actions.rs subscriptions.rs messages.rs partitions.rs schemas.rs topic_stats.rs lookup.rs brokers.rs metrics.rs ui.rs
//! errors.rs       errors of the rooms below -> status and reason
//! json.rs         the only place where Pulsar's JSON is spelt                         reply.rs, body.rs  status and body
//! own/            our own API                                                         visit.rs  what is noted of a request
//! ```
//!
//! To serve another path of Pulsar's is to add a row and a function. The table is also the documentation: `ROUTES.md` is written
//! from it and a test fails when they differ.
//!
//! Rules that every row shares, because tools depend on them:
//! - paths are split at raw slashes and decoded afterwards; doubled and trailing slashes do no harm;
//! - JSON is compact; most writes answer 204 without a body;
//! - errors are `{"reason":"…"}`; a path that is not there (yet) is 404 with a reason that says so;
//! - an empty body and `null` mean the defaults; numbers and words may come in quotes; unknown query parameters are ignored.

mod address;
mod admission;
mod backlogs;
mod body;
mod brokers;
mod bundles;
mod clusters;
mod connection;
mod errors;
mod exposition;
mod json;
mod lookup;
mod messages;
mod metrics;
mod namespaces;
mod options;
mod own;
mod partitions;
mod permissions;
mod policies;
mod process;
mod properties;
mod pulse;
mod reply;
mod request;
mod resource_groups;
mod rfc3339;
mod router;
mod routes;
mod schemas;
mod subscriptions;
mod tenants;
mod topic_actions;
mod topic_stats;
mod topics;
mod ui;
mod visit;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use server::{Handle, HttpService};

pub use options::{AdminOptions, MetricsOptions};
pub use own::audit::AuditFiles;
pub use own::config::{ConfigChanges, ConfigItem, ConfigRefusal, Configuration};
pub use policies::{DoorLine, PolicyLine, policy_slots};
pub use routes::{Class, Mark, RouteLine, routes};

/// Everything that requests share.
struct Site {
    handle: Handle,
    options: AdminOptions,
    configuration: Arc<dyn Configuration>,
    own: own::Own,
    router: router::Router,
    running: AtomicUsize,
    health: brokers::Health,
}

/// The handler of HTTP connections for a running server: called on the event loop that owns a connection, and done when the
/// connection is.
#[must_use]
pub fn service(handle: Handle, options: AdminOptions, configuration: Arc<dyn Configuration>) -> HttpService {
    let router = router::Router::new(routes::all());
    let site = Arc::new(Site {
        handle,
        options,
        configuration,
        own: own::Own::default(),
        router,
        running: AtomicUsize::new(0),
        health: brokers::Health::default(),
    });
    Arc::new(move |stream, peer| Box::pin(connection::serve(stream, peer, site.clone())))
}
