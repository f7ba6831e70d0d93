//! From the config's words to a client's settings. Reads the password's file, whose
//! content stays in [`Credentials`], which hides it.

use std::path::Path;

use super::client::{Credentials, MqttConfig};
use crate::config::BrokerConfig;

/// Longest password.
const PASSWORD_BYTES_MAX: u64 = 4096;

/// The settings of a client of the configured broker.
///
/// # Errors
/// A sentence: the password's file does not read, or holds none.
pub fn client_settings(broker: &BrokerConfig) -> Result<MqttConfig, String> {
    let (host, port) = broker
        .address
        .rsplit_once(':')
        .and_then(|(host, port)| Some((host, port.parse().ok()?)))
        .ok_or_else(|| format!("broker \"{}\" is not host:port", broker.address))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut settings = MqttConfig::new(host, port, &broker.client_id);
    if let Some(user) = &broker.username {
        let password = broker.password_file.as_deref().map(read_password);
        settings.credentials = Some(Credentials {
            user: user.clone(),
            password: password.transpose()?.unwrap_or_default(),
        });
    }
    Ok(settings)
}

fn read_password(path: &Path) -> Result<String, String> {
    let told = |what: &dyn std::fmt::Display| format!("password_file {}: {what}", path.display());
    let size = std::fs::metadata(path).map_err(|error| told(&error))?.len();
    if size > PASSWORD_BYTES_MAX {
        return Err(told(&"is longer than a password"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| told(&error))?;
    let password = text.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(told(&"is empty"));
    }
    Ok(password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broker(address: &str, file: Option<&Path>) -> BrokerConfig {
        BrokerConfig {
            address: address.into(),
            client_id: "c".into(),
            username: file.map(|_| "user".into()),
            password_file: file.map(Path::to_path_buf),
        }
    }

    #[test]
    fn the_password_comes_from_its_file_and_is_not_shown() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("password");
        for (name, content, password) in [
            ("plain", "s3cret", Some("s3cret")),
            ("with a newline", "s3cret\r\n", Some("s3cret")),
            ("empty", "\n", None),
        ] {
            std::fs::write(&file, content).expect("written");
            let settings = client_settings(&broker("[::1]:1883", Some(&file)));
            let shown = format!("{settings:?}");
            assert!(!shown.contains("s3cret"), "{name}: {shown}");
            let found = settings
                .ok()
                .and_then(|s| s.credentials)
                .map(|c| c.password);
            assert_eq!(found.as_deref(), password, "{name}");
        }
        for (len, taken) in [(4095, true), (4096, true), (4097, false)] {
            std::fs::write(&file, "x".repeat(len)).expect("written");
            let settings = client_settings(&broker("h:1", Some(&file)));
            assert_eq!(settings.is_ok(), taken, "{len}");
        }
    }

    #[test]
    fn the_address_is_split_at_the_last_colon() {
        let settings = client_settings(&broker("[::1]:1883", None)).expect("good");
        assert_eq!((settings.host.as_str(), settings.port), ("::1", 1883));
        assert!(client_settings(&broker("nothing", None)).is_err());
    }
}
