//! The end of the log in whole pages, for files that are written past the system's cache: the page that the last group ended
//! in is kept in memory and written again in front of the next one.

use std::io;

use super::files::{LogFile, PAGE, WriteFailed};

/// Where what is written is gathered, in memory that begins at a page.
///
/// Each byte of the last page that was durable before is written again as it is, so that whichever sectors of it a crash leaves
/// old or new, they hold the same.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    memory: Vec<u8>,
    /// Where the first page begins in `memory`, and bytes of all pages.
    first: usize,
    room: usize,
    /// Bytes that are gathered.
    used: usize,
    /// Where the first of them lies in the file.
    at: u64,
}

impl Pages {
    /// Room for `bytes`, at least one page.
    pub(crate) fn new(bytes: usize) -> Pages {
        let room = (bytes & !(PAGE - 1)).max(PAGE);
        let memory = vec![0; room + PAGE];
        let first = memory.as_ptr().align_offset(PAGE).min(PAGE);
        Pages { memory, first, room, used: 0, at: 0 }
    }

    /// Goes on at `end` of `file`, whose last page is read.
    pub(crate) fn go_on(&mut self, file: &dyn LogFile, end: u64) -> io::Result<()> {
        self.at = end - end % PAGE as u64;
        self.used = (end - self.at) as usize;
        let tail = &mut self.memory[self.first..self.first + self.used];
        if file.read_at(tail, self.at)? < self.used {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Goes on where `before` ends, whose last page is copied if it is not full.
    pub(crate) fn follow(&mut self, before: &Pages) {
        let whole = before.used & !(PAGE - 1);
        self.at = before.at + whole as u64;
        self.used = before.used - whole;
        let tail = &before.memory[before.first + whole..before.first + before.used];
        self.memory[self.first..self.first + self.used].copy_from_slice(tail);
    }

    /// Takes as much of `part` as there is room for; returns the rest.
    pub(crate) fn fill<'a>(&mut self, part: &'a [u8]) -> &'a [u8] {
        let (now, later) = part.split_at(part.len().min(self.room - self.used));
        let to = self.first + self.used;
        self.memory[to..to + now.len()].copy_from_slice(now);
        self.used += now.len();
        later
    }

    /// Whether there is no room left.
    pub(crate) fn is_full(&self) -> bool {
        self.used == self.room
    }

    /// Writes what is gathered.
    pub(crate) fn write(&mut self, file: &dyn LogFile) -> Result<(), WriteFailed> {
        let pages = self.used.next_multiple_of(PAGE);
        let (from, to) = (self.first, self.first + pages);
        self.memory[from + self.used..to].fill(0);
        let mut done = 0;
        while done < pages {
            match file.write_pages(&self.memory[from + done..to], self.at + done as u64) {
                // Short writes happen; a page that was cut is written again.
                Ok(written) if written >= PAGE => done += written & !(PAGE - 1),
                Ok(_) => return Err(WriteFailed::half_way(io::ErrorKind::WriteZero.into())),
                Err(error) => return Err(WriteFailed::half_way(error)),
            }
        }
        Ok(())
    }

    /// Forgets what was written, and keeps of it what does not fill a page.
    pub(crate) fn keep_last_page(&mut self) {
        let whole = self.used & !(PAGE - 1);
        self.memory.copy_within(self.first + whole..self.first + self.used, self.first);
        self.at += whole as u64;
        self.used -= whole;
    }
}
