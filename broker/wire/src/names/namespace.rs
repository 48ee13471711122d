//! A namespace: `tenant/namespace`.

use std::{fmt, str::FromStr, sync::Arc};

/// A namespace, `tenant/namespace`. Clones share the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceName {
    text: Arc<str>,
    tenant: u16,
}

/// Why a text is no namespace name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceNameError {
    /// Not two parts.
    #[error("namespace {0:?} is not of the form tenant/namespace")]
    Parts(String),
    /// The tenant has another character than letters, digits and `-=:._`, or none at all.
    #[error("invalid tenant name {0:?}")]
    Tenant(String),
    /// The same for the namespace.
    #[error("invalid namespace name {0:?}")]
    Namespace(String),
    /// Longer than [`NamespaceName::MAX_LENGTH`].
    #[error("namespace name of {0} bytes is over the limit of {limit} bytes", limit = NamespaceName::MAX_LENGTH)]
    TooLong(usize),
}

impl NamespaceName {
    /// The longest name, in bytes.
    pub const MAX_LENGTH: usize = 1024;

    /// The namespace of a tenant.
    pub fn new(tenant: &str, namespace: &str) -> Result<Self, NamespaceNameError> {
        check(tenant, namespace)?;
        Self::from_checked(&format!("{tenant}/{namespace}"))
    }

    /// The tenant.
    pub fn tenant(&self) -> &str {
        self.text.get(..usize::from(self.tenant)).unwrap_or_default()
    }

    /// The name without its tenant.
    pub fn local(&self) -> &str {
        self.text.get(usize::from(self.tenant) + 1..).unwrap_or_default()
    }

    /// `tenant/namespace`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn from_checked(text: &str) -> Result<Self, NamespaceNameError> {
        if text.len() > Self::MAX_LENGTH {
            return Err(NamespaceNameError::TooLong(text.len()));
        }
        let tenant = text.find('/').and_then(|at| u16::try_from(at).ok());
        tenant.map(|tenant| Self { text: text.into(), tenant }).ok_or_else(|| NamespaceNameError::Parts(text.to_owned()))
    }
}

/// Checks the two parts of a namespace's name.
pub(super) fn check(tenant: &str, namespace: &str) -> Result<(), NamespaceNameError> {
    if !is_entity_name(tenant) {
        return Err(NamespaceNameError::Tenant(tenant.to_owned()));
    }
    if !is_entity_name(namespace) {
        return Err(NamespaceNameError::Namespace(namespace.to_owned()));
    }
    Ok(())
}

/// Pulsar's rule for the names of tenants, namespaces and clusters: word characters and `-=:.`.
pub(super) fn is_entity_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-=:.".contains(&byte))
}

impl FromStr for NamespaceName {
    type Err = NamespaceNameError;

    fn from_str(text: &str) -> Result<Self, NamespaceNameError> {
        let (tenant, namespace) =
            text.split_once('/').filter(|(_, rest)| !rest.contains('/')).ok_or_else(|| NamespaceNameError::Parts(text.to_owned()))?;
        check(tenant, namespace)?;
        Self::from_checked(text)
    }
}

impl fmt::Display for NamespaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for NamespaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_a_tenant_and_a_name() {
        let namespace: NamespaceName = "public/default".parse().unwrap();
        assert_eq!((namespace.tenant(), namespace.local(), namespace.as_str()), ("public", "default", "public/default"));
        assert_eq!(namespace, NamespaceName::new("public", "default").unwrap());
    }

    #[test]
    fn one_part_three_parts_and_strange_characters_are_refused() {
        let parse = |text: &str| text.parse::<NamespaceName>().unwrap_err();
        assert_eq!(parse("public"), NamespaceNameError::Parts("public".to_owned()));
        assert_eq!(parse("a/b/c"), NamespaceNameError::Parts("a/b/c".to_owned()));
        assert_eq!(parse("/b"), NamespaceNameError::Tenant(String::new()));
        assert_eq!(parse("a/"), NamespaceNameError::Namespace(String::new()));
        assert_eq!(parse("a/b c"), NamespaceNameError::Namespace("b c".to_owned()));
        assert_eq!(parse("ä/b"), NamespaceNameError::Tenant("ä".to_owned()));
        assert_eq!(parse(&format!("a/{}", "b".repeat(1023))), NamespaceNameError::TooLong(1025));
    }
}
