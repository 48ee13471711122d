//! Who somebody is and what they may do: the one place that both protocols ask.
//!
//! `token` and `passwords` tell who somebody is from what they show, `keys` holds what tokens are verified with, `permissions` tells
//! what they may do. Everything here may take a while (a password's hash is slow by design): it runs on control threads.

mod failures;
mod keys;
mod passwords;
mod permissions;
mod settings;
mod token;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use metadata::{MetadataError, MetadataStore};

use failures::Failures;
pub use keys::Secret;
pub(crate) use keys::keep_fresh;
use passwords::Passwords;
pub(crate) use permissions::Wanted;
pub use permissions::{Access, Denied};
pub use settings::{AuthSettings, TokenSettings};
use token::Tokens;
pub use token::{Algorithm, Signer, new_key_pair};

/// Methods of authentication, by the names that clients use.
pub(crate) const TOKEN: &str = "token";
pub(crate) const BASIC: &str = "basic";
pub(crate) const TLS: &str = "tls";

/// What somebody shows.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The method it belongs to; none is found out.
    pub method: Option<String>,
    /// A token, or `user:password`.
    pub data: Vec<u8>,
    /// Whom the client's certificate names.
    pub certificate: Option<Box<str>>,
}

/// Who somebody is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The role.
    pub role: Arc<str>,
    /// Whom a proxy speaks for; both must be allowed what is asked for.
    pub original: Option<Arc<str>>,
    /// How they proved it; `anonymous` for those who did not.
    pub method: &'static str,
    /// When the proof ends, in seconds since 1970.
    pub expires: Option<u64>,
}

/// Why somebody is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unproven {
    /// They showed nothing.
    #[error("no credentials: this broker asks for {0}")]
    Missing(String),
    /// What they showed is not good.
    #[error("{0}")]
    Bad(String),
    /// Logins from where they are failed too often; nothing is looked at for so many seconds.
    #[error("too many logins from this address failed: try again in {0} s")]
    Again(u64),
}

impl Identity {
    /// Whether they only are whom everybody may be.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.method == "anonymous"
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Auth {
    settings: AuthSettings,
    tokens: Option<Tokens>,
    passwords: Option<Passwords>,
    /// Logins that failed, by address.
    pub(crate) failures: Failures,
}

impl Auth {
    /// Reads keys and passwords.
    ///
    /// # Errors
    /// Which setting cannot be used, and why.
    pub(crate) fn load(settings: AuthSettings) -> Result<Auth, String> {
        let tokens = settings.token.clone().map(Tokens::load).transpose()?;
        let passwords = settings.passwords.clone().map(Passwords::load).transpose()?;
        let failures = Failures::new(settings.max_failures);
        Ok(Auth { settings, tokens, passwords, failures })
    }

    /// Who shows these credentials.
    pub(crate) fn identify(&self, shown: &Credentials) -> Result<Identity, Unproven> {
        match self.prove(shown) {
            Ok(identity) => Ok(identity),
            // As in Pulsar, who cannot prove to be somebody goes on as nobody in particular where that is allowed, unless they
            // tried with a method that is known here.
            Err(unproven) => match &self.settings.anonymous {
                Some(role) if shown.method.is_none() || matches!(unproven, Unproven::Missing(_)) => {
                    Ok(Identity { role: role.as_str().into(), original: None, method: "anonymous", expires: None })
                }
                _ => Err(unproven),
            },
        }
    }

    fn prove(&self, shown: &Credentials) -> Result<Identity, Unproven> {
        let method = shown.method.as_deref().unwrap_or(if shown.data.is_empty() { TLS } else { TOKEN });
        let proven = |role: String, method, expires| Ok(Identity { role: role.into(), original: None, method, expires });
        match method {
            TOKEN
                if !shown.data.is_empty()
                    && let Some(tokens) = &self.tokens =>
            {
                let token = tokens.verify(&shown.data, now()).map_err(Unproven::Bad)?;
                proven(token.role, TOKEN, token.expires)
            }
            BASIC
                if !shown.data.is_empty()
                    && let Some(passwords) = &self.passwords =>
            {
                proven(passwords.verify(&shown.data).map_err(Unproven::Bad)?, BASIC, None)
            }
            TLS if self.settings.tls
                && let Some(name) = &shown.certificate =>
            {
                proven(name.to_string(), TLS, None)
            }
            _ => Err(Unproven::Missing(self.methods())),
        }
    }

    fn methods(&self) -> String {
        let all = [(self.tokens.is_some(), TOKEN), (self.passwords.is_some(), BASIC), (self.settings.tls, TLS)];
        all.into_iter().filter(|(on, _)| *on).map(|(_, name)| name).collect::<Vec<_>>().join(" or ")
    }

    /// Adds whom a proxy speaks for. `shown` is what the original client showed the proxy, if that is to be checked here.
    pub(crate) fn speak_for(&self, mut proxy: Identity, original: Option<&str>, shown: Option<&Credentials>) -> Result<Identity, Unproven> {
        let is_proxy = |role: &str| self.settings.proxy_roles.iter().any(|known| known == role);
        let proven = match shown.filter(|_| self.settings.verify_original) {
            Some(shown) => Some(self.identify(shown)?),
            None => None,
        };
        let original = proven.as_ref().map(|identity| &*identity.role).or(original).filter(|role| !role.is_empty());
        match (is_proxy(&proxy.role), original) {
            (true, Some(original)) if !is_proxy(original) => {
                proxy.original = Some(original.into());
                proxy.expires = [proxy.expires, proven.and_then(|identity| identity.expires)].into_iter().flatten().min();
                Ok(proxy)
            }
            (true, Some(_)) => Err(Unproven::Bad("a proxy cannot speak for another proxy".to_owned())),
            (true, None) => Err(Unproven::Bad("a proxy must say whom it speaks for".to_owned())),
            (false, Some(original)) if original != &*proxy.role => {
                Err(Unproven::Bad(format!("{} is not one of the proxyRoles and cannot speak for another", proxy.role)))
            }
            (false, _) => Ok(proxy),
        }
    }

    /// Whether somebody may do something. Those who are not known may do everything where nobody is asked.
    pub(crate) fn allows(&self, metadata: &dyn MetadataStore, who: Option<&Identity>, wanted: &Wanted) -> Result<bool, MetadataError> {
        let Some(who) = who.filter(|_| self.settings.authorize) else { return Ok(true) };
        for role in [Some(&who.role), who.original.as_ref()].into_iter().flatten() {
            if !permissions::allows(metadata, &self.settings, role, wanted)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether somebody may do everything.
    pub(crate) fn is_superuser(&self, who: &Identity) -> bool {
        let is = |role: &str| self.settings.superusers.iter().any(|superuser| superuser == role);
        !self.settings.authorize || (is(&who.role) && who.original.as_deref().is_none_or(is))
    }

    /// [`identify`](Self::identify), unless logins from there failed too often; one that fails now is counted.
    pub(crate) fn identify_from(&self, address: IpAddr, shown: &Credentials) -> Result<Identity, Unproven> {
        if let Some(seconds) = self.failures.kept_out(address, Instant::now()) {
            return Err(Unproven::Again(seconds));
        }
        let outcome = self.identify(shown);
        if matches!(outcome, Err(Unproven::Bad(_))) {
            self.failures.count(address, Instant::now());
        }
        outcome
    }

    pub(crate) fn authorizes(&self) -> bool {
        self.settings.authorize
    }

    /// How often live connections are looked at for proofs that ended.
    pub(crate) fn check_every_ms(&self) -> u64 {
        u64::try_from(self.settings.refresh.as_millis()).unwrap_or(u64::MAX)
    }

    fn refresh(&self) {
        self.tokens.iter().for_each(Tokens::refresh);
        self.passwords.iter().for_each(Passwords::refresh);
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A name that nobody guesses: 32 hexadecimal digits. May block while the system gathers randomness.
///
/// # Errors
/// When the system has none.
pub fn random_name() -> Result<String, String> {
    let mut bytes = [0; 16];
    let filled = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes);
    filled.map_err(|_| "the system has no randomness".to_owned())?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
