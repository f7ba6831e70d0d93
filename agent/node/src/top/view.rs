//! The live view's picture: a model in, lines of text out. Knows no terminal and no
//! clock.

use serde_json::Value;

use super::model::{Row, Sort, Top};
use crate::shell::colour::Tone;
use crate::shell::output::figure;
use crate::shell::{spark, width};

/// A reading that is older is called old, us.
const OLD_US: i64 = 10_000_000;
/// Alarms that are named; more are counted.
const ALARMS_SHOWN: usize = 4;
/// Destinations that are named.
const DESTINATIONS_SHOWN: usize = 4;
const KEYS: &str = "s sort  r reverse  / filter  p pause  arrows move  h help  q quit";
const HELP: [&str; 12] = [
    "s        sort by the next column: device, channel, last, rate, age",
    "r        the other way round",
    "/        show only rows with this text; Enter keeps it, Escape ends it",
    "p, space pause, and go on",
    "up, down and PageUp, PageDown, Home, End: other rows (also k, j)",
    "q        quit (also Ctrl-C)",
    "",
    "rate     readings per second over the last answers",
    "age      since the newest reading; ! where it is older than 10 s",
    "mean     rolling mean that ends at the newest reading",
    "recent   newest values, from the smallest to the largest; a dot where there was none",
    "ledger   whether every reading that devices produced is accounted for",
];

/// A line in parts, each with its tone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line(pub Vec<(String, Tone)>);

impl Line {
    fn plain(text: impl Into<String>) -> Self {
        Self(vec![(text.into(), Tone::Plain)])
    }

    fn tone(text: impl Into<String>, tone: Tone) -> Self {
        Self(vec![(text.into(), tone)])
    }

    fn and(mut self, text: impl Into<String>, tone: Tone) -> Self {
        self.0.push((text.into(), tone));
        self
    }

    /// As it stands on a terminal of this width.
    #[must_use]
    pub fn text(&self, width: usize, colours: bool) -> String {
        let mut out = String::new();
        let mut left = width;
        for (text, tone) in &self.0 {
            let text = width::cut(&width::clean(text), left);
            left -= width::of(&text);
            out.push_str(&tone.paint(&text, colours));
        }
        out
    }
}

/// The lines of a screen of this height; `usize::MAX` for all there are.
pub fn lines(top: &mut Top, height: usize) -> Vec<Line> {
    let mut out = head(top);
    let mut foot: Vec<Line> = top.extra.iter().map(Line::plain).collect();
    if height < usize::MAX {
        foot.push(keys(top));
    }
    if top.is_help {
        out.truncate(1);
        out.push(Line::default());
        out.extend(HELP.map(Line::plain));
        out.truncate(height);
        return out;
    }
    out.push(Line::default());
    // The head of the table, the line that says which rows these are, and a blank one.
    let room = height.saturating_sub(out.len() + foot.len() + 3).max(1);
    top.set_page(room);
    out.extend(table(top, room));
    out.push(Line::default());
    out.extend(foot);
    out.truncate(height);
    out
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn head(top: &Top) -> Vec<Line> {
    let status = &top.status;
    let mut title = Line::tone(top.title.clone(), Tone::Head);
    if status["gateway"].is_string() {
        title = title.and(
            format!("  gateway {}", text(&status["gateway"])),
            Tone::Plain,
        );
        let health = status["health"].as_str().unwrap_or("ok");
        let health = if health.is_empty() { "ok" } else { health };
        title = title
            .and("  health ", Tone::Plain)
            .and(health, Tone::of(health));
    }
    if top.is_paused {
        title = title.and("  PAUSED", Tone::Warn);
    }
    let mut out = vec![title];
    if let Some(trouble) = &top.trouble {
        out.push(Line::tone(format!("! {trouble}"), Tone::Bad));
    }
    if status.is_null() {
        return out;
    }
    out.push(Line::plain(format!(
        "received {}  stored {}  duplicates {}  gaps {}  lost {}  result rows {}{}",
        number(&status["received"]),
        number(&status["stored"]),
        number(&status["duplicates"]),
        number(&status["gaps"]["total"]),
        number(&status["lost"]),
        number(&status["rows"]),
        rate_of_all(top),
    )));
    out.push(ledger(status));
    out.extend(ports(status));
    out.extend(destinations(status));
    out.extend(alarms(status));
    out
}

fn rate_of_all(top: &Top) -> String {
    let rows = top.shown();
    let rates: Vec<f64> = rows.iter().filter_map(|(_, row)| row.rate).collect();
    if rates.is_empty() {
        return String::new();
    }
    format!("  {:.1} readings/s", rates.iter().sum::<f64>())
}

/// Whether the sums of all devices close.
fn ledger(status: &Value) -> Line {
    let devices = status["devices"].as_array().map_or(&[][..], Vec::as_slice);
    let ledgers = devices.iter().map(|device| &device["ledger"]);
    let ledgers: Vec<&Value> = ledgers.filter(|ledger| ledger.is_object()).collect();
    let sum = |of: &str| {
        ledgers
            .iter()
            .map(|ledger| number(&ledger[of]))
            .sum::<u64>()
    };
    let open = ledgers
        .iter()
        .filter(|ledger| ledger["closes"] == false)
        .count();
    let line = Line::plain(format!(
        "ledger: {} devices  produced {}  missing {}  ",
        devices.len(),
        sum("produced"),
        sum("missing"),
    ));
    match open {
        0 => line.and("closes: yes", Tone::Good),
        open => line.and(format!("closes: NO, of {open} devices not"), Tone::Bad),
    }
}

fn ports(status: &Value) -> Option<Line> {
    let ports = status["ports"]
        .as_array()
        .filter(|ports| !ports.is_empty())?;
    let is_open = |port: &&Value| port["state"].as_str().is_none_or(|state| state == "open");
    let open = ports.iter().filter(is_open).count();
    let line = Line::plain(format!("ports: {open} of {} open", ports.len()));
    let lost = ports.iter().find(|port| !is_open(port));
    Some(match lost {
        None => line,
        Some(port) => line.and(
            format!("  {} {}", text(&port["name"]), text(&port["state"])),
            Tone::Warn,
        ),
    })
}

fn destinations(status: &Value) -> Vec<Line> {
    let all = status["destinations"].as_array().into_iter().flatten();
    let one = |to: &Value| {
        let is_up = to["connected"] == true;
        let (word, tone) = match is_up {
            true => ("online", Tone::Good),
            false => ("no broker", Tone::Bad),
        };
        let line = Line::plain(format!("forward {}: ", text(&to["name"]))).and(word, tone);
        let mut rest = format!(
            "  backlog {} readings  published {}  parked {}",
            number(&to["backlog_readings"]),
            number(&to["published"]),
            number(&to["parked"]),
        );
        if let Some(seconds) = to["eta_s"].as_u64().filter(|seconds| *seconds > 0) {
            rest.push_str(&format!("  sent in {seconds} s"));
        }
        line.and(rest, Tone::Plain)
    };
    all.take(DESTINATIONS_SHOWN).map(one).collect()
}

fn alarms(status: &Value) -> Vec<Line> {
    let alarms = status["alarms"].as_array().map_or(&[][..], Vec::as_slice);
    let one = |alarm: &Value| {
        let code = format!("! {} ", text(&alarm["code"]));
        let subject = alarm["subject"].as_str().unwrap_or_default();
        Line::tone(code, Tone::Bad).and(format!("{subject} {}", text(&alarm["text"])), Tone::Plain)
    };
    let mut out: Vec<Line> = alarms.iter().take(ALARMS_SHOWN).map(one).collect();
    if alarms.len() > ALARMS_SHOWN {
        out.push(Line::plain(format!(
            "! {} alarms more: forebay alarms",
            alarms.len() - ALARMS_SHOWN
        )));
    }
    out
}

/// Rows with their head, as many as there is room for.
fn table(top: &Top, room: usize) -> Vec<Line> {
    let shown = top.shown();
    let visible = shown.iter().skip(top.scroll).take(room);
    let rows: Vec<&Row> = visible.map(|(_, row)| *row).collect();
    let widest = |least: usize, of: fn(&Row) -> &str| {
        let widths = rows.iter().map(|row| width::of(&width::clean(of(row))));
        widths.max().unwrap_or(0).clamp(least, 24)
    };
    let columns = [
        widest(7, |row| &row.device),
        widest(8, |row| &row.channel),
        widest(4, |row| &row.unit),
    ];
    let mut out = vec![heads(top, columns)];
    out.extend(rows.iter().map(|row| row_line(row, columns)));
    let below = shown.len().saturating_sub(top.scroll + rows.len());
    let hidden = top.channels() - shown.len();
    let more = match top.left_out() {
        0 => String::new(),
        1 => String::from("  and 1 channel more: / finds it"),
        more => format!("  and {more} channels more: / finds them"),
    };
    if below + hidden + top.scroll + top.left_out() > 0 {
        let filtered = match hidden {
            0 => String::new(),
            hidden => format!("  {hidden} do not match \"{}\"", top.filter),
        };
        let (first, last) = (top.scroll + 1, top.scroll + rows.len());
        let text = format!("rows {first} to {last} of {}{filtered}{more}", shown.len());
        out.push(Line::tone(text, Tone::Faint));
    }
    out
}

fn heads(top: &Top, [device, channel, unit]: [usize; 3]) -> Line {
    let head = |sort: Sort| {
        let arrow = match (top.sort == sort, top.is_reversed) {
            (false, _) => "",
            (true, false) => "▾",
            (true, true) => "▴",
        };
        format!("{}{arrow}", sort.name())
    };
    let cells = [
        width::left(&head(Sort::Device), device + 1),
        width::left(&head(Sort::Channel), channel + 1),
        width::right(&head(Sort::Value), 11),
        width::right(&width::cut(&format!("{} mean", top.window), 11), 11),
        width::left("unit", unit),
        width::right(&head(Sort::Rate), 8),
        width::right(&head(Sort::Age), 8),
        String::from("recent"),
    ];
    Line::tone(cells.join(" "), Tone::Head)
}

fn row_line(row: &Row, [device, channel, unit]: [usize; 3]) -> Line {
    let cell = |text: &str, columns: usize| {
        let text = width::cut(&width::clean(text), columns);
        width::left(&text, columns)
    };
    let value = match row.value {
        Some(value) => short(value),
        None => width::cut(&width::clean(&row.quality), 11),
    };
    let tone = if row.value.is_none() {
        Tone::Bad
    } else {
        Tone::Plain
    };
    let is_old = row.age.is_some_and(|age| age > OLD_US);
    let age = match row.age {
        None => String::from("-"),
        Some(age) if is_old => format!("!{}", span(age)),
        Some(age) => span(age),
    };
    let rate = row.rate.map_or_else(|| String::from("-"), per_second);
    let rolling = row.rolling.map_or_else(|| String::from("-"), short);
    let recent: Vec<Option<f64>> = row.recent.iter().copied().collect();
    Line::plain(format!(
        "{} {} ",
        cell(&row.device, device + 1),
        cell(&row.channel, channel + 1)
    ))
    .and(width::right(&value, 11), tone)
    .and(
        format!(
            " {} {} {} ",
            width::right(&rolling, 11),
            cell(&row.unit, unit),
            width::right(&rate, 8)
        ),
        Tone::Plain,
    )
    .and(
        width::right(&age, 8),
        if is_old { Tone::Warn } else { Tone::Plain },
    )
    .and(format!(" {}", spark::line(&recent)), Tone::Plain)
}

/// A figure in 11 columns.
fn short(value: f64) -> String {
    let text = figure(&Value::from(value));
    if text.len() <= 11 {
        return text;
    }
    format!("{value:.3e}")
}

/// A rate in 8 columns.
fn per_second(rate: f64) -> String {
    match rate {
        ..10_000.0 => format!("{rate:.1}/s"),
        10_000.0..1_000_000.0 => format!("{rate:.0}/s"),
        _ => format!("{rate:.1e}/s"),
    }
}

/// A time span in its largest unit, us, in 7 columns. One below 0 is of a reading whose
/// time is to come.
fn span(us: i64) -> String {
    let seconds = us as f64 / 1e6;
    match us {
        i64::MIN..=-1 => format!("-{}", span(us.saturating_neg())),
        0..60_000_000 => format!("{seconds:.1}s"),
        60_000_000..3_600_000_000 => format!("{:.0}m", (seconds / 60.0).floor()),
        3_600_000_000..86_400_000_000 => format!("{:.0}h", (seconds / 3600.0).floor()),
        86_400_000_000..31_536_000_000_000 => format!("{:.0}d", (seconds / 86_400.0).floor()),
        _ => format!("{:.0}y", (seconds / 31_536_000.0).floor()),
    }
}

fn keys(top: &Top) -> Line {
    if top.is_typing {
        return Line::tone(format!("filter: {}_", top.filter), Tone::Head);
    }
    let filter = match top.filter.as_str() {
        "" => String::new(),
        filter => format!("filter \"{filter}\"  "),
    };
    Line::tone(format!("{filter}{KEYS}"), Tone::Faint)
}
