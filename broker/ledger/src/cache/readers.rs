//! Where a topic's readers are, in order: how many stand at or before an entry, and how far behind it the nearest one is.
//!
//! Cursors at the same place share a stop, stops form a list in order of place, and up to 64 neighbouring stops form a block that
//! knows how many cursors it has. A reader that moves on passes few stops, so a move looks at its neighbours only: O(1) for one that
//! passes nobody or joins the next, O(passed) for a few, and O(blocks) for a leap. A rank adds up blocks: O(c / 64) for c places.

use std::mem;

/// No stop, no block.
const NONE: u32 = u32::MAX;

/// A block with more stops is split.
const BLOCK_STOPS: u32 = 64;

/// Steps from stop to stop before whole blocks are leapt over.
const STEPS: usize = 16;

/// The places of a topic's cursors.
#[derive(Clone, Debug)]
pub struct Readers {
    /// By cursor: its stop.
    cursors: Vec<u32>,
    stops: Vec<Stop>,
    free_stops: Vec<u32>,
    blocks: Vec<Block>,
    free_blocks: Vec<u32>,
    first_block: u32,
    last_block: u32,
    count: u32,
}

/// One place, and how many cursors are there.
#[derive(Clone, Copy, Debug)]
struct Stop {
    at: u64,
    cursors: u32,
    before: u32,
    after: u32,
    block: u32,
}

/// Neighbouring stops.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The first and the last of its stops.
    first: u32,
    last: u32,
    stops: u32,
    cursors: u32,
    before: u32,
    after: u32,
}

impl Default for Readers {
    fn default() -> Readers {
        Readers::new()
    }
}

impl Readers {
    /// Nobody reads.
    #[must_use]
    pub fn new() -> Readers {
        Readers {
            cursors: Vec::new(),
            stops: Vec::new(),
            free_stops: Vec::new(),
            blocks: Vec::new(),
            free_blocks: Vec::new(),
            first_block: NONE,
            last_block: NONE,
            count: 0,
        }
    }

    /// How many cursors there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether nobody reads.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Where a cursor is.
    #[must_use]
    pub fn place(&self, cursor: u32) -> Option<u64> {
        let stop = *self.cursors.get(cursor as usize)?;
        self.stops.get(stop as usize).map(|stop| stop.at)
    }

    /// Puts a cursor at a place, wherever it was. Cursor numbers are dense: the memory is that of the highest.
    pub fn set(&mut self, cursor: u32, at: u64) {
        let index = cursor as usize;
        if self.cursors.len() <= index {
            self.cursors.resize(index + 1, NONE);
        }
        match self.cursors[index] {
            NONE => {
                self.count += 1;
                let stop = self.arrive(self.last_stop(), at);
                self.cursors[index] = stop;
            }
            stop if self.stops[stop as usize].at == at => {}
            stop => self.cursors[index] = self.travel(stop, at),
        }
    }

    /// Takes a cursor out.
    pub fn remove(&mut self, cursor: u32) {
        if let Some(place) = self.cursors.get_mut(cursor as usize) {
            let stop = mem::replace(place, NONE);
            if stop != NONE {
                self.count -= 1;
                self.depart(stop);
            }
        }
    }

    /// The place of the slowest cursor.
    #[must_use]
    pub fn slowest(&self) -> Option<u64> {
        let block = self.blocks.get(self.first_block as usize)?;
        Some(self.stops[block.first as usize].at)
    }

    /// The place of the fastest cursor.
    #[must_use]
    pub fn fastest(&self) -> Option<u64> {
        self.stops.get(self.last_stop() as usize).map(|stop| stop.at)
    }

    /// How many cursors stand at or before `at`: so many will read the entry there, if they go on.
    #[must_use]
    pub fn at_or_before(&self, at: u64) -> usize {
        let mut count = 0;
        let mut block = self.first_block;
        while block != NONE {
            let here = &self.blocks[block as usize];
            if self.stops[here.last as usize].at > at {
                let mut stop = here.first;
                while self.stops[stop as usize].at <= at {
                    count += self.stops[stop as usize].cursors;
                    stop = self.stops[stop as usize].after;
                }
                break;
            }
            count += here.cursors;
            block = here.after;
        }
        count as usize
    }

    /// The place of the nearest cursor at or before `at`: who reads the entry there next.
    #[must_use]
    pub fn next_reader(&self, at: u64) -> Option<u64> {
        // Most questions are about entries near the fastest reader.
        let mut block = self.last_block;
        while block != NONE && self.stops[self.blocks[block as usize].first as usize].at > at {
            block = self.blocks[block as usize].before;
        }
        let mut stop = self.blocks.get(block as usize)?.last;
        while self.stops[stop as usize].at > at {
            stop = self.stops[stop as usize].before;
        }
        Some(self.stops[stop as usize].at)
    }

    /// The places from the slowest to the fastest, each with how many cursors are there.
    pub fn places(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let mut next = self.blocks.get(self.first_block as usize).map_or(NONE, |block| block.first);
        std::iter::from_fn(move || {
            let stop = self.stops.get(next as usize)?;
            next = stop.after;
            Some((stop.at, stop.cursors))
        })
    }

    /// Each cursor with its place, by number.
    pub fn cursors(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        (0..).zip(&self.cursors).filter_map(|(cursor, &stop)| Some((cursor, self.stops.get(stop as usize)?.at)))
    }

    fn last_stop(&self) -> u32 {
        self.blocks.get(self.last_block as usize).map_or(NONE, |block| block.last)
    }

    /// A cursor of `stop` goes to `at`; its new stop.
    fn travel(&mut self, stop: u32, at: u64) -> u32 {
        let here = self.stops[stop as usize];
        if here.cursors == 1 {
            let room_before = here.before == NONE || self.stops[here.before as usize].at < at;
            let room_after = here.after == NONE || self.stops[here.after as usize].at > at;
            if room_before && room_after {
                self.stops[stop as usize].at = at;
                return stop;
            }
        }
        if let Some(next) = self.stops.get_mut(here.after as usize).filter(|next| next.at == at) {
            // The commonest move of all: after the others to where they are.
            next.cursors += 1;
            let block = next.block;
            self.blocks[block as usize].cursors += 1;
            self.depart(stop);
            return here.after;
        }
        let found = self.arrive(stop, at);
        self.depart(stop);
        found
    }

    /// One cursor more at `at`; the search begins at the stop `from`.
    fn arrive(&mut self, from: u32, at: u64) -> u32 {
        let before = self.last_at_or_before(from, at);
        if let Some(stop) = self.stops.get_mut(before as usize).filter(|stop| stop.at == at) {
            stop.cursors += 1;
            let block = stop.block;
            self.blocks[block as usize].cursors += 1;
            return before;
        }
        self.put_after(before, at)
    }

    /// The last stop at or before `at`.
    fn last_at_or_before(&self, from: u32, at: u64) -> u32 {
        let mut stop = from;
        if stop == NONE {
            return NONE;
        }
        for _ in 0..STEPS {
            let here = self.stops[stop as usize];
            if here.at > at {
                stop = here.before;
                if stop == NONE {
                    return NONE;
                }
            } else if here.after != NONE && self.stops[here.after as usize].at <= at {
                stop = here.after;
            } else {
                return stop;
            }
        }
        self.leap(self.stops[stop as usize].block, at)
    }

    /// The same by whole blocks, from the block `block`.
    fn leap(&self, mut block: u32, at: u64) -> u32 {
        let starts = |block: u32| self.stops[self.blocks[block as usize].first as usize].at;
        while starts(block) > at {
            block = self.blocks[block as usize].before;
            if block == NONE {
                return NONE;
            }
        }
        loop {
            let after = self.blocks[block as usize].after;
            if after == NONE || starts(after) > at {
                break;
            }
            block = after;
        }
        let mut stop = self.blocks[block as usize].last;
        while self.stops[stop as usize].at > at {
            stop = self.stops[stop as usize].before;
        }
        stop
    }

    /// A new stop with one cursor after the stop `before`, or as the first.
    fn put_after(&mut self, before: u32, at: u64) -> u32 {
        let block = match self.stops.get(before as usize) {
            Some(stop) => stop.block,
            None if self.first_block != NONE => self.first_block,
            None => self.first_of_all(),
        };
        let after = match self.stops.get(before as usize) {
            Some(stop) => stop.after,
            None => self.blocks[block as usize].first,
        };
        let stop = keep(&mut self.stops, &mut self.free_stops, Stop { at, cursors: 1, before, after, block });
        if let Some(neighbour) = self.stops.get_mut(before as usize) {
            neighbour.after = stop;
        }
        if let Some(neighbour) = self.stops.get_mut(after as usize) {
            neighbour.before = stop;
        }
        let home = &mut self.blocks[block as usize];
        if before == NONE || home.first == NONE {
            home.first = stop;
        }
        if home.last == before || home.last == NONE {
            home.last = stop;
        }
        home.stops += 1;
        home.cursors += 1;
        if home.stops > BLOCK_STOPS {
            self.split(block);
        }
        stop
    }

    fn first_of_all(&mut self) -> u32 {
        let empty = Block { first: NONE, last: NONE, stops: 0, cursors: 0, before: NONE, after: NONE };
        let block = keep(&mut self.blocks, &mut self.free_blocks, empty);
        (self.first_block, self.last_block) = (block, block);
        block
    }

    /// The later half of a block becomes a block of its own.
    fn split(&mut self, block: u32) {
        let old = self.blocks[block as usize];
        let fresh = Block { first: NONE, last: old.last, stops: 0, cursors: 0, before: block, after: old.after };
        let fresh = keep(&mut self.blocks, &mut self.free_blocks, fresh);
        let (mut stop, mut cursors) = (old.last, 0);
        let moved = old.stops / 2;
        for step in 1..=moved {
            let here = &mut self.stops[stop as usize];
            here.block = fresh;
            cursors += here.cursors;
            if step < moved {
                stop = here.before;
            }
        }
        let last = self.stops[stop as usize].before;
        let new = &mut self.blocks[fresh as usize];
        (new.first, new.stops, new.cursors) = (stop, moved, cursors);
        let home = &mut self.blocks[block as usize];
        (home.last, home.after) = (last, fresh);
        home.stops -= moved;
        home.cursors -= cursors;
        match self.blocks.get_mut(old.after as usize) {
            Some(neighbour) => neighbour.before = fresh,
            None => self.last_block = fresh,
        }
    }

    /// One cursor fewer at a stop, which goes with its last.
    fn depart(&mut self, stop: u32) {
        let here = &mut self.stops[stop as usize];
        here.cursors -= 1;
        let gone = *here;
        self.blocks[gone.block as usize].cursors -= 1;
        if gone.cursors > 0 {
            return;
        }
        if let Some(neighbour) = self.stops.get_mut(gone.before as usize) {
            neighbour.after = gone.after;
        }
        if let Some(neighbour) = self.stops.get_mut(gone.after as usize) {
            neighbour.before = gone.before;
        }
        self.free_stops.push(stop);
        let home = &mut self.blocks[gone.block as usize];
        home.stops -= 1;
        if home.stops == 0 {
            self.unlink(gone.block);
            return;
        }
        if home.first == stop {
            home.first = gone.after;
        }
        if home.last == stop {
            home.last = gone.before;
        }
        if home.stops < BLOCK_STOPS / 4 {
            self.merge(gone.block);
        }
    }

    fn unlink(&mut self, block: u32) {
        let gone = self.blocks[block as usize];
        match self.blocks.get_mut(gone.before as usize) {
            Some(neighbour) => neighbour.after = gone.after,
            None => self.first_block = gone.after,
        }
        match self.blocks.get_mut(gone.after as usize) {
            Some(neighbour) => neighbour.before = gone.before,
            None => self.last_block = gone.before,
        }
        self.free_blocks.push(block);
    }

    /// A block that has become small takes in the one after it, if both are.
    fn merge(&mut self, block: u32) {
        let next = self.blocks[block as usize].after;
        let Some(&taken) = self.blocks.get(next as usize) else { return };
        if taken.stops + self.blocks[block as usize].stops > BLOCK_STOPS / 2 {
            return;
        }
        let mut stop = taken.first;
        for _ in 0..taken.stops {
            let here = &mut self.stops[stop as usize];
            here.block = block;
            stop = here.after;
        }
        let home = &mut self.blocks[block as usize];
        home.last = taken.last;
        home.stops += taken.stops;
        home.cursors += taken.cursors;
        self.unlink(next);
    }
}

/// Puts a value into a free place, or a new one.
fn keep<T>(slab: &mut Vec<T>, free: &mut Vec<u32>, value: T) -> u32 {
    if let Some(place) = free.pop() {
        slab[place as usize] = value;
        return place;
    }
    slab.push(value);
    (slab.len() - 1) as u32
}

#[cfg(test)]
mod tests;
