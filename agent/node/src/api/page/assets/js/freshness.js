// Whether a channel is as fresh as its period lets expect, and how well its clock is known.
// Pure: the time is the agent's, as its answer says it.

import { span } from "./format.js";

/** A reading may be so many periods old, and so much more: links and disks take their time. */
const PERIODS = 3;
const SLACK_S = 5;
/** Clocks beyond this are worth a look. */
const UNCERTAIN_US = 100_000;
/** How the log says that a time comes from a clock that was not trusted. */
const UNSYNCED = 0xffff_ffff;

/** What can be said of a channel: {is, label, why}. Nothing is, while nobody is `answering`. */
export function freshness({ newestUs, periodUs, connected, hasLink, nowUs, answering }) {
  const age = (nowUs - newestUs) / 1e6;
  const old = Number.isFinite(age) ? `newest ${span(age)} old` : "no reading yet";
  const due = periodUs > 0 ? `, due each ${span(periodUs / 1e6)}` : "";
  if (!answering) {
    return { is: "unknown", label: "not known", why: old };
  }
  if (hasLink && !connected) {
    return { is: "away", label: "away", why: `${old}${due}` };
  }
  if (!Number.isFinite(age)) {
    return { is: "none", label: "no reading yet", why: due.slice(2) };
  }
  if (!(periodUs > 0)) {
    return { is: "recorded", label: `${span(age)} old`, why: "no period is known" };
  }
  const limit = (periodUs / 1e6) * PERIODS + SLACK_S;
  if (age > limit) {
    return { is: "stale", label: "stale", why: `${old}${due}` };
  }
  return { is: "fresh", label: "fresh", why: `each ${span(periodUs / 1e6)}` };
}

/** The worst of several states, for the device as a whole. */
export function worst(states) {
  const order = ["unknown", "away", "stale", "none", "recorded", "fresh"];
  return order.find((name) => states.includes(name)) ?? "none";
}

/** What can be said of a device's clock: {label, level}. */
export function clockQuality(uncertaintyUs, trusted) {
  if (trusted === false) {
    return { label: "unsynced: the gateway's clock is not trusted", level: "warn" };
  }
  if (uncertaintyUs === UNSYNCED) {
    return { label: "unsynced", level: "warn" };
  }
  if (!Number.isFinite(uncertaintyUs)) {
    return { label: "not measured", level: "quiet" };
  }
  const level = uncertaintyUs > UNCERTAIN_US ? "warn" : "ok";
  return { label: `± ${span(uncertaintyUs / 1e6)}`, level };
}
