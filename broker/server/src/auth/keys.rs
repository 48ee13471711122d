//! What tokens are verified with: a shared secret, a public key, or a set of keys, from a file or from the setting itself.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ring::hmac;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use x509_parser::prelude::FromDer;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::token::Algorithm;
use crate::shared::Shared;

/// Something secret, or where it is: `file:///path`, `/path`, `data:;base64,…`, `data:,…`, `env:NAME`, or the thing itself in base64.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("********")
    }
}

impl Secret {
    /// As it is written in a setting.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// As it is written in a setting.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The bytes. Blocks on a file.
    pub(super) fn read(&self) -> Result<Vec<u8>, String> {
        let text = self.0.trim();
        if let Some(data) = text.strip_prefix("data:") {
            let (kind, data) = data.split_once(',').ok_or("data: needs a comma before the data")?;
            return match kind.ends_with(";base64") {
                true => decode(data).ok_or_else(|| "the data after the comma is not base64".to_owned()),
                false => Ok(data.as_bytes().to_vec()),
            };
        }
        if let Some(name) = text.strip_prefix("env:") {
            let value = std::env::var(name).map_err(|_| format!("there is no variable {name}"))?;
            return Ok(decode(&value).unwrap_or_else(|| value.into_bytes()));
        }
        let path = match text.strip_prefix("file:") {
            Some(path) => path.strip_prefix("//").unwrap_or(path),
            None => text,
        };
        match std::fs::read(PathBuf::from(path)) {
            Ok(bytes) => Ok(bytes),
            Err(_) if !text.starts_with("file:") && !text.starts_with('/') && decode(text).is_some() => {
                decode(text).ok_or_else(String::new)
            }
            Err(error) => Err(format!("cannot read {path}: {error}")),
        }
    }
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let text: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    BASE64_STANDARD.decode(&text).or_else(|_| BASE64_URL_SAFE_NO_PAD.decode(text.trim_end_matches('='))).ok()
}

/// Keys, each with what it can verify.
#[derive(Debug, Default)]
pub(super) struct TokenKeys(Vec<Key>);

#[derive(Debug)]
struct Key {
    id: Option<String>,
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Clone, Debug)]
pub(super) enum Material {
    /// A shared secret.
    Secret(Arc<hmac::Key>, Algorithm),
    /// An RSA key as PKCS#1.
    Rsa(Vec<u8>),
    RsaParts {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// A point on a curve, uncompressed.
    Point(Vec<u8>),
}

impl TokenKeys {
    /// A shared secret: it verifies HS256, HS384 and HS512.
    pub(super) fn add_secret(&mut self, id: Option<String>, secret: &[u8]) {
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            if let Some(kind) = algorithm.hmac() {
                let material = Material::Secret(Arc::new(hmac::Key::new(kind, secret)), algorithm);
                self.0.push(Key { id: id.clone(), algorithm: Some(algorithm), material });
            }
        }
    }

    /// A public key (PEM or DER), or a set of keys in JSON.
    pub(super) fn add_public(&mut self, bytes: &[u8], algorithm: Algorithm) -> Result<(), String> {
        if bytes.trim_ascii_start().first() == Some(&b'{') {
            return self.add_set(bytes);
        }
        let der = SubjectPublicKeyInfoDer::from_pem_slice(bytes).map_or_else(|_| bytes.to_vec(), |der| der.to_vec());
        let (_, key) =
            SubjectPublicKeyInfo::from_der(&der).map_err(|_| "it is neither a public key in PEM or DER form nor a set of keys")?;
        let bits = key.subject_public_key.data.to_vec();
        let material = if algorithm.is_rsa() { Material::Rsa(bits) } else { Material::Point(bits) };
        if algorithm.is_rsa() != key.algorithm.algorithm.to_id_string().starts_with("1.2.840.113549.1.1") {
            return Err(format!("the key is not one for {algorithm:?}: see tokenPublicAlg"));
        }
        self.0.push(Key { id: None, algorithm: Some(algorithm), material });
        Ok(())
    }

    fn add_set(&mut self, json: &[u8]) -> Result<(), String> {
        let set: KeySet = serde_json::from_slice(json).map_err(|error| format!("it is no set of keys: {error}"))?;
        for key in set.keys {
            let algorithm = key.alg.as_deref().map(str::parse).transpose()?;
            let part = |part: &Option<String>| part.as_deref().and_then(|p| BASE64_URL_SAFE_NO_PAD.decode(p.trim_end_matches('=')).ok());
            let material = match (key.kty.as_str(), part(&key.n), part(&key.e), part(&key.x), part(&key.y)) {
                ("RSA", Some(n), Some(e), _, _) => Material::RsaParts { n, e },
                ("EC", _, _, Some(x), Some(y)) => Material::Point([&[4], &x[..], &y[..]].concat()),
                ("oct", ..) if let Some(secret) = part(&key.k) => {
                    self.add_secret(key.kid, &secret);
                    continue;
                }
                (other, ..) => {
                    tracing::warn!(kind = other, id = key.kid, "tokenPublicKey: a key of the set that cannot be used is left out");
                    continue;
                }
            };
            self.0.push(Key { id: key.kid, algorithm, material });
        }
        if self.0.is_empty() { Err("none of its keys can be used".to_owned()) } else { Ok(()) }
    }

    /// Those that may have signed with this algorithm: the one of this id, or all where the token names none.
    pub(super) fn candidates<'a>(&'a self, id: Option<&'a str>, algorithm: Algorithm) -> impl Iterator<Item = &'a Material> {
        let fits = move |key: &&Key| {
            (key.id.is_none() || id.is_none() || key.id.as_deref() == id) && key.algorithm.is_none_or(|known| known == algorithm)
        };
        let of_kind = move |material: &&Material| match material {
            Material::Secret(_, known) => *known == algorithm,
            Material::Rsa(_) | Material::RsaParts { .. } => algorithm.is_rsa(),
            Material::Point(_) => algorithm.is_ec(),
        };
        self.0.iter().filter(fits).map(|key| &key.material).filter(of_kind)
    }
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<JsonKey>,
}

#[derive(Deserialize)]
struct JsonKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    k: Option<String>,
}

/// What tells one reading from another without keeping the secret.
pub(super) fn fingerprint(read: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    read.hash(&mut hasher);
    hasher.finish()
}

/// Looks at keys and passwords again and again, on a control thread.
pub(crate) async fn keep_fresh(shared: Arc<Shared>) {
    let Some(every) = shared.auth.as_ref().map(|auth| auth.settings.refresh) else { return };
    loop {
        tokio::time::sleep(every).await;
        let of = shared.clone();
        shared.control.run(move || of.auth.iter().for_each(super::Auth::refresh));
    }
}
