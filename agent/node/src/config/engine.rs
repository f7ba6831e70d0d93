//! `[engine]` and all `[[window]]` to core's types: the rules of time, and the
//! windows in the order in which they run. One window: `window.rs`; what a window
//! over another one needs: `chain.rs`.

use forebay_core::engine::config::{EngineConfig, IdleAfter, TimeRules};
use forebay_core::limits::WINDOWS_MAX;

use super::chain;
use super::error::ConfigError;
use super::reader::{Source, Table};
use super::schema::{ENGINE, WINDOW};
use super::window::{self, longer_than_zero};

/// Reads the pipeline.
pub(super) fn read(source: &Source<'_>) -> Result<EngineConfig, ConfigError> {
    let time = time_rules(&source.one(&ENGINE)?)?;
    let tables = source.many(&WINDOW)?;
    let mut names: Vec<String> = Vec::with_capacity(tables.len());
    for table in &tables {
        if names.len() == WINDOWS_MAX {
            return Err(table.error(
                "name",
                format!("is one window too many, at most {WINDOWS_MAX}"),
            ));
        }
        let name = window::name(table)?;
        if names.contains(&name) {
            return Err(table.need("name")?.bad("is the name of two windows"));
        }
        names.push(name);
    }
    let specs = tables.iter().zip(&names);
    let specs: Result<Vec<_>, _> = specs
        .map(|(table, name)| window::read(table, name))
        .collect();
    let windows = chain::link(&tables, &names, specs?)?;
    Ok(EngineConfig {
        time,
        windows,
        ..EngineConfig::default()
    })
}

fn time_rules(table: &Table<'_>) -> Result<TimeRules, ConfigError> {
    let idle = table.need("idle_after")?;
    Ok(TimeRules {
        out_of_order: table.need("out_of_order")?.span_from_zero()?,
        allowed_lateness: table.need("allowed_lateness")?.span_from_zero()?,
        idle_after: if idle.text()? == "auto" {
            IdleAfter::Auto
        } else {
            IdleAfter::After(longer_than_zero(&idle)?)
        },
        future_guard: table.need("future_guard")?.span_from_zero()?,
    })
}
