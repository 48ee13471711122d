//! Pages in a row: what queues, recency lists and moving hands have in common.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::super::policy::Page;

const NONE: u32 = u32::MAX;

/// Pages are numbers that the cache gave itself: nobody can choose them to collide, so a multiplication is enough.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PageHash(u64);

impl Hasher for PageHash {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

/// A map by page. Its order is never looked at, so that the same events always have the same outcome.
pub(crate) type PageMap<T> = HashMap<Page, T, BuildHasherDefault<PageHash>>;

/// A place in the row; it stays valid until its page is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot(u32);

/// Pages in a row, each found in O(1).
#[derive(Debug)]
pub(crate) struct Order<T> {
    nodes: Vec<Node<T>>,
    free: Vec<u32>,
    index: PageMap<u32>,
    head: u32,
    tail: u32,
}

#[derive(Debug)]
struct Node<T> {
    page: Page,
    value: T,
    before: u32,
    after: u32,
}

impl<T: Copy> Order<T> {
    pub(crate) fn new() -> Order<T> {
        Order { nodes: Vec::new(), free: Vec::new(), index: PageMap::default(), head: NONE, tail: NONE }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Bytes of memory, roughly.
    pub(crate) fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<T>>() + self.index.capacity() * size_of::<(Page, u32)>()
    }

    /// Adds a page that is not there at the end.
    pub(crate) fn push(&mut self, page: Page, value: T) {
        let node = Node { page, value, before: self.tail, after: NONE };
        let spot = if let Some(spot) = self.free.pop() {
            self.nodes[spot as usize] = node;
            spot
        } else {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        };
        self.index.insert(page, spot);
        self.link_last(spot);
    }

    pub(crate) fn get_mut(&mut self, page: Page) -> Option<&mut T> {
        let spot = *self.index.get(&page)?;
        Some(&mut self.nodes[spot as usize].value)
    }

    pub(crate) fn contains(&self, page: Page) -> bool {
        self.index.contains_key(&page)
    }

    pub(crate) fn remove(&mut self, page: Page) -> Option<T> {
        let spot = self.index.remove(&page)?;
        self.unlink(spot);
        self.free.push(spot);
        Some(self.nodes[spot as usize].value)
    }

    pub(crate) fn move_to_end(&mut self, page: Page) {
        if let Some(&spot) = self.index.get(&page) {
            self.unlink(spot);
            self.link_last(spot);
        }
    }

    /// The page in front.
    pub(crate) fn first(&self) -> Option<(Page, T)> {
        self.at(Spot(self.head))
    }

    /// Where the row begins.
    pub(crate) fn begin(&self) -> Option<Spot> {
        (self.head != NONE).then_some(Spot(self.head))
    }

    pub(crate) fn after(&self, spot: Spot) -> Option<Spot> {
        self.nodes.get(spot.0 as usize).map(|node| node.after).filter(|after| *after != NONE).map(Spot)
    }

    pub(crate) fn at(&self, spot: Spot) -> Option<(Page, T)> {
        self.nodes.get(spot.0 as usize).map(|node| (node.page, node.value))
    }

    pub(crate) fn spot(&self, page: Page) -> Option<Spot> {
        self.index.get(&page).copied().map(Spot)
    }

    fn link_last(&mut self, spot: u32) {
        let tail = self.tail;
        let node = &mut self.nodes[spot as usize];
        (node.before, node.after) = (tail, NONE);
        match self.nodes.get_mut(tail as usize) {
            Some(last) => last.after = spot,
            None => self.head = spot,
        }
        self.tail = spot;
    }

    fn unlink(&mut self, spot: u32) {
        let (before, after) = (self.nodes[spot as usize].before, self.nodes[spot as usize].after);
        match self.nodes.get_mut(before as usize) {
            Some(node) => node.after = after,
            None => self.head = after,
        }
        match self.nodes.get_mut(after as usize) {
            Some(node) => node.before = before,
            None => self.tail = before,
        }
    }
}

/// A map by topic.
pub(crate) type TopicMap<T> = HashMap<u32, T, BuildHasherDefault<PageHash>>;
