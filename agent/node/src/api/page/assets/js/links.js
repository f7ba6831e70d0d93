// Where readings come in and go out: ports, destinations and what waits for them, and the
// room on the disk.

import { attribute, byId, el, keyed, show, text } from "./dom.js";
import { bytes, clock, count, micros, span } from "./format.js";

function item() {
  return el("li", {}, el("p", { class: "line" }, el("strong"), el("span", { class: "pill" }), el("span", { class: "quiet" })), el("p", { class: "quiet" }));
}

function change(node, { name, level, state, figures, why }) {
  const [line, more] = node.children;
  const [title, pill, said] = line.children;
  text(title, name);
  attribute(pill, "data-level", level);
  text(pill, state);
  text(said, figures);
  text(more, why ?? "");
  show(more, Boolean(why));
}

function destination(one, nowUs) {
  const backlog = one.backlog_readings ?? one.backlog ?? 0;
  const parts = [`${count(backlog)} readings wait (${bytes(one.backlog_bytes)})`];
  if (backlog > 0 && one.oldest_unsent) {
    parts.push(`the oldest from ${clock(micros(one.oldest_unsent), nowUs)}`);
  }
  if (one.rate > 0) {
    parts.push(`${count(one.rate)} per s`);
  }
  if (backlog > 0 && one.eta_s !== null && one.eta_s !== undefined) {
    parts.push(`through in ${span(one.eta_s)}`);
  }
  const receiver = one.receiver_known ? (one.receiver_online ? "receiver online" : "receiver away") : null;
  if (receiver) {
    parts.push(receiver);
  }
  const why = one.last_refusal ?? (one.connected ? null : (one.last_disconnect ?? null));
  return { key: one.name, name: `Broker ${one.name ?? ""}`.trim(), level: one.connected ? "ok" : "bad", state: one.connected ? "connected" : "away", figures: parts.join(", "), backlog, why: typeof why === "string" ? why : null };
}

function port(one) {
  const open = one.state === "open";
  const heard = one.device ? `device ${one.device}` : "no device heard";
  const bad = one.frames_bad > 0 ? `, ${count(one.frames_bad)} bad frames` : "";
  return { key: String(one.port), name: one.name ?? `port ${one.port}`, level: open ? (one.device ? "ok" : "warn") : "bad", state: one.state ?? "unknown", figures: `${heard}, ${count(one.frames_ok ?? 0)} frames${bad}`, why: open ? null : one.last_error };
}

function topic(one) {
  return { key: one.topic, name: one.topic, level: one.full ? "bad" : one.alarm ? "warn" : "ok", state: `${one.used_percent} %`, figures: `${bytes(one.used_bytes)} of ${bytes(one.quota_bytes)}`, why: one.dropped > 0 ? `${count(one.dropped)} removed by its policy` : null };
}

/** The worst states first, so that they are seen among two hundred. */
function worstFirst(items) {
  const order = { bad: 0, warn: 1, ok: 2 };
  return items.map((one, at) => [one, at]).sort(([a, i], [b, j]) => order[a.level] - order[b.level] || i - j).map(([one]) => one);
}

function part(title, id) {
  const list = el("ul", { class: "link-list" });
  const none = el("p", { class: "calm" });
  return { box: el("div", { id }, el("h3", {}, title), none, list), list, none };
}

const parts = {};

function fill(name, title, items, none) {
  parts[name] ??= part(title, `links-${name}`);
  const { box, list, none: calm } = parts[name];
  if (!box.isConnected) {
    byId("links").append(box);
  }
  show(calm, items.length === 0);
  text(calm, none);
  keyed(list, items, (one) => one.key, item, (node, one) => {
    change(node, one);
    attribute(node, "data-backlog", one.backlog);
  });
}

/** Brings all of it up to date. */
export function showLinks(status, nowUs) {
  const destinations = status.destinations ?? [];
  fill("out", "Out", destinations.map((one) => destination(one, nowUs)), "Nothing is forwarded: the config has no [forward].");
  fill("in", "In", worstFirst((status.ports ?? []).map(port)), "No port is in the config.");
  const topics = (status.space?.topics ?? []).filter((one) => one.used_bytes > 0 || one.alarm || one.full);
  fill("disk", "Disk", worstFirst(topics.map(topic)), "Nothing is kept yet.");
}
