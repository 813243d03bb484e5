//! Which certificates are good, and what is wrong with one that is not.
//!
//! The authorities of a source are trusted for that source alone, beside those of the system. A server that shows a
//! certificate which is in the source's file itself, as servers with a self-signed one do, is trusted too: nobody signs
//! such a certificate, and the file names it.

use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// How to speak TLS, with these authorities in PEM beside those of the system.
pub(super) fn config(authorities: Option<&[u8]>) -> Result<ClientConfig, String> {
    let mut roots = system_roots().clone();
    let mut named = Vec::new();
    if let Some(pem) = authorities {
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| format!("is no PEM: {error}"))?;
            // One that is no authority can still be named.
            let _added = roots.add(certificate.clone());
            named.push(certificate);
        }
        if named.is_empty() {
            return Err("holds no certificate".to_owned());
        }
    }
    if roots.is_empty() {
        return Err("holds no certificate, and neither does the system".to_owned());
    }
    let provider = Arc::new(ring::default_provider());
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let by_authority = builder.build().map_err(|error| error.to_string())?;
    let verifier = Arc::new(Verifier { by_authority, named, provider: Arc::clone(&provider) });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(config)
}

/// What is wrong with a server's certificate, for people. `None`: the failure is another one.
pub(super) fn certificate_fault(error: &rustls::Error, host: &str) -> Option<String> {
    let rustls::Error::InvalidCertificate(fault) = error else { return None };
    Some(match fault {
        CertificateError::Expired => "its certificate has expired".to_owned(),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("its certificate has expired on {}", day(*not_after))
        }
        CertificateError::NotValidYet => {
            "its certificate is not valid yet; is the clock of this machine right?".to_owned()
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("its certificate is valid from {} on; is the clock of this machine right?", day(*not_before))
        }
        CertificateError::UnknownIssuer => SELF_SIGNED.to_owned(),
        CertificateError::NotValidForName => format!("its certificate is for another host than {host}"),
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            format!("its certificate names no host, and so not {host}")
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            format!("its certificate is not for {host} but for {}", presented.join(", "))
        }
        // Made by `openssl req -x509`: an authority's certificate that is shown as a server's.
        CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity" => SELF_SIGNED.to_owned(),
        other => format!("its certificate is refused: {other}"),
    })
}

const SELF_SIGNED: &str = "its certificate is self-signed, or signed by an authority that is not known here; if it is the \
                           right one, give the authority's certificate as caFile";

/// Read once: what the machine trusts changes with its packages.
fn system_roots() -> &'static RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        // A machine without any, or with one that cannot be read, can still reach servers with a caFile.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    })
}

#[derive(Debug)]
struct Verifier {
    by_authority: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.by_authority.verify_server_cert(shown, intermediates, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::Other(_)))
                if self.named.contains(shown) =>
            {
                rustls::client::verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn day(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds)
        .map_or_else(|_| "a day out of reach".to_owned(), |at| at.strftime("%F").to_string())
}
