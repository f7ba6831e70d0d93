//! `[engine]`, `[[table]]`, `[[window]]` and `[[join]]` to core's types: the rules of
//! time, and the windows in the order in which they run. One window: `window.rs`; what a
//! window over another one needs: `chain.rs`; tables and joins: `table.rs`, `join.rs`.

use forebay_core::engine::config::{EngineConfig, IdleAfter, TimeRules, WindowSpec};
use forebay_core::limits::WINDOWS_MAX;

use super::chain;
use super::error::ConfigError;
use super::join;
use super::reader::{Source, Table};
use super::schema::{ENGINE, WINDOW};
use super::table::{self, TableConfig};
use super::window::{self, longer_than_zero};

/// Reads the pipeline.
pub(super) fn read(source: &Source<'_>) -> Result<(EngineConfig, Vec<TableConfig>), ConfigError> {
    let time = time_rules(&source.one(&ENGINE)?)?;
    let (configs, specs) = table::read(source, &time)?;
    let windows = windows(source, &configs)?;
    let mut engine = EngineConfig {
        time,
        windows,
        tables: specs,
        joins: Vec::new(),
    };
    join::read(source, &mut engine, &configs)?;
    Ok((engine, configs))
}

fn windows(source: &Source<'_>, configs: &[TableConfig]) -> Result<Vec<WindowSpec>, ConfigError> {
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
        if configs.iter().any(|other| other.name == name) {
            return Err(table.need("name")?.bad("is the name of a table, too"));
        }
        names.push(name);
    }
    let specs = tables.iter().zip(&names);
    let specs: Result<Vec<_>, _> = specs
        .map(|(table, name)| window::read(table, name, configs))
        .collect();
    chain::link(&tables, &names, specs?)
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
