//! What rows of joins, and of windows with columns of tables in their key, depend on, as
//! text whose form is decided here: it names streams over upgrades.
//!
//! Holds always: the definition of a join has in it those of the windows and tables that it
//! reads, so that a change of one of these changes it too.

use super::{escaped, time_rules, window_text};
use crate::engine::config::{
    EngineConfig, JoinColumn, JoinInput, JoinKind, JoinSource, JoinSpec, JoinType, TableSpec,
    WindowSpec,
};

/// Everything that a join's rows depend on.
pub(super) fn text(engine: &EngineConfig, join: &JoinSpec) -> String {
    let kind = match join.kind {
        JoinKind::Interval { lower, upper } => format!("interval {} {}", lower.0, upper.0),
        JoinKind::Lookup { wait: Some(wait) } => format!("lookup {}", wait.0),
        JoinKind::Lookup { wait: None } => String::from("lookup *"),
        JoinKind::Table => String::from("table"),
    };
    let on = join.on.iter().map(|column| match column {
        JoinColumn::Device => String::from("device"),
        JoinColumn::Channel => String::from("channel"),
        JoinColumn::Column(name) => format!("column {}", escaped(name)),
    });
    let on: Vec<String> = on.collect();
    let join_type = match join.join_type {
        JoinType::Inner => "inner",
        JoinType::Left => "left",
        JoinType::Full => "full",
    };
    format!(
        "{kind}; {join_type}; on {}; left {}; right {}; {}",
        on.join(","),
        side(engine, &join.left),
        side(engine, &join.right),
        time_rules(&engine.time),
    )
}

fn side(engine: &EngineConfig, input: &JoinInput) -> String {
    let from = match input.from {
        JoinSource::Readings => String::from("readings"),
        JoinSource::Window(at) => {
            let window = &engine.windows[usize::from(at)];
            let name = escaped(&window.name);
            format!(
                "{} of {name} ({})",
                input.value,
                window_text(engine, window)
            )
        }
        JoinSource::Table(at) => format!("({})", table_text(&engine.tables[usize::from(at)])),
    };
    match &input.filter {
        None => from,
        // Quoted as it is written, so that no name in it can be taken for something else.
        Some(filter) => format!("{from} where {:?}", filter.to_string()),
    }
}

/// The columns of tables in the key of a window; nothing where there are none.
pub(super) fn key_columns(engine: &EngineConfig, window: &WindowSpec) -> String {
    let columns = window.key_columns.iter().map(|column| {
        let table = table_text(&engine.tables[usize::from(column.table)]);
        format!("; column {} of ({table})", escaped(&column.column))
    });
    columns.collect()
}

/// Everything that what is found in a table depends on beside its changes.
pub(super) fn table_text(table: &TableSpec) -> String {
    let key: Vec<String> = table.key.iter().map(|name| escaped(name)).collect();
    let known = if table.is_static {
        String::from("static")
    } else {
        format!("bound {}", table.out_of_order.0)
    };
    format!(
        "table {}; key {}; {known}; history {}",
        escaped(&table.name),
        key.join(","),
        table.history.0
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{definition, pipeline_hash, stream_name, streams};
    use super::*;
    use crate::engine::config::{Aggregate, KeyColumn, WindowKind};
    use crate::engine::filter::Filter;
    use crate::units::Span;

    fn base() -> EngineConfig {
        let lookup = JoinKind::Lookup { wait: None };
        let join = JoinSpec::new("j", lookup, JoinSource::Readings, JoinSource::Table(0));
        EngineConfig {
            windows: vec![WindowSpec::new("w", WindowKind::Rows { n: 3 })],
            tables: vec![TableSpec::new("sites", &["device"])],
            joins: vec![join],
            ..EngineConfig::default()
        }
    }

    #[test]
    fn a_join_is_written_in_a_frozen_form() {
        let mut config = base();
        config.joins[0].left.filter = Some(Filter::parse("channel = 'a'").expect("it reads"));
        let text = definition(&config, 1);
        assert_eq!(
            text,
            "lookup *; inner; on device; left readings where \"channel in ('a')\"; \
             right (table sites; key device; bound 5000000; history 604800000000); \
             bound 5000000; lateness 0; idle auto; future 300000000"
        );
        assert_eq!((streams(&config), stream_name(&config, 1)), (2, "j"));
    }

    #[test]
    fn a_definition_says_all_that_the_rows_of_a_join_depend_on() {
        type Change = fn(&mut EngineConfig);
        let changes: [(&str, Change); 17] = [
            ("as it is", |_| {}),
            ("a wait", |c| {
                c.joins[0].kind = JoinKind::Lookup {
                    wait: Some(Span(1)),
                }
            }),
            ("left", |c| c.joins[0].join_type = JoinType::Left),
            ("full", |c| c.joins[0].join_type = JoinType::Full),
            ("on the channel", |c| {
                c.joins[0].on = vec![JoinColumn::Channel]
            }),
            ("on a column", |c| {
                c.joins[0].on = vec![JoinColumn::Column("device".into())]
            }),
            ("a condition", |c| {
                c.joins[0].left.filter = Some(Filter::parse("value > 1").expect("it reads"));
            }),
            ("on the other side", |c| {
                c.joins[0].right.filter = Some(Filter::parse("value > 1").expect("it reads"));
            }),
            ("a window", |c| c.joins[0].left.from = JoinSource::Window(0)),
            ("another figure of it", |c| {
                c.joins[0].left.from = JoinSource::Window(0);
                c.joins[0].left.value = Aggregate::Max;
            }),
            ("another window", |c| {
                c.joins[0].left.from = JoinSource::Window(0);
                c.windows[0].kind = WindowKind::Rows { n: 4 };
            }),
            ("two tables", |c| {
                c.joins[0].kind = JoinKind::Table;
                c.joins[0].left.from = JoinSource::Table(0);
            }),
            ("an interval", |c| {
                let (lower, upper) = (Span(-1), Span(2));
                c.joins[0].kind = JoinKind::Interval { lower, upper };
            }),
            ("another table", |c| {
                c.tables[0].name = String::from("other")
            }),
            ("its key", |c| c.tables[0].key.push(String::from("b"))),
            ("rows of the config", |c| c.tables[0].is_static = true),
            ("its history", |c| c.tables[0].history = Span(5)),
        ];
        let (mut texts, mut hashes) = (BTreeSet::new(), BTreeSet::new());
        for (name, change) in changes {
            let mut config = base();
            change(&mut config);
            assert!(texts.insert(definition(&config, 1)), "{name}");
            assert!(hashes.insert(pipeline_hash(&config, 1).0), "{name}");
        }
    }

    #[test]
    fn a_column_of_a_table_in_a_key_names_its_table() {
        let mut config = base();
        let plain = definition(&config, 0);
        config.windows[0].key_columns.push(KeyColumn {
            table: 0,
            column: String::from("building"),
        });
        let keyed = definition(&config, 0);
        assert_eq!(
            keyed.strip_prefix(&plain),
            Some(
                "; column building of (table sites; key device; bound 5000000; \
                 history 604800000000)"
            )
        );
        config.tables[0].out_of_order = Span(9);
        assert_ne!(definition(&config, 0), keyed);
    }
}
