//! A subscription's name.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use super::encoding::encode_name;

/// The name of a subscription: almost any text. Clones share it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionName(Arc<str>);

/// Why a text is no subscription name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscriptionNameError {
    /// Nothing, or only spaces.
    #[error("subscription name is empty")]
    Blank,
    /// A control character, which would break lists and logs.
    #[error("subscription name {0:?} has a control character")]
    ControlCharacter(String),
    /// Longer than [`SubscriptionName::MAX_LENGTH`].
    #[error("subscription name of {0} bytes is over the limit of {limit} bytes", limit = SubscriptionName::MAX_LENGTH)]
    TooLong(usize),
}

impl SubscriptionName {
    /// The longest name, in bytes.
    pub const MAX_LENGTH: usize = 4096;

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as metadata paths hold it, the way Java's `URLEncoder` writes it.
    pub fn encoded(&self) -> Cow<'_, str> {
        encode_name(&self.0)
    }
}

impl FromStr for SubscriptionName {
    type Err = SubscriptionNameError;

    fn from_str(text: &str) -> Result<Self, SubscriptionNameError> {
        if text.len() > Self::MAX_LENGTH {
            return Err(SubscriptionNameError::TooLong(text.len()));
        }
        if text.trim().is_empty() {
            return Err(SubscriptionNameError::Blank);
        }
        if text.chars().any(char::is_control) {
            return Err(SubscriptionNameError::ControlCharacter(text.to_owned()));
        }
        Ok(Self(text.into()))
    }
}

impl std::borrow::Borrow<str> for SubscriptionName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SubscriptionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SubscriptionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn almost_any_text_names_a_subscription() {
        let name: SubscriptionName = "my sub/1#ä".parse().unwrap();
        assert_eq!((name.as_str(), &*name.encoded()), ("my sub/1#ä", "my+sub%2F1%23%C3%A4"));
    }

    #[test]
    fn blank_long_and_unprintable_names_are_refused() {
        assert_eq!(" ".parse::<SubscriptionName>(), Err(SubscriptionNameError::Blank));
        assert_eq!("a\0".parse::<SubscriptionName>(), Err(SubscriptionNameError::ControlCharacter("a\0".to_owned())));
        assert_eq!("a".repeat(4097).parse::<SubscriptionName>(), Err(SubscriptionNameError::TooLong(4097)));
    }
}
