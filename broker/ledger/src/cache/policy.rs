//! What decides which cached pages go: the contract between the cache, which owns bytes and limits, and a policy, which only has opinions.
//!
//! A policy is a pure function of what it is told, in batches of plain columns ([`Events`]); it has no clock, no references into the cache
//! and no say over the limit. So the same contract can be kept by a component in another address space, the same policy runs live, in a
//! shadow and over a recorded trace, and a policy that is wrong, late or gone can be replaced between two calls.
//!
//! What it costs: a call and a few columns for each batch (at least every 10 ms, about 256 rows), a call for each read from storage, a call
//! for each time that room is needed. Never a call for an entry that is served.

use super::events::Events;

/// The most entries a page holds.
pub const PAGE_ENTRIES: u64 = 64;

/// So many consecutive entries of a topic that are kept and evicted together: entries are numbered within their topic, without gaps
/// between ledgers, and page `number` holds those from `number * size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Page {
    /// The topic, by the number that the cache gave it.
    pub topic: u32,
    /// The page's number within the topic.
    pub number: u64,
}

/// How many entries a page has: a power of two up to [`PAGE_ENTRIES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize(u8);

impl PageSize {
    /// 64 entries: what the cache uses.
    pub const FULL: PageSize = PageSize(6);
    /// One entry: for comparison with caches that evict single entries.
    pub const SINGLE: PageSize = PageSize(0);

    /// A size of so many entries, if that is 1, 2, 4, 8, 16, 32 or 64.
    #[must_use]
    pub fn of(entries: u64) -> Option<PageSize> {
        (entries.is_power_of_two() && entries <= PAGE_ENTRIES).then_some(PageSize(entries.trailing_zeros() as u8))
    }

    /// The number of entries.
    #[must_use]
    pub fn entries(self) -> u64 {
        1 << self.0
    }

    /// The page that entry `entry` of `topic` is in.
    #[must_use]
    pub fn page(self, topic: u32, entry: u64) -> Page {
        Page { topic, number: entry >> self.0 }
    }

    /// The first entry of a page.
    #[must_use]
    pub fn first(self, page: Page) -> u64 {
        page.number << self.0
    }

    /// The entry after the last of a page.
    #[must_use]
    pub fn until(self, page: Page) -> u64 {
        self.first(page).saturating_add(self.entries())
    }

    /// An entry's place within its page.
    #[must_use]
    pub fn slot(self, entry: u64) -> usize {
        (entry & (self.entries() - 1)) as usize
    }

    /// Cuts a range of entries into its pages: each page with its part of the range.
    pub fn split(self, topic: u32, first: u64, until: u64) -> impl Iterator<Item = (Page, u64, u64)> {
        let mut next = first;
        std::iter::from_fn(move || {
            (next < until).then(|| {
                let page = self.page(topic, next);
                let (from, to) = (next, self.until(page).min(until));
                next = to;
                (page, from, to)
            })
        })
    }
}

/// How full the cache is when a policy is asked for victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// Now, in milliseconds of a clock that only grows.
    pub now: u64,
    /// Bytes held.
    pub used: u64,
    /// Bytes that may be held.
    pub limit: u64,
    /// Bytes to free: 0 when the policy is only asked what has grown too old.
    pub need: u64,
}

/// A read that had to go to storage, about to be offered to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageRead {
    /// The topic read.
    pub topic: u32,
    /// Who read.
    pub cursor: u32,
    /// The first entry read.
    pub first: u64,
    /// The entry after the last one read.
    pub until: u64,
    /// Active cursors at or before the first entry, the reader among them.
    pub expected: u32,
}

/// Between which fillings of the cache a policy wants to work, as shares of the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marks {
    /// Above this share the policy is asked for victims.
    pub trigger: f64,
    /// Down to this share.
    pub target: f64,
}

impl Marks {
    /// The whole limit: nothing goes before it must.
    pub const WHOLE: Marks = Marks { trigger: 1.0, target: 1.0 };
}

/// Why a policy has no answer. The cache goes on with its default.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFault {
    /// It took longer than it may.
    #[error("the policy did not answer in time")]
    Late,
    /// It stopped on its own.
    #[error("the policy failed: {0}")]
    Failed(String),
    /// It freed less than was asked although there was more.
    #[error("the policy freed {freed} bytes of {need}")]
    TooLittle {
        /// Bytes of the valid pages it named.
        freed: u64,
        /// Bytes it was asked for.
        need: u64,
    },
    /// It named a page that is not held.
    #[error("the policy named page {number} of topic {topic}, which is not held", number = .0.number, topic = .0.topic)]
    Unknown(Page),
    /// It named a page twice.
    #[error("the policy named page {number} of topic {topic} twice", number = .0.number, topic = .0.topic)]
    Duplicate(Page),
}

/// An opinion about what to keep.
///
/// What it may rely on: rows arrive in the order in which things happened; a page is held from its first insertion until it was named as a
/// victim or a removal left nothing of it. What is asked of it: [`victims`](EvictionPolicy::victims) names held pages, each once, until
/// their bytes reach the need. All that it names are evicted, and it is not told so again.
pub trait EvictionPolicy: Send {
    /// Learns what happened since the last call.
    ///
    /// # Errors
    /// When it cannot go on; it is then replaced.
    fn apply(&mut self, events: &Events) -> Result<(), PolicyFault>;

    /// Whether what was read from storage is worth keeping. Called once for a read, not for an entry.
    fn admits(&mut self, read: &StorageRead) -> bool {
        read.expected > 0
    }

    /// Names pages to evict, in order.
    ///
    /// # Errors
    /// When it has no answer; the cache then asks its default.
    fn victims(&mut self, pressure: &Pressure, out: &mut Vec<Page>) -> Result<(), PolicyFault>;

    /// Between which fillings it is asked.
    fn marks(&self) -> Marks {
        Marks::WHOLE
    }

    /// Bytes of its own memory, roughly.
    fn memory(&self) -> usize;
}
