//! Whom a run believes at the broker's addresses, and how it says who it is. The names are those of `geminga produce`.

use std::path::PathBuf;

use client::{Credentials, Options, TlsOptions};

/// Credentials and rules of TLS, for every connection of a run.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "TLS (with pulsar+ssl:// and https://) and credentials")]
pub struct Access {
    /// Certificates (PEM) that vouch for the broker, instead of those that this system trusts
    #[arg(long, value_name = "FILE", env = "GEMINGA_TLS_TRUST")]
    pub tls_trust: Option<PathBuf>,
    /// A client certificate (PEM) to show
    #[arg(long, value_name = "FILE", env = "GEMINGA_TLS_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE", env = "GEMINGA_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Believe any certificate; encrypted, but perhaps by a stranger
    #[arg(long)]
    pub tls_insecure: bool,
    /// Take a trusted certificate that is for another host
    #[arg(long)]
    pub tls_any_host: bool,
    /// A token, for messages and administration; the variable keeps it out of the list of processes
    #[arg(long, value_name = "TOKEN", env = "GEMINGA_TOKEN", hide_env_values = true, conflicts_with = "token_file")]
    pub token: Option<String>,
    /// A file that holds a token
    #[arg(long, value_name = "FILE", env = "GEMINGA_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
}

impl Access {
    /// How the clients behave: as stock clients do, lookups go their own way and what breaks is repaired.
    #[must_use]
    pub fn client_options(&self) -> Options {
        let token = self.token.as_ref().map(|token| Credentials::Token(token.trim().to_owned()));
        let credentials = token
            .or_else(|| self.token_file.clone().map(Credentials::TokenFile))
            // A certificate alone says who one is.
            .or_else(|| self.tls_cert.is_some().then_some(Credentials::Tls));
        let tls = TlsOptions {
            trust: self.tls_trust.clone(),
            certificate: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            allow_insecure: self.tls_insecure,
            verify_host_name: !self.tls_any_host,
        };
        Options { separate_lookups: true, credentials, tls, ..Options::default() }
    }
}
