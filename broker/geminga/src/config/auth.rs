//! Who is believed, and who may do what.

use std::time::Duration;

use server::{Algorithm, Secret};

use super::amounts::{TimeOrOff, TimeUnit, seconds};
use super::forms::{Flag, Form, List, Number, OneOf, OptionalName, Text};
use super::table::settings;

settings! {
    /// Who is believed, and who may do what.
    pub struct Auth, "Authentication and authorization" {
        /// Whether clients must show who they are, over both protocols. authenticationProviders says how.
        authentication: bool = "authenticationEnabled", Flag, default false;
        /// Ways to show it: AuthenticationProviderToken, AuthenticationProviderBasic, AuthenticationProviderTls (Pulsar's class names, with or
        /// without package).
        providers: Vec<Provider> = "authenticationProviders", Providers, default Vec::new();
        /// How often live connections are looked at for credentials that have expired, and keys and passwords for changes. A client that can is
        /// asked for fresh credentials and has as long again to answer; others lose their connection.
        refresh: Duration = "authenticationRefreshCheckSeconds", seconds(1, 86_400), default Duration::from_secs(60);
        /// Whether the credentials of a proxy's client, which the proxy passes on, are checked here too.
        verify_original: bool = "authenticateOriginalAuthData", Flag, default false;
        /// Roles of proxies, which speak for others; both the proxy and the other must be allowed what is asked for.
        proxy_roles: Vec<String> = "proxyRoles", List, default Vec::new();
        /// Whether what somebody may do is checked. Otherwise everybody who is believed may do everything.
        authorization: bool = "authorizationEnabled", Flag, default false;
        /// There is one provider: super-users, tenant administrators, and grants in the policies of namespaces.
        provider: () = "authorizationProvider", PulsarsOwn, default ();
        /// Whether `*` at the beginning or the end of a granted role or topic stands for anything.
        wildcards: bool = "authorizationAllowWildcardsMatching", Flag, default false;
        /// Roles that may do everything.
        superusers: Vec<String> = "superUserRoles", List, default Vec::new();
        /// The role of those who show nothing. Blank: they are sent away.
        anonymous: Option<String> = "anonymousUserRole", OptionalName, default None;
        /// Secret that tokens are signed with (HS256, HS384, HS512): file:///path, data:;base64,… or env:NAME. `geminga token create-secret` makes one.
        token_secret: Option<Secret> = "tokenSecretKey", SecretForm, default None;
        /// Public key that tokens are verified with, in the same forms: PEM or DER, or a set of keys in JSON (JWKS) of which a token names
        /// one by `kid`. A changed file is taken within authenticationRefreshCheckSeconds.
        token_public: Option<Secret> = "tokenPublicKey", SecretForm, default None;
        /// How tokens are signed that a single tokenPublicKey verifies.
        token_algorithm: Algorithm = "tokenPublicAlg", ALGORITHMS, default Algorithm::RS256;
        /// The claim of a token that holds the role.
        token_claim: String = "tokenAuthClaim", Text, default "sub".to_owned();
        /// The claim that says for whom a token is. Blank: that is not looked at.
        token_audience_claim: Option<String> = "tokenAudienceClaim", OptionalName, default None;
        /// Who this broker is in tokenAudienceClaim.
        token_audience: Option<String> = "tokenAudience", Words, default None;
        /// By how much the clocks of signer and broker may differ.
        token_leeway: Option<Duration> = "tokenAllowedClockSkewSeconds", TimeOrOff(TimeUnit::Seconds), default None;
        /// Logins from one address that may fail within a minute; after that it is kept out for a minute, over both protocols. 0 is no limit.
        max_failures: u32 = "maxFailedLoginsPerMinute", Number(0, u32::MAX), default 600;
        /// Passwords as htpasswd writes them, apr1, bcrypt, SHA-1 or crypt: a file, or the lines themselves in base64.
        passwords: Option<Secret> = "basicAuthConf", SecretForm, default None;
    }
}

/// A way to show who one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// A token.
    Token,
    /// User and password.
    Basic,
    /// A client certificate.
    Tls,
}

const PROVIDERS: [(&str, Provider); 3] = [
    ("AuthenticationProviderToken", Provider::Token),
    ("AuthenticationProviderBasic", Provider::Basic),
    ("AuthenticationProviderTls", Provider::Tls),
];

const ALGORITHMS: OneOf<Algorithm> = OneOf(&[
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
]);

/// Class names of Pulsar's providers that have a counterpart here.
#[derive(Clone, Copy)]
struct Providers;

impl Form for Providers {
    type Value = Vec<Provider>;
    fn parse(&self, text: &str) -> Result<Self::Value, String> {
        let provider = |name: String| {
            let known = PROVIDERS.iter().find(|(known, _)| name.rsplit('.').next() == Some(known));
            known.map(|(_, provider)| *provider).ok_or_else(|| format!("there is no counterpart of {name}"))
        };
        List.parse(text)?.into_iter().map(provider).collect()
    }
    fn show(&self, value: &Self::Value) -> String {
        let names = PROVIDERS.iter().filter(|(_, provider)| value.contains(provider)).map(|(name, _)| *name);
        names.collect::<Vec<_>>().join(",")
    }
    fn allowed(&self) -> String {
        format!("a list of {}", PROVIDERS.map(|(name, _)| name).join(", "))
    }
}

const PULSARS_OWN: &str = "org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider";

#[derive(Clone, Copy)]
struct PulsarsOwn;

impl Form for PulsarsOwn {
    type Value = ();
    fn parse(&self, text: &str) -> Result<(), String> {
        if text == PULSARS_OWN { Ok(()) } else { Err(String::new()) }
    }
    fn show(&self, (): &()) -> String {
        PULSARS_OWN.to_owned()
    }
    fn allowed(&self) -> String {
        PULSARS_OWN.to_owned()
    }
}

/// A secret, or where it is.
#[derive(Clone, Copy)]
struct SecretForm;

impl Form for SecretForm {
    type Value = Option<Secret>;
    fn parse(&self, text: &str) -> Result<Self::Value, String> {
        Ok(Some(Secret::new(text)))
    }
    fn show(&self, value: &Self::Value) -> String {
        value.as_ref().map(|secret| secret.text().to_owned()).unwrap_or_default()
    }
    fn allowed(&self) -> String {
        "file:///path, a path, data:;base64,…, env:NAME, or base64".to_owned()
    }
}

/// Text that may be left out.
#[derive(Clone, Copy)]
struct Words;

impl Form for Words {
    type Value = Option<String>;
    fn parse(&self, text: &str) -> Result<Self::Value, String> {
        Ok(Some(text.to_owned()))
    }
    fn show(&self, value: &Self::Value) -> String {
        value.clone().unwrap_or_default()
    }
    fn allowed(&self) -> String {
        Form::allowed(&Text)
    }
}

impl Auth {
    /// Settings that do not go together, and the reason.
    pub(super) fn complaint(&self) -> Option<(&'static [&'static str], &'static str)> {
        if self.authorization && !self.authentication {
            let keys = &["authorizationEnabled", "authenticationEnabled"];
            return Some((keys, "what somebody may do can be told only when it is known who they are; set authenticationEnabled=true"));
        }
        if self.authentication && self.providers.is_empty() {
            let keys = &["authenticationEnabled", "authenticationProviders"];
            return Some((keys, "there is no way to show who one is; name at least one provider, for example AuthenticationProviderToken"));
        }
        let has = |provider| self.authentication && self.providers.contains(&provider);
        if has(Provider::Token) && self.token_secret.is_none() && self.token_public.is_none() {
            let keys = &["authenticationProviders", "tokenSecretKey", "tokenPublicKey"];
            return Some((keys, "tokens need a key to be verified with; `geminga token create-secret` makes one"));
        }
        if has(Provider::Basic) && self.passwords.is_none() {
            return Some((
                &["authenticationProviders", "basicAuthConf"],
                "passwords need a file to be compared with, as htpasswd writes it",
            ));
        }
        if self.token_audience_claim.is_some() != self.token_audience.is_some() {
            return Some((&["tokenAudienceClaim", "tokenAudience"], "one says where to look and the other for what; set both or none"));
        }
        None
    }
}
