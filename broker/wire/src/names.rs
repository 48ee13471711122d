//! Names of topics, namespaces, subscriptions and bundles, parsed once and never split by hand again.

mod bundle;
mod encoding;
mod namespace;
mod subscription;
mod topic;

pub use bundle::{BundleRange, BundleRangeError, hash_of_topic};
pub use encoding::{EncodingError, decode_name, encode_name};
pub use namespace::{NamespaceName, NamespaceNameError};
pub use subscription::{SubscriptionName, SubscriptionNameError};
pub use topic::{Domain, TopicName, TopicNameError};
