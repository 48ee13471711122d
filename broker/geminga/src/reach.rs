//! Where the broker is, whom to believe there, and how a command says who it is.

use std::path::PathBuf;

use clap::Args;
use client::{Options, TlsOptions};

/// Where the broker is.
#[derive(Clone, Debug, Args)]
pub struct Broker {
    /// URL of the broker; pulsar+ssl:// for TLS
    #[arg(long, short = 'u', value_name = "URL", default_value = "pulsar://localhost:6650", env = "GEMINGA_URL")]
    pub url: String,
    /// How much is logged, on the standard error [default: warn]
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Over TLS.
    #[command(flatten)]
    pub tls: TlsFlags,
}

/// Over TLS.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "TLS (with pulsar+ssl://)")]
pub struct TlsFlags {
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
}

impl Broker {
    /// What the client is told.
    pub fn options(&self) -> Options {
        let tls = &self.tls;
        Options {
            tls: TlsOptions {
                trust: tls.tls_trust.clone(),
                certificate: tls.tls_cert.clone(),
                key: tls.tls_key.clone(),
                allow_insecure: tls.tls_insecure,
                verify_host_name: !tls.tls_any_host,
            },
            ..Options::default()
        }
    }
}
