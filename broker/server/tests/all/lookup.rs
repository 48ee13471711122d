//! Questions that no topic is asked.

use wire::{Command, ServerError, proto};

use crate::harness::{Broker, Peer, topic};

#[test]
fn more_lookups_than_may_be_are_refused() {
    let broker = Broker::with(|settings| settings.max_lookups = 0);
    let mut peer = broker.peer();
    let request_id = peer.request();
    peer.say(proto::CommandLookupTopic { topic: topic("t").to_string(), request_id, ..Default::default() });
    let Command::LookupTopicResponse(response) = peer.answer(request_id).unwrap() else { panic!("no response") };
    assert_eq!(response.error(), ServerError::TooManyRequests);
    let request_id = peer.request();
    peer.say(proto::CommandGetTopicsOfNamespace { namespace: "public/default".into(), request_id, ..Default::default() });
    assert_eq!(peer.answer(request_id).unwrap_err().0, ServerError::TooManyRequests);
}

#[test]
fn lookups_that_were_answered_do_not_count() {
    let broker = Broker::with(|settings| settings.max_lookups = 1);
    let mut peer = broker.peer();
    for _ in 0..100 {
        let request_id = peer.request();
        peer.say(proto::CommandLookupTopic { topic: topic("t").to_string(), request_id, ..Default::default() });
        let Command::LookupTopicResponse(response) = peer.answer(request_id).unwrap() else { panic!("no response") };
        assert_eq!(response.error, None);
    }
}

fn partitions_of_a_non_persistent_topic(peer: &mut Peer) -> proto::CommandPartitionedTopicMetadataResponse {
    let request_id = peer.request();
    peer.say(proto::CommandPartitionedTopicMetadata {
        topic: "non-persistent://public/default/t".into(),
        request_id,
        ..Default::default()
    });
    let Command::PartitionedTopicMetadataResponse(response) = peer.answer(request_id).unwrap() else { panic!("no response") };
    *response
}

#[test]
fn a_topic_of_the_other_domain_is_not_taken_for_a_persistent_one() {
    let broker = Broker::with(|settings| settings.auto_topic_partitions = Some(2));
    assert_eq!(partitions_of_a_non_persistent_topic(&mut broker.peer()).partitions(), 2);
    assert!(
        broker
            .ask(async |handle| handle.partitioned_topics("public/default".parse().unwrap(), wire::Domain::Persistent).await)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn partitions_of_a_domain_that_is_switched_off_are_refused() {
    let broker = Broker::with(|settings| settings.non_persistent_topics = false);
    assert_eq!(partitions_of_a_non_persistent_topic(&mut broker.peer()).error(), ServerError::NotAllowedError);
}
