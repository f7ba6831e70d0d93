//! What a connection is secured with: authorities, our certificate and key, user and
//! password, read from their files.
//!
//! Always holds: all is read anew for each connection, so that nothing is restarted
//! for a renewed file; a file that does not do is an error that names the config's
//! file, line and key; no secret is in an error or in Debug output. Bound:
//! TLS_FILE_BYTES_MAX per file. Knows no connection.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::client::{Credentials, Login, MqttConfig};
use super::limits::{PASSWORD_BYTES_MAX, TLS_FILE_BYTES_MAX};
use crate::config::{ConfigError, Identity, PasswordFrom, Placed, TlsKeys};

mod clock;
mod validity;
mod verifier;

use self::clock::sentence;
pub(super) use self::clock::{LocalClock, own_times, time_text};
pub(super) use self::validity::Validity;
use self::verifier::{HostClock, Verdict, Verifier};

/// What one connection is made with.
pub(super) struct Material {
    tls: Option<Arc<ClientConfig>>,
    verdict: Arc<Verdict>,
    /// Of our own certificate.
    validity: Option<Validity>,
    credentials: Option<Credentials>,
    watched: Vec<Seen>,
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Material")
            .field("tls", &self.tls.is_some())
            .field("watched", &self.watched)
            .finish_non_exhaustive()
    }
}

/// A file as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    path: PathBuf,
    /// Device, inode, size, and seconds and nanoseconds of the last change.
    state: Option<(u64, u64, u64, i64, i64)>,
}

impl Seen {
    fn now(path: &Path) -> Self {
        let state = std::fs::metadata(path).ok();
        Self {
            path: path.to_owned(),
            state: state.map(|m| (m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec())),
        }
    }
}

impl Material {
    /// For a connection without any.
    pub(super) fn none() -> Self {
        Self {
            tls: None,
            verdict: Arc::default(),
            validity: None,
            credentials: None,
            watched: Vec::new(),
        }
    }

    /// Reads all that the config names.
    ///
    /// # Errors
    /// What does not do, with the config's file, line and key.
    pub(super) fn load(config: &MqttConfig) -> Result<Self, ConfigError> {
        let mut material = Self::none();
        if config.transport.is_tls() {
            material.load_tls(&config.tls)?;
        }
        if let Some(login) = &config.login {
            material.credentials = Some(credentials(login)?);
        }
        Ok(material)
    }

    fn load_tls(&mut self, keys: &TlsKeys) -> Result<(), ConfigError> {
        let identity = keys.identity.as_ref();
        let files = keys.ca_file.iter();
        let files = files.chain(
            identity
                .into_iter()
                .flat_map(|i| [&i.cert_file, &i.key_file]),
        );
        // Before they are read: what changes meanwhile is seen as a change.
        self.watched = files.map(|file| Seen::now(&file.value)).collect();
        let provider = Arc::new(ring::default_provider());
        let roots = match &keys.ca_file {
            Some(file) => authorities(file)?,
            None => system_authorities(),
        };
        let trusted = WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone());
        let trusted = trusted.build().map_err(|error| {
            // Only without any authority, which a file was checked for.
            ConfigError {
                file: PathBuf::new(),
                line: None,
                place: String::new(),
                what: format!(
                    "the system has no certificate authorities ({error}): give ca_file, or install \
                     the package ca-certificates"
                ),
            }
        })?;
        let name = keys.server_name.as_ref().map(server_name).transpose()?;
        let verifier = Verifier::new(trusted, name, Arc::clone(&self.verdict));
        let config = ClientConfig::builder_with_details(provider.clone(), Arc::new(HostClock))
            .with_safe_default_protocol_versions()
            .expect("ring has suites for both versions of TLS")
            .dangerous()
            // It asks the library's own verifier, and keeps what that said.
            .with_custom_certificate_verifier(Arc::new(verifier));
        let config = match identity {
            None => config.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = own_certificate(identity)?;
                self.validity = chain.first().and_then(|leaf| Validity::of(leaf));
                let config = config.with_client_auth_cert(chain, key);
                config.map_err(|error| identity.key_file.place.error(unfit(&error)))?
            }
        };
        self.tls = Some(Arc::new(config));
        Ok(())
    }

    pub(super) fn tls(&self) -> Option<Arc<ClientConfig>> {
        self.tls.clone()
    }

    pub(super) fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }

    /// How long our own certificate is valid.
    pub(super) fn validity(&self) -> Option<Validity> {
        self.validity
    }

    /// What was wrong with the broker's certificate, as a sentence.
    pub(super) fn verdict(&self, clock: LocalClock) -> Option<String> {
        self.verdict.take().map(|error| sentence(&error, clock))
    }

    /// Whether any file of TLS is another than when it was read.
    pub(super) fn is_outdated(&self) -> bool {
        self.watched
            .iter()
            .any(|seen| Seen::now(&seen.path) != *seen)
    }

    /// Whether there are files to look at.
    pub(super) fn is_watched(&self) -> bool {
        !self.watched.is_empty()
    }
}

fn unfit(error: &rustls::Error) -> String {
    if matches!(error, rustls::Error::InconsistentKeys(_)) {
        return String::from("is not the key of the certificate in cert_file");
    }
    format!("cannot be used with the certificate in cert_file: {error}")
}

fn server_name(name: &Placed<String>) -> Result<ServerName<'static>, ConfigError> {
    ServerName::try_from(name.value.clone())
        .map_err(|_| name.place.error("is no host name and no IP address"))
}

/// The bytes of a file that a key names.
fn read(file: &Placed<PathBuf>, bytes_max: u64) -> Result<Vec<u8>, ConfigError> {
    let path = file.value.display();
    let said = |error: std::io::Error| file.place.error(format!("{path}: {error}"));
    let mut bytes = Vec::new();
    let mut opened = File::open(&file.value).map_err(said)?.take(bytes_max + 1);
    opened.read_to_end(&mut bytes).map_err(said)?;
    if bytes.len() as u64 > bytes_max {
        let what = format!("{path}: is larger than {bytes_max} bytes");
        return Err(file.place.error(what));
    }
    Ok(bytes)
}

fn certificates(file: &Placed<PathBuf>) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let pem = read(file, TLS_FILE_BYTES_MAX)?;
    let path = file.value.display();
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(file.place.error(format!(
            "{path}: holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)"
        ))),
        Err(error) => Err(file.place.error(format!("{path}: is damaged: {error}"))),
    }
}

fn authorities(file: &Placed<PathBuf>) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    for (at, certificate) in certificates(file)?.into_iter().enumerate() {
        roots.add(certificate).map_err(|error| {
            let path = file.value.display();
            file.place
                .error(format!("{path}: certificate {}: {error}", at + 1))
        })?;
    }
    Ok(roots)
}

/// Those of the system that can be read; what is wrong with others is not ours to say.
fn system_authorities() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

type OwnCertificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn own_certificate(identity: &Identity) -> Result<OwnCertificate, ConfigError> {
    let chain = certificates(&identity.cert_file)?;
    let file = &identity.key_file;
    let pem = read(file, TLS_FILE_BYTES_MAX)?;
    let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
        let path = file.value.display();
        // What stands there stays unsaid: it may be a key all the same.
        let encrypted = pem.windows(9).any(|part| part == b"ENCRYPTED");
        file.place.error(if encrypted {
            format!("{path}: holds an encrypted key: decrypt it, and let only the agent read it")
        } else {
            format!("{path}: holds no private key in PEM form (-----BEGIN PRIVATE KEY-----)")
        })
    })?;
    Ok((chain, key))
}

fn credentials(login: &Login) -> Result<Credentials, ConfigError> {
    let password = match &login.password {
        None => String::new(),
        Some(PasswordFrom::File(file)) => {
            let path = file.value.display();
            let text = String::from_utf8(read(file, PASSWORD_BYTES_MAX)?)
                .map_err(|_| file.place.error(format!("{path}: is not UTF-8 text")))?;
            let line = text.lines().next().unwrap_or_default();
            if line.is_empty() {
                return Err(file.place.error(format!("{path}: its first line is empty")));
            }
            line.to_owned()
        }
        Some(PasswordFrom::Env(name)) => match std::env::var(&name.value) {
            Ok(text) if !text.is_empty() => text,
            Ok(_) | Err(std::env::VarError::NotPresent) => {
                let what = format!("the environment variable {} is not set", name.value);
                return Err(name.place.error(what));
            }
            Err(std::env::VarError::NotUnicode(_)) => {
                let what = format!("the environment variable {} is not UTF-8 text", name.value);
                return Err(name.place.error(what));
            }
        },
    };
    Ok(Credentials {
        user: login.user.clone(),
        password,
    })
}

#[cfg(test)]
mod tests;
