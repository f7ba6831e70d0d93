//! One look at a database as its source would use it, for `forebay doctor`. Changes
//! nothing: no slot is made, none is read from.

use super::catalog::Catalog;
use super::fault::{Fault, Place};
use crate::config::DatabaseConfig;

/// A database that takes us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseSeen {
    pub slot: String,
    /// `None`: there is no slot yet.
    pub state: Option<SlotSeen>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotSeen {
    /// Somebody reads from it now.
    pub is_active: bool,
    /// It is of the kind that we use, and of this database.
    pub is_ours: bool,
    /// The server has thrown away what it was for.
    pub is_lost: bool,
}

/// Connects, and looks at version, encoding, `wal_level` and the slot.
///
/// # Errors
/// A sentence: what keeps us out, and what to do.
pub fn probe(config: &DatabaseConfig, gateway: &str) -> Result<DatabaseSeen, String> {
    let slot = config.slot(gateway);
    let place = Place::of(config, &slot);
    let said = |fault: Fault| match fault {
        Fault::Waiting(text) | Fault::Failed(text) | Fault::Anew(text) | Fault::Busy(text) => text,
        Fault::Stopped | Fault::Again(_) => place.said("the connection was given up"),
    };
    let mut catalog = Catalog::connect(config, &place).map_err(said)?;
    let state = catalog.slot().map_err(said)?;
    Ok(DatabaseSeen {
        state: state.map(|slot| SlotSeen {
            is_active: slot.is_active,
            is_ours: slot.is_ours,
            is_lost: slot.is_lost,
        }),
        slot,
    })
}
