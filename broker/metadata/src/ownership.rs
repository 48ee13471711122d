//! Who owns a bundle: an ephemeral node and an epoch. It says who may try; that a loser does no harm is for fencing and
//! compare-and-set to see to.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::document::{self, Malformed};
use crate::paths::NamespacePath;
use crate::{Expected, MetadataError, MetadataStore, Rejected, Session, Transaction};

/// An owner, as Pulsar's `NamespaceEphemeralData` has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// Of the broker, `pulsar://`.
    #[serde(default)]
    pub native_url: Option<String>,
    /// Of the broker, `pulsar+ssl://`.
    #[serde(default)]
    pub native_url_tls: Option<String>,
    /// Of the admin API, `http://`.
    #[serde(default)]
    pub http_url: Option<String>,
    /// Of the admin API, `https://`.
    #[serde(default)]
    pub http_url_tls: Option<String>,
    /// Whether it is letting go of the bundle.
    #[serde(default)]
    pub disabled: bool,
    /// Everything else, kept as it came.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A bundle that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    owner_path: String,
    epoch_path: String,
    /// Higher than that of every claim of this bundle before, also across restarts.
    pub epoch: i64,
}

impl Claim {
    /// Lets the transaction be done only while nobody has claimed the bundle since.
    #[must_use]
    pub fn guard(&self, transaction: Transaction) -> Transaction {
        transaction.check(self.epoch_path.as_str(), Expected::Version(self.epoch))
    }
}

/// Why a bundle was not taken or let go.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OwnershipError {
    /// Another broker has it.
    #[error("the bundle is owned already")]
    Owned(Box<Owner>),
    /// The claim is not the one in force: the session ended, or another owner followed.
    #[error("the bundle is not held by this claim any more")]
    Lost,
    /// The session has ended.
    #[error("the session has ended")]
    SessionEnded,
    /// Its node holds something else.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] MetadataError),
}

document::from_document_error!(OwnershipError);

/// Takes a bundle (`0xfirst_0xlast`) that nobody has, until the session ends or [`release`].
pub fn claim(
    store: &dyn MetadataStore,
    namespace: NamespacePath<'_>,
    bundle: &str,
    owner: &Owner,
    session: &Session,
) -> Result<Claim, OwnershipError> {
    let (owner_path, epoch_path) = (namespace.owner(bundle), namespace.owner_epoch(bundle));
    loop {
        let transaction = Transaction::new().put_ephemeral(owner_path.as_str(), document::bytes(owner), Expected::Absent, session).put(
            epoch_path.as_str(),
            Vec::new(),
            Expected::Any,
        );
        match store.commit(transaction) {
            Ok(outcomes) => return Ok(Claim { owner_path, epoch_path, epoch: outcomes.last().copied().unwrap_or_default() }),
            Err(MetadataError::Rejected(Rejected::SessionEnded { .. })) => return Err(OwnershipError::SessionEnded),
            Err(MetadataError::Rejected(Rejected::Exists { .. })) => {}
            Err(failed) => return Err(failed.into()),
        }
        // None when it was let go between the two: try again.
        if let Some(owner) = current(store, namespace, bundle)? {
            return Err(OwnershipError::Owned(Box::new(owner)));
        }
    }
}

/// Who has the bundle.
pub fn current(store: &dyn MetadataStore, namespace: NamespacePath<'_>, bundle: &str) -> Result<Option<Owner>, OwnershipError> {
    Ok(document::read(store, &namespace.owner(bundle))?.map(|(owner, _)| owner))
}

/// Lets go of a bundle.
pub fn release(store: &dyn MetadataStore, claim: &Claim) -> Result<(), OwnershipError> {
    match store.commit(claim.guard(Transaction::new()).delete(claim.owner_path.as_str(), Expected::Any)) {
        Ok(_) => Ok(()),
        Err(MetadataError::Rejected(Rejected::NotFound { .. } | Rejected::VersionConflict { .. })) => Err(OwnershipError::Lost),
        Err(failed) => Err(failed.into()),
    }
}
