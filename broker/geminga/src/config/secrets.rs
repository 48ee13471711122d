//! Which values are never printed.

/// Whether the value of `key` may be a secret: a password, a signing key, credentials.
pub fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let says_so = ["password", "secret", "credential", "privatekey", "accesskey"].iter().any(|word| key.contains(word));
    says_so || matches!(key.as_str(), "basicauthconf" | "brokerclientauthenticationparameters" | "bookkeeperclientauthenticationparameters")
}

/// What stands in the place of a secret.
pub const HIDDEN: &str = "********";

#[cfg(test)]
mod tests {
    use super::is_secret;

    #[test]
    fn keys_that_hold_credentials_are_secret() {
        for key in ["tokenSecretKey", "managedLedgerPassword", "tlsKeyStorePassword", "basicAuthConf", "s3ManagedLedgerOffloadCredentialId"]
        {
            assert!(is_secret(key), "{key}");
        }
        for key in ["tokenPublicKey", "clusterName", "tlsKeyFilePath", "numIOThreads"] {
            assert!(!is_secret(key), "{key}");
        }
    }
}
