//! From the config's words to a client's settings, and whether the files that they
//! name can be used.

use super::backoff::BackoffConfig;
use super::client::{Login, MqttConfig};
use super::security::Material;
use crate::config::{BrokerConfig, Config, ConfigError, FeedFrom};

/// The settings of a client of the configured broker. Reads all files once, so that
/// what cannot work is said at the start.
///
/// # Errors
/// A sentence: which key of the config, where, names what cannot be used.
pub fn client_settings(broker: &BrokerConfig) -> Result<MqttConfig, String> {
    let settings = unread(broker)?;
    Material::load(&settings).map_err(|error| error.to_string())?;
    Ok(settings)
}

/// Whether the files that the config names for its brokers can be used, and all is there
/// that the sources of tables need.
///
/// # Errors
/// The first that cannot be, with its line and key.
pub fn broker_files(config: &Config) -> Result<(), ConfigError> {
    let forward = config.forward.iter().map(|forward| &forward.broker);
    let upstream = config.upstream.iter().map(|upstream| &upstream.broker);
    let mut tables = Vec::new();
    for feed in &config.feeds {
        match &feed.from {
            FeedFrom::Mqtt { broker, .. } => tables.push(&**broker),
            // A config without a gateway's name is for `forebay try`, which feeds tables.
            FeedFrom::Missing(error) if config.agent.gateway.is_some() => {
                return Err(error.clone());
            }
            FeedFrom::File(_) | FeedFrom::Postgres { .. } | FeedFrom::Missing(_) => {}
        }
    }
    for broker in forward.chain(upstream).chain(tables) {
        // The config has taken the address.
        if let Ok(settings) = unread(broker) {
            Material::load(&settings)?;
        }
    }
    Ok(())
}

pub(super) fn unread(broker: &BrokerConfig) -> Result<MqttConfig, String> {
    let (host, port) = broker
        .address
        .rsplit_once(':')
        .and_then(|(host, port)| Some((host, port.parse().ok()?)))
        .ok_or_else(|| format!("broker \"{}\" is not host:port", broker.address))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok(MqttConfig {
        protocol: broker.protocol,
        transport: broker.transport,
        ws_path: broker.ws_path.clone(),
        tls: broker.tls.clone(),
        login: broker.username.as_ref().map(|user| Login {
            user: user.clone(),
            password: broker.password.clone(),
        }),
        keep_alive: broker.keep_alive,
        backoff: BackoffConfig {
            cap: broker.backoff_max,
            ..BackoffConfig::default()
        },
        ..MqttConfig::new(host, port, &broker.client_id)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_a_gateway_cannot_read_is_said() {
        let table = "[[table]]\nname = \"a\"\nkey = \"id\"\nsource = \"file\"\n";
        for (agent, good) in [("", true), ("[agent]\ngateway = \"g\"\n", false)] {
            let text = format!("{agent}{table}");
            let config = Config::from_text(std::path::Path::new("c.toml"), &text);
            let checked = broker_files(&config.expect("it reads"));
            assert_eq!(checked.is_ok(), good, "{agent}");
        }
    }

    #[test]
    fn the_address_is_split_at_the_last_colon() {
        let settings = client_settings(&BrokerConfig::plain("[::1]:1883", "c")).expect("good");
        assert_eq!((settings.host.as_str(), settings.port), ("::1", 1883));
        assert!(client_settings(&BrokerConfig::plain("nothing", "c")).is_err());
    }
}
