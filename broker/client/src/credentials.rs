//! How a client shows who it is.

use std::{fs, path::PathBuf};

use crate::Error;

/// What is shown, on every connection and again when the broker asks.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A token.
    Token(String),
    /// A token in a file, which is read each time: whoever renews it need not tell the client.
    TokenFile(PathBuf),
    /// User and password.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// The certificate of the TLS options.
    Tls,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.method())
    }
}

impl Credentials {
    /// The method's name in the protocol.
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Credentials::Token(_) | Credentials::TokenFile(_) => "token",
            Credentials::Basic { .. } => "basic",
            Credentials::Tls => "tls",
        }
    }

    /// What is shown. Reads the file, if it is one.
    pub(crate) fn data(&self) -> Result<Vec<u8>, Error> {
        match self {
            Credentials::Token(token) => Ok(token.clone().into_bytes()),
            Credentials::TokenFile(path) => match fs::read_to_string(path) {
                Ok(token) => Ok(token.trim().as_bytes().to_vec()),
                Err(error) => Err(Error::Credentials { reason: format!("cannot read the token in {}: {error}", path.display()).into() }),
            },
            Credentials::Basic { user, password } => Ok(format!("{user}:{password}").into_bytes()),
            Credentials::Tls => Ok(Vec::new()),
        }
    }
}
