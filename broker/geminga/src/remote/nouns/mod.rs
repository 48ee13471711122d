//! Every command on a running broker, a file per kind of thing. Names are those of Pulsar's command line.

mod brokers;
mod clusters;
mod namespaces;
pub(super) mod policies;
mod schemas;
mod tenants;
mod topics;

use super::verb::{Arg, Kind, Noun};

/// All of them.
pub(crate) fn nouns() -> Vec<Noun> {
    vec![
        clusters::noun(),
        tenants::noun(),
        namespaces::noun(),
        topics::noun(),
        policies::of_topics(),
        schemas::noun(),
        brokers::noun(),
        brokers::stats(),
        brokers::resource_groups(),
    ]
}

const TENANT: Arg = Arg::place("tenant", Kind::Text, "Name of the tenant");
const NAMESPACE: Arg = Arg::place("namespace", Kind::Namespace, "TENANT/NAMESPACE");
const TOPIC: Arg = Arg::place("topic", Kind::Topic, "In full or short: NAME is persistent://public/default/NAME");
const ROLE: Arg = Arg::flag("role", Kind::Text, "The role").needed();
const ACTIONS: Arg = Arg::flag("actions", Kind::List, "Of produce, consume, functions, sources, sinks, packages").needed();
const SUBSCRIPTION: Arg = Arg::flag("subscription", Kind::Text, "Name of the subscription").short('s').also(&["sub", "subName"]).needed();
const FORCE: Arg = Arg::flag("force", Kind::Yes, "Although it is in use").short('f').query("force");
