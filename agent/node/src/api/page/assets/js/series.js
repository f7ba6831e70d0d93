// Readings of one channel over the time shown: kept in order of event time, each once, and
// never more than POINTS_MAX. What is too much for that is shown by rollups. Pure.

/** Readings that a chart holds at the most. */
export const POINTS_MAX = 6000;
/** Marks (gaps, late readings) that a chart holds at the most. */
export const MARKS_MAX = 500;
/** Without a reading for so many periods the line is broken. */
const BREAK_PERIODS = 3.5;

/** The ranges that can be chosen. Seconds; `band` is the rollup behind the readings. */
export const RANGES = [
  { id: "5m", label: "5 min", seconds: 300, band: 60 },
  { id: "15m", label: "15 min", seconds: 900, band: 60 },
  { id: "1h", label: "1 h", seconds: 3600, band: 60 },
  { id: "6h", label: "6 h", seconds: 21_600, band: 60 },
  { id: "24h", label: "24 h", seconds: 86_400, band: 60 },
  { id: "7d", label: "7 days", seconds: 604_800, band: 600 },
];

/** Rollups that a window of the clock can have; the first that gives few enough is taken. */
const SIZES = [1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600];
const ROLLUPS_MAX = 1500;

/**
 * Whether the readings themselves are drawn over `seconds`, or their means, and of how many
 * seconds: a channel with a short period has more readings than a screen has points.
 */
export function detail(seconds, periodSeconds) {
  if (periodSeconds > 0 && seconds / periodSeconds <= POINTS_MAX) {
    return { raw: true, size: 60 };
  }
  if (!(periodSeconds > 0) && seconds <= 3600) {
    return { raw: true, size: 60 };
  }
  const size = SIZES.find((one) => seconds / one <= ROLLUPS_MAX) ?? SIZES[SIZES.length - 1];
  return { raw: false, size };
}

/** First place in the sorted list whose value is not below `at`. */
export function lowerBound(list, at) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/** See above. Times are microseconds since 1970. */
export class Readings {
  constructor() {
    this.times = [];
    this.values = [];
    this.boots = [];
    this.ordinals = [];
  }

  /** Takes a reading in its place; false for one that is there. Boot and ordinal tell it from others of its time. */
  add(time, value, boot, ordinal) {
    if (!Number.isFinite(time)) {
      return false;
    }
    let at = lowerBound(this.times, time);
    while (at < this.times.length && this.times[at] === time) {
      if (this.boots[at] === boot && this.ordinals[at] === ordinal) {
        return false;
      }
      at += 1;
    }
    this.times.splice(at, 0, time);
    this.values.splice(at, 0, value);
    this.boots.splice(at, 0, boot);
    this.ordinals.splice(at, 0, ordinal);
    return true;
  }

  /** Lets go what is before `from`, and the oldest of what is too many. */
  trim(from) {
    const old = lowerBound(this.times, from);
    const drop = Math.max(old, this.times.length - POINTS_MAX);
    if (drop > 0) {
      for (const list of [this.times, this.values, this.boots, this.ordinals]) {
        list.splice(0, drop);
      }
    }
    return drop > old;
  }

  /**
   * Where a gap lies: between the readings of its boot before and behind its ordinals, or
   * where one of them is not here, up to the time at which it was declared.
   */
  around({ boot, first, lost, time }) {
    let [start, end] = [NaN, NaN];
    for (let at = 0; at < this.times.length; at += 1) {
      const [of, ordinal] = [this.boots[at], this.ordinals[at]];
      if (of === boot && ordinal < first) {
        start = this.times[at];
      } else if (of === boot && ordinal >= first + lost && Number.isNaN(end)) {
        end = this.times[at];
      }
    }
    end = Number.isNaN(end) ? time : end;
    return { start: Number.isNaN(start) ? Math.min(time, end) : Math.min(start, end), end };
  }

  get newest() {
    return this.times.length > 0 ? this.times[this.times.length - 1] : NaN;
  }
}

/** The mean over (t - size, t] at each reading; null where none has a value. */
export function rolling(times, values, sizeUs) {
  const out = new Array(times.length);
  let [first, sum, counted] = [0, 0, 0];
  for (let at = 0; at < times.length; at += 1) {
    if (values[at] !== null) {
      sum += values[at];
      counted += 1;
    }
    while (times[first] <= times[at] - sizeUs) {
      if (values[first] !== null) {
        sum -= values[first];
        counted -= 1;
      }
      first += 1;
    }
    if (counted === 0) {
      sum = 0;
    }
    out[at] = counted > 0 ? sum / counted : null;
  }
  return out;
}

/**
 * Where nothing came for longer than the period allows: [start, end] pairs, also behind the
 * newest up to `until`.
 */
export function silences(times, periodUs, until) {
  if (!(periodUs > 0)) {
    return [];
  }
  const allowed = periodUs * BREAK_PERIODS;
  const out = [];
  for (let at = 1; at < times.length; at += 1) {
    if (times[at] - times[at - 1] > allowed) {
      out.push([times[at - 1], times[at]]);
    }
  }
  const newest = times[times.length - 1];
  if (Number.isFinite(until) && until - newest > allowed + 2e6) {
    out.push([newest, until]);
  }
  return out.slice(-MARKS_MAX);
}

/** Columns for the chart, with a break in each silence: seconds, values, averages. */
export function columns(times, values, averages, broken) {
  const [xs, ys, means] = [[], [], []];
  const starts = new Set(broken.map(([start]) => start));
  for (let at = 0; at < times.length; at += 1) {
    xs.push(times[at] / 1e6);
    ys.push(values[at]);
    means.push(averages ? averages[at] : null);
    if (starts.has(times[at]) && times[at + 1] !== times[at] && at + 1 < times.length) {
      xs.push((times[at] + 1) / 1e6);
      ys.push(null);
      means.push(null);
    }
  }
  return [xs, ys, means];
}

/** Where windows are missing between bands, and behind the last one up to `until`: [start, end] pairs, us. */
export function missing(bands, sizeUs, until) {
  const out = [];
  for (let at = 1; at < bands.length; at += 1) {
    if (bands[at].start - bands[at - 1].end >= sizeUs) {
      out.push([bands[at - 1].end, bands[at].start]);
    }
  }
  const last = bands[bands.length - 1];
  // The window that is open now may have nothing yet.
  if (last && until - last.end > sizeUs + 2e6) {
    out.push([last.end, until]);
  }
  return out.slice(-MARKS_MAX);
}

/**
 * Where a gap lies of whose readings only means are here: over the windows that are missing
 * where it was declared, else over the window in which it ended.
 */
export function within(time, holes, sizeUs) {
  const hole = holes.find(([start, end]) => start <= time + sizeUs && end >= time - sizeUs);
  if (hole) {
    return { start: hole[0], end: hole[1] };
  }
  const start = Math.floor((time - 1) / sizeUs) * sizeUs;
  return { start, end: start + sizeUs };
}

/** Columns for the chart of means, with a break where windows are missing. */
export function meanColumns(bands, holes) {
  const [xs, ys] = [[], []];
  const ends = new Set(holes.map(([start]) => start));
  for (const { start, end, mean } of bands) {
    xs.push((start + end) / 2e6);
    ys.push(mean);
    if (ends.has(end)) {
      xs.push(end / 1e6);
      ys.push(null);
    }
  }
  return [xs, ys, xs.map(() => null)];
}

/** The usual time between two readings, us: the middle one of the newest distances. */
export function usualPeriod(times) {
  const newest = times.slice(-64);
  const distances = newest.slice(1).map((time, at) => time - newest[at]);
  distances.sort((a, b) => a - b);
  return distances.length >= 3 ? distances[distances.length >> 1] : NaN;
}
