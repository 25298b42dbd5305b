//! Whom to trust on the network.
use std::sync::{Arc, LazyLock};
use ureq::tls::{Certificate, RootCerts};

/// The system's certificates (`SSL_CERT_FILE`), as other clients use them; on a system that has none, those of the web.
pub fn certificates() -> RootCerts {
    static SYSTEM: LazyLock<Arc<Vec<Certificate<'static>>>> = LazyLock::new(|| {
        let found = rustls_native_certs::load_native_certs().certs;
        let certificate = |der: &_| Certificate::from_der(AsRef::as_ref(der)).to_owned();
        Arc::new(found.iter().map(certificate).collect())
    });
    if SYSTEM.is_empty() {
        return RootCerts::WebPki;
    }
    RootCerts::Specific(Arc::clone(&SYSTEM))
}
