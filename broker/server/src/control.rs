//! A few threads for slow control work: metadata commits, topic loads. They hold no topic state.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

/// The pool. Jobs start in the order they were given; two may run at once.
#[derive(Debug)]
pub(crate) struct Control {
    jobs: Mutex<Option<Sender<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Control {
    /// Starts `threads` threads.
    pub(crate) fn start(threads: usize) -> io::Result<Control> {
        let (sender, receiver) = channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        let mut handles = Vec::new();
        for index in 0..threads.max(1) {
            let receiver = receiver.clone();
            handles.push(std::thread::Builder::new().name(format!("geminga-ctl-{index}")).spawn(move || work(&receiver))?);
        }
        Ok(Control { jobs: Mutex::new(Some(sender)), threads: Mutex::new(handles) })
    }

    /// Runs a job soon. A job given after [`stop`](Self::stop) is dropped.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        if let Some(jobs) = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            let _ = jobs.send(Box::new(job));
        }
    }

    /// Finishes what was given and ends the threads.
    pub(crate) fn stop(&self) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = thread.join();
        }
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            Ok(job) => job(),
            Err(_) => return,
        }
    }
}
