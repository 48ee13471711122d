//! `geminga tls init`: a certificate authority of one's own, with certificates for the broker and for clients.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::config::machine;

/// `geminga tls init`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  geminga tls init                                for localhost and this machine's name, into ./tls
  geminga tls init /etc/geminga/tls --host broker.example.org --host 10.1.2.3
  geminga tls init --client admin --client orders     a client certificate for each name

The certificates are good for trying things out and for a closed network. Who holds ca-key.pem can be anybody: keep it somewhere safe.")]
pub struct TlsInit {
    /// Where to write the files
    #[arg(value_name = "DIR", default_value = "tls")]
    pub directory: PathBuf,
    /// A name or address that clients connect to; may be given several times [default: localhost and this machine's name]
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
    /// Name (the role, with TLS authentication) of a client certificate; may be given several times
    #[arg(long, value_name = "NAME", default_value = "admin")]
    pub client: Vec<String>,
    /// Replace files that are there
    #[arg(long)]
    pub force: bool,
}

/// How long certificates are valid.
const VALID_DAYS: u32 = 3650;
const DAY: Duration = Duration::from_secs(86_400);

/// Writes the files; returns what to tell.
///
/// # Errors
/// A name that no certificate can carry, or a file that cannot be written.
pub fn init(args: &TlsInit) -> anyhow::Result<String> {
    let authority = authority()?;
    let mut files =
        vec![("ca.pem".to_owned(), authority.certificate.clone()), ("ca-key.pem".to_owned(), authority.issuer.key().serialize_pem())];
    let hosts = if args.host.is_empty() { own_names() } else { args.host.clone() };
    files.extend(authority.issue("server", &hosts[0], &hosts, ExtendedKeyUsagePurpose::ServerAuth)?);
    for name in &args.client {
        anyhow::ensure!(is_file_name(name), "{name:?} cannot be the name of a file; use letters, digits, dots and dashes");
        files.extend(authority.issue(&format!("client-{name}"), name, &[], ExtendedKeyUsagePurpose::ClientAuth)?);
    }
    let directory = &args.directory;
    fs::create_dir_all(directory).map_err(|error| anyhow::anyhow!("cannot create {}: {error}", directory.display()))?;
    let there = files.iter().map(|(name, _)| directory.join(name)).find(|path| path.exists());
    if let Some(path) = there.filter(|_| !args.force) {
        anyhow::bail!("{} is there already; --force replaces it, and what the old authority signed is worth nothing then", path.display());
    }
    for (name, text) in &files {
        let path = directory.join(name);
        write(&path, text).map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))?;
    }
    Ok(told(&fs::canonicalize(directory)?, &hosts, &args.client))
}

fn told(directory: &Path, hosts: &[String], clients: &[String]) -> String {
    let at = directory.display();
    let mut lines = vec![
        format!("Wrote {} certificates and their keys to {at}, for {}.", 2 + clients.len(), hosts.join(", ")),
        String::new(),
        "For the broker:".to_owned(),
        "  brokerServicePortTls=6651".to_owned(),
        "  webServicePortTls=8443".to_owned(),
        format!("  tlsCertificateFilePath={at}/server.pem"),
        format!("  tlsKeyFilePath={at}/server-key.pem"),
        format!("  tlsTrustCertsFilePath={at}/ca.pem"),
        String::new(),
        "For clients:".to_owned(),
        format!("  geminga produce my-topic --url pulsar+ssl://{}:6651 --tls-trust {at}/ca.pem", hosts[0]),
    ];
    for name in clients {
        lines.push(format!("  … --tls-cert {at}/client-{name}.pem --tls-key {at}/client-{name}-key.pem    to be {name}"));
    }
    lines.push(String::new());
    lines.join("\n")
}

struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority() -> anyhow::Result<Authority> {
    let mut params = named("Geminga development CA", Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?.pem();
    Ok(Authority { certificate, issuer: Issuer::new(params, key) })
}

impl Authority {
    /// Certificate and key, by the names of their files.
    fn issue(&self, file: &str, name: &str, hosts: &[String], purpose: ExtendedKeyUsagePurpose) -> anyhow::Result<[(String, String); 2]> {
        let mut params = named(name, hosts.to_vec())?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok([(format!("{file}.pem"), certificate), (format!("{file}-key.pem"), key.serialize_pem())])
    }
}

fn named(name: &str, hosts: Vec<String>) -> anyhow::Result<CertificateParams> {
    let told = hosts.join(", ");
    let mut params = CertificateParams::new(hosts).map_err(|error| anyhow::anyhow!("{told}: no names for a certificate: {error}"))?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    // Clocks differ.
    params.not_before = (SystemTime::now() - DAY).into();
    params.not_after = (SystemTime::now() + VALID_DAYS * DAY).into();
    Ok(params)
}

fn own_names() -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let own = machine::host_name();
    if !names.contains(&own) {
        names.push(own);
    }
    names
}

fn is_file_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '@');
    !name.is_empty() && !name.starts_with('.') && name.chars().all(plain)
}

/// Readable by its owner alone, from the moment it is there.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mode = if path.to_string_lossy().ends_with("-key.pem") { 0o600 } else { 0o644 };
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?.write_all(text.as_bytes())
}
