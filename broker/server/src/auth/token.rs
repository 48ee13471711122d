//! JSON Web Tokens: three parts in base64, of which the last vouches for the first two. The signatures are ring's work.

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{self as sig, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use ring::{hmac, rand};
use serde_json::{Map, Value, json};

use super::keys::{Material, TokenKeys, fingerprint};
use super::settings::TokenSettings;

/// Algorithms of signatures, by the names that tokens use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Algorithm {
    HS256,
    HS384,
    HS512,
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    ES256,
    ES384,
}

const NAMES: [(&str, Algorithm); 11] = [
    ("HS256", Algorithm::HS256),
    ("HS384", Algorithm::HS384),
    ("HS512", Algorithm::HS512),
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
];

impl FromStr for Algorithm {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let known = NAMES.iter().find(|(name, _)| *name == text).map(|(_, algorithm)| *algorithm);
        known.ok_or_else(|| format!("{text} is none of {}", NAMES.map(|(name, _)| name).join(", ")))
    }
}

impl Algorithm {
    pub(super) fn hmac(self) -> Option<hmac::Algorithm> {
        match self {
            Algorithm::HS256 => Some(hmac::HMAC_SHA256),
            Algorithm::HS384 => Some(hmac::HMAC_SHA384),
            Algorithm::HS512 => Some(hmac::HMAC_SHA512),
            _ => None,
        }
    }

    pub(super) fn is_rsa(self) -> bool {
        self.rsa().is_some()
    }

    pub(super) fn is_ec(self) -> bool {
        matches!(self, Algorithm::ES256 | Algorithm::ES384)
    }

    fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Algorithm::RS256 => &sig::RSA_PKCS1_2048_8192_SHA256,
            Algorithm::RS384 => &sig::RSA_PKCS1_2048_8192_SHA384,
            Algorithm::RS512 => &sig::RSA_PKCS1_2048_8192_SHA512,
            Algorithm::PS256 => &sig::RSA_PSS_2048_8192_SHA256,
            Algorithm::PS384 => &sig::RSA_PSS_2048_8192_SHA384,
            Algorithm::PS512 => &sig::RSA_PSS_2048_8192_SHA512,
            _ => return None,
        })
    }

    fn verifies(self, material: &Material, message: &[u8], signature: &[u8]) -> bool {
        match (material, self.rsa()) {
            (Material::Secret(key, _), _) => hmac::verify(key, message, signature).is_ok(),
            (Material::Rsa(key), Some(rsa)) => UnparsedPublicKey::new(rsa, key).verify(message, signature).is_ok(),
            (Material::RsaParts { n, e }, Some(rsa)) => RsaPublicKeyComponents { n, e }.verify(rsa, message, signature).is_ok(),
            (Material::Point(point), None) => {
                let curve = if self == Algorithm::ES384 { &sig::ECDSA_P384_SHA384_FIXED } else { &sig::ECDSA_P256_SHA256_FIXED };
                UnparsedPublicKey::new(curve, point).verify(message, signature).is_ok()
            }
            _ => false,
        }
    }
}

/// Verifies tokens. Keys that change are taken; bad ones are told of, and the old ones stay.
#[derive(Debug)]
pub(super) struct Tokens {
    settings: TokenSettings,
    keys: RwLock<Arc<TokenKeys>>,
    /// What was last read, so that a bad key is told of once.
    seen: Mutex<u64>,
}

/// What a good token says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) role: String,
    pub(super) expires: Option<u64>,
}

impl Tokens {
    pub(super) fn load(settings: TokenSettings) -> Result<Tokens, String> {
        let bytes = read(&settings)?;
        let keys = parse(&settings, &bytes)?;
        let seen = Mutex::new(fingerprint(&Ok::<_, String>(bytes)));
        Ok(Tokens { settings, keys: RwLock::new(Arc::new(keys)), seen })
    }

    pub(super) fn refresh(&self) {
        let read = read(&self.settings);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = fingerprint(&read);
        if *seen == now {
            return;
        }
        match read.and_then(|bytes| parse(&self.settings, &bytes)) {
            Ok(keys) => {
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
                tracing::info!("keys of tokens changed: tokens are verified with the new ones");
            }
            Err(reason) => tracing::warn!(reason, "keys of tokens changed and cannot be used: those read before stay in force"),
        }
        *seen = now;
    }

    /// # Errors
    /// What is wrong with the token, without telling what would be right.
    pub(super) fn verify(&self, token: &[u8], now: u64) -> Result<Token, String> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner).clone();
        let token = std::str::from_utf8(token).map_err(|_| "the token is not text")?.trim();
        let bad = || "the token is not three parts in base64".to_owned();
        let (signed, signature) = token.rsplit_once('.').ok_or_else(bad)?;
        let (header, claims) = signed.split_once('.').ok_or_else(bad)?;
        let header = part(header).ok_or_else(bad)?;
        let claims = part(claims).ok_or_else(bad)?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature.trim_end_matches('=')).map_err(|_| bad())?;
        let algorithm = header.get("alg").and_then(Value::as_str).ok_or("the token does not say how it is signed")?;
        let algorithm: Algorithm = algorithm.parse().map_err(|_| format!("tokens signed with {algorithm} are not taken"))?;
        let id = header.get("kid").and_then(Value::as_str);
        if !keys.candidates(id, algorithm).any(|key| algorithm.verifies(key, signed.as_bytes(), &signature)) {
            return Err("the token's signature does not verify with the keys of this broker".to_owned());
        }
        self.judge(&claims, now)
    }

    fn judge(&self, claims: &Map<String, Value>, now: u64) -> Result<Token, String> {
        let settings = &self.settings;
        let leeway = settings.leeway.as_secs();
        let time = |name: &str| match claims.get(name).filter(|value| !value.is_null()) {
            None => Ok(None),
            // A fraction of a second is none of our business.
            Some(value) => {
                value.as_f64().filter(|time| *time >= 0.0).map(|time| Some(time as u64)).ok_or(format!("the token's {name} is no time"))
            }
        };
        let expires = time("exp")?;
        if expires.is_some_and(|at| at.saturating_add(leeway) <= now) {
            return Err("the token has expired".to_owned());
        }
        if time("nbf")?.is_some_and(|at| at > now.saturating_add(leeway)) {
            return Err("the token is not valid yet".to_owned());
        }
        if let (Some(claim), Some(own)) = (&settings.audience_claim, &settings.audience) {
            let named = match claims.get(claim) {
                Some(Value::Array(all)) => all.iter().any(|one| one.as_str() == Some(own)),
                one => one.and_then(Value::as_str) == Some(own),
            };
            if !named {
                return Err(format!("the token is not for this broker: its {claim} does not name it"));
            }
        }
        let role = match claims.get(&settings.role_claim) {
            Some(Value::Array(all)) => all.first().and_then(Value::as_str),
            one => one.and_then(Value::as_str),
        };
        match role.filter(|role| !role.is_empty()) {
            Some(role) => Ok(Token { role: role.to_owned(), expires: expires.map(|at| at.saturating_add(leeway)) }),
            None => Err(format!("the token names no role in {}", settings.role_claim)),
        }
    }
}

fn part(text: &str) -> Option<Map<String, Value>> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn read(settings: &TokenSettings) -> Result<[Vec<u8>; 2], String> {
    let read = |name: &str, source: &Option<super::Secret>| match source {
        Some(source) => source.read().map_err(|reason| format!("{name}: {reason}")),
        None => Ok(Vec::new()),
    };
    Ok([read("tokenSecretKey", &settings.secret)?, read("tokenPublicKey", &settings.public)?])
}

fn parse(settings: &TokenSettings, [secret, public]: &[Vec<u8>; 2]) -> Result<TokenKeys, String> {
    let mut keys = TokenKeys::default();
    if settings.secret.is_some() {
        if secret.len() < MIN_SECRET {
            return Err(format!(
                "tokenSecretKey: {} bytes are too few for a secret, {MIN_SECRET} is the least; see geminga token create-secret",
                secret.len()
            ));
        }
        keys.add_secret(None, secret);
    }
    if settings.public.is_some() {
        keys.add_public(public, settings.algorithm).map_err(|reason| format!("tokenPublicKey: {reason}"))?;
    }
    Ok(keys)
}

/// Shorter ones can be guessed from a token.
const MIN_SECRET: usize = 16;

/// Makes tokens: for the command line.
#[derive(Debug)]
pub enum Signer {
    /// With a shared secret, HS256.
    Secret(Vec<u8>),
    /// With an RSA key (PKCS#8), RS256.
    Rsa(sig::RsaKeyPair),
    /// With a key on P-256 (PKCS#8), ES256.
    Ec(sig::EcdsaKeyPair),
}

impl Signer {
    /// From what a file holds: PEM or DER of PKCS#8.
    ///
    /// # Errors
    /// It is no such key.
    pub fn private(bytes: &[u8]) -> Result<Signer, String> {
        use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
        let der = PrivatePkcs8KeyDer::from_pem_slice(bytes).map_or_else(|_| bytes.to_vec(), |der| der.secret_pkcs8_der().to_vec());
        if let Ok(pair) = sig::RsaKeyPair::from_pkcs8(&der) {
            return Ok(Signer::Rsa(pair));
        }
        let pair = sig::EcdsaKeyPair::from_pkcs8(&sig::ECDSA_P256_SHA256_FIXED_SIGNING, &der, &rand::SystemRandom::new());
        pair.map(Signer::Ec).map_err(|_| "it is no private key (PKCS#8) for RS256 or ES256".to_owned())
    }

    /// A token for a role.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn sign(&self, role: &str, expires: Option<u64>, id: Option<&str>) -> Result<String, String> {
        let algorithm = match self {
            Signer::Secret(_) => "HS256",
            Signer::Rsa(_) => "RS256",
            Signer::Ec(_) => "ES256",
        };
        let mut header = json!({ "alg": algorithm, "typ": "JWT" });
        if let Some(id) = id {
            header["kid"] = id.into();
        }
        let mut claims = json!({ "sub": role, "iat": super::now() });
        if let Some(expires) = expires {
            claims["exp"] = expires.into();
        }
        let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let signed = format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()));
        let random = rand::SystemRandom::new();
        let failed = |_| "cannot sign".to_owned();
        let signature = match self {
            Signer::Secret(secret) => hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes()).as_ref().to_vec(),
            Signer::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&sig::RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).map_err(failed)?;
                signature
            }
            Signer::Ec(pair) => pair.sign(&random, signed.as_bytes()).map_err(failed)?.as_ref().to_vec(),
        };
        Ok(format!("{signed}.{}", encode(&signature)))
    }
}

/// A new key on P-256: the private one as PKCS#8, the public one as it stands in a certificate; both DER.
///
/// # Errors
/// The system has no random numbers.
pub fn new_key_pair() -> Result<(Vec<u8>, Vec<u8>), String> {
    use ring::signature::KeyPair;
    let failed = |_| "cannot make a key".to_owned();
    let random = rand::SystemRandom::new();
    let private = sig::EcdsaKeyPair::generate_pkcs8(&sig::ECDSA_P256_SHA256_FIXED_SIGNING, &random).map_err(failed)?;
    let pair = sig::EcdsaKeyPair::from_pkcs8(&sig::ECDSA_P256_SHA256_FIXED_SIGNING, private.as_ref(), &random)
        .map_err(|_| "cannot make a key".to_owned())?;
    // SEQUENCE { SEQUENCE { ecPublicKey, prime256v1 }, BIT STRING }
    let mut public = vec![0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce];
    public.extend_from_slice(&[0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00]);
    public.extend_from_slice(pair.public_key().as_ref());
    Ok((private.as_ref().to_vec(), public))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Secret;
    use super::*;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    fn settings() -> TokenSettings {
        TokenSettings {
            secret: Some(Secret::new(format!("data:,{}", String::from_utf8_lossy(SECRET)))),
            public: None,
            algorithm: Algorithm::RS256,
            role_claim: "sub".to_owned(),
            audience_claim: None,
            audience: None,
            leeway: Duration::ZERO,
        }
    }

    fn encode(bytes: &[u8]) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    fn signed(header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()));
        let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), signed.as_bytes());
        format!("{signed}.{}", encode(signature.as_ref()))
    }

    fn verified(settings: TokenSettings, claims: &Value, now: u64) -> Result<Token, String> {
        let tokens = Tokens::load(settings).expect("usable");
        tokens.verify(signed(&json!({ "alg": "HS256" }), claims).as_bytes(), now)
    }

    #[test]
    fn time_is_kept_with_the_leeway_that_is_granted() {
        let claims = json!({ "sub": "me", "exp": 100, "nbf": 50 });
        assert!(verified(settings(), &claims, 99).is_ok());
        assert!(verified(settings(), &claims, 100).is_err());
        assert!(verified(settings(), &claims, 49).is_err());
        let lenient = || TokenSettings { leeway: Duration::from_secs(10), ..settings() };
        assert_eq!(verified(lenient(), &claims, 105).expect("within the leeway").expires, Some(110));
        assert!(verified(lenient(), &claims, 110).is_err());
        assert!(verified(lenient(), &claims, 40).is_ok());
        assert!(verified(settings(), &json!({ "sub": "me", "exp": "soon" }), 0).is_err());
    }

    #[test]
    fn a_token_is_for_the_audience_that_it_names() {
        let settings = || TokenSettings { audience_claim: Some("aud".into()), audience: Some("here".into()), ..settings() };
        assert!(verified(settings(), &json!({ "sub": "me", "aud": "here" }), 0).is_ok());
        assert!(verified(settings(), &json!({ "sub": "me", "aud": ["there", "here"] }), 0).is_ok());
        for aud in [json!("there"), json!([]), json!(null), json!(7)] {
            assert!(verified(settings(), &json!({ "sub": "me", "aud": aud }), 0).is_err(), "{aud}");
        }
    }

    #[test]
    fn the_role_is_where_the_settings_say() {
        let settings = || TokenSettings { role_claim: "roles".into(), ..settings() };
        assert_eq!(verified(settings(), &json!({ "roles": ["first", "second"] }), 0).expect("good").role, "first");
        for claims in [json!({ "sub": "me" }), json!({ "roles": "" }), json!({ "roles": [] }), json!({ "roles": 7 })] {
            assert!(verified(settings(), &claims, 0).is_err(), "{claims}");
        }
    }

    #[test]
    fn a_public_key_is_no_shared_secret() {
        // The classic confusion: a token signed by HMAC with the public key's bytes.
        let (private, public) = new_key_pair().expect("a key");
        let mut keys = TokenKeys::default();
        keys.add_public(&public, Algorithm::ES256).expect("a public key");
        assert_eq!(keys.candidates(None, Algorithm::HS256).count(), 0);
        assert_eq!(keys.candidates(None, Algorithm::ES256).count(), 1);
        assert_eq!(keys.candidates(None, Algorithm::ES384).count(), 0);
        assert!(keys.add_public(&public, Algorithm::RS256).is_err());
        assert!(Signer::private(&private).is_ok());
        assert!(Signer::private(b"nonsense").is_err());
    }

    #[test]
    fn a_set_of_keys_verifies_by_the_name_that_the_token_gives() {
        let (first, second) = (new_key_pair().expect("a key"), new_key_pair().expect("a key"));
        // The point ends the public key: 0x04, then both coordinates.
        let key = |id: &str, public: &[u8]| {
            let point = &public[public.len() - 64..];
            json!({ "kty": "EC", "crv": "P-256", "kid": id, "alg": "ES256", "x": encode(&point[..32]), "y": encode(&point[32..]) })
        };
        let set = json!({ "keys": [key("a", &first.1), key("b", &second.1), { "kty": "OKP", "kid": "c" }] }).to_string();
        let public = Some(Secret::new(format!("data:,{set}")));
        let tokens = Tokens::load(TokenSettings { secret: None, public, ..settings() }).expect("usable");
        let sign = |private: &[u8], id| Signer::private(private).expect("a key").sign("me", None, id).expect("signed");
        let verify = |token: String| tokens.verify(token.as_bytes(), 0).map(|token| token.role);
        assert_eq!(verify(sign(&first.0, Some("a"))).as_deref(), Ok("me"));
        assert_eq!(verify(sign(&second.0, Some("b"))).as_deref(), Ok("me"));
        assert_eq!(verify(sign(&second.0, None)).as_deref(), Ok("me"));
        assert!(verify(sign(&first.0, Some("b"))).is_err());
        assert!(verify(sign(&first.0, Some("c"))).is_err());
        assert!(Tokens::load(TokenSettings { secret: None, public: Some(Secret::new("data:,{\"keys\":[]}")), ..settings() }).is_err());
    }

    #[test]
    fn keys_that_are_none_stop_the_start_with_a_reason() {
        for (secret, reason) in [("data:,short", "too few"), ("file:///nowhere", "cannot read"), ("env:NO_SUCH_VARIABLE", "no variable")] {
            let error = Tokens::load(TokenSettings { secret: Some(Secret::new(secret)), ..settings() }).expect_err(secret);
            assert!(error.contains(reason), "{error}");
        }
    }
}
