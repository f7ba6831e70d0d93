//! One database's thread: session after session, with pauses between, until it is told to
//! end. What a session does first is decided by [`plan`](super::plan).
//!
//! Always holds: that a snapshot is whole is written down after the log has it, and a
//! snapshot that is not whole is begun anew with a slot of its own. Pauses are drawn evenly
//! under a ceiling that doubles to WAIT_MAX.

use std::path::PathBuf;
use std::time::Duration;

use super::auth;
use super::catalog::{Catalog, Tables, quoted};
use super::fault::{Fault, Place};
use super::hand::Hand;
use super::limits::{WAIT_FIRST, WAIT_FOR_SLOT, WAIT_MAX};
use super::lsn::{At, Lsn};
use super::pgoutput::TypeId;
use super::plan::{Known, Plan, Slot};
use super::record::{Phase, Record};
use super::snapshot::{Snapshot, unknown};
use super::stream::{Places, Stream};
use super::translate::{Fed, Translator};
use super::value::Kinds;
use super::watch::Watch;
use super::wire::{Wire, WireError};
use crate::config::DatabaseConfig;
use crate::mqtt::backoff::{Backoff, BackoffConfig};
use crate::store::fault::point;
use forebay_core::effect::SourceState;

const BACKOFF: BackoffConfig = BackoffConfig {
    first: WAIT_FIRST,
    cap: WAIT_MAX,
};

/// See the module's text.
#[derive(Debug)]
pub(super) struct Worker {
    config: DatabaseConfig,
    place: Place,
    fed: Vec<Fed>,
    record_file: PathBuf,
    hand: Hand,
    kinds: Kinds,
    /// Types that the next session asks for.
    asked: Vec<TypeId>,
    /// Why the next session reads all rows.
    anew: Option<String>,
    backoff: Backoff,
}

/// Which database it is.
struct System {
    id: String,
    timeline: u32,
    end: Lsn,
}

impl Worker {
    pub(super) fn new(
        config: DatabaseConfig,
        slot: &str,
        fed: Vec<Fed>,
        record_file: PathBuf,
        hand: Hand,
    ) -> Self {
        Self {
            place: Place::of(&config, slot),
            config,
            fed,
            record_file,
            hand,
            kinds: Kinds::default(),
            asked: Vec::new(),
            anew: None,
            backoff: Backoff::new(BACKOFF),
        }
    }

    /// Runs until it is told to end.
    pub(super) fn run(mut self) {
        while !self.hand.told().is_stopped() {
            let Err(fault) = self.session() else { return };
            let pause = match fault {
                Fault::Stopped => return,
                Fault::Waiting(text) => {
                    self.hand.state(SourceState::Waiting(text), 0);
                    self.pause()
                }
                Fault::Failed(text) => {
                    self.hand.state(SourceState::Failed(text), 0);
                    self.pause()
                }
                Fault::Busy(text) => {
                    self.hand.state(SourceState::Waiting(text), 0);
                    WAIT_FOR_SLOT
                }
                Fault::Anew(text) => {
                    self.anew = Some(text);
                    WAIT_FIRST
                }
                Fault::Again(types) => {
                    self.asked = types;
                    Duration::ZERO
                }
            };
            self.hand.told().pause(pause);
        }
    }

    fn pause(&mut self) -> Duration {
        // Without randomness all gateways would come back at once, and that is all.
        let random = getrandom::u64().unwrap_or(u64::MAX);
        self.backoff.after_failure(random)
    }

    /// Never ends well: `Err` says why it ended.
    fn session(&mut self) -> Result<(), Fault> {
        let mut catalog = Catalog::connect(&self.config, &self.place)?;
        let tables = self.tables(&mut catalog)?;
        let fed = |fed: &&Fed| tables.there.contains_key(&fed.to_string());
        let fed: Vec<Fed> = self.fed.iter().filter(fed).cloned().collect();
        let wire = auth::login(&self.config);
        let mut wire = wire.map_err(|error| self.place.wire("connect", error))?;
        let system = self.identify(&mut wire)?;
        let slot = catalog.slot()?;
        self.hand.state(SourceState::Connected, 0);
        let known = Record::load(&self.record_file);
        let plan = Known {
            record: known.as_ref(),
            system: &system.id,
            timeline: system.timeline,
            end: system.end,
            slot_name: &self.place.slot,
            publication: &self.place.publication,
            slot: slot.as_ref(),
            tables: &tables.there,
            held: self.hand.sent,
            anew: self.anew.as_deref(),
        }
        .plan();
        let mut record = Record {
            system: system.id,
            timeline: system.timeline,
            slot: self.place.slot.clone(),
            publication: self.place.publication.clone(),
            phase: Phase::Streaming,
            tables: tables.there,
        };
        let asked = std::mem::take(&mut self.asked);
        catalog.learn(&unknown(&asked, &self.kinds), &mut self.kinds)?;
        let from = match plan {
            Plan::Resume(at) => at,
            Plan::Snapshot { why } => {
                if let Some(why) = why {
                    self.hand.note(self.place.said(format!(
                        "all rows are read anew: {why}. Changes since the last that was seen \
                         come as what they amount to"
                    )));
                }
                self.snapshot(&mut wire, &mut catalog, &fed, &mut record, slot.as_ref())?
            }
            Plan::NotOurs => {
                let slot = &self.place.slot;
                return Err(self.place.failed(format!(
                    "the slot {slot} is not one of pgoutput in this database: give another slot \
                     in [[database]], or drop it by SELECT pg_drop_replication_slot('{slot}');"
                )));
            }
        };
        self.learn(&mut catalog, &fed)?;
        self.backoff = Backoff::new(BACKOFF);
        let watch = Watch::start(&self.config, &self.place, &self.fed, catalog)?;
        let fault = Stream {
            wire: &mut wire,
            hand: &mut self.hand,
            place: &self.place,
            translator: Translator::new(fed, self.kinds.clone(), from),
            watch,
            record: &mut record,
            record_file: &self.record_file,
            places: Places::default(),
        }
        .run(from);
        wire.close();
        Err(fault)
    }

    /// The tables that are there; what is wrong with them is said.
    fn tables(&self, catalog: &mut Catalog) -> Result<Tables, Fault> {
        let tables = catalog.tables(&self.fed)?;
        if !tables.grants.is_empty() {
            return Err(self.place.grants(&tables.grants));
        }
        if let Some(wrong) = tables.wrong.first() {
            return Err(self.place.failed(wrong));
        }
        if tables.there.is_empty() {
            return Err(self.place.failed(tables.absent.join("; ")));
        }
        Ok(tables)
    }

    fn identify(&self, wire: &mut Wire) -> Result<System, Fault> {
        let rows = self.command(wire, "IDENTIFY_SYSTEM")?;
        let cell = |column: usize| rows.first()?.get(column)?.as_deref();
        let system = || {
            Some(System {
                id: cell(0)?.to_owned(),
                timeline: cell(1)?.parse().ok()?,
                end: Lsn::parse(cell(2)?)?,
            })
        };
        system().ok_or_else(|| self.place.failed("it does not say which database it is"))
    }

    fn command(&self, wire: &mut Wire, sql: &str) -> Result<super::wire::Rows, Fault> {
        let told = self.hand.told();
        let mut tick = || match told.is_stopped() {
            true => Err(WireError::Stopped),
            false => Ok(()),
        };
        let rows = wire.command(sql, &mut tick);
        rows.map_err(|error| self.place.wire(sql, error))
    }

    /// Reads all rows; where the stream begins then.
    fn snapshot(
        &mut self,
        wire: &mut Wire,
        catalog: &mut Catalog,
        fed: &[Fed],
        record: &mut Record,
        slot: Option<&Slot>,
    ) -> Result<At, Fault> {
        // From here on a restart begins anew, whatever becomes of the slot.
        record.phase = Phase::Snapshot;
        self.save(record)?;
        point("source.recorded");
        if slot.is_some() {
            let sql = format!("DROP_REPLICATION_SLOT {}", quoted(&self.place.slot));
            self.command(wire, &sql)?;
        }
        point("source.slot-dropped");
        let at = Snapshot {
            wire,
            catalog,
            hand: &mut self.hand,
            place: &self.place,
            fed,
            kinds: &mut self.kinds,
        }
        .take()?;
        record.phase = Phase::Streaming;
        self.save(record)?;
        point("source.snapshot-recorded");
        self.anew = None;
        Ok(at)
    }

    fn save(&self, record: &Record) -> Result<(), Fault> {
        let saved = record.save(&self.record_file);
        saved.map_err(|error| self.place.record(&self.record_file, &error))
    }

    /// What the columns' types are, so that the stream needs not ask.
    fn learn(&mut self, catalog: &mut Catalog, fed: &[Fed]) -> Result<(), Fault> {
        for fed in fed {
            let selected = catalog.selected(fed)?;
            let types: Vec<TypeId> = selected.columns.iter().map(|(_, id)| *id).collect();
            catalog.learn(&unknown(&types, &self.kinds), &mut self.kinds)?;
        }
        Ok(())
    }
}
