//! JSON values of nodes: reading them, writing them, and changing them without losing what another wrote meanwhile.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Expected, MetadataError, MetadataStore, Rejected};

/// A node's value is not what its place asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} holds something else than expected: {reason}")]
pub struct Malformed {
    /// The node.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Why a document could not be read or replaced; each room's error is made from it.
#[derive(Debug)]
pub(crate) enum DocumentError {
    Malformed(Malformed),
    Store(MetadataError),
}

impl From<MetadataError> for DocumentError {
    fn from(error: MetadataError) -> DocumentError {
        DocumentError::Store(error)
    }
}

impl From<Rejected> for DocumentError {
    fn from(error: Rejected) -> DocumentError {
        DocumentError::Store(error.into())
    }
}

/// The document at `path` and its version.
pub(crate) fn read<T: DeserializeOwned>(store: &dyn MetadataStore, path: &str) -> Result<Option<(T, i64)>, DocumentError> {
    let Some(found) = store.get(path)? else { return Ok(None) };
    let document = serde_json::from_slice(&found.value)
        .map_err(|error| DocumentError::Malformed(Malformed { path: path.to_owned(), reason: error.to_string() }))?;
    Ok(Some((document, found.version)))
}

/// The bytes of a document.
pub(crate) fn bytes<T: Serialize>(document: &T) -> Vec<u8> {
    serde_json::to_vec(document).expect("a document's keys are text, so its JSON cannot fail")
}

/// Reads, changes and replaces the document until nobody was faster; `change` may so be called several times.
/// None when there is no such document.
pub(crate) fn update<T, E>(store: &dyn MetadataStore, path: &str, mut change: impl FnMut(&mut T) -> Result<(), E>) -> Result<Option<T>, E>
where
    T: DeserializeOwned + Serialize,
    E: From<DocumentError>,
{
    loop {
        let Some((mut document, version)) = read::<T>(store, path)? else { return Ok(None) };
        change(&mut document)?;
        match store.put(path, &bytes(&document), Expected::Version(version)) {
            Ok(_) => return Ok(Some(document)),
            Err(MetadataError::Rejected(Rejected::VersionConflict { .. })) => {}
            Err(MetadataError::Rejected(Rejected::NotFound { .. })) => return Ok(None),
            Err(error) => return Err(DocumentError::Store(error).into()),
        }
    }
}

/// Gives a room's error its two variants for failures below it.
macro_rules! from_document_error {
    ($error:ty) => {
        impl From<$crate::document::DocumentError> for $error {
            fn from(error: $crate::document::DocumentError) -> $error {
                match error {
                    $crate::document::DocumentError::Malformed(malformed) => malformed.into(),
                    $crate::document::DocumentError::Store(error) => error.into(),
                }
            }
        }
    };
}
pub(crate) use from_document_error;
