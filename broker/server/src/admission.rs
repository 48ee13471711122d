//! Who may connect: limits of connections, in all and from one address.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;

use crate::listener::Speaks;
use crate::settings::ServerSettings;

/// Counts connections against their limits; 0 is no limit.
#[derive(Debug)]
pub(crate) struct Admission {
    max: usize,
    max_per_ip: usize,
    /// HTTP has a limit of its own, so that neither protocol can lock the other out.
    max_http: usize,
    pulsar: AtomicUsize,
    http: AtomicUsize,
    per_ip: DashMap<IpAddr, usize>,
}

impl Admission {
    pub(crate) fn new(settings: &ServerSettings) -> Admission {
        Admission::with_limits(settings.max_connections, settings.max_connections_per_ip, settings.max_http_connections)
    }

    fn with_limits(max: usize, max_per_ip: usize, max_http: usize) -> Admission {
        Admission { max, max_per_ip, max_http, pulsar: AtomicUsize::new(0), http: AtomicUsize::new(0), per_ip: DashMap::new() }
    }

    /// Counts a connection in, or names the limit that keeps it out.
    pub(crate) fn admit(&self, ip: IpAddr, speaks: Speaks) -> Result<(), &'static str> {
        if speaks == Speaks::Http {
            return enter(&self.http, self.max_http).ok_or("maxHttpServerConnections");
        }
        enter(&self.pulsar, self.max).ok_or("brokerMaxConnections")?;
        if self.max_per_ip == 0 {
            return Ok(());
        }
        let mut count = self.per_ip.entry(ip).or_insert(0);
        if *count >= self.max_per_ip {
            self.pulsar.fetch_sub(1, Ordering::Relaxed);
            return Err("brokerMaxConnectionsPerIp");
        }
        *count += 1;
        Ok(())
    }

    /// Counts a connection out.
    pub(crate) fn leave(&self, ip: IpAddr, speaks: Speaks) {
        if speaks == Speaks::Http {
            self.http.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        self.pulsar.fetch_sub(1, Ordering::Relaxed);
        if self.max_per_ip > 0 {
            self.per_ip.alter(&ip, |_, count| count.saturating_sub(1));
            self.per_ip.remove_if(&ip, |_, count| *count == 0);
        }
    }
}

fn enter(count: &AtomicUsize, max: usize) -> Option<()> {
    let admitted = count.fetch_add(1, Ordering::Relaxed);
    if max > 0 && admitted >= max {
        count.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn a_full_broker_takes_a_connection_again_after_one_left() {
        let admission = Admission::with_limits(2, 0, 1);
        assert!(admission.admit(HOME, Speaks::Pulsar).is_ok());
        assert!(admission.admit(HOME, Speaks::Pulsar).is_ok());
        assert_eq!(admission.admit(HOME, Speaks::Pulsar), Err("brokerMaxConnections"));
        assert!(admission.admit(HOME, Speaks::Http).is_ok());
        admission.leave(HOME, Speaks::Pulsar);
        assert!(admission.admit(HOME, Speaks::Pulsar).is_ok());
    }

    #[test]
    fn one_address_cannot_take_more_than_its_limit() {
        let admission = Admission::with_limits(0, 1, 1);
        let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        assert!(admission.admit(HOME, Speaks::Pulsar).is_ok());
        assert_eq!(admission.admit(HOME, Speaks::Pulsar), Err("brokerMaxConnectionsPerIp"));
        assert!(admission.admit(other, Speaks::Pulsar).is_ok());
        admission.leave(HOME, Speaks::Pulsar);
        assert!(admission.admit(HOME, Speaks::Pulsar).is_ok());
    }
}
