//! Where the broker listens and what it tells clients to connect to.

use std::collections::BTreeMap;

use super::forms::{Flag, List, Name, OptionalName, Port};
use super::listeners::{BindAddress, BindHost, NamedUrl, NamedUrls};
use super::sources::Choice;
use super::table::settings;

settings! {
    /// Ports, addresses and the names they are advertised under.
    pub struct Network, "Network" {
        /// Port of Pulsar's binary protocol.
        pulsar_port: Option<u16> = "brokerServicePort", Port, default Some(6650);
        /// Port of Pulsar's binary protocol over TLS.
        pulsar_tls_port: Option<u16> = "brokerServicePortTls", Port, default None;
        /// Port of HTTP: admin API, lookup, metrics and the web console.
        http_port: Option<u16> = "webServicePort", Port, default Some(8080);
        /// Port of HTTP over TLS.
        https_port: Option<u16> = "webServicePortTls", Port, default None;
        /// Address to listen on. Loopback is reachable from this machine only; 0.0.0.0 or :: from everywhere, without a password until
        /// authentication is configured.
        bind_address: BindAddress = "bindAddress", BindHost, default BindAddress::Loopback,
            told "localhost (127.0.0.1, and ::1 where it exists) without a configuration file, 0.0.0.0 with one", pulsar "0.0.0.0";
        /// Further addresses to listen on, each for the advertised listener it names.
        binds: Vec<NamedUrl> = "bindAddresses", NamedUrls, default Vec::new();
        /// Host name that clients are told to connect to. A wrong one shows as clients that connect, look up a topic and then hang.
        advertised_address: String = "advertisedAddress", Name, default "localhost".to_owned(),
            told "localhost when bound to loopback, the address when bound to one, otherwise this machine's host name", pulsar "the host name";
        /// Several sets of URLs to advertise, for clients that reach the broker on different ways; a client picks one by its listenerName.
        advertised_listeners: Vec<NamedUrl> = "advertisedListeners", NamedUrls, default Vec::new();
        /// The advertised listener for clients that name none. Blank is the first of advertisedListeners.
        internal_listener: Option<String> = "internalListenerName", OptionalName, default None;
        /// Name of the cluster this broker forms; it is part of metrics and of replicated names, and cannot be changed later.
        cluster_name: String = "clusterName", Name, default "standalone".to_owned();
        /// Namespaces, as tenant/namespace, that are created at the start if they are missing, beside public/default; their tenants too.
        bootstrap_namespaces: Vec<String> = "bootstrapNamespaces", List, default Vec::new();
        /// Whether tenants `public` and `pulsar` and the namespace public/default are created at the first start.
        create_default_tenants: bool = "createDefaultTenants", Flag, default true;
    }
}

impl Network {
    /// Fills in what depends on the machine and on whether there is a file; returns what to tell about it.
    pub(super) fn settle(
        &mut self,
        chosen: &BTreeMap<String, Choice>,
        has_file: bool,
        host_name: impl FnOnce() -> String,
    ) -> Option<String> {
        let is_set = |key: &str| chosen.get(key).is_some_and(|choice| !choice.text.is_empty());
        if has_file && !is_set("bindAddress") {
            self.bind_address = BindAddress::Host("0.0.0.0".to_owned());
        }
        if is_set("advertisedAddress") || self.bind_address.is_loopback() {
            return None;
        }
        self.advertised_address = match &self.bind_address {
            BindAddress::Host(host) if !self.bind_address.is_any() => return self.advertise(host.clone(), None),
            _ => host_name(),
        };
        let address = &self.advertised_address;
        let note = format!("Clients are told to connect to {address}; if they cannot resolve that, set advertisedAddress.");
        self.advertised_listeners.is_empty().then_some(note)
    }

    fn advertise(&mut self, host: String, note: Option<String>) -> Option<String> {
        self.advertised_address = host;
        note
    }
}
