//! Times as the server's binary format has them.

use std::error::Error;

use bytes::BytesMut;
use forebay_core::units::EventTime;
use postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::copy::{event_time, timestamp};

/// A `timestamptz`; `None` is one of the infinities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PgTime(pub Option<EventTime>);

impl<'a> FromSql<'a> for PgTime {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(event_time(i64::from_be_bytes(raw.try_into()?))))
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::TIMESTAMPTZ
    }
}

impl ToSql for PgTime {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Some(time) = self.0 else {
            return Ok(IsNull::Yes);
        };
        out.extend_from_slice(&timestamp(time).to_be_bytes());
        Ok(IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::TIMESTAMPTZ
    }

    to_sql_checked!();
}
