//! What the server needs from files: the token, its certificate and key, and who may
//! sign certificates of clients.
//!
//! Always holds: a secret that others may read is refused; no error has the content of
//! a file in it. Bounds: TOKEN_BYTES_MAX, TLS_FILE_BYTES_MAX.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::time::Instant;

use super::limits::{TLS_FILE_BYTES_MAX, TOKEN_BYTES_MAX, TOKEN_BYTES_MIN};
use super::renewed::Renewed;
use crate::config::{ApiTls, ConfigError, Placed};
use crate::ports::Say;

/// Everybody else on this computer.
const OTHERS: u32 = 0o007;

/// The bytes of a file that a key names; `secret`: only for its owner and group.
fn read(file: &Placed<PathBuf>, most: u64, secret: bool) -> Result<Vec<u8>, ConfigError> {
    let path = file.value.display();
    let said = |error: std::io::Error| file.place.error(format!("{path}: {error}"));
    let opened = File::open(&file.value).map_err(said)?;
    let mode = opened.metadata().map_err(said)?.permissions().mode();
    if secret && mode & OTHERS != 0 {
        let what =
            format!("{path}: any user of this computer may read or change it: chmod o= {path}");
        return Err(file.place.error(what));
    }
    let mut bytes = Vec::new();
    let read = opened.take(most + 1).read_to_end(&mut bytes);
    read.map_err(said)?;
    if bytes.len() as u64 > most {
        return Err(file
            .place
            .error(format!("{path}: is larger than {most} bytes")));
    }
    Ok(bytes)
}

/// The token, which is the first line of its file.
pub(super) fn token(file: &Placed<PathBuf>) -> Result<Arc<[u8]>, ConfigError> {
    let bytes = read(file, TOKEN_BYTES_MAX as u64, true)?;
    let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next();
    let token = line.unwrap_or_default();
    let path = file.value.display();
    if !token.iter().all(u8::is_ascii_graphic) {
        let what = format!("{path}: its first line has other than printable ASCII characters");
        return Err(file.place.error(what));
    }
    if token.len() < TOKEN_BYTES_MIN {
        let what = format!(
            "{path}: its first line has {} characters, at least {TOKEN_BYTES_MIN}: make one with \
             openssl rand -hex 32",
            token.len()
        );
        return Err(file.place.error(what));
    }
    Ok(token.into())
}

/// How the server proves itself, and what it wants of clients.
pub(super) fn tls(tls: &ApiTls) -> Result<Arc<ServerConfig>, ConfigError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring has suites for both versions of TLS");
    let builder = match &tls.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(file)? {
                let added = roots.add(certificate);
                added.map_err(|error| bad(file, &error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(|error| bad(file, &error))?)
        }
    };
    let key = read(&tls.key, TLS_FILE_BYTES_MAX, true)?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| bad(&tls.key, &error))?;
    let built = builder.with_single_cert(certificates(&tls.cert)?, key);
    let mut config = built.map_err(|error| bad(&tls.key, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The token as it stands in its file at any time.
pub(super) fn renewed_token(
    file: &Placed<PathBuf>,
    how: (Duration, &Say, Instant),
) -> Result<Renewed<Arc<[u8]>>, ConfigError> {
    let files = vec![file.value.clone()];
    let file = file.clone();
    Renewed::new("token", files, Box::new(move || token(&file)), how)
}

/// How the server proves itself, by its files at any time.
pub(super) fn renewed_tls(
    of: &ApiTls,
    how: (Duration, &Say, Instant),
) -> Result<Renewed<Arc<ServerConfig>>, ConfigError> {
    let files = [&of.cert, &of.key].into_iter().chain(&of.client_ca);
    let files = files.map(|file| file.value.clone()).collect();
    let of = of.clone();
    Renewed::new("certificate", files, Box::new(move || tls(&of)), how)
}

fn bad(file: &Placed<PathBuf>, error: &dyn std::fmt::Display) -> ConfigError {
    file.place
        .error(format!("{}: {error}", file.value.display()))
}

fn certificates(file: &Placed<PathBuf>) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let bytes = read(file, TLS_FILE_BYTES_MAX, false)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| bad(file, &error))?;
    if found.is_empty() {
        return Err(bad(file, &"has no certificate"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::fs::Permissions;

    use super::*;
    use crate::config::Place;

    fn placed(path: PathBuf) -> Placed<PathBuf> {
        let place = Place {
            file: PathBuf::from("gw.toml"),
            line: Some(3),
            key: String::from("[api] token_file"),
        };
        Placed { value: path, place }
    }

    #[test]
    fn a_token_is_taken_within_its_limits() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        for (name, text, good) in [
            ("short", "x".repeat(TOKEN_BYTES_MIN - 1), false),
            ("shortest", "x".repeat(TOKEN_BYTES_MIN), true),
            ("a line more", "0123456789abcdef\nother".to_owned(), true),
            ("longest", "x".repeat(TOKEN_BYTES_MAX), true),
            ("too long", "x".repeat(TOKEN_BYTES_MAX + 1), false),
            ("with a space", "0123456789 abcdef".to_owned(), false),
            ("empty", String::new(), false),
        ] {
            fs::write(&path, &text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
            match token(&placed(path.clone())) {
                Ok(token) => assert!(good && text.as_bytes().starts_with(&token), "{name}"),
                Err(error) => {
                    let said = error.to_string();
                    assert!(!good, "{name}: {said}");
                    assert!(said.contains("gw.toml:3: [api] token_file"), "{said}");
                    assert!(text.is_empty() || !said.contains(&text), "{said}");
                }
            }
        }
    }

    #[test]
    fn a_secret_that_others_may_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, "0123456789abcdef").unwrap();
        for (mode, good) in [(0o600, true), (0o640, true), (0o644, false), (0o602, false)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let said = token(&placed(path.clone())).map_err(|error| error.to_string());
            assert_eq!(said.is_ok(), good, "{mode:o}");
            assert!(good || said.unwrap_err().contains("chmod o="), "{mode:o}");
        }
    }

    #[test]
    fn what_is_not_there_is_named() {
        let said = token(&placed(PathBuf::from("/nonexistent/token")));
        assert!(said.unwrap_err().to_string().contains("/nonexistent/token"));
    }
}
