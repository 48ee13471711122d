//! Which worker owns what: topics by their name, connections by load when they are accepted.

use std::hash::{DefaultHasher, Hash, Hasher};

use wire::TopicName;

/// The worker that owns a topic; the same for every caller as long as as many loops work.
pub(crate) fn topic_worker(name: &TopicName, workers: usize) -> u16 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let index = hasher.finish() % workers.max(1) as u64;
    u16::try_from(index).unwrap_or(0)
}

/// The worker for a new connection: the less loaded of two picked at random. Never in turn: a client opens a lookup
/// connection and then a data connection, and taking turns would put every data connection on every other worker.
pub(crate) fn connection_worker(loads: &[usize], pick: &mut impl FnMut(usize) -> usize) -> usize {
    if loads.len() < 2 {
        return 0;
    }
    let first = pick(loads.len());
    let second = pick(loads.len());
    let load = |i: usize| loads.get(i).copied().unwrap_or(usize::MAX);
    if load(second) < load(first) { second } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternating_lookup_and_data_connections_still_spread_over_all_workers() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut loads = vec![0; 8];
        let mut data = vec![0; 8];
        for connection in 0..1000 {
            let worker = connection_worker(&loads, &mut |n| random.usize(..n));
            loads[worker] += 1;
            if connection % 2 == 1 {
                data[worker] += 1;
            }
        }
        assert!(data.iter().all(|&d| d > 30), "{data:?}");
    }
}
