// Draws one chart with uPlot: the line of readings and of their rolling average, behind them
// the band from min to max of each minute, over them gaps and late marks. Gets what it draws,
// and knows no agent.

import { clock, day, figure, offset } from "./format.js";

const uPlot = globalThis.uPlot;
const HEIGHT = 260;
const MARK = 6;
/** Heights of the time axis. */
const ONE_LINE = 34;
const TWO_LINES = 52;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * Labels of the time axis. Two lines where the time alone may be another's: with the date
 * where a day begins, with the offset where the clock is set back and shows it twice.
 */
export function labels(splits, whole) {
  const days = splits.map((at) => at !== null && day(at * 1e6));
  const acrossDays = new Set(days.filter(Boolean)).size > 1;
  return splits.map((at, nth) => {
    if (at === null) {
      return null;
    }
    const time = clock(at * 1e6).slice(0, whole > 900 ? 5 : 8);
    const date = days[nth].slice(5);
    const more = offset(at * 1e6);
    if (whole > 86_400) {
      return `${time === "00:00" ? date : `${date} ${time}`}${more && `\n${more}`}`;
    }
    const begins = acrossDays && days[nth] !== days[nth - 1];
    const below = [begins ? date : "", more].join(" ").trim();
    return below ? `${time}\n${below}` : time;
  });
}

/** What is in the picture: where the clock is set back, uPlot also labels what is behind it. */
const inside = (u, splits) => splits.map((at) => (at >= u.scales.x.min && at <= u.scales.x.max ? at : null));

/** The least and largest of what is drawn, with some room. */
function yRange(data, bands, from, to) {
  let [low, high] = [Infinity, -Infinity];
  const take = (value) => {
    if (value !== null && value !== undefined) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  };
  for (const column of data.slice(1)) {
    column.forEach((value, at) => data[0][at] >= from && take(value));
  }
  for (const band of bands) {
    if (band.end > from * 1e6 && band.start < to * 1e6) {
      take(band.min);
      take(band.max);
    }
  }
  if (low > high) {
    return [0, 1];
  }
  const room = high > low ? (high - low) * 0.08 : Math.max(Math.abs(high) * 0.01, 0.5);
  return [low - room, high + room];
}

const spread = (from, to) => Array.from({ length: to - from + 1 }, (_, at) => from + at).flatMap((power) => ["1", "2", "2.5", "5"].map((digit) => Number(`${digit}e${power}`)));
const DISTANCES = spread(-16, 15);

/** Distances that the lines of the y axis may have, also where values are huge. */
export function distances(min, max) {
  const power = Math.floor(Math.log10(max - min));
  return power > 14 && power < 308 ? spread(power - 2, power) : DISTANCES;
}

/** See above. `onPoint` gets the place of the cursor in the data, or null. */
export class Plot {
  constructor(host, onPoint) {
    this.host = host;
    this.onPoint = onPoint;
    this.shown = { data: [[], [], []], bands: [], gaps: [], silent: [], lates: [], from: 0, to: 1 };
    // Time of the point that keys have chosen: it stays while the picture moves on.
    this.held = null;
    host.addEventListener("pointermove", () => {
      this.held = null;
    });
    this.build();
    this.resize = new ResizeObserver(() => this.fit());
    this.resize.observe(host);
  }

  build() {
    const axis = { stroke: colour("--quiet"), font: "12px system-ui, sans-serif", grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), width: 1 } };
    this.u = new uPlot(
      {
        width: Math.max(200, this.host.clientWidth),
        height: HEIGHT,
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, y: false, points: { size: 8 } },
        scales: {
          x: { time: true, range: () => [this.shown.from, this.shown.to] },
          y: { range: () => yRange(this.shown.data, this.shown.bands, this.shown.from, this.shown.to) },
        },
        axes: [
          { ...axis, filter: inside, grid: { ...axis.grid, filter: inside }, ticks: { ...axis.ticks, filter: inside }, values: (u, splits) => labels(splits, this.shown.to - this.shown.from), space: 58, size: (u, shown) => ((shown ?? []).some((label) => label?.includes("\n")) ? TWO_LINES : ONE_LINE) },
          { ...axis, incrs: (u, side, min, max) => distances(min, max), size: (u, labels) => Math.max(40, 16 + 7.5 * Math.max(0, ...(labels ?? []).map((label) => label.length))), values: (u, splits) => splits.map((value) => figure(Number(value.toPrecision(10)))) },
        ],
        series: [
          {},
          { stroke: colour("--raw"), width: 1.4, points: { show: (u) => this.dense(u) , size: 4, fill: colour("--raw") } },
          { stroke: colour("--rolling"), width: 2.4, points: { show: false } },
        ],
        hooks: {
          drawClear: [(u) => this.behind(u)],
          draw: [(u) => this.above(u)],
          setCursor: [(u) => this.onPoint(u.cursor.idx ?? null)],
        },
      },
      this.shown.data,
      this.host,
    );
    this.u.root.setAttribute("aria-hidden", "true");
  }

  /** Single points are drawn as such where there is room for them. */
  dense(u) {
    return this.shown.data[0].length < u.bbox.width / devicePixelRatio / 6;
  }

  fit() {
    const width = Math.max(200, this.host.clientWidth);
    if (width !== this.u.width) {
      this.u.setSize({ width, height: HEIGHT });
    }
  }

  /** In other colours. */
  recolour() {
    this.u.destroy();
    this.build();
  }

  /** Draws this: see `shown`. Times of marks are microseconds, of the data seconds. */
  set(shown) {
    this.shown = shown;
    const at = this.u.cursor.left;
    this.u.setData(shown.data);
    const times = shown.data[0];
    if (this.held !== null && times.length > 0) {
      const later = times.findIndex((time) => time >= this.held);
      this.point(later < 0 ? times.length - 1 : later);
    } else if (at >= 0) {
      this.u.setCursor({ left: at, top: 0 }, false);
    }
  }

  /** Puts the cursor on a place in the data, also where several are on one pixel. */
  point(at) {
    const x = this.shown.data[0][at];
    if (x !== undefined) {
      this.held = x;
      this.u.setCursor({ left: this.u.valToPos(x, "x"), top: 0 }, false);
      this.onPoint(at);
    }
  }

  destroy() {
    this.resize.disconnect();
    this.u.destroy();
  }

  /** The part of [start, end] (us) that is in the picture, in its pixels; null when none is. */
  across(u, start, end) {
    const { left, width } = u.bbox;
    const x0 = Math.max(left, u.valToPos(start / 1e6, "x", true));
    const x1 = Math.min(left + width, u.valToPos(end / 1e6, "x", true));
    return x1 > x0 ? [x0, x1] : null;
  }

  behind(u) {
    const { ctx } = u;
    const { top, height } = u.bbox;
    ctx.save();
    ctx.fillStyle = colour("--band");
    ctx.strokeStyle = colour("--band-edge");
    ctx.globalAlpha = 1;
    for (const band of this.shown.bands) {
      const part = band.min === null ? null : this.across(u, band.start, band.end);
      if (part) {
        const y0 = u.valToPos(band.max, "y", true);
        const y1 = u.valToPos(band.min, "y", true);
        ctx.fillRect(part[0], y0, part[1] - part[0], Math.max(devicePixelRatio, y1 - y0));
      }
    }
    for (const silent of this.shown.silent) {
      this.hatch(u, silent, top, height, colour("--quiet"), 0.16);
    }
    for (const gap of this.shown.gaps) {
      this.hatch(u, [gap.start, gap.end], top, height, colour("--gap"), 0.7);
    }
    ctx.restore();
  }

  hatch(u, [start, end], top, height, stroke, alpha) {
    // What has no length is a line at least.
    const wide = 3e6 * (u.scales.x.max - u.scales.x.min) / Math.max(1, u.bbox.width / devicePixelRatio);
    const part = this.across(u, start, Math.max(end, start + wide));
    if (!part) {
      return;
    }
    const { ctx } = u;
    const step = 7 * devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(part[0], top, part[1] - part[0], height);
    ctx.clip();
    ctx.globalAlpha = alpha * 0.35;
    ctx.fillStyle = stroke;
    ctx.fill();
    ctx.globalAlpha = alpha;
    ctx.strokeStyle = stroke;
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    for (let x = part[0] - height; x < part[1]; x += step) {
      ctx.moveTo(x, top + height);
      ctx.lineTo(x + height, top);
    }
    ctx.stroke();
    ctx.restore();
  }

  above(u) {
    const { ctx } = u;
    const { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.fillStyle = colour("--late");
    ctx.strokeStyle = colour("--late");
    ctx.lineWidth = devicePixelRatio;
    for (const late of this.shown.lates) {
      const x = u.valToPos(late.time / 1e6, "x", true);
      if (x >= left && x <= left + width) {
        const size = MARK * devicePixelRatio;
        ctx.globalAlpha = 0.5;
        ctx.beginPath();
        ctx.moveTo(x, top + size);
        ctx.lineTo(x, top + height);
        ctx.stroke();
        ctx.globalAlpha = 1;
        ctx.beginPath();
        ctx.moveTo(x - size, top);
        ctx.lineTo(x + size, top);
        ctx.lineTo(x, top + size * 1.7);
        ctx.fill();
      }
    }
    ctx.restore();
  }
}
