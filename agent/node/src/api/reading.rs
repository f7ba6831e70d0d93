//! Readings, rollups, rolling figures and rows: from the columns that the agent reads to
//! answers in JSON or CSV.
//!
//! Always holds: no value of JSON is built per reading; what was read and is not taken yet
//! counts against ANSWERS_KIB_MAX.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use forebay_core::json::write_text;
use forebay_core::query::{CatalogEntry, ChannelName, Columns, RollupColumns};
use forebay_core::record::{gap_name, quality_name};
use forebay_core::units::{EventTime, Span};
use forebay_core::utc;
use serde_json::json;

use super::accept::{Form, form};
use super::channels::{keys, resolve};
use super::cursor::Cursor;
use super::endpoints::{READINGS, ROLLING, ROLLUPS, ROWS};
use super::given::Given;
use super::names::named;
use super::parts::{Column, Part, body};
use super::problem::{Kind, Problem};
use super::time::span_text;
use super::types::{Channel, Gap, Rolling, RollingSeries, Time};
use super::{App, ask};
use crate::reads::{
    ReadError, ReadingsGot, ReadingsWant, RollingGot, RollupSource, RollupWant, RowsWant,
};
use crate::shell::csv::quoted;

type Answer = Result<Response, Problem>;

/// How an answer is written.
#[derive(Clone, Copy)]
struct Style {
    form: Form,
    /// Times as numbers.
    micros: bool,
}

impl Style {
    fn of(headers: &HeaderMap, given: &Given) -> Result<Self, Problem> {
        Ok(Self {
            form: form(headers, true)?,
            micros: given.text("time") == Some("us"),
        })
    }

    fn times(self, times: Vec<i64>) -> Column {
        if self.micros {
            Column::Micros(times)
        } else {
            Column::Times(times)
        }
    }
}

/// Sends the parts of an answer, once there is room for what they hold.
fn send(app: &App, form: Form, next: Option<Cursor>, parts: Vec<Part>) -> Answer {
    let held = app.hold(parts.iter().map(Part::bytes).sum())?;
    let kind = match form {
        Form::Json => "application/json",
        Form::Csv => "text/csv; charset=utf-8; header=present",
    };
    let body = body(parts, app.request_time, held);
    let mut response = ([(CONTENT_TYPE, kind)], body).into_response();
    // CSV has no other place for it.
    if let (Form::Csv, Some(next)) = (form, next)
        && let Ok(value) = HeaderValue::from_str(&next.text())
    {
        response.headers_mut().insert("forebay-next", value);
    }
    Ok(response)
}

/// Text of JSON, written by hand.
struct Json(Vec<u8>);

impl Json {
    fn raw(mut self, text: &str) -> Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    fn text(mut self, text: &str) -> Self {
        write_text(text, &mut self.0);
        self
    }

    fn time(mut self, time: EventTime) -> Self {
        utc::write_json(time, &mut self.0);
        self
    }

    fn channel(self, entry: &CatalogEntry) -> Self {
        self.raw("{\"device\":")
            .text(&entry.device)
            .raw(",\"uid\":")
            .text(&entry.key.uid.to_string())
            .raw(",\"channel\":")
            .text(&entry.key.channel)
            .raw(",\"unit\":")
            .text(&entry.unit)
    }

    fn next(self, next: Option<Cursor>) -> Self {
        let json = self.raw(",\"next\":");
        match next {
            Some(next) => json.text(&next.text()),
            None => json.raw("null"),
        }
    }

    fn part(self) -> Part {
        Part::Text(self.0)
    }
}

fn begin() -> Json {
    Json(Vec::new())
}

/// Columns of one channel, by name.
type Named = Vec<(String, Column)>;

/// The parts of one channel in an answer of JSON.
fn series(parts: &mut Vec<Part>, is_first: bool, entry: &CatalogEntry, columns: Named) {
    let between = if is_first { "" } else { "," };
    let mut json = begin().raw(between).channel(entry);
    for (name, column) in columns {
        parts.push(json.raw(",").text(&name).raw(":").part());
        parts.push(Part::Array(column));
        json = begin();
    }
    parts.push(json.raw("}").part());
}

/// The same as records: device, channel and unit stand in each.
fn records(parts: &mut Vec<Part>, is_first: bool, entry: &CatalogEntry, columns: Named) {
    let (names, columns): (Vec<String>, Vec<Column>) = columns.into_iter().unzip();
    if is_first {
        parts.push(Part::text(header(&names)));
    }
    let mut before = Vec::new();
    for (at, text) in [&*entry.device, &*entry.key.channel, &*entry.unit]
        .iter()
        .enumerate()
    {
        if at > 0 {
            before.push(b',');
        }
        quoted(text.as_bytes(), &mut before);
    }
    parts.push(Part::Records(before, columns));
}

fn header(names: &[String]) -> String {
    format!("device,channel,unit,{}\n", names.join(","))
}

/// `GET /api/v1/readings`
pub(super) async fn readings(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answer {
    let given = Given::read(&READINGS, query.as_deref(), ask::now())?;
    let style = Style::of(&headers, &given)?;
    let range = given.range()?;
    let place = app.place()?;
    let entries = resolve(&app, &given).await?;
    let detail = given.flag("detail");
    let newest_first = given.flag("newest");
    let got = if entries.is_empty() {
        nothing(range.clone())
    } else {
        let want = ReadingsWant {
            keys: keys(&entries),
            range: range.clone(),
            detail,
            rows_max: given.count("limit").unwrap_or(1),
            newest_first,
        };
        app.reads.readings(want).await.map_err(ask::problem)?
    };
    drop(place);
    let next = if !got.left_out {
        None
    } else if newest_first {
        Cursor::new(range.start, got.covered.start)
    } else {
        Cursor::new(got.covered.end, range.end)
    };
    let gaps = given.flag("gaps");
    let mut parts = Vec::new();
    if style.form == Form::Csv {
        if entries.is_empty() {
            parts.push(Part::text(header(&names_of_readings(detail))));
        }
        for (at, (entry, columns)) in entries.iter().zip(got.columns).enumerate() {
            records(&mut parts, at == 0, entry, named_readings(style, columns));
        }
        return send(&app, style.form, next, parts);
    }
    let from_to = begin().raw("{\"from\":").time(got.covered.start);
    let from_to = from_to.raw(",\"to\":").time(got.covered.end);
    parts.push(from_to.raw(",\"series\":[").part());
    let end = readings_end(&entries, &got, gaps, next);
    for (at, (entry, columns)) in entries.iter().zip(got.columns).enumerate() {
        series(&mut parts, at == 0, entry, named_readings(style, columns));
    }
    parts.push(end);
    send(&app, style.form, next, parts)
}

/// The answer of no channel.
fn nothing(range: std::ops::Range<EventTime>) -> ReadingsGot {
    ReadingsGot {
        columns: Vec::new(),
        gaps: Vec::new(),
        complete_from: None,
        left_out: false,
        covered: range,
        behind: 0,
        missing: 0,
    }
}

fn names_of_readings(detail: bool) -> Vec<String> {
    let names = [
        "times",
        "values",
        "boot",
        "ordinal",
        "uncertainty_us",
        "quality",
    ];
    let count = if detail { names.len() } else { 2 };
    names
        .iter()
        .take(count)
        .map(|name| (*name).to_owned())
        .collect()
}

fn named_readings(style: Style, got: Columns) -> Named {
    let mut columns = vec![style.times(got.times), Column::Numbers(got.values)];
    let is_detailed = got.detail.is_some();
    if let Some(detail) = got.detail {
        let boots = detail.boot.iter().map(|boot| u64::from(boot.0));
        columns.push(Column::Counts(boots.collect()));
        let ordinals = detail.ordinal.iter().map(|ordinal| ordinal.0);
        columns.push(Column::Counts(ordinals.collect()));
        let uncertainty = detail.uncertainty_us.iter().map(|us| u64::from(*us));
        columns.push(Column::Counts(uncertainty.collect()));
        let quality = detail.quality.iter().map(|quality| quality_name(*quality));
        columns.push(Column::Words(quality.collect()));
    }
    names_of_readings(is_detailed)
        .into_iter()
        .zip(columns)
        .collect()
}

/// What stands behind the series.
fn readings_end(
    entries: &[CatalogEntry],
    got: &ReadingsGot,
    gaps: bool,
    next: Option<Cursor>,
) -> Part {
    let name = |uid| {
        let entry = entries.iter().find(|entry| entry.key.uid == uid);
        entry.map_or_else(|| uid.to_string(), |entry| entry.device.to_string())
    };
    let mut json = begin().raw("]");
    if gaps {
        let gaps: Vec<Gap> = got
            .gaps
            .iter()
            .map(|gap| Gap {
                device: name(gap.uid),
                boot: u64::from(gap.boot.0),
                first: gap.first.0,
                count: gap.count,
                reason: gap_name(gap.reason).to_owned(),
                time: time_of(gap.time),
            })
            .collect();
        json = json.raw(",\"gaps\":").raw(&json!(gaps).to_string());
    }
    if let Some(from) = got.complete_from {
        json = json.raw(",\"complete_from\":").time(from);
    }
    let behind = got.behind.to_string();
    json.raw(",\"readings_not_read_yet\":")
        .raw(&behind)
        .next(next)
        .raw("}")
        .part()
}

fn time_of(time: EventTime) -> Time {
    let text = utc::time_value(time);
    let text = text.as_str().map(|text| Time::Text(text.to_owned()));
    text.unwrap_or(Time::Micros(time.0))
}

/// `GET /api/v1/rollups`
pub(super) async fn rollups(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answer {
    let given = Given::read(&ROLLUPS, query.as_deref(), ask::now())?;
    let style = Style::of(&headers, &given)?;
    let range = given.range()?;
    let size = given
        .span("window")
        .expect("the table has a default for it");
    let place = app.place()?;
    let entries = resolve(&app, &given).await?;
    let (got, covered, left_out, source) = if entries.is_empty() {
        (Vec::new(), range.clone(), false, RollupSource::Readings)
    } else {
        let want = RollupWant {
            keys: keys(&entries),
            size,
            range: range.clone(),
            rows_max: given.count("limit").unwrap_or(1),
        };
        let got = app.reads.rollup(want).await.map_err(ask::problem)?;
        (got.columns, got.covered, got.left_out, got.source)
    };
    drop(place);
    let next = left_out
        .then(|| Cursor::new(covered.end, range.end))
        .flatten();
    let mut parts = Vec::new();
    if style.form == Form::Csv {
        if entries.is_empty() {
            let names = ROLLUP_NAMES.map(str::to_owned);
            parts.push(Part::text(header(&names)));
        }
        for (at, (entry, columns)) in entries.iter().zip(got).enumerate() {
            let (mut columns, figures) = named_rollups(style, columns);
            columns.extend(figures);
            records(&mut parts, at == 0, entry, columns);
        }
        return send(&app, style.form, next, parts);
    }
    let source = match &source {
        RollupSource::Stream(name) => name,
        RollupSource::Readings => "readings",
    };
    let json = begin().raw("{\"window\":").text(&span_text(size));
    let json = json.raw(",\"source\":").text(source);
    let json = json
        .raw(",\"from\":")
        .time(covered.start)
        .raw(",\"to\":")
        .time(covered.end);
    parts.push(json.raw(",\"series\":[").part());
    for (at, (entry, columns)) in entries.iter().zip(got).enumerate() {
        let (columns, figures) = named_rollups(style, columns);
        series(&mut parts, at == 0, entry, columns);
        more_figures(&mut parts, figures);
    }
    parts.push(begin().raw("]").next(next).raw("}").part());
    send(&app, style.form, next, parts)
}

const ROLLUP_NAMES: [&str; 8] = [
    "starts",
    "ends",
    "count",
    "mean",
    "min",
    "max",
    "sum",
    "preliminary",
];

/// The columns that are always there, and what else the rows of the window say.
fn named_rollups(style: Style, got: RollupColumns) -> (Named, Named) {
    let windows = got.starts.len();
    let columns = [
        style.times(got.starts),
        style.times(got.ends),
        Column::Counts(got.count),
        Column::Numbers(got.mean),
        Column::Numbers(got.min),
        Column::Numbers(got.max),
        Column::Numbers(got.sum),
        Column::From(got.preliminary_from, windows),
    ];
    let others = got.others.into_iter();
    let others = others.map(|(name, values)| (name, Column::Numbers(values)));
    let names = ROLLUP_NAMES.map(str::to_owned);
    (names.into_iter().zip(columns).collect(), others.collect())
}

/// Puts an object of further figures into the series that was written last.
fn more_figures(parts: &mut Vec<Part>, figures: Named) {
    if figures.is_empty() {
        return;
    }
    // Its closing brace.
    parts.pop();
    let mut json = begin().raw(",\"figures\":{");
    for (at, (name, column)) in figures.into_iter().enumerate() {
        let between = if at == 0 { "" } else { "," };
        parts.push(json.raw(between).text(&name).raw(":").part());
        parts.push(Part::Array(column));
        json = begin();
    }
    parts.push(json.raw("}}").part());
}

/// `GET /api/v1/rolling`
pub(super) async fn rolling(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answer {
    let given = Given::read(&ROLLING, query.as_deref(), ask::now())?;
    let form = form(&headers, true)?;
    let size = given
        .span("window")
        .expect("the table has a default for it");
    let _place = app.place()?;
    let all = match rolling_of_one(&app, &given, size).await? {
        Some(got) => vec![rolling_series(&got)],
        None => {
            let entries = resolve(&app, &given).await?;
            let mut all = Vec::with_capacity(entries.len());
            for entry in entries {
                let got = app.reads.rolling(entry.key, size).await;
                all.push(rolling_series(&got.map_err(ask::problem)?));
            }
            all
        }
    };
    let part = match form {
        Form::Csv => Part::text(rolling_csv(&all)),
        Form::Json => {
            let answer = Rolling {
                window: span_text(size),
                series: all,
            };
            Part::text(json!(answer).to_string())
        }
    };
    send(&app, form, None, vec![part])
}

/// Of one channel of one device, by their names: without a catalog, which costs more than the
/// figures. `None` where more are asked for, or the catalog says better what there is.
async fn rolling_of_one(
    app: &App,
    given: &Given,
    size: Span,
) -> Result<Option<RollingGot>, Problem> {
    let only = |name| {
        let mut all = given.all(name);
        all.next().filter(|_| all.next().is_none())
    };
    let Some((device, channel)) = only("device").zip(only("channel")) else {
        return Ok(None);
    };
    let name = ChannelName {
        device: device.to_owned(),
        channel: channel.to_owned(),
    };
    match app.reads.rolling_of(name, size).await {
        Ok(got) => Ok(Some(got)),
        Err(ReadError::Unknown(_)) => Ok(None),
        Err(error) => Err(ask::problem(error)),
    }
}

fn rolling_series(got: &RollingGot) -> RollingSeries {
    RollingSeries {
        channel: Channel {
            device: got.device.to_string(),
            uid: got.key.uid.to_string(),
            channel: got.key.channel.to_string(),
            unit: got.unit.to_string(),
        },
        time: time_of(got.time),
        count: got.figures.count,
        mean: got.figures.mean,
        min: got.figures.min,
        max: got.figures.max,
    }
}

fn rolling_csv(all: &[RollingSeries]) -> String {
    let mut out = String::from("device,channel,unit,time,count,mean,min,max\n");
    let number =
        |value: Option<f64>| value.map_or_else(String::new, |value| json!(value).to_string());
    for one in all {
        let Channel {
            device,
            channel,
            unit,
            ..
        } = &one.channel;
        let time = match &one.time {
            Time::Text(text) => text.clone(),
            Time::Micros(us) => us.to_string(),
        };
        let count = one.count.to_string();
        let (mean, min, max) = (number(one.mean), number(one.min), number(one.max));
        out +=
            &crate::shell::csv::record(&[device, channel, unit, &time, &count, &mean, &min, &max]);
    }
    out
}

/// `GET /api/v1/rows`
pub(super) async fn rows(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answer {
    let given = Given::read(&ROWS, query.as_deref(), ask::now())?;
    let form = form(&headers, false)?;
    if given.text("stream") == Some("readings") {
        let detail = "stream=readings has readings, which are no rows: ask /api/v1/readings";
        return Err(Problem::new(Kind::BadParameter, detail));
    }
    let range = given.range()?;
    let place = app.place()?;
    let want = RowsWant {
        stream: given.text("stream").unwrap_or_default().to_owned(),
        range: range.clone(),
        rows_max: given.count("limit").unwrap_or(1),
    };
    let names = app.reads.names().await.map_err(ask::problem)?;
    let got = app.reads.rows(want).await.map_err(ask::problem)?;
    drop(place);
    let next = got
        .left_out
        .then(|| Cursor::new(got.covered.end, range.end))
        .flatten();
    let lines = got
        .lines
        .into_iter()
        .map(|line| match named(&line, &names) {
            std::borrow::Cow::Borrowed(_) => line,
            std::borrow::Cow::Owned(named) => named.into(),
        });
    let json = begin().raw("{\"stream\":").text(&got.stream);
    let json = json.raw(",\"from\":").time(got.covered.start);
    let json = json
        .raw(",\"to\":")
        .time(got.covered.end)
        .raw(",\"rows\":[");
    let parts = vec![
        json.part(),
        Part::Lines(lines.collect(), b","),
        begin().raw("]").next(next).raw("}").part(),
    ];
    send(&app, form, next, parts)
}
