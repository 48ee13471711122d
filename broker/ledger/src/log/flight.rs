//! The way from the writer to the disk: while one group is written and synced, the next one is copied into pages.
//!
//! Jobs are done strictly one after the other, so no byte of a group is written before the group in front of it is durable; only
//! the copying runs ahead, by as much as the buffers hold.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::landing::{Lander, Landing};
use super::pages::Pages;
use super::segment::Segment;

/// Buffers that exist at most: one is filled, one is written, one waits.
const BUFFERS: usize = 4;

/// What is to be done, in order.
enum Job {
    Write(Arc<Segment>, Pages),
    Land(Landing),
}

/// The writer's end.
pub(crate) struct Flight {
    lane: Arc<Lane>,
    /// Does the jobs while no thread does: as late as it may, so that a simulation sees the boldest order.
    by_hand: Option<Lander>,
    /// Bytes of a buffer, and how many there are.
    room: usize,
    buffers: usize,
}

/// The other end, for a thread of its own.
pub(crate) struct Landings {
    lane: Arc<Lane>,
    lander: Lander,
}

struct Lane {
    state: Mutex<State>,
    /// For the thread, and for the writer.
    work: Condvar,
    done: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    free: Vec<Pages>,
    /// A group was sent and has not landed.
    in_flight: bool,
    /// The writer has the next one ready and wants to be told.
    next_is_ready: bool,
    thread_waits: bool,
    writer_waits: bool,
    closed: bool,
}

impl Flight {
    /// With buffers of `room` bytes.
    pub(crate) fn new(room: usize, lander: Lander) -> Flight {
        let lane = Lane { state: Mutex::default(), work: Condvar::new(), done: Condvar::new() };
        Flight { lane: Arc::new(lane), by_hand: Some(lander), room, buffers: 0 }
    }

    /// From now on the jobs are done by whoever runs what this returns; none if somebody does already.
    pub(crate) fn landings(&mut self) -> Option<Landings> {
        Some(Landings { lane: self.lane.clone(), lander: self.by_hand.take()? })
    }

    /// A buffer, when one is free.
    pub(crate) fn buffer(&mut self) -> Pages {
        if self.buffers < BUFFERS && self.lane.lock().free.is_empty() {
            self.buffers += 1;
            return Pages::new(self.room);
        }
        self.until(|state| state.free.pop())
    }

    /// Takes an unused buffer back.
    pub(crate) fn give_back(&self, pages: Pages) {
        self.lane.lock().free.push(pages);
    }

    /// Has a part of the next group written.
    pub(crate) fn write(&self, segment: Arc<Segment>, pages: Pages) {
        self.lane.send(self.lane.lock(), Job::Write(segment, pages));
    }

    /// Has a group synced and reported, once the one before has landed and what was to be written is written.
    pub(crate) fn land(&mut self, landing: Landing) {
        self.until_landed();
        let mut state = self.lane.lock();
        state.in_flight = true;
        self.lane.send(state, Job::Land(landing));
    }

    /// Whether every group that was sent has landed. If not, the log's queue is nudged when it has.
    pub(crate) fn has_landed_or_tells(&self) -> bool {
        let mut state = self.lane.lock();
        state.next_is_ready = state.in_flight;
        !state.in_flight
    }

    /// Whether every group that was sent has landed.
    pub(crate) fn has_landed(&self) -> bool {
        !self.lane.lock().in_flight
    }

    /// Waits until it has.
    pub(crate) fn until_landed(&mut self) {
        self.until(|state| (!state.in_flight).then_some(()));
    }

    /// Waits, or does jobs, until `look` finds what it looks for.
    fn until<T>(&mut self, look: impl Fn(&mut State) -> Option<T>) -> T {
        loop {
            let mut state = self.lane.lock();
            if let Some(found) = look(&mut state) {
                return found;
            }
            let Some(lander) = &mut self.by_hand else {
                state.writer_waits = true;
                drop(self.lane.done.wait(state).unwrap_or_else(PoisonError::into_inner));
                continue;
            };
            let job = state.jobs.pop_front();
            drop(state);
            if let Some(job) = job {
                self.lane.perform(job, lander);
            }
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut state = self.lane.lock();
        state.closed = true;
        self.lane.work.notify_one();
    }
}

impl Landings {
    /// Does the jobs until the writer has gone.
    pub(crate) fn run(mut self) {
        while let Some(job) = self.lane.next() {
            self.lane.perform(job, &mut self.lander);
        }
    }
}

impl Lane {
    fn send(&self, mut state: MutexGuard<'_, State>, job: Job) {
        state.jobs.push_back(job);
        // Waking costs a system call; a thread that is busy looks again by itself.
        if std::mem::take(&mut state.thread_waits) {
            drop(state);
            self.work.notify_one();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state.thread_waits = true;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn perform(&self, job: Job, lander: &mut Lander) {
        let (free, has_landed) = match job {
            Job::Write(segment, mut pages) => {
                lander.write(&segment, &mut pages);
                (Some(pages), false)
            }
            Job::Land(mut landing) => {
                lander.land(&mut landing);
                (None, true)
            }
        };
        let mut state = self.lock();
        state.free.extend(free);
        state.in_flight &= !has_landed;
        let tells = has_landed && std::mem::take(&mut state.next_is_ready);
        let wakes = std::mem::take(&mut state.writer_waits);
        drop(state);
        if wakes {
            self.done.notify_one();
        }
        if tells {
            lander.nudge();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
