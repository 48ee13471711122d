//! Service URLs: where a broker can be reached.

use std::sync::Arc;

use crate::Error;

const SCHEME: &str = "pulsar://";
const TLS_SCHEME: &str = "pulsar+ssl://";
const DEFAULT_PORT: &str = "6650";
const DEFAULT_TLS_PORT: &str = "6651";

/// `pulsar://host[:port][,host[:port]...]`, or the same with `pulsar+ssl`, taken apart. There is at least one address, each with its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUrl {
    addresses: Vec<Arc<str>>,
    over_tls: bool,
}

impl ServiceUrl {
    /// Reads a service URL; a host without a port gets 6650, or 6651 over TLS.
    ///
    /// # Errors
    /// [`Error::InvalidUrl`] says what is wrong with it.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let refuse = |reason| Error::InvalidUrl { url: url.into(), reason };
        let (hosts, over_tls) = match (url.strip_prefix(SCHEME), url.strip_prefix(TLS_SCHEME)) {
            (Some(hosts), _) => (hosts, false),
            (_, Some(hosts)) => (hosts, true),
            _ if url.starts_with("http") => return Err(refuse("that is an HTTP URL; the binary protocol's starts with pulsar://")),
            _ => return Err(refuse("it must start with pulsar:// or pulsar+ssl://")),
        };
        let default = if over_tls { DEFAULT_TLS_PORT } else { DEFAULT_PORT };
        let addresses = hosts.trim_end_matches('/').split(',').map(|host| with_port(host, default));
        Ok(Self { addresses: addresses.collect::<Result<Vec<_>, _>>().map_err(refuse)?, over_tls })
    }

    /// The addresses (`host:port`), in the order they were given.
    #[must_use]
    pub fn addresses(&self) -> &[Arc<str>] {
        &self.addresses
    }

    /// Whether TLS is spoken there.
    #[must_use]
    pub fn is_over_tls(&self) -> bool {
        self.over_tls
    }
}

fn with_port(host: &str, default: &str) -> Result<Arc<str>, &'static str> {
    let after_brackets = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or("an opening [ has no closing ]")?.1,
        None => host,
    };
    match after_brackets.rsplit_once(':') {
        _ if host.is_empty() => Err("a host is missing"),
        None => Ok(format!("{host}:{default}").into()),
        Some(("", _)) if after_brackets == host => Err("a host is missing"),
        Some((_, port)) => port.parse::<u16>().map(|_| host.into()).map_err(|_| "the port is not a number below 65536"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(url: &str) -> Vec<String> {
        ServiceUrl::parse(url).unwrap().addresses().iter().map(ToString::to_string).collect()
    }

    fn reason(url: &str) -> String {
        ServiceUrl::parse(url).unwrap_err().to_string()
    }

    #[test]
    fn several_hosts_are_kept_in_order_and_get_the_default_port() {
        assert_eq!(addresses("pulsar://a:1,b,[::1]:7,[::1]/"), ["a:1", "b:6650", "[::1]:7", "[::1]:6650"]);
        assert_eq!(addresses("pulsar+ssl://a,b:1"), ["a:6651", "b:1"]);
        assert!(ServiceUrl::parse("pulsar+ssl://a").unwrap().is_over_tls());
    }

    #[test]
    fn a_bad_url_says_what_is_wrong() {
        assert!(reason("http://localhost:8080").contains("HTTP URL"));
        assert!(reason("localhost").contains("pulsar://"));
        assert!(reason("pulsar://a:notaport").contains("port"));
        assert!(reason("pulsar://a,,b").contains("missing"));
        assert!(reason("pulsar://:6650").contains("missing"));
        assert!(reason("pulsar://[::1:6650").contains("]"));
    }
}
