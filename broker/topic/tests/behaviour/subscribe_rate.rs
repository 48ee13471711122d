//! Consumers that come too often are turned away, each for itself.

use topic::{Rate, Rates, Reply, SubscriptionKind, TopicSettings};
use wire::ServerError;

use crate::client::{attach, leave, try_consume};
use crate::sim::owner::{Owner, small_settings};

#[test]
fn one_consumer_may_subscribe_so_often_in_a_period_and_others_do_not_pay_for_it() {
    let subscribe = Rate { messages: 3, bytes: 0, period_ms: 30_000 };
    let mut owner = Owner::new(TopicSettings { rates: Rates { subscribe, ..Rates::default() }, ..small_settings() });
    let come_and_go = |owner: &mut Owner, id: u64, port: u16| {
        let mut request = attach(id, SubscriptionKind::Shared);
        request.address = format!("127.0.0.1:{port}");
        match try_consume(owner, request) {
            Reply::ConsumerReady { consumer, slot, .. } => {
                leave(owner, crate::client::Consumer { key: consumer, slot });
                true
            }
            Reply::Error { error: ServerError::NotAllowedError, message, .. } => {
                assert!(message.contains("subscribe rate"), "{message}");
                false
            }
            other => panic!("{other:?}"),
        }
    };
    let admitted = (0..10).filter(|port| come_and_go(&mut owner, 1, *port)).count();
    assert_eq!(admitted, 3, "its port does not make it another one");
    assert!(come_and_go(&mut owner, 2, 1), "another consumer");
    owner.wait(9_999);
    assert!(!come_and_go(&mut owner, 1, 1));
    owner.wait(1);
    assert!(come_and_go(&mut owner, 1, 1));
    assert!(!come_and_go(&mut owner, 1, 1));
    owner.change_settings(small_settings());
    assert!((0..10).all(|port| come_and_go(&mut owner, 1, port)));
}
