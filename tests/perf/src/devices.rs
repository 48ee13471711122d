//! The devices: who they are, what number their next reading has, and whether one of theirs is on its way.

use fastrand::Rng;

/// Bytes of a device's id.
pub const ID_BYTES: usize = 16;

/// The binary id of a device: the same in every run, spread over all values, so that keys are.
#[must_use]
pub fn id(device: u32) -> [u8; ID_BYTES] {
    let mut id = [0; ID_BYTES];
    let (high, low) = id.split_at_mut(8);
    high.copy_from_slice(&scattered(u64::from(device)).to_be_bytes());
    low.copy_from_slice(&scattered(u64::from(device) | 1 << 40).to_be_bytes());
    id
}

/// The finalizer of splitmix64: a bijection without a pattern.
fn scattered(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// How devices are dealt to topics and threads. Device `d` has topic `d mod topics`, for good.
#[derive(Clone, Copy, Debug)]
pub struct Dealt {
    /// Devices in all.
    pub devices: usize,
    /// Topics.
    pub topics: usize,
    /// Threads that drive devices.
    pub threads: usize,
}

/// The devices that one thread drives.
#[derive(Debug)]
pub struct Devices {
    dealt: Dealt,
    thread: usize,
    /// The next number, and in the lowest bit whether something is on its way.
    states: Vec<u32>,
    rng: Rng,
}

/// Random looks for an idle device before all are walked through. Since at most half are busy, they nearly always suffice.
const LOOKS: usize = 64;

impl Devices {
    /// The share of a thread; `seed` decides in which order devices have something to say.
    #[must_use]
    pub fn new(dealt: Dealt, thread: usize, seed: u64) -> Self {
        let places = dealt.devices.div_ceil(dealt.topics).div_ceil(dealt.threads) * dealt.topics;
        Self { dealt, thread, states: vec![0; places], rng: Rng::with_seed(seed ^ (thread as u64) << 32) }
    }

    /// An idle device of the topic, if there is one; it is busy from now on. Returns it with the number of its next reading.
    pub fn begin(&mut self, topic: usize, readings: u32) -> Option<(u32, u32)> {
        let count = self.count_of(topic);
        let place = |nth: usize| topic + self.dealt.topics * nth;
        let random = (0..LOOKS.min(count)).map(|_| place(self.rng.usize(..count))).find(|at| self.states[*at] & 1 == 0);
        let at = random.or_else(|| (0..count).map(place).find(|at| self.states[*at] & 1 == 0))?;
        let number = self.states[at] >> 1;
        self.states[at] = (number + readings) << 1 | 1;
        let nth = at / self.dealt.topics;
        let device = topic + self.dealt.topics * (self.thread + self.dealt.threads * nth);
        Some((u32::try_from(device).expect("devices are fewer than 2^24"), number))
    }

    /// What the device sent has its receipt.
    pub fn end(&mut self, device: u32) {
        let device = device as usize;
        let (topic, slot) = (device % self.dealt.topics, device / self.dealt.topics);
        self.states[topic + self.dealt.topics * (slot / self.dealt.threads)] &= !1;
    }

    /// The numbers that come next, for [`Dealt::gather`].
    #[must_use]
    pub fn numbers(&self) -> Vec<u32> {
        self.states.iter().map(|state| state >> 1).collect()
    }

    fn count_of(&self, topic: usize) -> usize {
        self.dealt.count_of(topic, self.thread)
    }
}

impl Dealt {
    /// Puts what a thread told of its devices where all devices are counted.
    pub fn gather(&self, thread: usize, numbers: &[u32], all: &mut [u32]) {
        for topic in 0..self.topics {
            for nth in 0..self.count_of(topic, thread) {
                all[topic + self.topics * (thread + self.threads * nth)] = numbers[topic + self.topics * nth];
            }
        }
    }

    fn count_of(&self, topic: usize, thread: usize) -> usize {
        let on_topic = (self.devices - topic.min(self.devices)).div_ceil(self.topics);
        (on_topic - thread.min(on_topic)).div_ceil(self.threads)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_distinct_and_always_the_same() {
        let ids: BTreeSet<_> = (0..10_000).map(id).collect();
        assert_eq!(ids.len(), 10_000);
        assert_eq!(id(7), id(7));
        assert_ne!(id(0), [0; ID_BYTES]);
    }

    #[test]
    fn threads_share_all_devices_without_overlap() {
        let dealt = Dealt { devices: 103, topics: 4, threads: 3 };
        let mut seen = BTreeSet::new();
        for thread in 0..3 {
            let mut devices = Devices::new(dealt, thread, 1);
            for topic in 0..4 {
                while let Some((device, number)) = devices.begin(topic, 2) {
                    assert_eq!((device as usize % 4, number), (topic, 0));
                    assert!(seen.insert(device), "device {device} belongs to two threads or was busy");
                }
            }
            let mut next = vec![0; 103];
            dealt.gather(thread, &devices.numbers(), &mut next);
            assert!(next.iter().enumerate().all(|(device, next)| *next == 2 * u32::from(device / 4 % 3 == thread)));
        }
        assert_eq!(seen.len(), 103);
    }

    #[test]
    fn a_device_has_one_send_in_flight() {
        let mut devices = Devices::new(Dealt { devices: 2, topics: 1, threads: 1 }, 0, 1);
        let (first, second) = (devices.begin(0, 1).unwrap(), devices.begin(0, 1).unwrap());
        assert_ne!(first.0, second.0);
        assert_eq!(devices.begin(0, 1), None);
        devices.end(first.0);
        assert_eq!(devices.begin(0, 1), Some((first.0, 1)));
    }

    #[test]
    fn the_same_seed_lets_devices_speak_in_the_same_order() {
        let order = |seed| {
            let mut devices = Devices::new(Dealt { devices: 1000, topics: 1, threads: 1 }, 0, seed);
            (0..100).map(|_| devices.begin(0, 1).unwrap().0).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}
