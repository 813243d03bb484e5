//! Certificates for the https servers of the tests, good ones and bad ones.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::process;

/// What kind of certificate a server shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Signed by an intermediate of the authority of the tests, which it shows too.
    Good,
    /// The same, but it ended years ago.
    Expired,
    /// The same, but for another host.
    OtherHost,
    /// Signed by itself, as `openssl req -x509` makes them.
    SelfSigned,
}

/// A file with the certificate of the authority that signs the certificates of the tests.
pub(crate) fn authority_file() -> PathBuf {
    write(&authority().pem)
}

/// A file with these certificates.
pub(crate) fn write(pem: &str) -> PathBuf {
    let file = process::scratch("certificates").join("ca.crt");
    std::fs::write(&file, pem).expect("a certificate");
    file
}

/// How a server speaks TLS, and its certificate in PEM.
pub(crate) fn server(shown: Shown) -> (Arc<ServerConfig>, String) {
    let key = KeyPair::generate().expect("a key");
    let host = if shown == Shown::OtherHost { "git.example" } else { "127.0.0.1" };
    let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a host");
    let (certificate, chain) = match shown {
        Shown::SelfSigned => {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            (params.self_signed(&key).expect("a certificate"), None)
        }
        _ => {
            if shown == Shown::Expired {
                (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 2, 3));
            }
            let authority = authority();
            let signed = params.signed_by(&key, &authority.intermediate).expect("a certificate");
            (signed, Some(authority.intermediate_der.clone()))
        }
    };
    let pem = certificate.pem();
    let chain: Vec<CertificateDer<'static>> = [Some(certificate.der().clone()), chain].into_iter().flatten().collect();
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a certificate and its key");
    (Arc::new(config), pem)
}

struct Authority {
    pem: String,
    intermediate: Issuer<'static, KeyPair>,
    intermediate_der: CertificateDer<'static>,
}

fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| {
        let params = |name: &str| {
            let mut params = CertificateParams::new(Vec::new()).expect("no hosts");
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            params
        };
        let (root_key, key) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
        let root = params("authority of the tests");
        let pem = root.self_signed(&root_key).expect("a certificate").pem();
        let root = Issuer::new(root, root_key);
        let between = params("intermediate of the tests");
        let signed = between.signed_by(&key, &root).expect("a certificate");
        Authority { pem, intermediate_der: signed.der().clone(), intermediate: Issuer::new(between, key) }
    })
}
