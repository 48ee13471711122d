//! The versioned tree of names, policies and ownership.

mod delivery;
mod errors;
mod session;
mod store;
mod transaction;
mod watch;

pub use errors::{MetadataError, OpenError, Rejected};
pub use session::Session;
pub use store::{Done, MetadataStore, OnChange, Outcome, Versioned};
pub use transaction::{Expected, Op, Transaction};
pub use watch::{Watch, WatchEvent};
