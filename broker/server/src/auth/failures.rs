//! Logins that failed, by address: who fails again and again is not looked at for a while, so that guessing is slow and costs us
//! little.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Over how long failures are counted, and how long an address is kept out that has had its share.
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are remembered; beyond it new ones are not counted.
const MOST_ADDRESSES: usize = 10_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Failures {
    /// Failures within the window that an address may have; 0 is no limit.
    most: u32,
    addresses: Mutex<HashMap<IpAddr, Window>>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    began: Instant,
    failures: u32,
}

impl Failures {
    pub(crate) fn new(most: u32) -> Failures {
        Failures { most, addresses: Mutex::default() }
    }

    /// For how many more seconds an address is kept out, if it is.
    pub(crate) fn kept_out(&self, address: IpAddr, now: Instant) -> Option<u64> {
        let addresses = self.lock();
        let window = addresses.get(&whole(address)).filter(|window| self.most > 0 && window.failures >= self.most)?;
        let left = WINDOW.checked_sub(now.duration_since(window.began)).filter(|left| !left.is_zero())?;
        Some(left.as_secs().max(1))
    }

    /// A login from there failed.
    pub(crate) fn count(&self, address: IpAddr, now: Instant) {
        if self.most == 0 {
            return;
        }
        let mut addresses = self.lock();
        let ended = |window: &Window| now.duration_since(window.began) >= WINDOW;
        if addresses.len() >= MOST_ADDRESSES {
            addresses.retain(|_, window| !ended(window));
        }
        if addresses.len() >= MOST_ADDRESSES && !addresses.contains_key(&whole(address)) {
            return;
        }
        let window = addresses.entry(whole(address)).or_insert(Window { began: now, failures: 0 });
        if ended(window) {
            *window = Window { began: now, failures: 0 };
        }
        window.failures += 1;
        if window.failures == self.most {
            // From the last failure on, not from the first.
            window.began = now;
            tracing::warn!(%address, failures = self.most, "logins from this address are refused for a minute: they failed again and again");
        }
    }

    /// Addresses that are kept out now.
    pub(crate) fn kept_out_now(&self, now: Instant) -> usize {
        let out = |window: &&Window| self.most > 0 && window.failures >= self.most && now.duration_since(window.began) < WINDOW;
        self.lock().values().filter(out).count()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Window>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever has one address of IPv6 has all of its network.
fn whole(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> IpAddr {
        "192.0.2.7".parse().expect("an address")
    }

    #[test]
    fn an_address_that_failed_too_often_is_kept_out_for_the_window_and_others_are_not() {
        let (failures, now) = (Failures::new(3), Instant::now());
        for _ in 0..2 {
            failures.count(home(), now);
        }
        assert_eq!(failures.kept_out(home(), now), None);
        failures.count(home(), now);
        assert_eq!((failures.kept_out(home(), now), failures.kept_out_now(now)), (Some(60), 1));
        assert_eq!(failures.kept_out("192.0.2.8".parse().expect("an address"), now), None);
        assert_eq!((failures.kept_out(home(), now + WINDOW), failures.kept_out_now(now + WINDOW)), (None, 0));
        failures.count(home(), now + WINDOW);
        assert_eq!(failures.kept_out(home(), now + WINDOW), None, "it begins anew");
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one() {
        let (failures, now) = (Failures::new(2), Instant::now());
        failures.count("2001:db8::1".parse().expect("an address"), now);
        failures.count("2001:db8::2".parse().expect("an address"), now);
        assert!(failures.kept_out("2001:db8::3".parse().expect("an address"), now).is_some());
        assert!(failures.kept_out("2001:db8:0:1::3".parse().expect("an address"), now).is_none());
    }

    #[test]
    fn what_is_remembered_has_a_bound_and_zero_is_no_limit() {
        let (failures, now) = (Failures::new(1), Instant::now());
        for n in 0..2 * MOST_ADDRESSES as u32 {
            failures.count(IpAddr::V4(n.into()), now);
        }
        assert_eq!(failures.lock().len(), MOST_ADDRESSES);
        let off = Failures::new(0);
        off.count(home(), now);
        assert_eq!((off.kept_out(home(), now), off.lock().len()), (None, 0));
    }
}
