//! A worker's inbox: other threads leave batches, the worker takes everything at the start of its turn.

use std::mem;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

/// Letters from other threads. A worker that is awake is not woken again.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    letters: Mutex<Vec<T>>,
    /// Set by the worker just before it sleeps; whoever clears it owes the wake-up.
    asleep: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Mailbox<T> {
        Mailbox { letters: Mutex::new(Vec::new()), asleep: AtomicBool::new(false), waker: Mutex::new(None) }
    }

    /// Leaves one letter.
    pub(crate) fn post(&self, letter: T) {
        lock(&self.letters).push(letter);
        self.rouse();
    }

    /// Leaves a batch; `batch` is empty afterwards and keeps its allocation.
    pub(crate) fn post_all(&self, batch: &mut Vec<T>) {
        if batch.is_empty() {
            return;
        }
        lock(&self.letters).append(batch);
        self.rouse();
    }

    /// Takes everything into `into`, which must be empty; the two vectors change places, so neither allocates for long.
    pub(crate) fn take(&self, into: &mut Vec<T>) {
        debug_assert!(into.is_empty());
        mem::swap(&mut *lock(&self.letters), into);
    }

    /// Where to wake the worker.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        let mut slot = lock(&self.waker);
        if !slot.as_ref().is_some_and(|w| w.will_wake(waker)) {
            *slot = Some(waker.clone());
        }
    }

    /// The worker is about to sleep. Returns false, and leaves it awake, if letters came in meanwhile.
    pub(crate) fn sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        if lock(&self.letters).is_empty() {
            return true;
        }
        self.asleep.store(false, Ordering::SeqCst);
        false
    }

    /// The worker woke for a reason of its own: letters need not wake it until it sleeps again.
    pub(crate) fn awake(&self) {
        // A plain load first: the usual case writes nothing to the shared line.
        if self.asleep.load(Ordering::Relaxed) {
            self.asleep.store(false, Ordering::SeqCst);
        }
    }

    fn rouse(&self) {
        if self.asleep.load(Ordering::SeqCst)
            && self.asleep.swap(false, Ordering::SeqCst)
            && let Some(waker) = lock(&self.waker).as_ref()
        {
            waker.wake_by_ref();
        }
    }
}

/// A poisoned lock means that a thread panicked between two plain vector operations; the vector is still a vector.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn an_awake_worker_is_not_woken_and_a_sleeping_one_is_woken_once() {
        let woken = Arc::new(Count(AtomicUsize::new(0)));
        let mailbox = Mailbox::new();
        mailbox.set_waker(&Waker::from(woken.clone()));
        mailbox.post(1);
        assert_eq!(woken.0.load(Ordering::SeqCst), 0);
        let mut letters = Vec::new();
        mailbox.take(&mut letters);
        assert_eq!(letters, [1]);
        assert!(mailbox.sleep());
        mailbox.post(2);
        mailbox.post_all(&mut vec![3, 4]);
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_letter_that_came_before_sleep_keeps_the_worker_awake() {
        let mailbox = Mailbox::new();
        mailbox.post(1);
        assert!(!mailbox.sleep());
    }
}
