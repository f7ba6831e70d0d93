//! How a gateway starts from what the store said when it was opened: layouts, topics,
//! accounts, what is lost, how far rows and messages have come. Reads nothing of the
//! log; what a stage still has to read, it asks for later.

use std::collections::BTreeMap;

use super::{Founding, Gateway, space};
use crate::accounts::Accounts;
use crate::checkpoint::{Unit, keys_of};
use crate::clock::GatewayClock;
use crate::commit::GroupCommit;
use crate::devices::Devices;
use crate::effect::{Effect, GatewayConfig, Note, Opened};
use crate::engine::config::EngineConfig;
use crate::exchange::{CROSSING_PARTITION, Exchange, Split};
use crate::forward::Forward;
use crate::import::{Imports, restore_names};
use crate::layout::{Layouts, Restored, Shrinks};
use crate::limits::DESTINATIONS_MAX;
use crate::link::clocks::Clocks;
use crate::losses::Losses;
use crate::meta::Entry;
use crate::readers::Readers;
use crate::topics::{TOPIC_META_PREFIX, TopicTable};
use crate::units::{Now, Offset, PartitionId, TopicId};

impl Gateway {
    /// A gateway on a log that was just opened.
    ///
    /// # Errors
    /// When the config asks for fewer partitions than the log has.
    pub fn new(mut config: GatewayConfig, opened: &Opened, now: Now) -> Result<Self, Shrinks> {
        let (store, meta) = (&opened.store, &opened.meta);
        restore_names(meta, &mut config.names);
        let heads = &store.heads;
        let Restored {
            layouts,
            anew,
            entries,
            note,
        } = Layouts::restore(meta, config.router.count(), heads)?;
        config.router = layouts.current().router.clone();
        let barriers = layouts.barriers();
        let (accounts, ledger, accounts_note) = Accounts::load(meta, heads, now.mono);
        let mut start = Start {
            commit: GroupCommit::new(store.info.epoch, config.linger, heads.clone()),
            notes: store.notes.clone(),
            now,
        };
        start.notes.extend(note.into_iter().chain(accounts_note));
        start.keep(entries);
        let mut topics = TopicTable::restore(&with_prefix(meta, TOPIC_META_PREFIX), heads);
        let derived = start.assign(&mut topics, &config.engine);
        let (exchange, by_device, derived) = start.divide(&config, derived, &layouts, meta);
        let of = (&start.commit, now.mono);
        let mut readers = Readers::new(&by_device, derived, (layouts, anew), meta, of);
        start.keep(readers.take_filled());
        let forward = open_forward(&config, opened, &topics, &barriers);
        let readers_of_it = (&forward[..], exchange.is_some());
        let retention = space::open(&config, opened, &topics, readers_of_it, now);
        let devices = start.devices(meta);
        let Start { commit, notes, .. } = start;
        let mut gateway = Self {
            opened: store.info,
            ledger,
            accounts,
            founding: founding(&commit),
            ports: BTreeMap::new(),
            devices,
            clocks: Clocks::default(),
            bauds: BTreeMap::new(),
            commit,
            topics,
            clock: GatewayClock::new(config.clock, &config.engine, meta, now),
            readers,
            exchange,
            forward,
            retention,
            removals: space::Removals::default(),
            losses: Losses::restore(meta),
            queries: BTreeMap::new(),
            followers: BTreeMap::new(),
            imports: Imports::default(),
            fetches: BTreeMap::new(),
            marks: BTreeMap::new(),
            last_fetch: 0,
            draining: false,
            stopped: false,
            effects: notes.into_iter().map(Note).map(Effect::Note).collect(),
            config,
        };
        // In the first batch of this run: durable before anything is acked.
        gateway.tell_losses(&store.losses, now);
        gateway.tell_trimmed();
        gateway.advance(now);
        Ok(gateway)
    }
}

/// What a start has given to the commit is to be durable first.
fn founding(commit: &GroupCommit) -> Founding {
    if commit.is_idle() {
        Founding::Durable
    } else {
        Founding::Given
    }
}

/// A forwarder per destination; what was written under one layout goes out before what
/// was written under the next.
fn open_forward(
    config: &GatewayConfig,
    opened: &Opened,
    topics: &TopicTable,
    barriers: &[BTreeMap<PartitionId, Offset>],
) -> Vec<Forward> {
    let partitions = config.router.partitions().chain([CROSSING_PARTITION]);
    let partitions: Vec<_> = partitions.collect();
    let streams = (topics, &partitions[..]);
    let (store, name) = (&opened.store, &config.gateway);
    let (of_log, heads) = ((&store.info, &store.openings[..]), &store.heads);
    let destinations = config.forward.iter().take(DESTINATIONS_MAX);
    let opened = destinations.map(|settings| {
        let settings = settings.clone();
        let mut forward = Forward::new(settings, name, of_log, &opened.meta, streams, heads);
        forward.set_barriers(barriers);
        forward
    });
    opened.collect()
}

/// What a start has to write and to say.
struct Start {
    commit: GroupCommit,
    notes: Vec<String>,
    now: Now,
}

impl Start {
    fn keep(&mut self, entries: Vec<Entry>) {
        for (key, value) in entries {
            self.commit.meta(key, value, self.now.mono);
        }
    }

    /// What is kept of devices.
    fn devices(&mut self, meta: &[Entry]) -> Devices {
        // Microseconds / 1024: a run of more than 1,000 commands a second would have to
        // end before one of them has a number that the run before had.
        let first_command = (self.now.utc.0 >> 10) as u32;
        let (devices, note) = Devices::restore(meta, first_command);
        self.notes.extend(note);
        devices
    }

    /// Gives windows that cross devices to an exchange where devices lie in several
    /// partitions; the others with their topics, for the readers of the partitions.
    fn divide(
        &mut self,
        config: &GatewayConfig,
        topics: Vec<Option<TopicId>>,
        layouts: &Layouts,
        meta: &[Entry],
    ) -> (Option<Exchange>, EngineConfig, Vec<Option<TopicId>>) {
        // One partition has all devices: its engine has all windows.
        let divides = config.router.count() > 1;
        let Some(split) = Split::of(&config.engine).filter(|_| divides) else {
            let stale = keys_of(meta, |unit| unit == Unit::CROSSING).into_iter();
            self.keep(stale.map(|key| (key, Vec::new())).collect());
            return (None, config.engine.clone(), topics);
        };
        let at = (&self.commit, self.now.mono);
        let exchange = Exchange::new(&split, &topics, layouts, meta, at);
        let topics = split.by_device_of.iter().map(|at| topics[*at]).collect();
        (Some(exchange), split.by_device, topics)
    }

    /// The topic of each window.
    fn assign(&mut self, topics: &mut TopicTable, engine: &EngineConfig) -> Vec<Option<TopicId>> {
        if topics.nameless() > 0 {
            self.notes.push(format!(
                "the table of derived streams has no entry for {} of them that have rows: \
                 windows without an entry are written anew, under names with a number",
                topics.nameless()
            ));
        }
        let mut derived = Vec::new();
        for at in 0..engine.windows.len() {
            match topics.assign(engine, at) {
                Ok((topic, entry)) => {
                    derived.push(Some(topic));
                    self.keep(entry.into_iter().collect());
                }
                Err(full) => {
                    // In its place, so that the windows after it keep theirs.
                    derived.push(None);
                    self.notes.push(full.to_string());
                }
            }
        }
        derived
    }
}

fn with_prefix(entries: &[Entry], prefix: &[u8]) -> Vec<Entry> {
    let under = |entry: &&Entry| entry.0.starts_with(prefix);
    entries.iter().filter(under).cloned().collect()
}
