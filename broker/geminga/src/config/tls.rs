//! TLS of brokerServicePortTls and webServicePortTls.

use std::path::PathBuf;
use std::time::Duration;

use server::TlsVersion;

use super::Network;
use super::amounts::{TimeOrOff, TimeUnit};
use super::forms::{Flag, Form, List, OptionalPath};
use super::listeners::Scheme;
use super::table::settings;

settings! {
    /// Certificates, keys and what is asked of clients.
    pub struct Tls, "TLS" {
        /// Older files switch TLS on with this: the ports that are not set become 6651 and 8443.
        enabled: bool = "tlsEnabled", Flag, default false;
        /// Certificate of this broker in PEM form, with those of its issuers behind it. `geminga tls init` makes one for trying things out.
        certificate: Option<PathBuf> = "tlsCertificateFilePath", OptionalPath, default None;
        /// Key of that certificate in PEM form (PKCS#8, PKCS#1 or SEC1), not encrypted.
        key: Option<PathBuf> = "tlsKeyFilePath", OptionalPath, default None;
        /// Certificates in PEM form whose word on clients is taken. Blank: no client is asked for a certificate.
        trust: Option<PathBuf> = "tlsTrustCertsFilePath", OptionalPath, default None;
        /// Whether a client whose certificate nobody trusted vouches for may connect; the certificate proves nothing then.
        allow_insecure: bool = "tlsAllowInsecureConnection", Flag, default false;
        /// Whether a client without a trusted certificate is sent away during the handshake.
        require_client_certificate: bool = "tlsRequireTrustedClientCertOnConnect", Flag, default false;
        /// Versions that are spoken: TLSv1.3, TLSv1.2. Blank: both.
        protocols: Vec<TlsVersion> = "tlsProtocols", Protocols, default Vec::new();
        /// Cipher suites that may be used, by their registered names, as in TLS_AES_128_GCM_SHA256; unknown ones are left out with a
        /// warning. Blank: all that are offered, which are all good.
        ciphers: Vec<String> = "tlsCiphers", List, default Vec::new();
        /// How often the files are looked at. New connections get what is in them then; files that cannot be used are told of and left alone.
        refresh: Option<Duration> = "tlsCertRefreshCheckDurationSec", TimeOrOff(TimeUnit::Seconds), default Some(Duration::from_secs(300));
    }
}

const VERSIONS: [(&str, TlsVersion); 2] = [("TLSv1.3", TlsVersion::V1_3), ("TLSv1.2", TlsVersion::V1_2)];

/// Versions of TLS separated by commas.
#[derive(Clone, Copy)]
struct Protocols;

impl Form for Protocols {
    type Value = Vec<TlsVersion>;
    fn parse(&self, text: &str) -> Result<Self::Value, String> {
        let version = |name: String| {
            let known = VERSIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name));
            known.map(|(_, version)| *version).ok_or_else(|| format!("{name} is not spoken here"))
        };
        List.parse(text)?.into_iter().map(version).collect()
    }
    fn show(&self, value: &Self::Value) -> String {
        let names = VERSIONS.iter().filter(|(_, version)| value.contains(version)).map(|(name, _)| *name);
        names.collect::<Vec<_>>().join(",")
    }
    fn allowed(&self) -> String {
        "a list of TLSv1.3, TLSv1.2".to_owned()
    }
}

impl Tls {
    /// What the key of older files stands for.
    pub(super) fn settle(&self, network: &mut Network) {
        if self.enabled {
            network.pulsar_tls_port = network.pulsar_tls_port.or(Some(6651));
            network.https_port = network.https_port.or(Some(8443));
        }
    }

    /// What is missing for the listeners there are: keys, and the reason.
    pub(super) fn complaint(&self, network: &Network) -> Option<(&'static [&'static str], &'static str)> {
        let served = network.endpoints().iter().any(|endpoint| matches!(endpoint.scheme, Scheme::PulsarTls | Scheme::Https));
        if served && (self.certificate.is_none() || self.key.is_none()) {
            let keys = &["brokerServicePortTls", "webServicePortTls", "tlsCertificateFilePath", "tlsKeyFilePath"];
            return Some((
                keys,
                "a listener over TLS needs a certificate and its key; `geminga tls init` makes both for trying things out",
            ));
        }
        if self.require_client_certificate && self.trust.is_none() {
            let keys = &["tlsRequireTrustedClientCertOnConnect", "tlsTrustCertsFilePath"];
            return Some((keys, "clients need a trusted certificate, and nobody is trusted; name the file with the issuers' certificates"));
        }
        if self.require_client_certificate && self.allow_insecure {
            let keys = &["tlsRequireTrustedClientCertOnConnect", "tlsAllowInsecureConnection"];
            return Some((keys, "one asks for a trusted certificate, the other takes any; set one of them to false"));
        }
        None
    }
}
