//! The books of a durability run: what was sent and acknowledged, what came back, and how the two compare.
//!
//! They are kept in the process of the test, so nothing the broker does can change them.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

/// Length of the header of a [`payload`]: topic, sequence, checksum of all that follows it and of these two.
const HEADER: usize = 4 + 8 + 4;

/// One message of a run: says which it is, and carries a checksum over all of itself.
#[must_use]
pub fn payload(topic: u32, sequence: u64, size: usize) -> Bytes {
    let mut out = BytesMut::with_capacity(size.max(HEADER));
    out.put_u32(topic);
    out.put_u64(sequence);
    out.put_u32(0);
    // A cheap generator; what counts is that no two messages share a body.
    let mut state = (u64::from(topic) << 40) ^ sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    while out.len() + 8 <= size {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        out.put_u64(state);
    }
    out.resize(size.max(HEADER), 7);
    let checksum = checksum_of(&out);
    out[12..HEADER].copy_from_slice(&checksum.to_be_bytes());
    out.freeze()
}

/// The checksum inside a payload made by [`payload`].
#[must_use]
pub fn checksum(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload[12..HEADER].try_into().expect("four bytes"))
}

fn checksum_of(payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&payload[..12]), &payload[HEADER..])
}

/// Takes a payload apart; `None` when it is not what some [`payload`] call made.
#[must_use]
pub fn open(payload: &[u8]) -> Option<(u32, u64, u32)> {
    let topic = u32::from_be_bytes(payload.get(..4)?.try_into().ok()?);
    let sequence = u64::from_be_bytes(payload.get(4..12)?.try_into().ok()?);
    let stated = u32::from_be_bytes(payload.get(12..HEADER)?.try_into().ok()?);
    (stated == checksum_of(payload)).then_some((topic, sequence, stated))
}

#[derive(Clone, Debug, Default)]
struct Sent {
    checksum: u32,
    acked: bool,
    seen: u32,
}

/// The books of one topic with one producer, whose sequences count from 0.
#[derive(Clone, Debug, Default)]
struct Page {
    sent: Vec<Sent>,
    /// One more than the highest sequence seen, so that a first sight below it is out of order.
    next: u64,
    reordered: u64,
    corrupted: u64,
}

/// The books of a run.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    pages: Vec<Page>,
    missing: u64,
}

/// What the books say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Messages whose producer has a receipt.
    pub acked: u64,
    /// Of these, the ones that never came back.
    pub lost: u64,
    /// Messages that came more than once, counted each time too often.
    pub duplicated: u64,
    /// Messages that came for the first time after a later one of their producer.
    pub reordered: u64,
    /// Messages that are not what was sent.
    pub corrupted: u64,
}

impl Verdict {
    /// Whether the promise was kept. Duplicates are allowed: a consumer whose acks were cut off gets messages again.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.lost == 0 && self.reordered == 0 && self.corrupted == 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acked, lost, duplicated, reordered, corrupted } = self;
        write!(f, "acked={acked} lost={lost} duplicated={duplicated} reordered={reordered} corrupted={corrupted}")
    }
}

impl Audit {
    /// Empty books for this many topics.
    #[must_use]
    pub fn new(topics: usize) -> Self {
        Self { pages: vec![Page::default(); topics], missing: 0 }
    }

    /// The sequence the topic's next message must have.
    #[must_use]
    pub fn next_sequence(&self, topic: usize) -> u64 {
        self.pages[topic].sent.len() as u64
    }

    /// A message is about to be sent.
    pub fn sent(&mut self, topic: usize, sequence: u64, checksum: u32) {
        assert_eq!(sequence, self.next_sequence(topic), "sequences are written down one by one");
        self.pages[topic].sent.push(Sent { checksum, ..Sent::default() });
    }

    /// Its receipt has come.
    pub fn acked(&mut self, topic: usize, sequence: u64) {
        let sent = &mut self.pages[topic].sent[usize::try_from(sequence).expect("fits")];
        self.missing += u64::from(sent.seen == 0 && !sent.acked);
        sent.acked = true;
    }

    /// The same books for a second reading of the first so many topics: what was sent and acknowledged, and nothing seen so far.
    #[must_use]
    pub fn unread(&self, topics: usize) -> Self {
        let mut pages: Vec<_> = self.pages.iter().take(topics).cloned().collect();
        for page in &mut pages {
            page.sent.iter_mut().for_each(|sent| sent.seen = 0);
            *page = Page { sent: std::mem::take(&mut page.sent), ..Page::default() };
        }
        let missing = pages.iter().flat_map(|page| &page.sent).filter(|sent| sent.acked).count() as u64;
        Self { pages, missing }
    }

    /// Messages that have a receipt and have not come back so far.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// A payload has come back on this topic.
    pub fn seen(&mut self, topic: usize, payload: &[u8]) {
        let page = &mut self.pages[topic];
        let known = open(payload).filter(|(stated, ..)| *stated as usize == topic);
        let sent = known.and_then(|(_, sequence, sum)| Some((sequence, sum, page.sent.get_mut(usize::try_from(sequence).ok()?)?)));
        let Some((sequence, _, sent)) = sent.filter(|(_, sum, sent)| sent.checksum == *sum) else {
            page.corrupted += 1;
            return;
        };
        sent.seen += 1;
        if sent.seen == 1 {
            self.missing -= u64::from(sent.acked);
            page.reordered += u64::from(sequence < page.next);
            page.next = page.next.max(sequence + 1);
        }
    }

    /// The sum over all topics.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let mut sum = Verdict::default();
        for page in &self.pages {
            let all = || page.sent.iter();
            sum.acked += all().filter(|sent| sent.acked).count() as u64;
            sum.lost += all().filter(|sent| sent.acked && sent.seen == 0).count() as u64;
            sum.duplicated += all().map(|sent| u64::from(sent.seen.saturating_sub(1))).sum::<u64>();
            sum.reordered += page.reordered;
            sum.corrupted += page.corrupted;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Books of one topic: this many messages sent and acknowledged, these seen, in this order.
    fn books(sent: u64, seen: &[u64]) -> Audit {
        let mut audit = Audit::new(1);
        for sequence in 0..sent {
            audit.sent(0, sequence, checksum(&payload(0, sequence, 128)));
            audit.acked(0, sequence);
        }
        for sequence in seen {
            audit.seen(0, &payload(0, *sequence, 128));
        }
        audit
    }

    #[test]
    fn clean_books_are_clean() {
        let verdict = books(4, &[0, 1, 2, 3]).verdict();
        assert_eq!(verdict, Verdict { acked: 4, ..Verdict::default() });
        assert!(verdict.is_clean());
    }

    #[test]
    fn a_missing_acknowledged_message_is_lost() {
        let audit = books(4, &[0, 1, 3]);
        let verdict = audit.verdict();
        assert_eq!((verdict.lost, audit.missing()), (1, 1));
        assert!(!verdict.is_clean());
    }

    #[test]
    fn a_second_reading_begins_with_everything_missing() {
        let mut again = books(3, &[0, 2, 1, 7]).unread(1);
        assert_eq!((again.missing(), again.verdict()), (3, Verdict { acked: 3, lost: 3, ..Verdict::default() }));
        (0..3).for_each(|sequence| again.seen(0, &payload(0, sequence, 128)));
        assert!(again.missing() == 0 && again.verdict().is_clean());
    }

    #[test]
    fn a_missing_message_without_a_receipt_is_not_lost() {
        let mut audit = books(2, &[0, 1]);
        audit.sent(0, 2, checksum(&payload(0, 2, 128)));
        assert!(audit.verdict().is_clean());
    }

    #[test]
    fn a_first_sight_after_a_later_message_is_reordered_but_a_repetition_is_not() {
        let verdict = books(4, &[0, 2, 1, 3]).verdict();
        assert_eq!((verdict.reordered, verdict.duplicated), (1, 0));
        assert!(!verdict.is_clean());
        let verdict = books(4, &[0, 1, 2, 1, 2, 3]).verdict();
        assert_eq!((verdict.reordered, verdict.duplicated), (0, 2));
        assert!(verdict.is_clean());
    }

    #[test]
    fn a_flipped_bit_a_foreign_topic_and_an_unknown_sequence_are_corrupted() {
        for at in [0, 5, 13, 20, 127] {
            let mut audit = books(1, &[]);
            let mut bad = payload(0, 0, 128).to_vec();
            bad[at] ^= 4;
            audit.seen(0, &bad);
            assert_eq!(audit.verdict().corrupted, 1, "bit flipped in byte {at}");
        }
        let mut audit = books(1, &[9]);
        audit.seen(0, &payload(1, 0, 128));
        audit.seen(0, b"short");
        assert_eq!(audit.verdict().corrupted, 3);
    }

    #[test]
    fn a_whole_message_with_the_wrong_body_is_corrupted() {
        let mut audit = books(1, &[]);
        audit.seen(0, &payload(0, 0, 256));
        assert_eq!(audit.verdict().corrupted, 1);
    }
}
