//! Files that do and files that do not, and what is said of either.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, date_time_ymd,
};
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::UnixTime;
use tempfile::TempDir;

use super::*;
use crate::config::{Place, Transport};

const DAY: u64 = 24 * 3600;

/// An authority, and what it signs for 2020-01-01 to 2030-01-01.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// PEM of a certificate and its key.
struct Signed {
    cert: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        Self::named("authority")
    }

    fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn sign(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> Signed {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2030, 1, 1);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.0).expect("a certificate");
        Signed {
            cert: cert.pem(),
            key: key.serialize_pem(),
        }
    }

    fn server(&self, name: &str) -> Signed {
        self.sign(name, ExtendedKeyUsagePurpose::ServerAuth)
    }
}

fn placed<T>(value: T, key: &str) -> Placed<T> {
    Placed {
        value,
        place: Place {
            file: "forebay.toml".into(),
            line: Some(7),
            key: format!("[forward] {key}"),
        },
    }
}

/// A folder with files, and the keys that name them.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    }

    fn tls(&self, ca: &str, own: Option<(&str, &str)>) -> MqttConfig {
        let identity = own.map(|(cert, key)| Identity {
            cert_file: placed(self.write("cert.pem", cert), "cert_file"),
            key_file: placed(self.write("key.pem", key), "key_file"),
        });
        MqttConfig {
            transport: Transport::Tls,
            tls: TlsKeys {
                ca_file: Some(placed(self.write("ca.pem", ca), "ca_file")),
                identity,
                server_name: None,
            },
            ..MqttConfig::new("broker", 8883, "c")
        }
    }
}

fn refused(config: &MqttConfig) -> String {
    Material::load(config)
        .expect_err("it cannot be used")
        .to_string()
}

#[test]
fn files_that_fit_are_taken() {
    let (files, ca) = (Files::new(), Authority::new());
    let own = ca.sign("gw-1", ExtendedKeyUsagePurpose::ClientAuth);
    let config = files.tls(&ca.pem(), Some((&own.cert, &own.key)));
    let material = Material::load(&config).expect("good files");
    assert!(material.tls().is_some() && material.is_watched());
    let validity = material.validity().expect("times");
    assert_eq!(time_text(validity.not_before), "2020-01-01T00:00:00Z");
    assert_eq!(time_text(validity.not_after), "2030-01-01T00:00:00Z");
}

#[test]
fn files_that_do_not_fit_are_said_with_their_key() {
    let (files, ca) = (Files::new(), Authority::new());
    let (own, other) = (ca.server("a"), ca.server("b"));
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\naGk=\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let damaged = "-----BEGIN CERTIFICATE-----\naGk=\n-----END CERTIFICATE-----\n";
    for (name, ca_file, cert, key, want) in [
        (
            "no authority",
            "",
            &own.cert,
            &own.key,
            "[forward] ca_file: ",
        ),
        (
            "no PEM",
            "hello",
            &own.cert,
            &own.key,
            "ca.pem: holds no certificate in PEM form",
        ),
        (
            "no certificate inside",
            damaged,
            &own.cert,
            &own.key,
            "ca.pem: certificate 1: ",
        ),
        (
            "a key as certificate",
            &ca.pem(),
            &own.key,
            &own.key,
            "[forward] cert_file: ",
        ),
        (
            "a certificate as key",
            &ca.pem(),
            &own.cert,
            &own.cert,
            "key.pem: holds no private key",
        ),
        (
            "an encrypted key",
            &ca.pem(),
            &own.cert,
            &encrypted.to_owned(),
            "key.pem: holds an encrypted key",
        ),
        (
            "another key",
            &ca.pem(),
            &own.cert,
            &other.key,
            "forebay.toml:7: [forward] key_file: is not the key of the certificate in cert_file",
        ),
    ] {
        let said = refused(&files.tls(ca_file, Some((cert, key))));
        assert!(
            said.starts_with("forebay.toml:7: [forward] "),
            "{name}: {said}"
        );
        assert!(said.contains(want), "{name}: {said}");
        assert_eq!(said.lines().count(), 1, "{name}: {said}");
    }
    let mut config = files.tls(&ca.pem(), None);
    config.tls.ca_file = Some(placed(files.0.path().join("none"), "ca_file"));
    let said = refused(&config);
    assert!(
        said.contains("[forward] ca_file: ") && said.contains("none: No such file"),
        "{said}"
    );
    let large = "#".repeat(usize::try_from(TLS_FILE_BYTES_MAX).expect("fits"));
    let whole = ca.pem();
    for (name, over, good) in [
        ("limit - 1", 1, true),
        ("limit", 0, true),
        ("limit + 1", -1, false),
    ] {
        let room = isize::try_from(large.len() - whole.len() - 1).expect("fits") - over;
        let text = format!(
            "{}\n{whole}",
            &large[..usize::try_from(room).expect("fits")]
        );
        assert_eq!(
            Material::load(&files.tls(&text, None)).is_ok(),
            good,
            "{name}"
        );
    }
}

#[test]
fn a_changed_file_is_seen() {
    let (files, ca) = (Files::new(), Authority::new());
    let own = ca.server("a");
    let config = files.tls(&ca.pem(), Some((&own.cert, &own.key)));
    let material = Material::load(&config).expect("good files");
    assert!(!material.is_outdated());
    let new = files.write("new", &own.cert);
    std::fs::rename(new, files.0.path().join("cert.pem")).expect("renamed");
    assert!(
        material.is_outdated(),
        "the same bytes in another file: better once too often"
    );
    let material = Material::load(&config).expect("good files");
    assert!(!material.is_outdated());
    std::fs::remove_file(files.0.path().join("ca.pem")).expect("removed");
    assert!(material.is_outdated());
}

#[test]
fn the_password_comes_from_its_file_and_is_never_shown() {
    let files = Files::new();
    for (name, content, password) in [
        ("plain", "s3cret", Some("s3cret")),
        ("with a newline", "s3cret\r\n", Some("s3cret")),
        ("with more lines", "s3cret\nnot this\n", Some("s3cret")),
        ("with blanks in it", " s3 cret ", Some(" s3 cret ")),
        ("empty", "\n", None),
    ] {
        let file = placed(files.write("password", content), "password_file");
        let config = MqttConfig {
            login: Some(Login {
                user: "u".into(),
                password: Some(PasswordFrom::File(file)),
            }),
            ..MqttConfig::new("h", 1, "c")
        };
        let loaded = Material::load(&config);
        let shown = format!("{config:?} {loaded:?}");
        assert!(!shown.contains("cret"), "{name}: {shown}");
        let found = loaded.ok().and_then(|material| material.credentials);
        let shown = format!("{found:?}");
        assert!(!shown.contains("cret"), "{name}: {shown}");
        let found = found.map(|credentials| credentials.password);
        assert_eq!(found.as_deref(), password, "{name}");
    }
    for (len, taken) in [(4095, true), (4096, true), (4097, false)] {
        let file = placed(files.write("password", "x".repeat(len)), "password_file");
        let login = Login {
            user: "u".into(),
            password: Some(PasswordFrom::File(file)),
        };
        assert_eq!(credentials(&login).is_ok(), taken, "{len}");
    }
}

#[test]
fn a_variable_that_is_not_set_is_said() {
    let login = |name: &str| Login {
        user: "u".into(),
        password: Some(PasswordFrom::Env(placed(name.to_owned(), "password_env"))),
    };
    let said = credentials(&login("FOREBAY_TEST_IS_NOT_SET"))
        .expect_err("not set")
        .to_string();
    assert_eq!(
        said,
        "forebay.toml:7: [forward] password_env: the environment variable \
         FOREBAY_TEST_IS_NOT_SET is not set"
    );
    // Set for every test by cargo.
    let found = credentials(&login("CARGO_PKG_NAME")).expect("set");
    assert_eq!(found.password, "forebay");
}

/// What the verifier says of a certificate for 2020 to 2030 at this time, in seconds.
fn judged(name: &str, now: u64, synchronised: bool) -> Option<String> {
    let ca = Authority::new();
    judged_by(&ca, &ca, name, now, synchronised)
}

/// The same, of what `signer` signed.
fn judged_by(
    trusted: &Authority,
    signer: &Authority,
    name: &str,
    now: u64,
    synchronised: bool,
) -> Option<String> {
    let files = Files::new();
    let config = files.tls(&trusted.pem(), None);
    let material = Material::load(&config).expect("good files");
    let provider = Arc::new(ring::default_provider());
    let roots = authorities(config.tls.ca_file.as_ref().expect("given")).expect("good");
    let trusted = WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
    let verifier = Verifier::new(
        trusted.build().expect("an authority"),
        None,
        Arc::clone(&material.verdict),
    );
    let server = CertificateDer::from_pem_slice(signer.server("broker").cert.as_bytes());
    let clock = LocalClock {
        now: UnixTime::since_unix_epoch(Duration::from_secs(now)),
        synchronised,
    };
    let name = ServerName::try_from(name).expect("a name");
    let said = verifier.verify_server_cert(&server.expect("PEM"), &[], &name, &[], clock.now);
    let sentence = material.verdict(clock);
    assert_eq!(said.is_err(), sentence.is_some());
    sentence
}

/// Known fault a65: what comes from a wrong clock is named so.
#[test]
fn a_wrong_clock_is_named() {
    let from = 1_577_836_800;
    let until = 1_893_456_000;
    let now = 1_790_000_000;
    for (name, at, synchronised, want) in [
        ("good", now, true, None),
        ("the first second", from, false, Some("clock: ")),
        (
            "1970",
            12,
            false,
            Some(
                "clock: this computer's clock says 1970-01-01T00:00:12Z, which is before this \
                 program was made, and the broker's certificate is valid only from \
                 2020-01-01T00:00:00Z: set the clock",
            ),
        ),
        (
            "1970, and the system says that it is right",
            12,
            true,
            Some("clock: this computer's"),
        ),
        (
            "expired",
            until + DAY,
            true,
            Some("ended at 2030-01-01T00:00:00Z, and it is 2030-01-02"),
        ),
        (
            "expired by a clock that nobody sets",
            until + DAY,
            false,
            Some("renew it, or set the clock if that is not the time"),
        ),
    ] {
        let said = judged("broker", at, synchronised);
        // The first second of its validity is valid, whatever the clock.
        let want = if at == from { None } else { want };
        match (&said, want) {
            (None, None) => {}
            (Some(said), Some(want)) => assert!(said.contains(want), "{name}: {said}"),
            (said, want) => panic!("{name}: {said:?}, not {want:?}"),
        }
    }
}

#[test]
fn a_certificate_of_the_future_is_the_clock_or_the_certificate() {
    let validity = Validity {
        not_before: UnixTime::since_unix_epoch(Duration::from_secs(1_900_000_000)),
        not_after: UnixTime::since_unix_epoch(Duration::from_secs(2_000_000_000)),
    };
    let at = |now, synchronised| {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        clock::own_times(validity, LocalClock { now, synchronised })
    };
    let unset = at(1_000_000_000, true).expect("said");
    assert!(
        unset.starts_with("clock: this computer's clock says 2001"),
        "{unset}"
    );
    let doubtful = at(1_800_000_000, false).expect("said");
    assert!(
        doubtful.starts_with("clock: our certificate (cert_file)"),
        "{doubtful}"
    );
    let certain = at(1_800_000_000, true).expect("said");
    assert!(
        certain.starts_with("our certificate (cert_file) is valid only from"),
        "{certain}"
    );
    assert_eq!(at(1_900_000_000, false), None);
    assert_eq!(at(2_000_000_000, false), None);
    assert!(at(2_000_000_001, true).is_some());
}

#[test]
fn another_name_and_another_authority_are_said() {
    let now = 1_790_000_000;
    let said = judged("elsewhere", now, true).expect("another name");
    assert!(said.contains("is not for elsewhere but for"), "{said}");
    assert!(said.contains("broker"), "{said}");
    for (name, theirs, want) in [
        (
            "unknown",
            Authority::named("another"),
            "is not signed by any authority that we trust",
        ),
        (
            "made anew",
            Authority::new(),
            "names an authority that we trust and is signed with another key",
        ),
    ] {
        let said = judged_by(&Authority::new(), &theirs, "broker", now, true).expect(name);
        assert!(said.contains(want), "{name}: {said}");
    }
}

proptest::proptest! {
    #[test]
    fn damaged_certificates_have_no_times_or_some(at in 0_usize..900, byte: u8, cut in 0_usize..900) {
        let ca = Authority::new();
        let der = CertificateDer::from_pem_slice(ca.server("a").cert.as_bytes()).expect("PEM");
        let mut bytes = der.to_vec();
        let place = at % bytes.len();
        bytes[place] = byte;
        let _ = Validity::of(&bytes);
        bytes.truncate(cut.min(bytes.len()));
        let _ = Validity::of(&bytes);
    }

    #[test]
    fn any_bytes_are_taken_for_a_certificate(bytes: Vec<u8>) {
        let _ = Validity::of(&bytes);
    }
}
