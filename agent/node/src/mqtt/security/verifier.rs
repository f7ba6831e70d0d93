//! The check of a broker's certificate: the library's own, under the name that the
//! config gives, with what it found kept for whoever says it.
//!
//! Always holds: nothing passes that the library's verifier refuses.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// What was wrong with the last certificate.
#[derive(Debug, Default)]
pub(super) struct Verdict(Mutex<Option<CertificateError>>);

impl Verdict {
    fn set(&self, error: Option<CertificateError>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    pub(super) fn take(&self) -> Option<CertificateError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take()
    }
}

/// The host's clock, also one that stands before 1970.
#[derive(Debug)]
pub(super) struct HostClock;

impl TimeProvider for HostClock {
    fn current_time(&self) -> Option<UnixTime> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Some(UnixTime::since_unix_epoch(since.unwrap_or_default()))
    }
}

/// See the module's text.
#[derive(Debug)]
pub(super) struct Verifier {
    trusted: Arc<WebPkiServerVerifier>,
    /// `None`: the host that was connected to.
    name: Option<ServerName<'static>>,
    verdict: Arc<Verdict>,
}

impl Verifier {
    pub(super) fn new(
        trusted: Arc<WebPkiServerVerifier>,
        name: Option<ServerName<'static>>,
        verdict: Arc<Verdict>,
    ) -> Self {
        Self {
            trusted,
            name,
            verdict,
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let name = self.name.as_ref().unwrap_or(server_name);
        let said =
            self.trusted
                .verify_server_cert(end_entity, intermediates, name, ocsp_response, now);
        self.verdict.set(match &said {
            Err(Error::InvalidCertificate(error)) => Some(error.clone()),
            Ok(_) | Err(_) => None,
        });
        said
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trusted.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trusted.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trusted.supported_verify_schemes()
    }
}
