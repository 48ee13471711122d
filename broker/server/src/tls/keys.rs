//! From files to a rustls configuration, at the start and again whenever the files change.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoClientAuth;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, SupportedProtocolVersion};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::clients::{ClientCertificates, common_name};
use super::settings::{TlsSettings, TlsVersion};
use crate::shared::Shared;

/// The keys in force. A connection keeps those it began with.
#[derive(Debug)]
pub(crate) struct Tls {
    settings: TlsSettings,
    current: RwLock<Arc<Keys>>,
    /// What the files held when they were last read, so that a bad one is told of once.
    seen: Mutex<u64>,
}

/// What a handshake needs.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) config: Arc<ServerConfig>,
    clients: Option<Arc<ClientCertificates>>,
}

impl Keys {
    /// Whom the certificates of a client name, if somebody trusted vouches for them.
    pub(super) fn name_of(&self, certificates: &[CertificateDer<'_>]) -> Option<Box<str>> {
        let trusted = self.clients.as_ref().is_some_and(|clients| clients.vouched_for(certificates));
        certificates.first().filter(|_| trusted).and_then(common_name).map(String::into_boxed_str)
    }
}

struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
    trust: Option<Vec<u8>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// Which file or rule cannot be used, and why.
    pub(crate) fn load(settings: TlsSettings) -> io::Result<Self> {
        let files = Files::read(&settings)?;
        let keys = files.keys(&settings).map_err(io::Error::other)?;
        Ok(Self { current: RwLock::new(Arc::new(keys)), seen: Mutex::new(files.fingerprint()), settings })
    }

    pub(crate) fn current(&self) -> Arc<Keys> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes changed files; bad ones are refused, and what was in force stays so. Blocks on the files.
    pub(crate) fn refresh(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let files = match Files::read(&self.settings) {
            Ok(files) => files,
            Err(error) => return self.keep(&mut seen, 0, &error.to_string()),
        };
        let fingerprint = files.fingerprint();
        if *seen == fingerprint {
            return;
        }
        match files.keys(&self.settings) {
            Ok(keys) => {
                *seen = fingerprint;
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
                let certificate = self.settings.certificate.display();
                tracing::info!(%certificate, "TLS files changed: new connections get the new certificate");
            }
            Err(reason) => self.keep(&mut seen, fingerprint, &reason),
        }
    }

    fn keep(&self, seen: &mut u64, fingerprint: u64, reason: &str) {
        if *seen != fingerprint {
            *seen = fingerprint;
            tracing::warn!(reason, "TLS files changed and cannot be used: the certificate read before stays in force");
        }
    }
}

/// Looks at the files again and again, on a control thread.
pub(crate) async fn keep_fresh(shared: Arc<Shared>) {
    let Some(every) = shared.tls.as_ref().and_then(|tls| tls.settings.refresh) else { return };
    loop {
        tokio::time::sleep(every).await;
        let of = shared.clone();
        shared.control.run(move || of.tls.iter().for_each(Tls::refresh));
    }
}

impl Files {
    fn read(settings: &TlsSettings) -> io::Result<Self> {
        Ok(Self {
            certificate: read("tlsCertificateFilePath", &settings.certificate)?,
            key: read("tlsKeyFilePath", &settings.key)?,
            trust: settings.trust.as_ref().map(|file| read("tlsTrustCertsFilePath", file)).transpose()?,
        })
    }

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.certificate, &self.key, &self.trust).hash(&mut hasher);
        // 0 stands for files that cannot be read.
        hasher.finish().max(1)
    }

    fn keys(&self, settings: &TlsSettings) -> Result<Keys, String> {
        let in_file = |file: &Path, what: &str| format!("{}: {what}", file.display());
        let provider = Arc::new(provider(&settings.cipher_suites)?);
        let chain = certificates(&self.certificate).map_err(|what| in_file(&settings.certificate, &what))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| in_file(&settings.key, &format!("no private key in PEM form ({error})")))?;
        let key = provider.key_provider.load_private_key(key).map_err(|error| in_file(&settings.key, &error.to_string()))?;
        let certified = CertifiedKey::new(chain, key);
        check_pair(&certified).map_err(|what| in_file(&settings.certificate, what))?;
        let clients = self.clients(settings, &provider)?.map(Arc::new);
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions(&settings.versions))
            .map_err(|error| format!("tlsProtocols, tlsCiphers: {error}"))?;
        let builder = match &clients {
            Some(clients) => builder.with_client_cert_verifier(clients.clone()),
            None => builder.with_client_cert_verifier(Arc::new(NoClientAuth)),
        };
        // Not `with_single_cert`, which refuses certificates of version 1.
        let config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        Ok(Keys { config: Arc::new(config), clients })
    }

    fn clients(&self, settings: &TlsSettings, provider: &Arc<CryptoProvider>) -> Result<Option<ClientCertificates>, String> {
        let issuers = match (&self.trust, &settings.trust) {
            (Some(pem), Some(file)) => certificates(pem).map_err(|what| format!("{}: {what}", file.display()))?,
            _ if settings.allow_strangers => Vec::new(),
            _ => return Ok(None),
        };
        ClientCertificates::new(issuers, provider, settings.allow_strangers, settings.require_certificate).map(Some)
    }
}

fn read(key: &str, file: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(file).map_err(|error| io::Error::new(error.kind(), format!("{key}: cannot read {}: {error}", file.display())))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("no certificate in PEM form ({error})"))?;
    if found.is_empty() {
        return Err("no certificate in PEM form".to_owned());
    }
    match found.iter().all(|certificate| X509Certificate::from_der(certificate).is_ok()) {
        true => Ok(found),
        false => Err("one of its certificates is damaged".to_owned()),
    }
}

fn check_pair(certified: &CertifiedKey) -> Result<(), &'static str> {
    let own = certified.cert.first().and_then(|certificate| X509Certificate::from_der(certificate).ok());
    let (Some((_, own)), Some(key)) = (own, certified.key.public_key()) else { return Ok(()) };
    match own.public_key().raw == key.as_ref() {
        true => Ok(()),
        false => Err("the certificate does not belong to the key in tlsKeyFilePath"),
    }
}

fn versions(wanted: &[TlsVersion]) -> Vec<&'static SupportedProtocolVersion> {
    let all = [(TlsVersion::V1_3, &rustls::version::TLS13), (TlsVersion::V1_2, &rustls::version::TLS12)];
    all.into_iter().filter(|(version, _)| wanted.is_empty() || wanted.contains(version)).map(|(_, known)| known).collect()
}

/// The cryptography, with the suites of these names; names are written as in the registry of TLS, so that those of TLS 1.3 begin
/// with `TLS_AES` or `TLS_CHACHA20`.
fn provider(wanted: &[String]) -> Result<CryptoProvider, String> {
    let mut provider = ring::default_provider();
    if wanted.is_empty() {
        return Ok(provider);
    }
    let name = |suite: &rustls::SupportedCipherSuite| format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1);
    let all: Vec<String> = provider.cipher_suites.iter().map(name).collect();
    for stranger in wanted.iter().filter(|wanted| !all.contains(wanted)) {
        tracing::warn!(suite = stranger, "tlsCiphers: a cipher suite that is not offered here is left out");
    }
    provider.cipher_suites.retain(|suite| wanted.contains(&name(suite)));
    match provider.cipher_suites.is_empty() {
        true => Err(format!("tlsCiphers: none of the names is a cipher suite that is offered here: {}", all.join(", "))),
        false => Ok(provider),
    }
}
