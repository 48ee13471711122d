//! Creating many things a few at a time: in a random order that is the same for every run, or one at a time in their own order.

use std::{collections::VecDeque, future::Future};

use tokio::task::JoinSet;

/// In which order `count` things are created: their own with a concurrency of 1, otherwise a random one that depends on
/// nothing but `count`.
#[must_use]
pub fn order(count: usize, concurrency: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    if concurrency > 1 {
        fastrand::Rng::with_seed(0x6761_7465_7761_7973).shuffle(&mut order);
    }
    order
}

/// Creates one thing for each number of the order, at most `concurrency` at a time. After a failure none is started any more;
/// it is reported when those that were started have completed, whatever became of them.
///
/// # Errors
/// The first failure.
pub async fn create<E, F>(order: &[usize], concurrency: usize, mut start: impl FnMut(usize) -> F) -> Result<(), E>
where
    E: Send + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
{
    let mut waiting: VecDeque<usize> = order.iter().copied().collect();
    let mut started = JoinSet::new();
    let mut failure = None;
    loop {
        while failure.is_none() && started.len() < concurrency.max(1) {
            let Some(next) = waiting.pop_front() else { break };
            started.spawn(start(next));
        }
        match started.join_next().await {
            None => return failure.map_or(Ok(()), Err),
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => failure = failure.or(Some(error)),
            Some(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::{Arc, Mutex},
    };

    use tokio::sync::oneshot;

    use super::*;

    /// Creations that complete when the test says so.
    #[derive(Clone, Default)]
    struct Held(Arc<Mutex<BTreeMap<usize, Completion>>>);

    type Completion = oneshot::Sender<Result<(), String>>;

    impl Held {
        fn start(&self, number: usize) -> impl Future<Output = Result<(), String>> + Send + 'static {
            let (done, is_done) = oneshot::channel();
            self.0.lock().unwrap().insert(number, done);
            async move { is_done.await.expect("the test completes every creation") }
        }

        fn running(&self) -> Vec<usize> {
            self.0.lock().unwrap().keys().copied().collect()
        }

        fn complete(&self, number: usize, outcome: Result<(), &str>) {
            let done = self.0.lock().unwrap().remove(&number).expect("it was started");
            done.send(outcome.map_err(str::to_owned)).expect("somebody waits for it");
        }
    }

    /// Lets everything that can go on do so.
    async fn settled() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn one_at_a_time_is_in_order_and_many_are_in_the_same_random_order_each_time() {
        assert_eq!(order(500, 1), (0..500).collect::<Vec<_>>());
        let random = order(500, 32);
        assert_ne!(random, order(500, 1));
        assert_eq!(random, order(500, 32));
        assert_eq!(random, order(500, 2), "the order does not depend on how many are created at a time");
        let mut sorted = random;
        sorted.sort_unstable();
        assert_eq!(sorted, order(500, 1));
    }

    #[tokio::test]
    async fn never_more_than_asked_for_are_created_at_a_time() {
        let held = Held::default();
        let creation = tokio::spawn({
            let held = held.clone();
            async move { create(&order(5, 1), 2, |number| held.start(number)).await }
        });
        for (running, next) in [(vec![0, 1], 1), (vec![0, 2], 0), (vec![2, 3], 2), (vec![3, 4], 3), (vec![4], 4)] {
            settled().await;
            assert_eq!(held.running(), running);
            held.complete(next, Ok(()));
        }
        assert_eq!(creation.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn a_concurrency_of_one_waits_for_each() {
        let held = Held::default();
        let creation = tokio::spawn({
            let held = held.clone();
            async move { create(&order(3, 1), 1, |number| held.start(number)).await }
        });
        for number in 0..3 {
            settled().await;
            assert_eq!(held.running(), [number]);
            held.complete(number, Ok(()));
        }
        assert_eq!(creation.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn after_a_failure_none_is_started_and_the_first_is_reported_when_the_started_have_completed() {
        let held = Held::default();
        let creation = tokio::spawn({
            let held = held.clone();
            async move { create(&order(9, 1), 3, |number| held.start(number)).await }
        });
        settled().await;
        held.complete(1, Err("the first"));
        settled().await;
        assert_eq!(held.running(), [0, 2], "none is started after a failure");
        held.complete(2, Err("the second"));
        settled().await;
        assert!(!creation.is_finished(), "one that was started has not completed");
        held.complete(0, Ok(()));
        assert_eq!(creation.await.unwrap(), Err("the first".to_owned()));
        assert!(held.running().is_empty());
    }
}
