//! TLS: whom this client believes, and what it shows of itself.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use tokio::{io::BufReader, net::TcpStream};
use tokio_rustls::TlsConnector;

use crate::{Error, stream::Stream};

/// How a client behaves towards `pulsar+ssl://` brokers. Files are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// Certificates whose word on brokers is taken; none stands for those that the system trusts.
    pub trust: Option<PathBuf>,
    /// A certificate to show, with its issuers behind it.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// Takes whatever certificate the broker has: encrypted, but perhaps by a stranger.
    pub allow_insecure: bool,
    /// Whether the broker's certificate must be for the host that was connected to.
    pub verify_host_name: bool,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self { trust: None, certificate: None, key: None, allow_insecure: false, verify_host_name: true }
    }
}

/// Bytes that are read from a socket at once.
const READ: usize = 32 * 1024;

/// Makes connections over TLS.
#[derive(Clone)]
pub(crate) struct Tls(TlsConnector);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads the files.
    pub(crate) fn new(options: &TlsOptions) -> Result<Self, Error> {
        let bad = |reason: String| Error::Tls { reason: reason.into() };
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| bad(error.to_string()))?.dangerous().with_custom_certificate_verifier(Arc::new(Brokers {
            chains: chains(options, &provider)?,
            verify_host_name: options.verify_host_name,
            provider,
        }));
        let config = match (&options.certificate, &options.key) {
            (Some(certificate), Some(key)) => {
                let shown = certificates(certificate)?;
                let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(format!("{}: {error}", key.display())))?;
                let refused = |error| bad(format!("{} does not go with {}: {error}", key.display(), certificate.display()));
                builder.with_client_auth_cert(shown, secret).map_err(refused)?
            }
            (None, None) => builder.with_no_client_auth(),
            _ => return Err(bad("a client certificate needs its key, and a key its certificate".to_owned())),
        };
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Shakes hands with the host of `host:port`.
    pub(crate) async fn over(&self, stream: TcpStream, address: &Arc<str>) -> Result<Stream, Error> {
        let host = address.rsplit_once(':').map_or(&**address, |(host, _)| host);
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(host.to_owned()).map_err(|_| Error::Tls { reason: format!("{host} is no host name").into() })?;
        match self.0.connect(name, BufReader::with_capacity(READ, stream)).await {
            Ok(stream) => Ok(Stream::Tls(Box::new(stream))),
            Err(error) if is_of_tls(&error) => Err(Error::Tls { reason: format!("{address}: {error}").into() }),
            Err(error) => Err(Error::lost(address, format!("it was closed during the TLS handshake ({error})"))),
        }
    }
}

fn is_of_tls(error: &io::Error) -> bool {
    error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()).is_some()
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let bad = |reason: String| Error::Tls { reason: format!("{}: {reason}", file.display()).into() };
    let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(|e| bad(e.to_string()))?;
    if found.is_empty() { Err(bad("no certificate in PEM form".to_owned())) } else { Ok(found) }
}

/// None when everybody is believed.
fn chains(options: &TlsOptions, provider: &Arc<CryptoProvider>) -> Result<Option<Arc<WebPkiServerVerifier>>, Error> {
    if options.allow_insecure {
        return Ok(None);
    }
    let mut roots = RootCertStore::empty();
    match &options.trust {
        Some(file) => {
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|error| Error::Tls { reason: format!("{}: {error}", file.display()).into() })?;
            }
        }
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    verifier.map(Some).map_err(|error| Error::Tls { reason: format!("nobody is trusted: {error}; name a trust file").into() })
}

/// Judges brokers.
#[derive(Debug)]
struct Brokers {
    chains: Option<Arc<WebPkiServerVerifier>>,
    verify_host_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Brokers {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        issuers: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(chains) = &self.chains else { return Ok(ServerCertVerified::assertion()) };
        match chains.verify_server_cert(own, issuers, name, ocsp, now) {
            // The name is looked at last, so all else is well.
            Err(rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) if !self.verify_host_name => {
                Ok(ServerCertVerified::assertion())
            }
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, own, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, own, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
