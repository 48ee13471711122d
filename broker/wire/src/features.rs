//! Protocol versions and feature flags: what the two sides of a connection can expect of each other.

use crate::proto::{CommandConnect, FeatureFlags};

/// The version of the protocol that is spoken here.
pub const PROTOCOL_VERSION: i32 = 21;

/// The version that a connection uses: the lower of both sides', never negative.
pub fn negotiated_version(theirs: i32) -> i32 {
    theirs.clamp(0, PROTOCOL_VERSION)
}

/// What the other side of a connection can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// The version that the connection uses.
    pub protocol_version: i32,
    /// It answers AUTH_CHALLENGE, so that its credentials can be renewed while it is connected.
    pub auth_refresh: bool,
    /// It expects a broker entry metadata in front of payloads, if the broker exposes them.
    pub broker_entry_metadata: bool,
    /// It can be told about changes of a namespace's topics.
    pub topic_watchers: bool,
    /// It can ask about partitions without creating the topic.
    pub partitioned_metadata_without_creation: bool,
}

impl Features {
    /// What a client says of itself.
    pub fn of_client(connect: &CommandConnect) -> Self {
        Self::new(connect.protocol_version(), connect.feature_flags)
    }

    /// What is meant by a version and flags; flags that were not sent are not set.
    pub fn new(version: i32, flags: Option<FeatureFlags>) -> Self {
        let flags = flags.unwrap_or_default();
        Self {
            protocol_version: negotiated_version(version),
            auth_refresh: flags.supports_auth_refresh(),
            broker_entry_metadata: flags.supports_broker_entry_metadata(),
            topic_watchers: flags.supports_topic_watchers(),
            partitioned_metadata_without_creation: flags.supports_get_partitioned_metadata_without_auto_creation(),
        }
    }
}

/// The flags of CONNECTED. A bit is set only for what the broker does: `topic_watchers` makes Java clients watch instead of poll, and clients
/// check the flag of scalable topics before they use them.
pub fn broker_flags(topic_watchers: bool) -> FeatureFlags {
    FeatureFlags {
        supports_get_partitioned_metadata_without_auto_creation: Some(true),
        supports_topic_watchers: topic_watchers.then_some(true),
        ..FeatureFlags::default()
    }
}

/// The flags of our own client's CONNECT.
pub fn client_flags() -> FeatureFlags {
    FeatureFlags { supports_auth_refresh: Some(true), supports_broker_entry_metadata: Some(true), ..FeatureFlags::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_version_is_used() {
        assert_eq!([-1, 0, 12, 21, 22].map(negotiated_version), [0, 0, 12, 21, 21]);
    }

    #[test]
    fn a_client_without_flags_can_nothing_special() {
        let connect = CommandConnect { protocol_version: Some(12), ..Default::default() };
        assert_eq!(Features::of_client(&connect), Features { protocol_version: 12, ..Features::default() });
    }

    #[test]
    fn a_client_is_believed_what_it_sets() {
        let features = Features::of_client(&CommandConnect { feature_flags: Some(client_flags()), ..Default::default() });
        assert!(features.auth_refresh && features.broker_entry_metadata && !features.topic_watchers);
    }

    #[test]
    fn watchers_are_announced_only_when_there_are_any() {
        assert_eq!(broker_flags(false).supports_topic_watchers, None);
        assert_eq!(broker_flags(true).supports_topic_watchers, Some(true));
        assert_eq!(broker_flags(true).supports_scalable_topics, None);
    }
}
