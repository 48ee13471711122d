//! From settings to sockets and URLs: which addresses are bound, and which URLs clients are told.

use std::fmt;
use std::net::IpAddr;

use super::forms::Form;
use super::network::Network;

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Pulsar's binary protocol.
    Pulsar,
    /// The same over TLS.
    PulsarTls,
    /// HTTP.
    Http,
    /// The same over TLS.
    Https,
}

impl Scheme {
    const ALL: [Scheme; 4] = [Scheme::Pulsar, Scheme::PulsarTls, Scheme::Http, Scheme::Https];

    /// As it stands before `://`.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Pulsar => "pulsar",
            Scheme::PulsarTls => "pulsar+ssl",
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// A URL under the name of an advertised listener: `name:scheme://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedUrl {
    /// The listener's name.
    pub listener: String,
    /// What is spoken there.
    pub scheme: Scheme,
    /// A name or an address, an IPv6 one without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl NamedUrl {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{text:?} {what}");
        let (before, authority) = text.split_once("://").ok_or_else(|| wrong("has no ://"))?;
        let (listener, scheme) = before.rsplit_once(':').ok_or_else(|| wrong("does not begin with the name of a listener"))?;
        let scheme = Scheme::ALL.into_iter().find(|s| s.name() == scheme).ok_or_else(|| wrong("has none of the schemes"))?;
        let (host, port) = authority.trim_end_matches('/').rsplit_once(':').ok_or_else(|| wrong("has no port"))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().map_err(|_| wrong("has no valid port"))?;
        if listener.is_empty() || host.is_empty() {
            return Err(wrong("lacks the name of a listener or a host"));
        }
        Ok(Self { listener: listener.to_owned(), scheme, host: host.to_owned(), port })
    }

    /// `scheme://host:port`
    pub fn url(&self) -> String {
        url(self.scheme, &self.host, self.port)
    }
}

impl fmt::Display for NamedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.listener, self.url())
    }
}

/// `scheme://host:port`, with brackets around an IPv6 address.
pub fn url(scheme: Scheme, host: &str, port: u16) -> String {
    let brackets = host.contains(':');
    let (open, close) = if brackets { ("[", "]") } else { ("", "") };
    format!("{}://{open}{host}{close}:{port}", scheme.name())
}

/// URLs under names, separated by commas.
#[derive(Clone, Copy)]
pub struct NamedUrls;

impl Form for NamedUrls {
    type Value = Vec<NamedUrl>;
    fn parse(&self, text: &str) -> Result<Self::Value, String> {
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(NamedUrl::parse).collect()
    }
    fn show(&self, value: &Self::Value) -> String {
        value.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
    fn allowed(&self) -> String {
        "a list of name:scheme://host:port separated by commas, with scheme pulsar, pulsar+ssl, http or https".to_owned()
    }
}

/// The address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// 127.0.0.1, and ::1 where it exists.
    Loopback,
    /// An address or a name.
    Host(String),
}

impl BindAddress {
    /// Whether only this machine can connect.
    pub fn is_loopback(&self) -> bool {
        match self {
            BindAddress::Loopback => true,
            BindAddress::Host(host) => host.parse().is_ok_and(|address: IpAddr| address.is_loopback()),
        }
    }

    /// Whether it stands for all addresses of the machine.
    pub fn is_any(&self) -> bool {
        matches!(self, BindAddress::Host(host) if host.parse().is_ok_and(|address: IpAddr| address.is_unspecified()))
    }
}

/// An address to listen on.
#[derive(Clone, Copy)]
pub struct BindHost;

impl Form for BindHost {
    type Value = BindAddress;
    fn parse(&self, text: &str) -> Result<BindAddress, String> {
        let host = text.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(text);
        if host.eq_ignore_ascii_case("localhost") {
            return Ok(BindAddress::Loopback);
        }
        let name = host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
        if !name && host.parse::<IpAddr>().is_err() {
            return Err(String::new());
        }
        Ok(BindAddress::Host(host.to_owned()))
    }
    fn show(&self, value: &BindAddress) -> String {
        match value {
            BindAddress::Loopback => "localhost".to_owned(),
            BindAddress::Host(host) => host.clone(),
        }
    }
    fn allowed(&self) -> String {
        "an IP address, a host name, or localhost for 127.0.0.1 and ::1".to_owned()
    }
}

/// A socket to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The listener it belongs to; none for all of them.
    pub listener: Option<String>,
    /// What is spoken there.
    pub scheme: Scheme,
    /// A name or an address.
    pub host: String,
    /// The port; 0 for any free one.
    pub port: u16,
    /// The second address of localhost: takes the port that the first one got, and may fail where IPv6 does not exist.
    pub companion: bool,
}

/// The ports that were bound, which differ from the configured ones where those are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoundPorts {
    /// Pulsar's protocol.
    pub pulsar: Option<u16>,
    /// The same over TLS.
    pub pulsar_tls: Option<u16>,
    /// HTTP.
    pub http: Option<u16>,
    /// The same over TLS.
    pub https: Option<u16>,
}

/// The URLs that clients of one listener name are told.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AdvertisedListener {
    /// Its name.
    pub name: String,
    /// `pulsar://host:port`
    pub pulsar: Option<String>,
    /// `pulsar+ssl://host:port`
    pub pulsar_tls: Option<String>,
    /// `http://host:port`
    pub http: Option<String>,
    /// `https://host:port`
    pub https: Option<String>,
}

impl AdvertisedListener {
    fn slot(&mut self, scheme: Scheme) -> &mut Option<String> {
        match scheme {
            Scheme::Pulsar => &mut self.pulsar,
            Scheme::PulsarTls => &mut self.pulsar_tls,
            Scheme::Http => &mut self.http,
            Scheme::Https => &mut self.https,
        }
    }
}

/// The name of the listener that is advertised when `advertisedListeners` is not set.
pub const DEFAULT_LISTENER: &str = "internal";

impl Network {
    /// The port configured for a scheme.
    pub fn port(&self, scheme: Scheme) -> Option<u16> {
        match scheme {
            Scheme::Pulsar => self.pulsar_port,
            Scheme::PulsarTls => self.pulsar_tls_port,
            Scheme::Http => self.http_port,
            Scheme::Https => self.https_port,
        }
    }

    /// The sockets to open, in order; a companion follows the one it accompanies.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let mut endpoints = Vec::new();
        for scheme in Scheme::ALL {
            let Some(port) = self.port(scheme) else { continue };
            let mut open = |host: &str, companion| {
                endpoints.push(Endpoint { listener: None, scheme, host: host.to_owned(), port, companion });
            };
            match &self.bind_address {
                BindAddress::Loopback => {
                    open("127.0.0.1", false);
                    open("::1", true);
                }
                BindAddress::Host(host) => open(host, false),
            }
        }
        endpoints.extend(self.binds.iter().cloned().map(|NamedUrl { listener, scheme, host, port }| Endpoint {
            listener: Some(listener),
            scheme,
            host,
            port,
            companion: false,
        }));
        endpoints
    }

    /// What clients are told, the listener for those that name none first.
    pub fn advertised(&self, bound: BoundPorts) -> Vec<AdvertisedListener> {
        let mut listeners: Vec<AdvertisedListener> = Vec::new();
        for named in &self.advertised_listeners {
            let index = listeners.iter().position(|l| l.name == named.listener).unwrap_or_else(|| {
                listeners.push(AdvertisedListener { name: named.listener.clone(), ..AdvertisedListener::default() });
                listeners.len() - 1
            });
            if let Some(listener) = listeners.get_mut(index) {
                listener.slot(named.scheme).get_or_insert_with(|| named.url());
            }
        }
        if listeners.is_empty() {
            let name = self.internal_listener.clone().unwrap_or_else(|| DEFAULT_LISTENER.to_owned());
            let here = |scheme, port: Option<u16>| port.map(|port| url(scheme, &self.advertised_address, port));
            let (pulsar, pulsar_tls) = (here(Scheme::Pulsar, bound.pulsar), here(Scheme::PulsarTls, bound.pulsar_tls));
            listeners.push(AdvertisedListener { name, pulsar, pulsar_tls, http: None, https: None });
        }
        for listener in &mut listeners {
            for (scheme, port) in [(Scheme::Http, bound.http), (Scheme::Https, bound.https)] {
                if let Some(port) = port {
                    listener.slot(scheme).get_or_insert_with(|| url(scheme, &self.advertised_address, port));
                }
            }
        }
        if let Some(internal) = self.internal_listener.as_ref().and_then(|name| listeners.iter().position(|l| l.name == *name)) {
            listeners[..=internal].rotate_right(1);
        }
        listeners
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn network() -> Network {
        Config::default().network
    }

    #[test]
    fn loopback_opens_both_families_of_each_port() {
        let hosts: Vec<_> = network().endpoints().into_iter().map(|e| (e.scheme, e.host, e.port, e.companion)).collect();
        let expected = [
            (Scheme::Pulsar, "127.0.0.1".to_owned(), 6650, false),
            (Scheme::Pulsar, "::1".to_owned(), 6650, true),
            (Scheme::Http, "127.0.0.1".to_owned(), 8080, false),
            (Scheme::Http, "::1".to_owned(), 8080, true),
        ];
        assert_eq!(hosts, expected);
    }

    #[test]
    fn without_advertised_listeners_one_is_made_of_the_bound_ports() {
        let bound = BoundPorts { pulsar: Some(41_000), http: Some(41_001), ..BoundPorts::default() };
        let expected = AdvertisedListener {
            name: "internal".into(),
            pulsar: Some("pulsar://localhost:41000".into()),
            pulsar_tls: None,
            http: Some("http://localhost:41001".into()),
            https: None,
        };
        assert_eq!(network().advertised(bound), [expected]);
    }

    #[test]
    fn the_internal_listener_comes_first() {
        let text = "out:pulsar://example.org:6650,in:pulsar://10.0.0.1:6650,out:pulsar+ssl://example.org:6651,six:pulsar://[fd00::1]:6650";
        let network =
            Network { advertised_listeners: NamedUrls.parse(text).expect("parses"), internal_listener: Some("in".into()), ..network() };
        let listeners = network.advertised(BoundPorts { pulsar: Some(6650), http: Some(8080), ..BoundPorts::default() });
        let names: Vec<_> = listeners.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["in", "out", "six"]);
        assert_eq!(listeners[1].pulsar_tls.as_deref(), Some("pulsar+ssl://example.org:6651"));
        assert_eq!(listeners[2].pulsar.as_deref(), Some("pulsar://[fd00::1]:6650"));
        assert_eq!(NamedUrls.show(&network.advertised_listeners), text);
    }

    #[test]
    fn a_listener_without_name_scheme_or_port_is_refused_with_the_reason() {
        for (text, reason) in [
            ("pulsar://h:1", "name of a listener"),
            ("a:ftp://h:1", "schemes"),
            ("a:pulsar://h", "no port"),
            ("a:pulsar://h:x", "valid port"),
            ("a:pulsar://:1", "host"),
            ("a", "://"),
        ] {
            let error = NamedUrls.parse(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn an_address_is_loopback_by_value_not_by_spelling() {
        assert_eq!(BindHost.parse("localhost"), Ok(BindAddress::Loopback));
        assert!(BindHost.parse("127.0.0.1").expect("an address").is_loopback());
        assert!(BindHost.parse("[::1]").expect("an address").is_loopback());
        assert!(BindHost.parse("::").expect("an address").is_any());
        assert!(!BindHost.parse("10.1.2.3").expect("an address").is_loopback());
        assert!(BindHost.parse("no host").is_err());
        assert!(BindHost.parse("http://x").is_err());
    }
}
