//! What a connection needs from files and the environment: password, authorities and
//! our own certificate. Read anew for each connection, so what is renewed counts from
//! the next one on.
//!
//! Always holds: no error has the content of a file or a variable in it. Bounds:
//! PASSWORD_BYTES_MAX.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::config::PostgresPassword;

/// Longest password.
const PASSWORD_BYTES_MAX: usize = 4096;

/// The password, where one is configured.
///
/// # Errors
/// A sentence that names the key of the config, and never the password.
pub(crate) fn password(from: Option<&PostgresPassword>) -> Result<Option<String>, String> {
    let (text, key) = match from {
        None => return Ok(None),
        Some(PostgresPassword::File(path)) => {
            let key = format!("password_file {}", path.display());
            let size = std::fs::metadata(path).map_err(|error| format!("{key}: {error}"))?;
            if size.len() > PASSWORD_BYTES_MAX as u64 {
                return Err(format!("{key}: is longer than a password"));
            }
            let text = std::fs::read_to_string(path).map_err(|error| format!("{key}: {error}"))?;
            let first = text.split(['\r', '\n']).next().unwrap_or_default();
            (first.to_owned(), key)
        }
        Some(PostgresPassword::Env(name)) => {
            let key = format!("password_env {name}");
            let text = std::env::var(name)
                .map_err(|_| format!("{key}: there is no such variable, or it is no text"))?;
            if text.len() > PASSWORD_BYTES_MAX {
                return Err(format!("{key}: is longer than a password"));
            }
            (text, key)
        }
    };
    if text.is_empty() {
        return Err(format!("{key}: is empty"));
    }
    Ok(Some(text))
}

/// How the server is checked, and who we are.
///
/// # Errors
/// A sentence that names the key of the config.
pub(crate) fn tls(
    ca_file: Option<&Path>,
    identity: Option<&(PathBuf, PathBuf)>,
) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("tls: {error}"))?
        .with_root_certificates(authorities(ca_file)?);
    let built = match identity {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let chain = certificates(cert, "cert_file")?;
            let bad =
                |error: &dyn std::fmt::Display| format!("key_file {}: {error}", key.display());
            let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(&error))?;
            let built = builder.with_client_auth_cert(chain, secret);
            built.map_err(|error| bad(&error))?
        }
    };
    Ok(Arc::new(built))
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        // One that does not read is no reason to do without the others.
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err("the system has no certificate authorities: give ca_file".to_owned());
        }
        return Ok(roots);
    };
    for certificate in certificates(file, "ca_file")? {
        let added = roots.add(certificate);
        added.map_err(|error| format!("ca_file {}: {error}", file.display()))?;
    }
    Ok(roots)
}

fn certificates(file: &Path, key: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let bad = |error: &dyn std::fmt::Display| format!("{key} {}: {error}", file.display());
    let found = CertificateDer::pem_file_iter(file).map_err(|error| bad(&error))?;
    let found: Vec<_> = found
        .collect::<Result<_, _>>()
        .map_err(|error| bad(&error))?;
    if found.is_empty() {
        return Err(bad(&"has no certificate"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn the_password_is_the_first_line_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        let longest = "x".repeat(PASSWORD_BYTES_MAX);
        for (name, content, want) in [
            ("plain", "s3cret", Some("s3cret")),
            ("with a newline", "s3cret\r\nmore", Some("s3cret")),
            ("empty", "\n", None),
            ("longest", &longest, Some(&*longest)),
            ("too long", &format!("{longest}x"), None),
        ] {
            std::fs::write(&file, content).unwrap();
            let found = password(Some(&PostgresPassword::File(file.clone())));
            if let Err(text) = &found {
                assert!(text.contains("password_file"), "{name}: {text}");
            }
            assert_eq!(found.ok().flatten().as_deref(), want, "{name}");
        }
    }

    #[test]
    fn a_variable_that_is_not_there_is_named() {
        let from = PostgresPassword::Env("FOREBAY_NO_SUCH_VARIABLE".into());
        let error = password(Some(&from)).unwrap_err();
        assert!(error.contains("FOREBAY_NO_SUCH_VARIABLE"), "{error}");
    }

    #[test]
    fn files_of_tls_are_named_when_they_are_no_certificates() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.pem");
        std::fs::write(&file, "nothing").unwrap();
        let error = tls(Some(&file), None).unwrap_err();
        assert!(error.contains("ca_file"), "{error}");
    }
}
