//! Passwords, as Apache's `htpasswd` keeps them: `user:hash` on each line. Hashes of apr1, bcrypt, SHA-1, and those of `crypt`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use md5::{Digest, Md5};
use ring::digest;

use super::keys::{Secret, fingerprint};

/// Passwords by user; a changed file is taken, a bad one is told of.
#[derive(Debug)]
pub(super) struct Passwords {
    source: Secret,
    hashes: RwLock<Arc<HashMap<String, Secret>>>,
    /// What was last read, so that a bad file is told of once.
    seen: Mutex<u64>,
}

impl Passwords {
    pub(super) fn load(source: Secret) -> Result<Passwords, String> {
        let bytes = source.read().map_err(|reason| format!("basicAuthConf: {reason}"))?;
        let hashes = RwLock::new(Arc::new(parse(&bytes)?));
        let seen = Mutex::new(fingerprint(&Ok::<_, String>(bytes)));
        Ok(Passwords { source, hashes, seen })
    }

    pub(super) fn refresh(&self) {
        let read = self.source.read();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = fingerprint(&read);
        if *seen == now {
            return;
        }
        match read.and_then(|bytes| parse(&bytes)) {
            Ok(hashes) => {
                *self.hashes.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(hashes);
                tracing::info!("passwords changed: users are checked against the new ones");
            }
            Err(reason) => tracing::warn!(reason, "passwords changed and cannot be used: those read before stay in force"),
        }
        *seen = now;
    }

    /// The user of `user:password`.
    pub(super) fn verify(&self, shown: &[u8]) -> Result<String, String> {
        let hashes = self.hashes.read().unwrap_or_else(PoisonError::into_inner).clone();
        let shown = std::str::from_utf8(shown).map_err(|_| "user and password are not text")?;
        let (user, password) = shown.split_once(':').ok_or("user and password are written user:password")?;
        // One who is not there is checked as well, against another's, so that time does not tell.
        let hash = hashes.get(user).or_else(|| hashes.values().next());
        let right = hash.is_some_and(|hash| fits(password, hash.text()));
        if right && hashes.contains_key(user) { Ok(user.to_owned()) } else { Err("unknown user or wrong password".to_owned()) }
    }
}

fn parse(bytes: &[u8]) -> Result<HashMap<String, Secret>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "basicAuthConf: it is not text")?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parsed = lines.map(|line| {
        let (user, hash) = line.split_once(':').ok_or("basicAuthConf: each line must be user:hash, as htpasswd writes it")?;
        Ok((user.to_owned(), Secret::new(hash)))
    });
    parsed.collect()
}

fn fits(password: &str, hash: &str) -> bool {
    if let Some(rest) = hash.strip_prefix("$apr1$") {
        let salt = rest.split('$').next().unwrap_or_default();
        return same(&apr1(password.as_bytes(), salt), hash);
    }
    if let Some(encoded) = hash.strip_prefix("{SHA}") {
        let sum = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, password.as_bytes());
        return same(&BASE64_STANDARD.encode(sum), encoded);
    }
    pwhash::unix::verify(password, hash)
}

fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Apache's variant of the MD5 crypt: a thousand rounds.
fn apr1(password: &[u8], salt: &str) -> String {
    let salt = salt.get(..salt.len().min(8)).unwrap_or_default();
    let inner = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut outer = Md5::new().chain_update(password).chain_update("$apr1$").chain_update(salt);
    let mut left = password.len();
    while left > 0 {
        outer.update(&inner[..left.min(16)]);
        left = left.saturating_sub(16);
    }
    let mut bits = password.len();
    while bits > 0 {
        if bits & 1 == 1 {
            outer.update([0]);
        } else {
            outer.update(password.get(..1).unwrap_or_default());
        }
        bits >>= 1;
    }
    let mut sum = outer.finalize();
    for round in 0..1000 {
        let mut next = Md5::new();
        if round % 2 == 1 {
            next.update(password);
        } else {
            next.update(sum);
        }
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        if round % 2 == 1 {
            next.update(sum);
        } else {
            next.update(password);
        }
        sum = next.finalize();
    }
    let mut encoded = format!("$apr1${salt}$");
    for [a, b, c] in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        to64(&mut encoded, u32::from(sum[a]) << 16 | u32::from(sum[b]) << 8 | u32::from(sum[c]), 4);
    }
    to64(&mut encoded, u32::from(sum[11]), 2);
    encoded
}

fn to64(out: &mut String, mut value: u32, count: usize) {
    const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for _ in 0..count {
        out.push(char::from(DIGITS[(value & 63) as usize]));
        value >>= 6;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_every_kind_fit_their_password_and_no_other() {
        for hash in [
            "$apr1$lZL6V/ci$eIMz/iKDkbtys/uU7LEK00",
            "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
            "$2y$05$abcdefghijklmnopqrstuuWG29KuyeAicPCJODk1zjyGvyQUU2awu",
            "$1$abcdefgh$G//4keteveJp0qb8z2DxG/",
            "$5$abcdefgh$ZLdkj8mkc2XVSrPVjskDAgZPGjtj1VGVaa1aUkrMTU/",
            "$6$abcdefgh$yVfUwsw5T.JApa8POvClA1pQ5peiq97DUNyXCZN5IrF.BMSkiaLQ5kvpuEm/VQ1Tvh/KV2TcaWh8qinoW5dhA1",
            "abJnggxhB/yWI",
        ] {
            assert!(fits("password", hash), "{hash}");
            assert!(!fits("passwort", hash), "{hash}");
            assert!(!fits("", hash), "{hash}");
        }
        assert!(fits("", "$apr1$12345678$sHuPAw7VA9xjRbJz7zKV7/"));
        assert!(fits("a password that is longer than sixteen", "$apr1$12345678$0yOxmfFUVnL0Ez1XzymmQ0"));
    }

    #[test]
    fn damaged_hashes_fit_nothing() {
        for hash in ["", "$", "$apr1$", "$apr1$nobody00$", "$2y$", "{SHA}", "plain", "$apr1$ä$x"] {
            assert!(!fits("plain", hash), "{hash}");
        }
    }

    #[test]
    fn a_line_without_a_colon_is_told_of() {
        assert!(parse(b"admin\n").is_err());
        assert_eq!(parse(b"# users\n\nadmin:x\n b:y \n").map(|all| all.len()), Ok(2));
    }
}
