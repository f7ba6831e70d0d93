//! The keys of a connection to a broker, as data: the same wherever a section has
//! the key `broker`.

use super::schema::{Default, Key};

/// The key behind which the others stand.
pub const BROKER_KEY: &str = "broker";

pub const BROKER: &[Key] = &[
    Key {
        name: "protocol",
        default: Default::Is("\"5\""),
        doc: "Version of MQTT: \"5\" or \"3.1.1\". By 3.1.1 a broker cannot say why it refuses a message, nor how much it takes.",
    },
    Key {
        name: "transport",
        default: Default::Is("\"tcp\""),
        doc: "tcp, tls, ws (websocket) or wss (websocket over TLS). How to set up TLS: agent/node/docs/mqtt.md.",
    },
    Key {
        name: "ca_file",
        default: Default::None("\"/etc/forebay/ca.pem\""),
        doc: "With tls or wss: PEM file of the authorities that may sign the broker's certificate. Default: the system's.\nFiles of TLS are looked at every 30s, and read anew at each attempt to connect: a changed one needs no restart.",
    },
    Key {
        name: "cert_file",
        default: Default::None("\"/etc/forebay/gw-1.pem\""),
        doc: "With tls or wss: PEM file of our own certificate, and what signed it, for brokers that ask for one (mutual TLS).",
    },
    Key {
        name: "key_file",
        default: Default::None("\"/etc/forebay/gw-1.key\""),
        doc: "With cert_file: PEM file of its private key, not encrypted.",
    },
    Key {
        name: "server_name",
        default: Default::None("\"broker.example.org\""),
        doc: "With tls or wss: the name that the broker's certificate must have, where it is not the host of `broker`.",
    },
    Key {
        name: "ws_path",
        default: Default::None("\"/mqtt\""),
        doc: "With ws or wss: path of the websocket. Default /mqtt.",
    },
    Key {
        name: "username",
        default: Default::None("\"gw-1\""),
        doc: "MQTT user name.",
    },
    Key {
        name: "password_file",
        default: Default::None("\"/etc/forebay/mqtt-password\""),
        doc: "File whose first line is the password; read anew at each attempt to connect.",
    },
    Key {
        name: "password_env",
        default: Default::None("\"FOREBAY_MQTT_PASSWORD\""),
        doc: "Instead of password_file: the environment variable that holds the password.",
    },
    Key {
        name: "keep_alive",
        default: Default::Is("\"20s\""),
        doc: "A connection with nothing to say is asked for life so often, 5s to 1h. Links below 64 kbit/s need more.",
    },
    Key {
        name: "backoff_max",
        default: Default::Is("\"60s\""),
        doc: "Longest wait between two attempts to connect, 100ms to 24h. After a connection that stood the first\nwait is anything up to two thirds of it, so that not all clients of a broker come back at once.",
    },
];
