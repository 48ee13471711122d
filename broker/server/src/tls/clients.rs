//! Certificates of clients: who they are and who vouches for them.
//!
//! Chains are verified by webpki, which knows no certificates of X.509 version 1. Those are still about, made with a bare
//! `openssl x509 -req`, so they are verified here: signed by a trusted issuer itself, and valid now.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerMisbehaved, RootCertStore, SignatureScheme};
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate, X509Version};

/// Judges the certificates of clients.
#[derive(Debug)]
pub(crate) struct ClientCertificates {
    /// None when nobody is trusted.
    chains: Option<Arc<dyn ClientCertVerifier>>,
    issuers: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
    allow_strangers: bool,
    required: bool,
}

impl ClientCertificates {
    pub(crate) fn new(
        issuers: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
        allow_strangers: bool,
        required: bool,
    ) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for issuer in &issuers {
            roots.add(issuer.clone()).map_err(|error| error.to_string())?;
        }
        let chains = match roots.is_empty() {
            true => None,
            false => Some(
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                    .build()
                    .map_err(|error| error.to_string())?,
            ),
        };
        Ok(Self { chains, issuers, algorithms: provider.signature_verification_algorithms, allow_strangers, required })
    }

    /// Whether somebody trusted vouches for the first of these certificates now.
    pub(crate) fn vouched_for(&self, certificates: &[CertificateDer<'_>]) -> bool {
        certificates.split_first().is_some_and(|(own, issuers)| self.verify(own, issuers, UnixTime::now()).is_ok())
    }

    fn verify(&self, own: &CertificateDer<'_>, issuers: &[CertificateDer<'_>], now: UnixTime) -> Result<ClientCertVerified, Error> {
        let Some(chains) = &self.chains else { return Err(CertificateError::UnknownIssuer.into()) };
        match version_1(own) {
            Some(certificate) => self.verify_version_1(&certificate, now),
            None => chains.verify_client_cert(own, issuers, now),
        }
    }

    fn verify_version_1(&self, certificate: &X509Certificate<'_>, now: UnixTime) -> Result<ClientCertVerified, Error> {
        let now = i64::try_from(now.as_secs()).ok().and_then(|secs| ASN1Time::from_timestamp(secs).ok());
        let now = now.ok_or(CertificateError::BadEncoding)?;
        let valid = |certificate: &X509Certificate<'_>| certificate.validity().is_valid_at(now);
        if !valid(certificate) {
            return Err(
                if certificate.validity().not_after < now { CertificateError::Expired } else { CertificateError::NotValidYet }.into()
            );
        }
        let issued = self.issuers.iter().any(|issuer| {
            X509Certificate::from_der(issuer).is_ok_and(|(_, issuer)| {
                issuer.subject() == certificate.issuer()
                    && valid(&issuer)
                    && certificate.verify_signature(Some(issuer.public_key())).is_ok()
            })
        });
        if issued { Ok(ClientCertVerified::assertion()) } else { Err(CertificateError::UnknownIssuer.into()) }
    }

    /// The client holds the key of a certificate that webpki does not read.
    fn verify_signature(
        &self,
        message: &[u8],
        certificate: &X509Certificate<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let of_scheme = self.algorithms.mapping.iter().filter(|(scheme, _)| *scheme == signed.scheme);
        let key = &certificate.public_key().subject_public_key.data;
        let verified =
            of_scheme.flat_map(|(_, algorithms)| *algorithms).any(|a| a.verify_signature(key, message, signed.signature()).is_ok());
        if verified { Ok(HandshakeSignatureValid::assertion()) } else { Err(CertificateError::BadSignature.into()) }
    }
}

impl ClientCertVerifier for ClientCertificates {
    fn client_auth_mandatory(&self) -> bool {
        self.required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // Without hints a client sends what it has, and learns why it is refused.
        &[]
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        issuers: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.verify(own, issuers, now) {
            Err(_) if self.allow_strangers => Ok(ClientCertVerified::assertion()),
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match version_1(own) {
            Some(certificate) => self.verify_signature(message, &certificate, signed),
            None => verify_tls12_signature(message, own, signed, &self.algorithms),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match version_1(own) {
            Some(_) if of_tls12_alone(signed.scheme) => Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into()),
            Some(certificate) => self.verify_signature(message, &certificate, signed),
            None => verify_tls13_signature(message, own, signed, &self.algorithms),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn of_tls12_alone(scheme: SignatureScheme) -> bool {
    use SignatureScheme as S;
    matches!(scheme, S::RSA_PKCS1_SHA1 | S::RSA_PKCS1_SHA256 | S::RSA_PKCS1_SHA384 | S::RSA_PKCS1_SHA512)
}

fn version_1<'a>(certificate: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    let (rest, certificate) = X509Certificate::from_der(certificate).ok()?;
    (rest.is_empty() && certificate.version() == X509Version::V1).then_some(certificate)
}

/// The common name of a certificate's subject.
pub(crate) fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let name = certificate.subject().iter_common_name().next()?.as_str().ok()?;
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject;

    use super::*;

    macro_rules! certificate {
        ($name:literal) => {
            CertificateDer::from_pem_slice(include_bytes!(concat!("../../vectors/tls/", $name, ".pem"))).expect("a certificate")
        };
    }

    fn trusting(issuer: CertificateDer<'static>) -> ClientCertificates {
        ClientCertificates::new(vec![issuer], &Arc::new(rustls::crypto::ring::default_provider()), false, true).expect("usable")
    }

    #[test]
    fn certificates_of_version_1_are_believed_when_a_trusted_issuer_signed_them() {
        let clients = trusting(certificate!("ca"));
        for (own, name) in [(certificate!("v1-ec"), "old-ec"), (certificate!("v1-rsa"), "old-rsa")] {
            assert!(version_1(&own).is_some());
            assert!(clients.vouched_for(std::slice::from_ref(&own)));
            assert_eq!(common_name(&own).as_deref(), Some(name));
        }
    }

    #[test]
    fn strangers_and_expired_ones_of_version_1_are_not() {
        let clients = trusting(certificate!("ca"));
        let refusal = |own| clients.verify(&own, &[], UnixTime::now()).expect_err("refused");
        assert_eq!(refusal(certificate!("v1-stranger")), CertificateError::UnknownIssuer.into());
        assert_eq!(refusal(certificate!("v1-expired")), CertificateError::Expired.into());
        let others = trusting(certificate!("other-ca"));
        assert!(others.vouched_for(&[certificate!("v1-stranger")]));
        assert!(!others.vouched_for(&[certificate!("v1-ec")]));
        assert!(!others.vouched_for(&[]));
    }

    #[test]
    fn an_issuer_vouches_for_itself_only_as_far_as_it_is_trusted() {
        assert!(!trusting(certificate!("ca")).vouched_for(&[certificate!("other-ca")]));
    }

    #[test]
    fn nonsense_is_no_certificate() {
        let clients = trusting(certificate!("ca"));
        for bytes in [&b""[..], b"nonsense", &[0x30, 0x82, 0xff, 0xff]] {
            assert!(!clients.vouched_for(&[CertificateDer::from(bytes)]));
            assert_eq!(common_name(&CertificateDer::from(bytes)), None);
        }
    }
}
