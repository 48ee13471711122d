//! Where the broker is, whom to believe there, and how a command says who it is.

use std::path::PathBuf;

use clap::Args;
use client::{Credentials, Error, Options, TlsOptions};

/// Where the broker is.
#[derive(Clone, Debug, Args)]
pub struct Broker {
    /// URL of the broker; pulsar+ssl:// for TLS
    #[arg(long, short = 'u', value_name = "URL", default_value = "pulsar://localhost:6650", env = "GEMINGA_URL")]
    pub url: String,
    /// How much is logged, on the standard error [default: warn]
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Who asks.
    #[command(flatten)]
    pub who: WhoFlags,
    /// Over TLS.
    #[command(flatten)]
    pub tls: TlsFlags,
}

/// Who asks.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Who you are")]
pub struct WhoFlags {
    /// A token; the variable keeps it out of the list of processes
    #[arg(long, value_name = "TOKEN", env = "GEMINGA_TOKEN", hide_env_values = true, conflicts_with_all = ["token_file", "user", "auth_plugin"])]
    pub token: Option<String>,
    /// A file that holds a token
    #[arg(long, value_name = "FILE", env = "GEMINGA_TOKEN_FILE", conflicts_with_all = ["user", "auth_plugin"])]
    pub token_file: Option<PathBuf>,
    /// User and password
    #[arg(long, value_name = "USER:PASSWORD", env = "GEMINGA_USER", hide_env_values = true, conflicts_with = "auth_plugin")]
    pub user: Option<String>,
    /// As Pulsar's tools have it: a class name that ends with AuthenticationToken, AuthenticationBasic or AuthenticationTls
    #[arg(long, value_name = "CLASS")]
    pub auth_plugin: Option<String>,
    /// What Pulsar's tools give to it: token:…, file:///path, {"userId":…,"password":…} or tlsCertFile:…,tlsKeyFile:…
    #[arg(long, value_name = "TEXT", requires = "auth_plugin", hide_env_values = true, env = "GEMINGA_AUTH_PARAMS")]
    pub auth_params: Option<String>,
}

/// Over TLS.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "TLS (with pulsar+ssl:// and https://)")]
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
    ///
    /// # Errors
    /// Credentials that cannot be read.
    pub fn options(&self) -> Result<Options, Error> {
        options(&self.who, &self.tls)
    }
}

/// What a client is told of who asks, and of TLS.
///
/// # Errors
/// Credentials that cannot be read.
pub(crate) fn options(who: &WhoFlags, flags: &TlsFlags) -> Result<Options, Error> {
    let mut tls = TlsOptions {
        trust: flags.tls_trust.clone(),
        certificate: flags.tls_cert.clone(),
        key: flags.tls_key.clone(),
        allow_insecure: flags.tls_insecure,
        verify_host_name: !flags.tls_any_host,
    };
    let credentials = who.credentials(&mut tls).map_err(|reason| Error::Credentials { reason: reason.into() })?;
    // A certificate alone says who one is.
    let credentials = credentials.or_else(|| tls.certificate.is_some().then_some(Credentials::Tls));
    Ok(Options { credentials, tls, ..Options::default() })
}

impl WhoFlags {
    fn credentials(&self, tls: &mut TlsOptions) -> Result<Option<Credentials>, String> {
        if let Some(token) = &self.token {
            return Ok(Some(Credentials::Token(token.trim().to_owned())));
        }
        if let Some(file) = &self.token_file {
            return Ok(Some(Credentials::TokenFile(file.clone())));
        }
        if let Some(user) = &self.user {
            let (user, password) = user.split_once(':').ok_or("--user: write it as USER:PASSWORD")?;
            return Ok(Some(Credentials::Basic { user: user.to_owned(), password: password.to_owned() }));
        }
        let Some(plugin) = &self.auth_plugin else { return Ok(None) };
        of_pulsar(plugin, self.auth_params.as_deref().unwrap_or_default(), tls).map(Some)
    }
}

/// Pulsar's way to say it.
fn of_pulsar(plugin: &str, params: &str, tls: &mut TlsOptions) -> Result<Credentials, String> {
    match plugin.rsplit('.').next().unwrap_or_default() {
        "AuthenticationToken" | "token" => Ok(match params.strip_prefix("file:") {
            Some(path) => Credentials::TokenFile(path.strip_prefix("//").unwrap_or(path).into()),
            None => Credentials::Token(params.strip_prefix("token:").unwrap_or(params).to_owned()),
        }),
        "AuthenticationBasic" | "basic" => {
            let wrong = || "--auth-params: write it as {\"userId\":\"…\",\"password\":\"…\"}".to_owned();
            let parsed: serde_json::Value = serde_json::from_str(params).map_err(|_| wrong())?;
            let text = |key: &str| parsed.get(key).and_then(serde_json::Value::as_str).map(str::to_owned);
            let user = text("userId").or_else(|| text("username")).ok_or_else(wrong)?;
            Ok(Credentials::Basic { user, password: text("password").ok_or_else(wrong)? })
        }
        "AuthenticationTls" | "tls" => {
            for (key, value) in params.split(',').filter_map(|pair| pair.split_once(':')) {
                match key.trim() {
                    "tlsCertFile" => tls.certificate = Some(value.trim().into()),
                    "tlsKeyFile" => tls.key = Some(value.trim().into()),
                    _ => {}
                }
            }
            Ok(Credentials::Tls)
        }
        other => Err(format!(
            "--auth-plugin: there is no counterpart of {other}; use AuthenticationToken, AuthenticationBasic or AuthenticationTls"
        )),
    }
}
