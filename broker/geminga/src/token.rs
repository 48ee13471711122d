//! `geminga token`: secrets, keys and tokens, for whoever runs the broker.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::{Args, Subcommand};
use server::{Signer, new_key_pair};

/// What may be done with tokens.
#[derive(Debug, Subcommand)]
pub enum Token {
    /// Make a secret that signs tokens and verifies them
    CreateSecret(CreateSecret),
    /// Make a key that signs tokens, and one that verifies them
    CreateKeyPair(CreateKeyPair),
    /// Make a token
    Create(Create),
}

/// `geminga token create-secret`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  geminga token create-secret secret.key
  geminga --set authenticationEnabled=true --set authenticationProviders=AuthenticationProviderToken --set tokenSecretKey=file://$PWD/secret.key")]
pub struct CreateSecret {
    /// Where to write it
    #[arg(value_name = "FILE", default_value = "secret.key")]
    pub file: PathBuf,
}

/// `geminga token create-key-pair`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  geminga token create-key-pair                   private.pem and public.pem, for ES256
  geminga --set tokenPublicKey=file://$PWD/public.pem --set tokenPublicAlg=ES256 ...")]
pub struct CreateKeyPair {
    /// Where to write the key that signs; keep it
    #[arg(long, value_name = "FILE", default_value = "private.pem")]
    pub private: PathBuf,
    /// Where to write the key that verifies; the broker needs it
    #[arg(long, value_name = "FILE", default_value = "public.pem")]
    pub public: PathBuf,
}

/// `geminga token create`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  geminga token create admin --secret secret.key
  geminga token create orders --private private.pem --expires 30d
  export GEMINGA_TOKEN=$(geminga token create admin --secret secret.key)")]
pub struct Create {
    /// The role it gives
    #[arg(value_name = "ROLE")]
    pub role: String,
    /// The secret that signs it
    #[arg(long, value_name = "FILE", required_unless_present = "private", conflicts_with = "private")]
    pub secret: Option<PathBuf>,
    /// The private key that signs it (PKCS#8, RSA or P-256)
    #[arg(long, value_name = "FILE")]
    pub private: Option<PathBuf>,
    /// For how long it is good, as in 90s, 15m, 12h or 30d [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub expires: Option<u64>,
    /// Name of the key, where the broker has a set of them
    #[arg(long, value_name = "KID")]
    pub key_id: Option<String>,
}

fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || "write it as in 90s, 15m, 12h or 30d".to_owned();
    let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];
    let (number, unit) = units.iter().find_map(|(end, unit)| Some((text.strip_suffix(end)?, unit))).ok_or_else(wrong)?;
    number.parse::<u64>().ok().and_then(|n| n.checked_mul(*unit)).filter(|n| *n > 0).ok_or_else(wrong)
}

/// Does it; returns what to print.
///
/// # Errors
/// A file that cannot be read or written, or a key that is none.
pub fn run(what: &Token) -> anyhow::Result<String> {
    match what {
        Token::CreateSecret(args) => {
            let mut secret = [0; 32];
            fill(&mut secret)?;
            write(&args.file, &secret, 0o600)?;
            Ok(format!("Wrote a secret to {0}. For the broker: tokenSecretKey=file://{0}\n", shown(&args.file)))
        }
        Token::CreateKeyPair(args) => {
            let (private, public) = new_key_pair().map_err(|reason| anyhow!(reason))?;
            write(&args.private, pem("PRIVATE KEY", &private).as_bytes(), 0o600)?;
            write(&args.public, pem("PUBLIC KEY", &public).as_bytes(), 0o644)?;
            let (private, public) = (shown(&args.private), shown(&args.public));
            Ok(format!("Wrote {private} and {public}. For the broker: tokenPublicKey=file://{public} and tokenPublicAlg=ES256\n"))
        }
        Token::Create(args) => {
            let signer = match (&args.secret, &args.private) {
                (Some(file), _) => Signer::Secret(read(file)?),
                (None, Some(file)) => Signer::private(&read(file)?).map_err(|reason| anyhow!("{}: {reason}", file.display()))?,
                (None, None) => return Err(anyhow!("name a key: --secret or --private")),
            };
            ensure!(!args.role.is_empty(), "a token needs a role");
            let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?.as_secs();
            let token = signer.sign(&args.role, args.expires.map(|time| now + time), args.key_id.as_deref());
            Ok(token.map_err(|reason| anyhow!(reason))? + "\n")
        }
    }
}

fn fill(bytes: &mut [u8]) -> anyhow::Result<()> {
    use std::io::Read;
    fs::File::open("/dev/urandom").and_then(|mut random| random.read_exact(bytes)).context("cannot read /dev/urandom")
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

fn write(file: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(mode).open(file) {
        Ok(mut open) => open.write_all(bytes).with_context(|| format!("cannot write {}", file.display())),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(anyhow!("{} is there already; what it signed would be worth nothing. Choose another name or remove it", file.display()))
        }
        Err(error) => Err(anyhow!("cannot write {}: {error}", file.display())),
    }
}

fn pem(what: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let mut lines = format!("-----BEGIN {what}-----\n");
    for line in text.as_bytes().chunks(64) {
        lines.push_str(&String::from_utf8_lossy(line));
        lines.push('\n');
    }
    lines + &format!("-----END {what}-----\n")
}

fn shown(file: &Path) -> String {
    fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf()).display().to_string()
}
