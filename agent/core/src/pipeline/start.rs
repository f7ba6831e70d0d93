//! How a gateway starts from what the store said when it was opened: layouts, topics,
//! accounts, what is lost, how far rows and messages have come. Reads nothing of the
//! log; what a stage still has to read, it asks for later.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::alarms::Tallies;
use super::build::{Build, Live, hash_of, removed};
use super::views::muted;
use super::{Founding, Gateway, space};
use crate::accounts::Accounts;
use crate::alarms::Alarms;
use crate::changes::{CHANGES_AT, Changes};
use crate::checkpoint::{Unit, keys_of};
use crate::clock::GatewayClock;
use crate::commit::GroupCommit;
use crate::devices::Devices;
use crate::effect::{Effect, GatewayConfig, Note, Opened};
use crate::engine::config::EngineConfig;
use crate::exchange::{CROSSING_PARTITION, Exchange, Split};
use crate::forward::Forward;
use crate::import::{Imports, restore_names};
use crate::layout::{Layouts, Shrinks};
use crate::limits::DESTINATIONS_MAX;
use crate::link::clocks::Clocks;
use crate::losses::Losses;
use crate::meta::Entry;
use crate::readers::Readers;
use crate::retention::Retention;
use crate::store::{Loss, StoreOpened};
use crate::topics::{TOPIC_META_PREFIX, TopicTable, stream_name, streams};
use crate::units::{EventTime, Now, Offset, PartitionId, TopicId};
use crate::views::{self, Pipeline, into_slot, of_slot};

impl Gateway {
    /// A gateway on a log that was just opened.
    ///
    /// # Errors
    /// When the config asks for fewer partitions than the log has.
    pub fn new(config: GatewayConfig, opened: &Opened, now: Now) -> Result<Self, Shrinks> {
        Self::with_pipeline(config, opened, Pipelines::default(), now)
    }

    /// As [`Gateway::new`], with what it takes to build a changed pipeline beside the one
    /// that the log had.
    ///
    /// # Errors
    /// As [`Gateway::new`].
    pub fn with_pipeline(
        mut config: GatewayConfig,
        opened: &Opened,
        pipelines: Pipelines,
        now: Now,
    ) -> Result<Self, Shrinks> {
        let (store, meta) = (&opened.store, &opened.meta);
        restore_names(meta, &mut config.names);
        let heads = &store.heads;
        let restored = Layouts::restore(meta, config.router.count(), heads)?;
        config.router = restored.layouts.current().router.clone();
        let (accounts, ledger, accounts_note) = Accounts::load(meta, heads, now.mono);
        let mut start = Start::new(store, &config, now);
        let notes = restored.note.into_iter().chain(accounts_note);
        start.notes.extend(notes);
        start.keep(restored.entries);
        let layouts = (restored.layouts, restored.anew);
        let mut topics = TopicTable::restore(&with_prefix(meta, TOPIC_META_PREFIX), heads);
        let mut plan = Plan::of(&config, pipelines, meta, layouts.1);
        start.keep(plan.entries(meta));
        let (derived, of_live) = start.live(&mut topics, &mut plan, meta);
        let (readers, exchange) =
            start.engines((&config, &plan), derived.clone(), &layouts, &of_live);
        let build = start.build(&plan, &mut topics, &derived, (layouts.0.clone(), meta));
        let forward = open_forward(&config, opened, &topics, &layouts.0.barriers());
        let users = (&forward[..], exchange.is_some());
        let (retention, dropped) = open_retention(&config, opened, &topics, users, now);
        let mut gateway = Self {
            opened: store.info,
            ledger,
            accounts,
            founding: founding(&start.commit),
            ports: BTreeMap::new(),
            devices: start.devices(meta),
            clocks: Clocks::default(),
            bauds: BTreeMap::new(),
            changes: start.changes(&config, meta),
            commit: start.commit,
            topics,
            clock: GatewayClock::new(config.clock, &config.engine, meta, now),
            readers,
            live: plan.live,
            build,
            moved: views::moved(meta),
            dropped,
            exchange,
            forward,
            retention,
            removals: space::Removals::default(),
            losses: Losses::restore(meta),
            alarms: Alarms::new(config.alarms.clone(), meta, now),
            tallies: Tallies::default(),
            queries: BTreeMap::new(),
            followers: BTreeMap::new(),
            table_jobs: BTreeMap::new(),
            imports: Imports::default(),
            fetches: BTreeMap::new(),
            turns: Default::default(),
            statuses: Default::default(),
            marks: BTreeMap::new(),
            last_fetch: 0,
            draining: false,
            stopped: false,
            effects: start.notes.into_iter().map(told).collect(),
            config,
        };
        gateway.begin(&store.losses, now);
        Ok(gateway)
    }

    /// Says what is gone in the first batch of this run: durable before anything is acked.
    fn begin(&mut self, losses: &[Loss], now: Now) {
        self.tell_losses(losses, now);
        self.tell_trimmed();
        self.share_base();
        self.advance(now);
    }
}

fn told(text: String) -> Effect {
    Effect::Note(Note(text))
}

/// Retention, and the streams that an operator has dropped: their rows go.
fn open_retention(
    config: &GatewayConfig,
    opened: &Opened,
    topics: &TopicTable,
    users: (&[Forward], bool),
    now: Now,
) -> (Retention, BTreeSet<TopicId>) {
    let mut retention = space::open(config, opened, topics, users, now);
    let dropped: BTreeSet<TopicId> = views::dropped(&opened.meta).into_iter().collect();
    for topic in &dropped {
        retention.drop_topic(*topic);
    }
    (retention, dropped)
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
    fn new(store: &StoreOpened, config: &GatewayConfig, now: Now) -> Self {
        Self {
            commit: GroupCommit::new(store.info.epoch, config.linger, store.heads.clone()),
            notes: store.notes.clone(),
            now,
        }
    }

    fn keep(&mut self, entries: Vec<Entry>) {
        for (key, value) in entries {
            self.commit.meta(key, value, self.now.mono);
        }
    }

    /// What is kept of tables and their sources.
    fn changes(&self, config: &GatewayConfig, meta: &[Entry]) -> Changes {
        Changes::new(
            (&config.sources, &config.tables),
            (&config.engine, config.router.partitions().collect()),
            meta,
            (self.commit.head(CHANGES_AT), self.now),
        )
    }

    /// The streams of the live pipeline, and what is kept of them.
    fn live<'a>(
        &mut self,
        topics: &mut TopicTable,
        plan: &mut Plan,
        meta: &'a [Entry],
    ) -> (Vec<Option<TopicId>>, Cow<'a, [Entry]>) {
        let mut kept = of_slot(plan.live.slot, meta);
        let mut derived = self.assign(topics, &plan.live.engine);
        if plan.build.is_none() && !plan.renews.is_empty() {
            kept.to_mut().extend(self.renew(topics, plan));
            derived = self.assign(topics, &plan.live.engine);
        }
        plan.live.topics.clone_from(&derived);
        (derived, kept)
    }

    /// The engines of the partitions, and the one over all of them where there is one.
    fn engines(
        &mut self,
        (config, plan): (&GatewayConfig, &Plan),
        topics: Vec<Option<TopicId>>,
        (layouts, anew): &(Layouts, bool),
        meta: &[Entry],
    ) -> (Readers, Option<Exchange>) {
        let crossing = (config, &plan.live.engine, plan.live.slot);
        let (exchange, by_device, topics) = self.divide(crossing, topics, layouts, meta);
        let of = (&self.commit, self.now.mono);
        let mut readers = Readers::new(&by_device, topics, (layouts.clone(), *anew), meta, of);
        readers.keep_in_steps();
        self.keep(readers.take_filled());
        (readers, exchange)
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
        (config, engine, slot): (&GatewayConfig, &EngineConfig, u32),
        topics: Vec<Option<TopicId>>,
        layouts: &Layouts,
        meta: &[Entry],
    ) -> (Option<Exchange>, EngineConfig, Vec<Option<TopicId>>) {
        // One partition has all devices: its engine has all windows.
        let divides = config.router.count() > 1;
        let Some(split) = Split::of(engine).filter(|_| divides) else {
            let stale = keys_of(meta, |unit| unit == Unit::CROSSING);
            self.keep(into_slot(slot, removed(stale)));
            return (None, engine.clone(), topics);
        };
        let at = (&self.commit, self.now.mono);
        let exchange = Exchange::new(&split, &topics, layouts, meta, at);
        let topics = split.by_device_of.iter().map(|at| topics[*at]).collect();
        (Some(exchange), split.by_device, topics)
    }

    /// Goes over to new topics at once, where nothing can be built beside; gives where
    /// their rows begin.
    fn renew(&mut self, topics: &mut TopicTable, plan: &Plan) -> Vec<Entry> {
        let mut all = Vec::new();
        let engine = &plan.live.engine;
        for at in 0..streams(engine) {
            let name = stream_name(engine, at);
            let Some(from) = plan.renews.get(name) else {
                continue;
            };
            if let Ok((topic, _)) = topics.prepare(engine, at) {
                self.keep(topics.turn(engine, at));
                let begins = views::begins(topic, *from);
                all.extend(begins.clone());
                self.keep(begins);
                self.keep(vec![views::renewed_entry(name)]);
            }
        }
        all
    }

    /// Readers of a pipeline that is built beside the live one.
    fn build(
        &mut self,
        plan: &Plan,
        topics: &mut TopicTable,
        live: &[Option<TopicId>],
        (layouts, meta): (Layouts, &[Entry]),
    ) -> Option<Build> {
        let (engine, text) = plan.build.as_ref()?;
        let slot = plan.live.slot + 1;
        let mut meta = of_slot(slot, meta).into_owned();
        let mut of_build = self.assign(topics, engine);
        for (at, of_build) in of_build.iter_mut().enumerate() {
            let name = stream_name(engine, at);
            let Some(from) = plan.renews.get(name) else {
                continue;
            };
            if let Ok((topic, entry)) = topics.prepare(engine, at) {
                self.keep(entry.into_iter().collect());
                let begins = views::begins(topic, *from);
                meta.extend(begins.clone());
                self.keep(begins);
                *of_build = Some(topic);
            }
        }
        self.notes.push(String::from(
            "views are built from the first reading that is kept; those that are there go on \
             until these have caught up",
        ));
        let with = (layouts, false);
        let of = (&self.commit, self.now.mono);
        let muted = muted(live);
        let mut readers = Readers::beside(engine, of_build.clone(), with, &meta, of, muted);
        self.keep(readers.take_filled());
        Some(Build {
            readers,
            pipeline: Live {
                engine: engine.clone(),
                slot,
                text: text.clone(),
                topics: of_build,
            },
            renews: plan.renews.keys().cloned().collect(),
            // With that of the start.
            founding: Founding::Durable,
        })
    }

    /// The topic of each window, then of each join.
    fn assign(&mut self, topics: &mut TopicTable, engine: &EngineConfig) -> Vec<Option<TopicId>> {
        if topics.nameless() > 0 {
            self.notes.push(format!(
                "the table of derived streams has no entry for {} of them that have rows: \
                 windows without an entry are written anew, under names with a number",
                topics.nameless()
            ));
        }
        let mut derived = Vec::new();
        for at in 0..streams(engine) {
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

/// What a gateway is told of pipelines beside its config.
#[derive(Debug, Clone, Default)]
pub struct Pipelines {
    /// The one of the config in words, to be kept in the log; empty: it is not kept, and a
    /// changed one is computed again from the first reading while all streams wait.
    pub text: Vec<u8>,
    /// What the words say that the log has kept: [`Pipeline::restore`].
    pub kept: Option<EngineConfig>,
}

/// Which pipeline is live, and what is to be built beside it.
struct Plan {
    live: Live,
    /// The engine of the config, and its words.
    build: Option<(EngineConfig, Vec<u8>)>,
    /// Windows that get a new topic, and from which time on.
    renews: BTreeMap<String, EventTime>,
    /// That the log has no words of the live pipeline yet, or others.
    writes: bool,
}

impl Plan {
    fn of(config: &GatewayConfig, pipelines: Pipelines, meta: &[Entry], anew: bool) -> Self {
        let kept = Pipeline::restore(meta);
        let slot = kept.as_ref().map_or(0, |kept| kept.slot);
        let new = &config.engine;
        let is_ours =
            |engine: &EngineConfig| kept.as_ref().is_some_and(|k| k.hash == hash_of(engine));
        let mut renews = views::renewals(meta);
        renews.retain(|name, _| (0..streams(new)).any(|at| stream_name(new, at) == name));
        let before = pipelines.kept.filter(is_ours);
        let live = if is_ours(new) {
            Some(new.clone())
        } else {
            before
        };
        let crosses =
            |engine: &EngineConfig| config.router.count() > 1 && Split::of(engine).is_some();
        let wanted = live.filter(|live| {
            let something = !is_ours(new) || !renews.is_empty();
            something && !anew && !crosses(live) && !crosses(new)
        });
        let builds = wanted.is_some();
        let is_same = kept.is_some_and(|k| k.hash == hash_of(new) && k.text == pipelines.text);
        let writes = !builds && !is_same && !pipelines.text.is_empty();
        Self {
            live: Live {
                engine: wanted.unwrap_or_else(|| new.clone()),
                slot,
                text: pipelines.text.clone(),
                topics: Vec::new(),
            },
            build: builds.then(|| (new.clone(), pipelines.text)),
            renews,
            writes,
        }
    }

    /// What is to be written with the founding of a start.
    fn entries(&self, meta: &[Entry]) -> Vec<Entry> {
        let slot = self.live.slot;
        let used = [slot, slot + u32::from(self.build.is_some())];
        let mut entries = removed(views::stale_slots(&used, meta));
        if self.writes {
            let pipeline = Pipeline {
                slot,
                hash: hash_of(&self.live.engine),
                text: self.live.text.clone(),
            };
            entries.extend(pipeline.entries());
        }
        let unknown = views::renewals(meta).into_keys();
        let unknown = unknown.filter(|name| !self.renews.contains_key(name));
        entries.extend(unknown.map(|name| views::renewed_entry(&name)));
        entries
    }
}

fn with_prefix(entries: &[Entry], prefix: &[u8]) -> Vec<Entry> {
    let under = |entry: &&Entry| entry.0.starts_with(prefix);
    entries.iter().filter(under).cloned().collect()
}
