//! A few threads for slow control work: metadata reads and commits, topic loads. They hold no topic state.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

/// The pool. Questions go before loads, so that a broker that loads thousands of topics still answers lookups at once.
#[derive(Debug)]
pub(crate) struct Control {
    queue: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Queue {
    waiting: Mutex<Waiting>,
    wake: Condvar,
    max_loads: usize,
}

#[derive(Default)]
struct Waiting {
    questions: VecDeque<Job>,
    loads: VecDeque<Job>,
    /// Loads that are being done.
    loading: usize,
    stopped: bool,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Waiting { questions, loads, loading, stopped } = self;
        write!(f, "{} questions, {} loads, {loading} loading, stopped {stopped}", questions.len(), loads.len())
    }
}

impl Control {
    /// Starts `threads` threads. With more than one, one is always left for questions; never more than `max_loads` load at once.
    pub(crate) fn start(threads: usize, max_loads: usize) -> io::Result<Control> {
        let threads = threads.max(1);
        let max_loads = (threads - 1).clamp(1, max_loads.max(1));
        let queue = Arc::new(Queue { waiting: Mutex::default(), wake: Condvar::new(), max_loads });
        let mut handles = Vec::new();
        for index in 0..threads {
            let queue = queue.clone();
            handles.push(std::thread::Builder::new().name(format!("geminga-ctl-{index}")).spawn(move || queue.work())?);
        }
        Ok(Control { queue, threads: Mutex::new(handles) })
    }

    /// Runs a short job soon. A job given after [`stop`](Self::stop) is dropped.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.queue.push(Box::new(job), |waiting| &mut waiting.questions);
    }

    /// Runs a load, after those given before. A load that has not begun when the pool is [stopped](Self::stop) is dropped.
    pub(crate) fn load(&self, job: impl FnOnce() + Send + 'static) {
        self.queue.push(Box::new(job), |waiting| &mut waiting.loads);
    }

    /// Finishes the questions and what is being loaded, and ends the threads.
    pub(crate) fn stop(&self) {
        let mut waiting = self.queue.lock();
        waiting.stopped = true;
        let dropped = std::mem::take(&mut waiting.loads);
        drop(waiting);
        // What a job holds may come back here when it is let go of, so not under the lock.
        drop(dropped);
        self.queue.wake.notify_all();
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn push(&self, job: Job, queue: impl FnOnce(&mut Waiting) -> &mut VecDeque<Job>) {
        let mut waiting = self.lock();
        if waiting.stopped {
            drop(waiting);
            return drop(job);
        }
        queue(&mut waiting).push_back(job);
        drop(waiting);
        self.wake.notify_one();
    }

    fn work(&self) {
        let mut waiting = self.lock();
        loop {
            if let Some(job) = waiting.questions.pop_front() {
                drop(waiting);
                job();
                waiting = self.lock();
            } else if waiting.loading < self.max_loads
                && let Some(job) = waiting.loads.pop_front()
            {
                waiting.loading += 1;
                drop(waiting);
                job();
                waiting = self.lock();
                waiting.loading -= 1;
            } else if waiting.stopped {
                return;
            } else {
                waiting = self.wake.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_question_is_answered_while_loads_wait() {
        let control = Control::start(2, 100).expect("threads");
        let (go, wait) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let first = tell.clone();
        control.load(move || {
            wait.recv().expect("the test goes on");
            first.send("load").expect("the test listens");
        });
        let second = tell.clone();
        control.load(move || second.send("second load").expect("the test listens"));
        control.run(move || tell.send("question").expect("the test listens"));
        assert_eq!(told.recv(), Ok("question"));
        go.send(()).expect("the load waits");
        assert_eq!(told.iter().collect::<Vec<_>>(), ["load", "second load"]);
    }

    #[test]
    fn a_stopped_pool_drops_loads_that_have_not_begun() {
        let control = Control::start(1, 1).expect("threads");
        let (go, wait) = mpsc::channel::<()>();
        let (began, begins) = mpsc::channel();
        control.load(move || {
            began.send(()).expect("the test listens");
            wait.recv().expect("the test goes on");
        });
        begins.recv().expect("it begins");
        let (tell, told) = mpsc::channel::<()>();
        control.load(move || {
            let _ = tell.send(());
        });
        std::thread::scope(|scope| {
            let stopping = scope.spawn(|| control.stop());
            // The second load goes away without having run, before the first one ends.
            assert!(told.recv().is_err());
            go.send(()).expect("the load waits");
            stopping.join().expect("it stops");
        });
    }
}
