//! What is asked of clients.

use std::time::Duration;

use super::keys::Secret;
use super::token::Algorithm;

/// Whom to believe and what to check. Given only where authentication is on.
#[derive(Clone, Debug)]
pub struct AuthSettings {
    /// Tokens, if they are taken.
    pub token: Option<TokenSettings>,
    /// Where the passwords are, if they are taken: a file, or the data itself.
    pub passwords: Option<Secret>,
    /// Whether a trusted certificate's name is a role.
    pub tls: bool,
    /// The role of those who show nothing.
    pub anonymous: Option<String>,
    /// How often live connections are looked at for proofs that ended, and keys and passwords for changes.
    pub refresh: Duration,
    /// Roles that speak for others.
    pub proxy_roles: Vec<String>,
    /// Whether what a proxy's client showed is checked here too.
    pub verify_original: bool,
    /// Whether what somebody may do is checked; otherwise everybody who is believed may do everything.
    pub authorize: bool,
    /// Failed logins from one address within a minute, after which it is kept out for one; 0 is no limit.
    pub max_failures: u32,
    /// Roles that may do everything.
    pub superusers: Vec<String>,
    /// Whether `*` at an end of a granted role or topic stands for anything.
    pub wildcards: bool,
}

/// How tokens are verified.
#[derive(Clone, Debug)]
pub struct TokenSettings {
    /// A secret that signer and broker share.
    pub secret: Option<Secret>,
    /// A public key, or a set of public keys.
    pub public: Option<Secret>,
    /// The algorithm of a public key that stands alone.
    pub algorithm: Algorithm,
    /// The claim that holds the role.
    pub role_claim: String,
    /// The claim that says for whom the token is; without it that is not looked at.
    pub audience_claim: Option<String>,
    /// Who this broker is in that claim.
    pub audience: Option<String>,
    /// By how much clocks may differ.
    pub leeway: Duration,
}
