//! The beginning of a replication session: who we are, what the session is set up as, and
//! the proof that the server asks for.
//!
//! Always holds: the password is read from where it is kept for each connection, and kept
//! nowhere; the server proves with SCRAM that it knows it too. Knows no change.

use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::{backend, frontend};

use super::bytes::Bytes;
use super::wire::{Wire, WireError, server_error};
use crate::config::DatabaseConfig;
use crate::database::secret;

/// How every session writes values: the stream and the snapshot must give the same text.
pub(super) const SETTINGS: [(&str, &str); 9] = [
    ("client_encoding", "UTF8"),
    ("datestyle", "ISO, YMD"),
    ("intervalstyle", "iso_8601"),
    ("timezone", "UTC"),
    ("extra_float_digits", "1"),
    ("bytea_output", "hex"),
    // A slot waits for transactions that are open when it is made, however long.
    ("statement_timeout", "0"),
    ("lock_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
];

// Numbers of the server's requests for a proof.
const OK: u32 = 0;
const CLEARTEXT: u32 = 3;
const MD5: u32 = 5;
const SASL: u32 = 10;
const SASL_CONTINUE: u32 = 11;
const SASL_FINAL: u32 = 12;

/// Connects and logs in, as a session that may replicate.
///
/// # Errors
/// What keeps us out.
pub(super) fn login(config: &DatabaseConfig) -> Result<Wire, WireError> {
    let mut wire = Wire::open(config)?;
    let names = [
        ("user", config.user.as_str()),
        ("database", &config.database),
        ("application_name", "forebay"),
        ("replication", "database"),
    ];
    wire.send(|out| frontend::startup_message(names.into_iter().chain(SETTINGS), out))?;
    let mut scram = None;
    loop {
        let frame = wire.answer()?;
        match frame.tag {
            backend::AUTHENTICATION_TAG => prove(&mut wire, &frame, config, &mut scram)?,
            backend::ERROR_RESPONSE_TAG => {
                return Err(WireError::Said(server_error(wire.body(&frame))));
            }
            backend::READY_FOR_QUERY_TAG => return Ok(wire),
            // Settings, the key for cancels, notices.
            _ => {}
        }
    }
}

fn prove(
    wire: &mut Wire,
    frame: &super::wire::Frame,
    config: &DatabaseConfig,
    scram: &mut Option<ScramSha256>,
) -> Result<(), WireError> {
    let mut bytes = Bytes::new(wire.body(frame));
    let request = bytes.u32("the kind of proof")?;
    let rest = bytes.rest().to_vec();
    match request {
        OK => Ok(()),
        CLEARTEXT => {
            let password = password(config)?;
            wire.send(|out| frontend::password_message(password.as_bytes(), out))
        }
        MD5 => {
            let salt = rest.try_into();
            let salt = salt.map_err(|_| WireError::Protocol("a salt of another length"))?;
            let hash = md5_hash(config.user.as_bytes(), password(config)?.as_bytes(), salt);
            wire.send(|out| frontend::password_message(hash.as_bytes(), out))
        }
        SASL => {
            let mut offered = rest.split(|b| *b == 0);
            if !offered.any(|name| name == SCRAM_SHA_256.as_bytes()) {
                return Err(WireError::Protocol(
                    "the server does not offer SCRAM-SHA-256",
                ));
            }
            // The certificate is checked against an authority: that is what binding would add.
            let binding = ChannelBinding::unsupported();
            let new = scram.insert(ScramSha256::new(password(config)?.as_bytes(), binding));
            wire.send(|out| frontend::sasl_initial_response(SCRAM_SHA_256, new.message(), out))
        }
        SASL_CONTINUE => {
            let scram = begun(scram)?;
            scram.update(&rest).map_err(|_| UNPROVEN)?;
            wire.send(|out| frontend::sasl_response(scram.message(), out))
        }
        SASL_FINAL => begun(scram)?.finish(&rest).map_err(|_| UNPROVEN),
        _ => Err(WireError::Protocol(
            "the server asks for a proof that is not supported: use scram-sha-256 in its \
             pg_hba.conf",
        )),
    }
}

const UNPROVEN: WireError = WireError::Protocol("the server does not know the password itself");

fn begun(scram: &mut Option<ScramSha256>) -> Result<&mut ScramSha256, WireError> {
    scram.as_mut().ok_or(WireError::Protocol(
        "a proof that goes on without its beginning",
    ))
}

fn password(config: &DatabaseConfig) -> Result<String, WireError> {
    let password = secret::password(config.password.as_ref()).map_err(WireError::Config)?;
    password.ok_or_else(|| {
        WireError::Config(format!(
            "the server asks for a password: give password_file or password_env in \
             [[database]] {}",
            config.name
        ))
    })
}
