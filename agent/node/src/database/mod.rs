//! What every connection to a PostgreSQL needs, whichever way it is used: the password,
//! and TLS as its client asks for it. Knows no table and no statement.

pub(crate) mod secret;
pub(crate) mod tls;
