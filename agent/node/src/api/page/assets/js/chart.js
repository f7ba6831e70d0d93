// One channel's card: its newest figures, its chart, and the same as a table. Asks for its
// history, takes live readings, and draws both. Bound: POINTS_MAX readings, MARKS_MAX marks,
// PAGES_MAX answers per load.

import { get } from "./api.js";
import { attribute, el, show, text } from "./dom.js";
import { clock, count, figure, micros, seconds, span, unit } from "./format.js";
import { Plot } from "./plot.js";
import { MARKS_MAX, POINTS_MAX, Readings, columns, detail, rolling, silences, usualPeriod } from "./series.js";

const PAGE = 2000;
const PAGES_MAX = 4;
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

/** A gap of the API in microseconds, or null for one without a place in time. */
function gapOf(raw) {
  const start = micros(raw.from ?? raw.start ?? raw.time);
  const end = micros(raw.to ?? raw.end ?? raw.time);
  return Number.isFinite(start) ? { start, end: Number.isFinite(end) ? end : start, count: raw.count, reason: raw.reason } : null;
}

export class Chart {
  /** `channel` is {device, channel, unit, period_us}; `now` gives the agent's time in us. */
  constructor(channel, settings, now) {
    this.channel = channel;
    this.settings = settings;
    this.now = now;
    this.clear();
    this.build();
    this.plot = new Plot(this.plotHost, (at) => this.onPoint(at));
    this.key = `${channel.device}\n${channel.channel}`;
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
    this.tableHost = el("div");
    this.tableBox.append(this.tableHost);
    this.element = el("figure", { class: "chart", role: "group", "aria-labelledby": id }, el("div", { class: "chart-head" }, this.title, this.state), stats, this.plotHost, this.readout, keyList(), this.tableBox);
    this.element.dataset.device = device;
    this.element.dataset.channel = channel;
  }

  get periodUs() {
    return this.channel.period_us > 0 ? this.channel.period_us : usualPeriod(this.readings.times);
  }

  get detail() {
    return detail(this.settings.range.seconds, this.channel.period_us / 1e6);
  }

  get fromUs() {
    return this.now() - this.settings.range.seconds * 1e6;
  }

  /** Asks for all that is shown, anew. */
  async load() {
    this.loading?.abort();
    const loading = new AbortController();
    this.loading = loading;
    this.clear();
    const { raw } = this.detail;
    const tasks = [this.loadRollups(this.settings.range.seconds, loading.signal), this.loadLate(loading.signal), this.loadAverage(loading.signal)];
    tasks.push(this.loadReadings(raw, loading.signal));
    const done = await Promise.allSettled(tasks);
    if (loading.signal.aborted) {
      return;
    }
    this.failed = done.find((one) => one.status === "rejected")?.reason ?? null;
    this.changed = true;
    this.draw();
    this.table();
  }

  who(more) {
    return { device: this.channel.device, channel: this.channel.channel, ...more };
  }

  /** The readings, or where only their means are drawn, the newest one and the gaps. */
  async loadReadings(raw, signal) {
    const back = raw ? this.settings.range.seconds + seconds(this.settings.window) : this.settings.range.seconds;
    const asked = { from: `-${Math.ceil(back)}s`, limit: raw ? PAGE : 1, order: "newest", gaps: "true" };
    let cursor;
    for (let page = 0; page < (raw ? PAGES_MAX : 1); page += 1) {
      const { body } = await get("readings", this.who({ ...asked, cursor }), signal);
      for (const reading of body.readings ?? []) {
        this.take(reading);
      }
      for (const gap of body.gaps ?? []) {
        this.takeGap(gap);
      }
      cursor = body.next;
      if (!cursor) {
        return;
      }
    }
    this.leftOut = raw;
  }

  async loadRollups(back, signal) {
    const { size, raw } = this.detail;
    const window = raw ? this.settings.range.band : size;
    let cursor;
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const asked = { window: `${window}s`, from: `-${Math.ceil(back)}s`, limit: PAGE, cursor };
      const { body } = await get("rollups", this.who(asked), signal);
      for (const row of body.rollups ?? body.windows ?? []) {
        const start = micros(row.start);
        this.rollups.set(start, { start, end: micros(row.end), min: row.min ?? null, max: row.max ?? null, mean: row.mean ?? null, count: row.count, preliminary: row.preliminary === true });
      }
      cursor = body.next;
      if (!cursor) {
        break;
      }
    }
    this.changed = true;
  }

  async loadLate(signal) {
    const { body } = await get("rows", { stream: "late", from: `-${this.settings.range.seconds}s`, limit: MARKS_MAX }, signal);
    for (const row of body.rows ?? []) {
      this.takeLate(row.row ?? row);
    }
  }

  async loadAverage(signal) {
    const { body } = await get("rolling", this.who({ window: this.settings.window }), signal);
    this.average = body;
    this.changed = true;
  }

  /** Brings what is not live up to date: the newest rollups and the average. */
  async refresh() {
    if (!this.loading || this.loading.signal.aborted) {
      return;
    }
    const { size, raw } = this.detail;
    const band = raw ? this.settings.range.band : size;
    const signal = this.loading.signal;
    try {
      await this.loadRollups(Math.min(this.settings.range.seconds, band * 3), signal);
      await this.loadAverage(signal);
      this.failed = null;
    } catch (error) {
      if (!signal.aborted) {
        this.failed = error;
      }
    }
    this.changed = true;
    this.table();
  }

  isMine(row) {
    return row.channel === this.channel.channel && (row.device === undefined || row.device === this.channel.device);
  }

  take(reading) {
    const mark = `${reading.boot ?? ""}:${reading.ordinal ?? ""}`;
    if (this.readings.add(micros(reading.time), reading.value ?? null, mark)) {
      this.changed = true;
    }
  }

  takeGap(raw) {
    const gap = gapOf(raw);
    if (gap && !this.gaps.some((other) => other.start === gap.start && other.end === gap.end)) {
      this.gaps = [...this.gaps, gap].slice(-MARKS_MAX);
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
    const from = this.fromUs;
    for (const [start, row] of this.rollups) {
      if (row.end < from) {
        this.rollups.delete(start);
      }
    }
    return [...this.rollups.values()].sort((a, b) => a.start - b.start);
  }

  draw() {
    const now = this.now();
    const from = this.fromUs;
    const { raw, size } = this.detail;
    const windowUs = seconds(this.settings.window) * 1e6;
    this.leftOut = this.readings.trim(from - windowUs) || this.leftOut;
    this.gaps = this.gaps.filter((gap) => gap.end >= from);
    this.lates = this.lates.filter((late) => late.time >= from);
    const bands = this.bands();
    const { times, values } = this.readings;
    const declared = ([start, end]) => this.gaps.some((gap) => gap.start < end && gap.end > start);
    const breaks = raw ? silences(times, this.periodUs, now) : [];
    const silent = breaks.filter((one) => !declared(one));
    const data = raw
      ? columns(times, values, rolling(times, values, windowUs), breaks)
      : [bands.map((band) => (band.start + band.end) / 2e6), bands.map((band) => band.mean), bands.map(() => null)];
    this.data = data;
    this.plot.set({ data, bands, gaps: this.gaps, silent, lates: this.lates, from: from / 1e6, to: now / 1e6 });
    this.say(bands, silent, { raw, size });
    this.changed = false;
  }

  say(bands, silent, { raw, size }) {
    const { times, values } = this.readings;
    const now = this.now();
    const at = times.length - 1;
    setStat(this.stats.newest, at >= 0 ? values[at] : null, this.unit, at >= 0 ? `at ${clock(times[at], now)}` : "");
    text(this.stats.average.dt, `Average over ${span(seconds(this.settings.window))}`);
    const { mean, count: of } = this.average ?? {};
    setStat(this.stats.average, mean ?? null, this.unit, of === undefined ? "" : `of ${count(of)}${this.average.preliminary ? ", so far" : ""}`);
    const last = bands[bands.length - 1];
    const name = span(raw ? this.settings.range.band : size);
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
    if (this.at === null || this.at === undefined) {
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
      at += this.at === null || this.at === undefined ? 0 : steps[event.key];
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
    const gaps = this.gaps.map((gap) => `${clock(gap.start, now)} to ${clock(gap.end, now)}: ${count(gap.count)} readings, ${gap.reason ?? "no reason told"}`);
    const head = ["From", "Readings", "Mean", "Min", "Max", ""].map((name) => el("th", { scope: "col" }, name));
    head[5].textContent = "State";
    const body = rows.map((row) => el("tr", {}, ...cells(row).map(([value, scope], at) => (scope ? el("th", { scope }, value) : el("td", { class: at < 5 ? "number" : null }, value)))));
    this.tableHost.replaceChildren(
      el("p", { class: "quiet" }, late.length > 0 ? `Came late: ${late.join("; ")}` : "Nothing came late."),
      el("p", { class: "quiet" }, gaps.length > 0 ? `Gaps: ${gaps.join("; ")}` : "No gaps are declared."),
      el("div", { class: "scroll figures-table", role: "region", tabindex: "0", "aria-label": `${this.channel.channel} as a table` },
        el("table", { class: "figures" }, el("caption", { class: "quiet" }, `The newest ${rows.length} windows, ${this.unit || "no unit"}`), el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body))),
    );
  }

  destroy() {
    this.loading?.abort();
    this.plot.destroy();
    this.element.remove();
  }
}
