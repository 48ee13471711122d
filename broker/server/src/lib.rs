//! The running broker: listeners, connections, the fixed pool of event loops, and the directory of topics.

mod handle;
mod metrics;
mod settings;
