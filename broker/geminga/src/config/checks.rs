//! What no setting can check alone: settings that contradict each other.

use std::collections::BTreeMap;

use super::Config;
use super::amounts::ByteSize;
use super::listeners::{BindAddress, Endpoint};
use super::problem::Problem;
use super::sources::Choice;

/// What lets anybody on the network do anything, if there is such a thing.
pub fn exposure(config: &Config) -> Option<&'static str> {
    let on_network = |endpoint: &Endpoint| !BindAddress::Host(endpoint.host.clone()).is_loopback();
    let open = !config.auth.authentication && config.network.endpoints().iter().any(on_network);
    open.then_some("whoever reaches this broker may do everything: set authenticationEnabled=true, or bindAddress=localhost")
}

pub(super) fn check(config: &Config, chosen: &BTreeMap<String, Choice>, problems: &mut Vec<Problem>) {
    let shown: BTreeMap<&str, String> = config.show().into_iter().collect();
    let mut wrong = |keys: &[&str], reason: &str| problems.push(Problem::together(keys, &shown, chosen, reason));

    let network = &config.network;
    if network.endpoints().is_empty() {
        wrong(&["brokerServicePort", "webServicePort"], "all ports are off, so nobody could connect; set at least one");
    }
    let ports = [
        ("brokerServicePort", network.pulsar_port),
        ("brokerServicePortTls", network.pulsar_tls_port),
        ("webServicePort", network.http_port),
        ("webServicePortTls", network.https_port),
    ];
    for (at, (key, port)) in ports.iter().enumerate() {
        for (other, _) in ports.iter().skip(at + 1).filter(|(_, other)| port.is_some_and(|port| port != 0) && other == port) {
            wrong(&[key, other], "two listeners cannot share a port");
        }
    }
    if let Some((keys, reason)) = config.tls.complaint(network) {
        wrong(keys, reason);
    }
    if let Some((keys, reason)) = config.auth.complaint() {
        wrong(keys, reason);
    }
    if BindAddress::Host(network.advertised_address.clone()).is_any() {
        wrong(&["advertisedAddress"], "nobody can connect to an address that stands for all; name a host or one address");
    }
    if let Some(internal) = &network.internal_listener
        && !network.advertised_listeners.is_empty()
        && !network.advertised_listeners.iter().any(|named| named.listener == *internal)
    {
        wrong(&["internalListenerName", "advertisedListeners"], "the internal listener must be one of the advertised ones");
    }
    if config.ledgers.min_rollover > config.ledgers.max_rollover {
        let keys = ["managedLedgerMinLedgerRolloverTimeMinutes", "managedLedgerMaxLedgerRolloverTimeMinutes"];
        wrong(&keys, "the shorter time cannot be longer than the longer one");
    }
    if config.dispatch.min_read_entries > config.dispatch.max_read_entries {
        wrong(&["dispatcherMinReadBatchSize", "dispatcherMaxReadBatchSize"], "the least cannot be more than the most");
    }
    // A frame with its headers and the log's own framing has to fit into one file of the log.
    let largest_entry = ByteSize::bytes(config.connections.max_message_size.get().saturating_add(64 << 10));
    if largest_entry > config.storage.segment_size {
        wrong(&["maxMessageSize", "logSegmentSizeMB"], "the largest message does not fit into a file of the log; raise logSegmentSizeMB");
    }
}
