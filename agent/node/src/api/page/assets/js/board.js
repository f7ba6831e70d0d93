// The charts that are shown: channels of one device. Asks once for all of them, takes what
// the stream brings, and draws. Bound: three questions per load and kind of chart, two per
// refresh.

import { get } from "./api.js";
import { Chart } from "./chart.js";
import { seconds } from "./format.js";
import { MARKS_MAX, POINTS_MAX } from "./series.js";

const LATE_ASKED = MARKS_MAX * 4;
const ROLLUPS_ASKED = 10_000;

export class Board {
  /** `now` gives the agent's time in us. */
  constructor(host, now) {
    this.host = host;
    this.now = now;
    this.device = null;
    this.charts = [];
    this.loading = null;
    /** The load whose refresh has not been answered yet. */
    this.refreshing = null;
    this.heardUntil = Infinity;
  }

  get channels() {
    return this.charts.map((chart) => chart.channel.channel);
  }

  /** Whether what is shown has been asked for. */
  get isAsked() {
    return this.loading !== null && !this.loading.signal.aborted;
  }

  /** Shows these channels of {name, uid}; true when they are others than before, and have to be loaded. */
  show({ name: device, uid }, channels) {
    const described = channels.map((channel) => ({ device, uid, channel: channel.name, unit: channel.unit, period_us: channel.periodUs, newestUs: channel.newestUs, value: channel.value }));
    const same = device === this.device && channels.length === this.charts.length && described.every((one, at) => one.channel === this.charts[at].channel.channel);
    if (same) {
      described.forEach((one, at) => this.charts[at].describe(one));
      return false;
    }
    this.loading?.abort();
    this.device = device;
    this.uid = uid;
    this.charts.forEach((chart) => chart.destroy());
    this.charts = described.map((one) => new Chart(this.host, one, this.now));
    this.heard(this.heardUntil);
    return true;
  }

  /** Forgets all readings, as they may be of another log. */
  forget() {
    this.loading?.abort();
    this.loading = null;
    this.charts.forEach((chart) => chart.forget());
  }

  /** Until when it is known what came and what did not, us. */
  heard(untilUs) {
    this.heardUntil = untilUs;
    this.charts.forEach((chart) => (chart.heardUntil = untilUs));
  }

  /** Asks for all that is shown, anew. */
  async load(settings) {
    this.loading?.abort();
    this.loading = new AbortController();
    const { signal } = this.loading;
    this.settings = settings;
    this.charts.forEach((chart) => chart.begin(settings));
    const back = settings.range.seconds;
    const done = await Promise.allSettled([this.readings(signal), this.rollups(() => back, signal), this.late(signal), this.average(signal)]);
    if (!signal.aborted) {
      this.told(done);
      this.draw();
    }
  }

  /** Brings up to date what no stream tells: the newest rollups and the averages. */
  async refresh() {
    const { loading } = this;
    if (!loading || loading.signal.aborted || this.refreshing === loading || this.charts.length === 0) {
      return;
    }
    this.refreshing = loading;
    const { signal } = loading;
    const done = await Promise.allSettled([this.rollups((size) => Math.min(this.settings.range.seconds, size * 3), signal), this.average(signal)]);
    if (this.refreshing === loading) {
      this.refreshing = null;
    }
    if (!signal.aborted) {
      this.told(done);
    }
  }

  told(done) {
    const failed = done.find((one) => one.status === "rejected")?.reason ?? null;
    this.charts.forEach((chart) => (chart.fail(failed), chart.table()));
  }

  /** Gives the series of an answer to their charts. */
  give(body, take) {
    for (const series of body.series) {
      const chart = this.charts.find((one) => one.channel.channel === series.channel);
      if (chart) {
        take(chart, series);
      }
    }
  }

  of(charts, more) {
    return { device: this.device, channel: charts.map((chart) => chart.channel.channel), ...more };
  }

  async readings(signal) {
    const raw = this.charts.filter((chart) => chart.detail.raw);
    const charts = raw.length > 0 ? raw : this.charts;
    const back = this.settings.range.seconds + seconds(this.settings.window);
    const asked = { from: `-${Math.ceil(back)}s`, limit: Math.max(1, raw.length * POINTS_MAX), newest: true, gaps: true, detail: true, time: "us" };
    const { body } = await get("readings", this.of(charts, asked), signal);
    this.give(body, (chart, series) => raw.includes(chart) && chart.takeReadings(series));
    for (const gap of body.gaps ?? []) {
      this.charts.forEach((chart) => chart.takeGap(gap));
    }
    raw.forEach((chart) => (chart.leftOut = Boolean(body.next)));
  }

  /** One question for the charts that have the same size of windows. */
  async rollups(backOf, signal) {
    const sizes = [...new Set(this.charts.map((chart) => chart.bandSeconds))];
    const ask = async (size) => {
      const charts = this.charts.filter((chart) => chart.bandSeconds === size);
      const asked = { window: `${size}s`, from: `-${Math.ceil(backOf(size))}s`, limit: ROLLUPS_ASKED, time: "us" };
      const { body } = await get("rollups", this.of(charts, asked), signal);
      this.give(body, (chart, series) => chart.takeRollups(series));
    };
    await Promise.all(sizes.map(ask));
  }

  async late(signal) {
    const { body } = await get("rows", { stream: "late", from: `-${this.settings.range.seconds}s`, limit: LATE_ASKED }, signal);
    body.rows.forEach((row) => this.charts.forEach((chart) => chart.takeLate(row)));
  }

  async average(signal) {
    const { body } = await get("rolling", this.of(this.charts, { window: this.settings.window }), signal);
    this.give(body, (chart, series) => chart.takeAverage(series));
  }

  /** What the stream brings: a reading, a gap of the device, or a row of what came late. */
  take(stream, op, row) {
    for (const chart of this.charts) {
      if (op === "gap") {
        if ([undefined, this.device, this.uid].includes(row.device)) {
          chart.takeGap(row);
        }
      } else if (stream === "late") {
        chart.takeLate(row);
      } else if (chart.isMine(row)) {
        chart.take(row);
      }
    }
  }

  draw() {
    this.charts.forEach((chart) => chart.draw());
  }

  recolour() {
    this.charts.forEach((chart) => chart.plot.recolour());
  }
}
