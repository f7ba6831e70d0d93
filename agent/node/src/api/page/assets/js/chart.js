// One channel's card: its newest figures, its chart, and the same as a table. Takes what
// board.js asks for and hears. Bound: POINTS_MAX readings, MARKS_MAX marks.

import { attribute, el, show, text } from "./dom.js";
import { clock, count, figure, micros, seconds, span, unit } from "./format.js";
import { Plot } from "./plot.js";
import { MARKS_MAX, POINTS_MAX, RANGES, Readings, columns, detail, meanColumns, missing, rolling, silences, usualPeriod, within } from "./series.js";

const ROWS_SHOWN = 40;

const KEY = [
  ["raw", "M1 9 7 4l6 4 8-6", "reading"],
  ["rolling", "M1 8c6-6 12 2 20-4", "average"],
  ["band", "M1 1h20v10H1z", "minute, min to max"],
  ["gap", "M1 11 11 1M7 11 17 1M13 11 21 3", "gap"],
  ["late", "M4 1h14l-7 11z", "came late"],
];

function keyList() {
  const list = el("ul", { class: "key" });
  for (const [name, path, label] of KEY) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 22 12");
    svg.setAttribute("aria-hidden", "true");
    const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
    shape.setAttribute("d", path);
    shape.setAttribute("class", `k-${name}`);
    svg.append(shape);
    list.append(el("li", {}, svg, el("span", {}, label)));
  }
  return list;
}

function stat(list, label) {
  const dd = el("dd");
  const dt = el("dt", {}, label);
  list.append(el("div", {}, dt, dd));
  const value = el("data");
  const more = el("small");
  dd.append(value, " ", more);
  return { dt, value, more };
}

function setStat(at, value, unitName, more) {
  attribute(at.value, "value", value ?? "");
  text(at.value, `${figure(value)}${typeof value === "number" && unitName ? ` ${unitName}` : ""}`);
  text(at.more, more);
}

export class Chart {
  /** `channel` is {device, channel, unit, period_us, newestUs, value}; `now` gives the agent's time in us. */
  constructor(host, channel, now) {
    this.channel = channel;
    this.now = now;
    this.at = null;
    this.data = null;
    this.settings = { range: RANGES[0], window: "60s" };
    this.heardUntil = Infinity;
    this.clear();
    this.build();
    // In the page before it is drawn: it is as wide as its place.
    host.append(this.element);
    this.plot = new Plot(this.plotHost, (at) => this.onPoint(at));
  }

  /** What the list of devices says of the channel by now. */
  describe(channel) {
    this.channel = channel;
  }

  /** What is known may be another's. */
  forget() {
    this.channel = { ...this.channel, newestUs: NaN, value: null };
    this.at = null;
    this.plot.held = null;
    this.clear();
    this.draw();
    this.table();
  }

  clear() {
    this.readings = new Readings();
    this.rollups = new Map();
    this.gaps = [];
    this.lates = [];
    this.average = null;
    this.failed = null;
    this.leftOut = false;
    this.changed = true;
  }

  build() {
    const { device, channel } = this.channel;
    const id = `chart-${Math.random().toString(36).slice(2)}`;
    this.unit = unit(this.channel.unit);
    this.title = el("h3", { id }, channel, " ", el("span", { class: "quiet" }, `of ${device}`));
    this.state = el("p", { class: "note", hidden: true });
    const stats = el("dl", { class: "stats" });
    this.stats = { newest: stat(stats, "Newest"), average: stat(stats, "Average"), low: stat(stats, "Minute, min to max"), mean: stat(stats, "Minute, mean") };
    this.plotHost = el("div", { class: "plot", role: "slider", tabindex: "0", "aria-label": `${channel} of ${device} over time`, "aria-orientation": "horizontal", "aria-valuemin": "0", "aria-valuemax": "0", "aria-valuenow": "0" });
    this.plotHost.addEventListener("keydown", (event) => this.onKey(event));
    this.readout = el("p", { class: "readout" });
    this.tableBox = el("details", {}, el("summary", {}, `${channel} as a table`));
    this.tableBox.addEventListener("toggle", () => this.table());
    this.buildTable();
    this.element = el("figure", { class: "chart", role: "group", "aria-labelledby": id }, el("div", { class: "chart-head" }, this.title, this.state), stats, this.plotHost, this.readout, keyList(), this.tableBox);
    this.element.dataset.device = device;
    this.element.dataset.channel = channel;
  }

  buildTable() {
    const head = ["From", "Readings", "Mean", "Min", "Max", "State"].map((name) => el("th", { scope: "col" }, name));
    const [lates, gaps, caption] = [el("p", { class: "quiet" }), el("p", { class: "quiet" }), el("caption", { class: "quiet" })];
    const body = el("tbody");
    this.inTable = { lates, gaps, caption, body };
    const table = el("table", { class: "figures" }, caption, el("thead", {}, el("tr", {}, ...head)), body);
    const box = el("div", { class: "scroll figures-table", role: "region", tabindex: "0", "aria-label": `${this.channel.channel} as a table` }, table);
    this.tableBox.append(el("div", {}, lates, gaps, box));
  }

  get periodUs() {
    return this.channel.period_us > 0 ? this.channel.period_us : usualPeriod(this.readings.times);
  }

  get detail() {
    return detail(this.settings.range.seconds, this.channel.period_us / 1e6);
  }

  /** Size of the windows that are drawn. */
  get bandSeconds() {
    const { raw, size } = this.detail;
    return raw ? this.settings.range.band : size;
  }

  get rangeUs() {
    return this.settings.range.seconds * 1e6;
  }

  /** Forgets what was shown, for other settings or after a break. */
  begin(settings) {
    this.settings = settings;
    this.clear();
  }

  /** Columns of /readings: times are microseconds. */
  takeReadings({ times, values, boot, ordinal }) {
    for (let at = 0; at < times.length; at += 1) {
      this.readings.add(times[at], values[at], boot?.[at], ordinal?.[at]);
    }
    this.changed = true;
  }

  /** Columns of /rollups. */
  takeRollups({ starts, ends, count: counts, mean, min, max, preliminary }) {
    starts.forEach((start, at) => {
      this.rollups.set(start, { start, end: ends[at], count: counts[at], mean: mean[at], min: min[at], max: max[at], preliminary: preliminary[at] === true });
    });
    this.changed = true;
  }

  takeAverage(average) {
    this.average = average;
    this.changed = true;
  }

  /** What could not be asked, or null. */
  fail(error) {
    this.failed = error;
    this.changed = true;
  }

  isMine(row) {
    // Devices that the config does not name are told by their uid.
    return row.channel === this.channel.channel && [undefined, this.channel.device, this.channel.uid].includes(row.device);
  }

  /** A reading of the stream. */
  take(reading) {
    if (this.readings.add(micros(reading.time), reading.value ?? null, reading.boot, reading.ordinal)) {
      this.changed = true;
    }
  }

  /** A gap of the device: so many readings of a boot from ordinal `first` on never come. */
  takeGap({ boot, first, count: lost, reason, time }) {
    const known = (other) => other.boot === boot && other.first === first;
    if (first !== undefined && !this.gaps.some(known)) {
      // The stream tells of it when it is declared, and names no time.
      const at = time === undefined ? this.now() : micros(time);
      this.gaps = [...this.gaps, { boot, first, lost, reason, time: at }].slice(-MARKS_MAX);
      this.changed = true;
    }
  }

  takeLate(row) {
    const time = micros(row.time);
    const known = (other) => other.time === time && other.value === row.value;
    if (this.isMine(row) && !this.lates.some(known)) {
      this.lates = [...this.lates, { time, value: row.value, reason: row.reason }].slice(-MARKS_MAX);
      this.changed = true;
    }
  }

  /** The bands behind the line, in order. */
  bands() {
    const from = this.now() - this.rangeUs;
    for (const [start, row] of this.rollups) {
      if (row.end < from) {
        this.rollups.delete(start);
      }
    }
    return [...this.rollups.values()].sort((a, b) => a.start - b.start);
  }

  draw() {
    const now = this.now();
    const from = now - this.rangeUs;
    const { raw, size } = this.detail;
    const windowUs = seconds(this.settings.window) * 1e6;
    this.leftOut = this.readings.trim(from - windowUs) || this.leftOut;
    this.gaps = this.gaps.filter((gap) => gap.time >= from);
    this.lates = this.lates.filter((late) => late.time >= from);
    const bands = this.bands();
    const { times, values } = this.readings;
    // Of what came while nobody listened, nothing is said.
    const heard = Math.min(now, this.heardUntil);
    const breaks = raw ? silences(times, this.periodUs, heard) : missing(bands, size * 1e6, heard);
    const gaps = this.gaps.map((gap) => ({ ...gap, ...(raw ? this.readings.around(gap) : within(gap.time, breaks, size * 1e6)) }));
    const declared = ([start, end]) => gaps.some((gap) => gap.start < end && gap.end > start);
    const silent = breaks.filter((one) => !declared(one));
    const data = raw
      ? columns(times, values, rolling(times, values, windowUs), breaks)
      : meanColumns(bands, breaks);
    this.data = data;
    this.shownGaps = gaps;
    this.plot.set({ data, bands, gaps, silent, lates: this.lates, from: from / 1e6, to: now / 1e6 });
    this.say(bands, silent, { raw, size });
    this.changed = false;
  }

  say(bands, silent, { raw, size }) {
    const { times, values } = this.readings;
    const now = this.now();
    const at = times.length - 1;
    // The list of devices knows the newest one where no single readings are drawn.
    const { newestUs, value } = this.channel;
    const live = at >= 0 && !(times[at] < newestUs);
    const newest = live ? { us: times[at], value: values[at] } : { us: newestUs, value };
    setStat(this.stats.newest, newest.value, this.unit, Number.isFinite(newest.us) ? `at ${clock(newest.us, now)}` : "");
    text(this.stats.average.dt, `Average over ${span(seconds(this.settings.window))}`);
    const { mean, count: of } = this.average ?? {};
    setStat(this.stats.average, mean ?? null, this.unit, of === undefined ? "" : `of ${count(of)}, up to ${clock(micros(this.average.time), now)}`);
    const last = bands[bands.length - 1];
    const name = span(this.bandSeconds);
    text(this.stats.low.dt, `Newest ${name}, min to max`);
    text(this.stats.mean.dt, `Newest ${name}, mean`);
    attribute(this.stats.low.value, "value", last ? `${last.min} ${last.max}` : "");
    text(this.stats.low.value, last ? `${figure(last.min)} to ${figure(last.max)}` : "–");
    text(this.stats.low.more, last ? `from ${clock(last.start, now)}` : "");
    setStat(this.stats.mean, last?.mean ?? null, this.unit, last ? `of ${count(last.count)}` : "");
    const notes = [];
    if (this.failed) {
      notes.push(`Not all of it could be asked: ${this.failed.message}`);
    }
    if (raw && this.leftOut) {
      notes.push(`Only the newest ${count(POINTS_MAX)} readings are drawn`);
    }
    if (!raw) {
      notes.push(`Means of ${span(size)}: the single readings are too many to draw`);
    }
    text(this.state, notes.join(". "));
    show(this.state, notes.length > 0);
    const holes = this.gaps.length;
    const summary = `${count(this.data[0].length)} points over ${this.settings.range.label}; ${count(holes)} ${holes === 1 ? "gap" : "gaps"}, ${count(silent.length)} without readings, ${count(this.lates.length)} late`;
    attribute(this.element, "data-gaps", holes);
    attribute(this.element, "data-silent", silent.length);
    attribute(this.element, "data-late", this.lates.length);
    attribute(this.element, "data-points", times.length);
    if (this.at === null) {
      text(this.readout, summary);
      attribute(this.plotHost, "aria-valuetext", summary);
    }
    attribute(this.plotHost, "aria-valuemax", Math.max(0, this.data[0].length - 1));
  }

  onPoint(at) {
    if (!this.data) {
      return;
    }
    this.at = at;
    if (at === null) {
      this.changed = true;
      return;
    }
    const [xs, ys, means] = this.data;
    const parts = [clock(xs[at] * 1e6, this.now()), `${figure(ys[at])} ${this.unit}`];
    if (typeof means[at] === "number") {
      parts.push(`average ${figure(Number(means[at].toPrecision(7)))} ${this.unit}`);
    }
    const near = this.lates.find((late) => Math.abs(late.time / 1e6 - xs[at]) < 1e-6);
    if (near) {
      parts.push("came late");
    }
    text(this.readout, parts.join(", "));
    attribute(this.plotHost, "aria-valuetext", parts.join(", "));
    attribute(this.plotHost, "aria-valuenow", at);
  }

  onKey(event) {
    const last = (this.data?.[0].length ?? 0) - 1;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageUp: 10, PageDown: -10 };
    let at = this.at ?? last;
    if (event.key in steps) {
      at += this.at === null ? 0 : steps[event.key];
    } else if (event.key === "Home") {
      at = 0;
    } else if (event.key === "End") {
      at = last;
    } else {
      return;
    }
    event.preventDefault();
    if (last >= 0) {
      this.plot.point(Math.min(last, Math.max(0, at)));
    }
  }

  /** The text form of the chart, while it is open. */
  table() {
    if (!this.tableBox.open) {
      return;
    }
    const now = this.now();
    const rows = this.bands().reverse().slice(0, ROWS_SHOWN);
    const cells = (row) => [
      [clock(row.start, now), "row"],
      [count(row.count)],
      [figure(row.mean)],
      [figure(row.min)],
      [figure(row.max)],
      [row.preliminary ? "so far" : "final"],
    ];
    const late = this.lates.map((one) => `${clock(one.time, now)} ${figure(one.value)} ${this.unit}`);
    const gaps = (this.shownGaps ?? []).map((gap) => `${clock(gap.start, now)} to ${clock(gap.end, now)}: ${count(gap.lost)} readings of the device, ${(gap.reason ?? "no reason told").replaceAll("_", " ")}`);
    const body = rows.map((row) => el("tr", {}, ...cells(row).map(([value, scope], at) => (scope ? el("th", { scope }, value) : el("td", { class: at < 5 ? "number" : null }, value)))));
    const shown = this.inTable;
    text(shown.lates, late.length > 0 ? `Came late: ${late.join("; ")}` : "Nothing came late.");
    text(shown.gaps, gaps.length > 0 ? `Gaps: ${gaps.join("; ")}` : "No gaps are declared.");
    text(shown.caption, `The newest ${rows.length} windows, ${this.unit || "no unit"}`);
    shown.body.replaceChildren(...body);
  }

  destroy() {
    this.plot.destroy();
    this.element.remove();
  }
}
