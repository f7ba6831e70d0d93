// How figures, times and ages are written. Pure: no clock, no page.

/** Keeps a number and its unit on one line. */
const NB = "\u00a0";
const GROUPED = new Intl.NumberFormat("en", { useGrouping: true, maximumFractionDigits: 0 });

/** A count with groups of thousands; a dash where there is none. */
export function count(value) {
  return Number.isFinite(value) ? GROUPED.format(value).replaceAll(",", "\u202f") : "–";
}

/** A figure in its shortest form: as many digits as the API gave, ten at the most. */
export function figure(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) {
    return "–";
  }
  const shortest = String(value);
  return shortest.replace(/[-.]/g, "").length <= 10 ? shortest : String(Number(value.toPrecision(7)));
}

/** A span of seconds in the two largest units. */
export function span(seconds) {
  if (!Number.isFinite(seconds)) {
    return "–";
  }
  const s = Math.max(0, seconds);
  if (s < 1) {
    return s === 0 ? `0${NB}s` : s < 0.001 ? `${Math.round(s * 1e6)}${NB}µs` : `${Math.round(s * 1e3)}${NB}ms`;
  }
  if (s < 10) {
    return `${Number(s.toFixed(1))}${NB}s`;
  }
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const at = units.findIndex(([, size]) => s >= size);
  const [name, size] = units[at];
  const whole = Math.floor(s / size);
  const next = units[at + 1];
  const rest = next ? Math.floor((s - whole * size) / next[1]) : 0;
  return rest > 0 ? `${whole}${NB}${name}${NB}${rest}${NB}${next[0]}` : `${whole}${NB}${name}`;
}

/** Bytes with a unit of 1024. */
export function bytes(value) {
  if (!Number.isFinite(value)) {
    return "–";
  }
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let left = value;
  let at = 0;
  while (left >= 1024 && at < units.length - 1) {
    left /= 1024;
    at += 1;
  }
  return `${left >= 100 || at === 0 ? Math.round(left) : left.toFixed(1)}${NB}${units[at]}`;
}

/** Microseconds since 1970 of an RFC 3339 time; NaN where it is none. */
export function micros(text) {
  if (typeof text === "number") {
    return text;
  }
  if (typeof text !== "string") {
    return NaN;
  }
  const parts = /^(.*T\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/.exec(text);
  if (!parts) {
    return NaN;
  }
  const fraction = Number((parts[2] ?? "").padEnd(6, "0").slice(0, 6));
  return Date.parse(parts[1] + parts[3]) * 1000 + fraction;
}

/** RFC 3339 in UTC with microseconds. */
export function rfc3339(us) {
  const whole = Math.floor(us / 1e6);
  const fraction = String(us - whole * 1e6).padStart(6, "0");
  return `${new Date(whole * 1000).toISOString().slice(0, 19)}.${fraction}Z`;
}

const two = (value) => String(value).padStart(2, "0");

/** How far a clock that is set back may be from what it showed first, ms: an hour, with room. */
const NEAR_MS = 3 * 3_600_000;

const minutesAhead = (ms) => -new Date(ms).getTimezoneOffset();

/**
 * How far the browser's zone is ahead of UTC, as `+02:00`, where the clock on the wall shows
 * this time twice because it is set back; else nothing, as then the time says it all.
 */
export function offset(us) {
  const ms = us / 1000;
  const ahead = minutesAhead(ms);
  const other = [ms - NEAR_MS, ms + NEAR_MS].map(minutesAhead).find((one) => one !== ahead);
  if (other === undefined || minutesAhead(ms + (ahead - other) * 60_000) !== other) {
    return "";
  }
  const minutes = Math.abs(ahead);
  return `${ahead < 0 ? "-" : "+"}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

/**
 * Time of the day where the browser is; with the date where that is not `today`'s, and with
 * the offset where the clock shows it twice.
 */
export function clock(us, today) {
  if (!Number.isFinite(us)) {
    return "–";
  }
  const at = new Date(us / 1000);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())} ${offset(us)}`.trimEnd();
  const same = today === undefined || new Date(today / 1000).toDateString() === at.toDateString();
  return same ? time : `${day(us)} ${time}`;
}

/** The date where the browser is. */
export function day(us) {
  const at = new Date(us / 1000);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** What the config calls a duration, in seconds: `60s`, `1m`, `500ms`. */
export function seconds(text) {
  const parts = /^(\d+)(us|ms|s|m|h|d)$/.exec(text);
  const sizes = { us: 1e-6, ms: 1e-3, s: 1, m: 60, h: 3600, d: 86400 };
  return parts ? Number(parts[1]) * sizes[parts[2]] : NaN;
}

/** A unit as people write it. */
export function unit(name) {
  const known = { degC: "°C", degF: "°F", percent: "%", pct: "%", one: "", "1": "", ohm: "Ω", uA: "µA", uV: "µV" };
  return known[name] ?? name ?? "";
}
