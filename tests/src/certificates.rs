//! Certificates of a test: an authority of its own, and what it signs for names and
//! times that the test chooses, as PEM files in a folder.
//!
//! Always holds: every authority has a key of its own, also two of the same name.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, date_time_ymd,
};

/// Years: from the first day of one to the first day of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Years(pub i32, pub i32);

/// What is valid today.
pub const VALID: Years = Years(2020, 2099);
/// What is not any more.
pub const EXPIRED: Years = Years(2020, 2021);
/// What is not yet.
pub const NOT_YET: Years = Years(2098, 2099);

/// Signs certificates.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, as PEM.
#[derive(Debug)]
pub struct Signed {
    pub cert: String,
    pub key: String,
}

impl Authority {
    /// An authority of this name with a new key.
    ///
    /// # Panics
    /// When the system gives no randomness.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names are good names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        limit(&mut params, VALID);
        let key = KeyPair::generate().expect("the system gives randomness");
        Self(CertifiedIssuer::self_signed(params, key).expect("its own key signs"))
    }

    /// PEM of its own certificate.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A broker's certificate for these names and addresses.
    #[must_use]
    pub fn server(&self, names: &[&str], years: Years) -> Signed {
        self.sign(names, years, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client's certificate, of that common name.
    #[must_use]
    pub fn client(&self, name: &str, years: Years) -> Signed {
        self.sign(&[name], years, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, names: &[&str], years: Years, usage: ExtendedKeyUsagePurpose) -> Signed {
        let texts: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(texts).expect("a test's names are names");
        let common = names.first().copied().unwrap_or("nobody");
        params.distinguished_name.push(DnType::CommonName, common);
        limit(&mut params, years);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().expect("the system gives randomness");
        let cert = params.signed_by(&key, &self.0).expect("an authority signs");
        Signed {
            cert: cert.pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Signed {
    /// Writes `<name>.pem` and `<name>.key`, each whole at once; gives their paths.
    ///
    /// # Panics
    /// When the folder takes no files.
    pub fn write(&self, dir: &Path, name: &str) -> (PathBuf, PathBuf) {
        let cert = write(dir, &format!("{name}.pem"), &self.cert);
        let key = write(dir, &format!("{name}.key"), &self.key);
        (cert, key)
    }
}

/// Writes a file whole at once: nobody ever reads half of it.
///
/// # Panics
/// When the folder takes no files.
pub fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let (path, new) = (dir.join(name), dir.join(format!("{name}.new")));
    fs::write(&new, text).expect("the test's folder takes files");
    fs::rename(&new, &path).expect("in the same folder");
    path
}

fn limit(params: &mut CertificateParams, Years(from, until): Years) {
    params.not_before = date_time_ymd(from, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
}
