//! What TLS is served with.

use std::path::PathBuf;
use std::time::Duration;

/// A version of the protocol that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2
    V1_2,
    /// 1.3
    V1_3,
}

/// Files and rules of TLS. All files are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificate of this broker, those of its issuers behind it.
    pub certificate: PathBuf,
    /// The key of that certificate.
    pub key: PathBuf,
    /// Whose word on clients is taken; without it no client is asked for a certificate.
    pub trust: Option<PathBuf>,
    /// Whether a certificate that nobody trusted vouches for is taken too; it proves nothing then.
    pub allow_strangers: bool,
    /// Whether a client without a certificate is sent away.
    pub require_certificate: bool,
    /// Versions that are spoken; none stands for all.
    pub versions: Vec<TlsVersion>,
    /// Names of the cipher suites that may be used; none stands for all.
    pub cipher_suites: Vec<String>,
    /// How often the files are looked at; none is never.
    pub refresh: Option<Duration>,
}
