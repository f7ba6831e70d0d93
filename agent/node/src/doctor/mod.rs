//! `forebay doctor`: whether all that an agent needs is there, each with a code that
//! never changes its meaning, the measured fact, and what to do.
//!
//! Facts are gathered by thin code, each area on a thread and within a time of its own,
//! and judged by pure functions. Always holds: nothing is changed, a running agent is not
//! disturbed, no secret is shown. Bounds: limits.rs. Runs beside an agent or without.

pub mod check;
pub mod codes;
pub mod disk;
pub mod limits;

mod host;

mod api;
mod broker;
mod clock;
mod data_dir;
mod database;
mod files;
mod flash;
mod ports;
mod running;
mod sink;
mod system;

mod patience;

mod report;

use std::path::Path;
use std::sync::Arc;

pub use report::Report;

use self::check::Finding;
use self::codes::{
    AGENT_RUNNING, API_LISTEN, BROKER_TCP, CLOCK_SYNCED, CONFIG_FILES, DATABASE_ANSWERS,
    DISK_FSYNC, PORT_THERE, SINK_ANSWERS, SYSTEM_VERSION,
};
use self::limits::{ALL_MAX, AREA_MAX, NETWORK_MAX};
use self::patience::Area;
use crate::config::{BrokerConfig, Config, FeedFrom};
use crate::sources::postgres::probe;

/// Looks at all that a config needs.
#[must_use]
pub fn examine(file: &Path) -> Report {
    let config = Config::load(file);
    let mut findings = vec![files::parsed(file, &config)];
    let areas = match config {
        Ok(config) => areas(Arc::new(at_home(config))),
        // What is the same whatever the config says.
        Err(_) => vec![Area::new(&SYSTEM_VERSION, AREA_MAX, || {
            system::judge(&system::look(None, 0))
        })],
    };
    findings.extend(patience::all(areas, ALL_MAX));
    Report { findings }
}

/// A receiver has a data directory of its own, where an agent's is looked for.
fn at_home(mut config: Config) -> Config {
    if let Some(upstream) = config
        .upstream
        .as_ref()
        .filter(|_| running::is_receiver(&config))
    {
        config.agent.data_dir = upstream.data_dir.clone();
    }
    config
}

fn areas(config: Arc<Config>) -> Vec<Area> {
    let agent = running::holder(&config.agent.data_dir);
    let mut areas = Vec::new();
    let mut add = |check, limit, look: fn(&Config, Option<u32>) -> Vec<Finding>| {
        let config = Arc::clone(&config);
        areas.push(Area::new(check, limit, move || look(&config, agent)));
    };
    add(&CONFIG_FILES, AREA_MAX, |config, _| {
        files::judge(&files::look(config))
    });
    add(&DISK_FSYNC, AREA_MAX, disks);
    add(&PORT_THERE, AREA_MAX, |config, agent| {
        let facts = ports::look(
            &config.device_ports,
            agent,
            Path::new("/sys"),
            Path::new("/dev"),
        );
        ports::judge(&facts)
    });
    add(&CLOCK_SYNCED, AREA_MAX, |config, _| {
        clock::judge(&clock::look(config.agent.clock))
    });
    for (about, broker) in brokers(&config) {
        areas.push(Area::new(&BROKER_TCP, NETWORK_MAX, move || {
            of_broker(&about, &broker)
        }));
    }
    for database in config.databases.clone() {
        let gateway = config.agent.gateway.clone().unwrap_or_default();
        areas.push(Area::new(&DATABASE_ANSWERS, NETWORK_MAX, move || {
            let seen = probe::probe(&database, &gateway);
            let findings = database::judge(&seen, agent.is_some()).into_iter();
            findings.map(|finding| finding.of(&database.name)).collect()
        }));
    }
    let upstream = config.upstream.as_ref();
    if let Some(postgres) = upstream.and_then(|upstream| upstream.postgres.clone()) {
        areas.push(Area::new(&SINK_ANSWERS, NETWORK_MAX, move || {
            let findings = sink::judge(&crate::upstream::look_at_postgres(&postgres));
            findings
                .into_iter()
                .map(|finding| finding.of("upstream"))
                .collect()
        }));
    }
    let mut add = |check, limit, look: fn(&Config, Option<u32>) -> Vec<Finding>| {
        let config = Arc::clone(&config);
        areas.push(Area::new(check, limit, move || look(&config, agent)));
    };
    add(&API_LISTEN, AREA_MAX, |config, agent| {
        api::findings(config, agent.is_some())
    });
    add(&SYSTEM_VERSION, AREA_MAX, |config, agent| {
        let lines = config.device_ports.len() + config.forward.len();
        system::judge(&system::look(agent, lines as u64))
    });
    add(&AGENT_RUNNING, 2 * AREA_MAX, |config, agent| {
        running::judge(&running::look(config, agent, AREA_MAX))
    });
    areas
}

fn disks(config: &Config, agent: Option<u32>) -> Vec<Finding> {
    let dir = data_dir::look(config);
    let mut findings = data_dir::judge(&dir);
    let device = dir.mount.as_ref().map(|mount| mount.device.as_str());
    let facts = flash::look(
        Path::new("/sys"),
        device,
        &dir.nearest,
        config.log.sync,
        agent,
    );
    findings.extend(flash::judge(&facts));
    findings
}

/// All brokers of a config, each with what it is for.
fn brokers(config: &Config) -> Vec<(String, BrokerConfig)> {
    let forward = config.forward.iter();
    let forward = forward.map(|forward| (forward.settings.name.clone(), forward.broker.clone()));
    let mut brokers: Vec<_> = forward.collect();
    let upstream = config.upstream.iter();
    brokers.extend(upstream.map(|upstream| ("upstream".to_owned(), upstream.broker.clone())));
    for feed in &config.feeds {
        match &feed.from {
            FeedFrom::Mqtt { broker, .. } => {
                brokers.push(("tables".to_owned(), (**broker).clone()))
            }
            FeedFrom::File(_) | FeedFrom::Postgres { .. } | FeedFrom::Missing(_) => {}
        }
    }
    brokers
}

fn of_broker(about: &str, broker: &BrokerConfig) -> Vec<Finding> {
    // The thread has to end before it is given up.
    let limit = NETWORK_MAX - AREA_MAX;
    let findings = match broker::look(broker, limit) {
        Ok(facts) => broker::judge(&facts),
        Err(text) => vec![Finding::skip(&BROKER_TCP, text)],
    };
    findings
        .into_iter()
        .map(|finding| finding.of(about))
        .collect()
}
