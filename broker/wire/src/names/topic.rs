//! A topic: `persistent://tenant/namespace/local-name`, with its partition's index if it is one.

use std::{
    borrow::Cow,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
    sync::Arc,
};

use super::{
    encoding::{EncodingError, decode_name, encode_name},
    namespace::{self, NamespaceName, NamespaceNameError},
};

/// Whether messages of a topic are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Domain {
    /// Stored until consumed.
    Persistent,
    /// Passed on to whoever is connected.
    NonPersistent,
}

impl Domain {
    /// `persistent` or `non-persistent`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Domain::Persistent => "persistent",
            Domain::NonPersistent => "non-persistent",
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Domain {
    type Err = TopicNameError;

    fn from_str(text: &str) -> Result<Self, TopicNameError> {
        match text {
            "persistent" => Ok(Domain::Persistent),
            "non-persistent" => Ok(Domain::NonPersistent),
            other => Err(TopicNameError::Domain(other.to_owned())),
        }
    }
}

/// Why a text is no topic name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicNameError {
    /// Neither `persistent` nor `non-persistent` before `://`.
    #[error("unknown topic domain {0:?}")]
    Domain(String),
    /// Without a domain, a name is `topic` or `tenant/namespace/topic`.
    #[error("short topic name {0:?} is neither topic nor tenant/namespace/topic")]
    Short(String),
    /// With a domain, it is `domain://tenant/namespace/topic`.
    #[error("topic name {0:?} is not of the form domain://tenant/namespace/topic")]
    Parts(String),
    /// A fourth part: names with a cluster in them are no longer in use.
    #[error("topic name {0:?} has a cluster in it or a slash in its last part; neither is supported")]
    Legacy(String),
    /// Tenant or namespace.
    #[error("invalid topic name: {0}")]
    Namespace(#[from] NamespaceNameError),
    /// Nothing after the namespace.
    #[error("topic name {0:?} has an empty last part")]
    EmptyLocalName(String),
    /// A control character, which would break lists and logs.
    #[error("topic name {0:?} has a control character")]
    ControlCharacter(String),
    /// Longer than [`TopicName::MAX_LENGTH`].
    #[error("topic name of {0} bytes is over the limit of {limit} bytes", limit = TopicName::MAX_LENGTH)]
    TooLong(usize),
    /// The last part of a metadata path is not encoded as it should be.
    #[error("topic name in metadata: {0}")]
    Encoding(#[from] EncodingError),
}

/// A topic. Its text is the full name, whatever short form it was parsed from; clones share it.
#[derive(Clone)]
pub struct TopicName {
    text: Arc<str>,
    domain: Domain,
    /// Where in the text tenant, namespace and the name without a partition end.
    tenant_end: u16,
    namespace_end: u16,
    base_end: u16,
    partition: Option<u32>,
}

impl TopicName {
    /// The longest full name, in bytes.
    pub const MAX_LENGTH: usize = u16::MAX as usize;

    /// The topic of this local name in a namespace.
    pub fn new(domain: Domain, namespace: &NamespaceName, local: &str) -> Result<Self, TopicNameError> {
        Self::from_parts(domain, namespace.tenant(), namespace.local(), local)
    }

    /// The topic stored under `tenant/namespace/domain/encoded-local-name`: the opposite of [`TopicName::metadata_name`].
    pub fn from_metadata_name(path: &str) -> Result<Self, TopicNameError> {
        let mut parts = path.splitn(4, '/');
        let (Some(tenant), Some(namespace), Some(domain), Some(local)) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
            return Err(TopicNameError::Parts(path.to_owned()));
        };
        Self::from_parts(domain.parse()?, tenant, namespace, &decode_name(local)?)
    }

    /// The full name.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether its messages are stored.
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// Whether its messages are stored.
    pub fn is_persistent(&self) -> bool {
        self.domain == Domain::Persistent
    }

    /// The tenant.
    pub fn tenant(&self) -> &str {
        self.part(self.tenant_start(), self.tenant_end)
    }

    /// `tenant/namespace`, without making a [`NamespaceName`] of it.
    pub fn namespace_str(&self) -> &str {
        self.part(self.tenant_start(), self.namespace_end)
    }

    /// The namespace.
    pub fn namespace(&self) -> NamespaceName {
        let parts = (self.tenant(), self.part(self.tenant_end + 1, self.namespace_end));
        NamespaceName::new(parts.0, parts.1).expect("both parts were checked when the name was made")
    }

    /// The name within its namespace, with the partition's suffix.
    pub fn local(&self) -> &str {
        self.text.get(usize::from(self.namespace_end) + 1..).unwrap_or_default()
    }

    /// The name within its namespace, without the partition's suffix.
    pub fn base_local(&self) -> &str {
        self.part(self.namespace_end + 1, self.base_end)
    }

    /// The index in `…-partition-N`.
    pub fn partition_index(&self) -> Option<u32> {
        self.partition
    }

    /// Whether it is a partition of another topic.
    pub fn is_partition(&self) -> bool {
        self.partition.is_some()
    }

    /// The n-th partition of this topic. A partition has none and gives itself, as Pulsar has it.
    pub fn partition(&self, n: u32) -> Result<Self, TopicNameError> {
        if self.is_partition() {
            return Ok(self.clone());
        }
        Self::from_parts(
            self.domain,
            self.tenant(),
            self.part(self.tenant_end + 1, self.namespace_end),
            &format!("{}{PARTITION}{n}", self.local()),
        )
    }

    /// The topic that a partition belongs to; a topic that is none gives itself.
    pub fn partitioned(&self) -> Self {
        if !self.is_partition() {
            return self.clone();
        }
        // What is left may look like a partition again (`a-partition-1-partition-2`), so it is parsed anew.
        self.part(0, self.base_end).parse().expect("a name is still one without its partition's suffix")
    }

    /// The local name as metadata paths hold it, the way Java's `URLEncoder` writes it.
    pub fn encoded_local(&self) -> Cow<'_, str> {
        encode_name(self.local())
    }

    /// `tenant/namespace/domain/encoded-local-name`: the topic's path below a root such as `/managed-ledgers`.
    pub fn metadata_name(&self) -> String {
        format!("{}/{}/{}", self.namespace_str(), self.domain, self.encoded_local())
    }

    fn from_parts(domain: Domain, tenant: &str, namespace: &str, local: &str) -> Result<Self, TopicNameError> {
        namespace::check(tenant, namespace)?;
        let text = format!("{domain}://{tenant}/{namespace}/{local}");
        if local.contains('/') {
            return Err(TopicNameError::Legacy(text));
        }
        if local.is_empty() {
            return Err(TopicNameError::EmptyLocalName(text));
        }
        if local.chars().any(char::is_control) {
            return Err(TopicNameError::ControlCharacter(text));
        }
        let length = u16::try_from(text.len()).map_err(|_| TopicNameError::TooLong(text.len()))?;
        // Both differences are at most the length, which fits.
        let before = |count: usize| length - u16::try_from(count).unwrap_or(length);
        let (base, partition) = split_partition(local);
        let namespace_end = before(local.len() + 1);
        let tenant_end = before(local.len() + 1 + namespace.len() + 1);
        Ok(Self { text: text.into(), domain, tenant_end, namespace_end, base_end: before(local.len() - base.len()), partition })
    }

    fn tenant_start(&self) -> u16 {
        match self.domain {
            Domain::Persistent => "persistent://".len() as u16,
            Domain::NonPersistent => "non-persistent://".len() as u16,
        }
    }

    fn part(&self, start: u16, end: u16) -> &str {
        self.text.get(usize::from(start)..usize::from(end)).unwrap_or_default()
    }
}

/// What stands between a topic's name and the index of its partition.
const PARTITION: &str = "-partition-";

/// The name before the last `-partition-N`, and N. Signs and leading zeros make no partition.
fn split_partition(local: &str) -> (&str, Option<u32>) {
    let found = local.rsplit_once(PARTITION).filter(|(base, _)| !base.is_empty()).and_then(|(base, digits)| {
        let canonical = digits == "0" || !digits.starts_with(['0', '+']);
        let index = digits.parse().ok().filter(|&index| canonical && i32::try_from(index).is_ok());
        index.map(|index: u32| (base, Some(index)))
    });
    found.unwrap_or((local, None))
}

impl FromStr for TopicName {
    type Err = TopicNameError;

    fn from_str(text: &str) -> Result<Self, TopicNameError> {
        // Bounded before anything is copied into an error.
        if text.len() > Self::MAX_LENGTH {
            return Err(TopicNameError::TooLong(text.len()));
        }
        let (domain, rest) = match text.split_once("://") {
            Some((domain, rest)) => (domain.parse()?, rest),
            None if !text.contains('/') => return Self::from_parts(Domain::Persistent, "public", "default", text),
            None if text.split('/').count() == 3 => (Domain::Persistent, text),
            None => return Err(TopicNameError::Short(text.to_owned())),
        };
        let mut parts = rest.splitn(3, '/');
        let (Some(tenant), Some(namespace), Some(local)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(TopicNameError::Parts(text.to_owned()));
        };
        Self::from_parts(domain, tenant, namespace, local)
    }
}

impl PartialEq for TopicName {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for TopicName {}

impl Hash for TopicName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl PartialOrd for TopicName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TopicName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}

impl std::borrow::Borrow<str> for TopicName {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(text: &str) -> TopicName {
        text.parse().unwrap()
    }

    fn refusal(text: &str) -> TopicNameError {
        text.parse::<TopicName>().unwrap_err()
    }

    #[test]
    fn short_forms_mean_persistent_topics() {
        assert_eq!(topic("orders").as_str(), "persistent://public/default/orders");
        assert_eq!(topic("acme/shop/orders").as_str(), "persistent://acme/shop/orders");
    }

    #[test]
    fn a_full_name_is_cut_into_its_parts() {
        let name = topic("non-persistent://acme/shop/orders-partition-12");
        assert_eq!(name.domain(), Domain::NonPersistent);
        assert_eq!((name.tenant(), name.namespace_str(), name.local()), ("acme", "acme/shop", "orders-partition-12"));
        assert_eq!(name.namespace(), "acme/shop".parse().unwrap());
        assert_eq!((name.partition_index(), name.base_local()), (Some(12), "orders"));
        assert_eq!(name.partitioned().as_str(), "non-persistent://acme/shop/orders");
    }

    #[test]
    fn a_partition_is_the_topic_with_an_index() {
        let base = topic("orders");
        let third = base.partition(3).unwrap();
        assert_eq!(third.as_str(), "persistent://public/default/orders-partition-3");
        assert_eq!(third.partitioned(), base);
        assert_eq!(third.partition(7).unwrap(), third);
        assert_eq!(base.partitioned(), base);
        assert!(!base.is_partition());
    }

    #[test]
    fn only_a_plain_number_makes_a_partition() {
        for text in [
            "a-partition-",
            "a-partition-x",
            "a-partition-01",
            "a-partition-+1",
            "a-partition--1",
            "a-partition-2147483648",
            "-partition-1",
        ] {
            assert_eq!(topic(text).partition_index(), None, "{text}");
            assert_eq!(topic(text).base_local(), text);
        }
        assert_eq!(topic("a-partition-0").partition_index(), Some(0));
    }

    #[test]
    fn the_last_suffix_is_the_partition() {
        let name = topic("a-partition-1-partition-2");
        assert_eq!((name.base_local(), name.partition_index()), ("a-partition-1", Some(2)));
        assert_eq!(name.partitioned().partition_index(), Some(1));
    }

    #[test]
    fn punctuation_is_allowed_in_the_last_part_and_encoded_in_paths() {
        let local = " !\"#$%&'()*+,-.:;<=>?@[\\]^_`{|}~äz";
        let name = topic(&format!("persistent://public/default/{local}"));
        assert_eq!(name.local(), local);
        assert_eq!(
            name.metadata_name(),
            "public/default/persistent/+%21%22%23%24%25%26%27%28%29*%2B%2C-.%3A%3B%3C%3D%3E%3F%40%5B%5C%5D%5E_%60%7B%7C%7D%7E%C3%A4z"
        );
        assert_eq!(TopicName::from_metadata_name(&name.metadata_name()).unwrap(), name);
    }

    #[test]
    fn every_bad_name_has_its_own_error() {
        assert!(matches!(refusal("segment://a/b/c"), TopicNameError::Domain(_)));
        assert!(matches!(refusal("a/b"), TopicNameError::Short(_)));
        assert!(matches!(refusal("a/b/c/d"), TopicNameError::Short(_)));
        assert!(matches!(refusal("persistent://a/b"), TopicNameError::Parts(_)));
        assert!(matches!(refusal("persistent://a/cluster/b/c"), TopicNameError::Legacy(_)));
        assert!(matches!(refusal("persistent://a/b/"), TopicNameError::EmptyLocalName(_)));
        assert!(matches!(refusal(""), TopicNameError::EmptyLocalName(_)));
        assert!(matches!(refusal("persistent:///b/c"), TopicNameError::Namespace(NamespaceNameError::Tenant(_))));
        assert!(matches!(refusal("persistent://a/b c/d"), TopicNameError::Namespace(NamespaceNameError::Namespace(_))));
        assert!(matches!(refusal("a\nb"), TopicNameError::ControlCharacter(_)));
        assert!(matches!(refusal(&"a".repeat(65536)), TopicNameError::TooLong(65536)));
        assert!(matches!(refusal(&"a".repeat(65530)), TopicNameError::TooLong(_)));
    }
}
