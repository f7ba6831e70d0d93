// The page as a whole: asks the agent now and then, follows one stream of what is new, and
// shows both. Costs the agent one stream and two questions each few seconds, fewer the more
// devices there are, and none while nobody looks at the page.

import { Stream, get, useToken } from "./api.js";
import { Board } from "./board.js";
import { attribute, byId, el, options, show, text } from "./dom.js";
import { showAlarms } from "./alarms.js";
import { showDevices } from "./devices.js";
import { clock, micros, span } from "./format.js";
import { showLedger } from "./ledger.js";
import { showLinks } from "./links.js";
import { devices as devicesOf, health } from "./model.js";
import { RANGES } from "./series.js";

const CHARTS_MAX = 4;
const DRAW_MS = 1000;
const CHART_REFRESH_MS = 5000;
const LISTED_EACH = 3;
/** [devices at the most, ms between two questions] */
const PACE = [[20, 2000], [60, 4000], [Infinity, 10_000]];
const ALL = "";

const state = {
  status: null,
  listed: null,
  devices: [],
  atUs: NaN,
  offsetUs: 0,
  askedAt: 0,
  polls: 0,
  seen: 0,
  answerAt: 0,
  failure: null,
  stream: { open: false, why: null, object: null },
  device: null,
  channel: ALL,
  window: "60s",
  range: RANGES[0],
};

const board = new Board(byId("chart-list"), now);

/** The agent's time, us: this computer's clock, put right by the agent's answers. */
function now() {
  return Date.now() * 1000 + state.offsetUs;
}

function keepTime(atUs) {
  // The header has whole seconds, so that a small difference says nothing.
  const off = atUs + 500_000 - Date.now() * 1000;
  if (Number.isFinite(off) && Math.abs(off - state.offsetUs) > 1_500_000) {
    state.offsetUs = Math.abs(off) > 1_500_000 ? off : 0;
  }
}

const pace = () => PACE.find(([most]) => state.devices.length <= most)[1];

async function ask() {
  state.askedAt = Date.now();
  try {
    const { body, at_us: atUs } = await get("status");
    keepTime(atUs);
    state.status = body;
    state.atUs = now();
    if (knowsNew(body) || state.polls % LISTED_EACH === 0) {
      state.listed = (await get("devices")).body;
    }
    state.polls += 1;
    state.answerAt = Date.now();
    state.failure = null;
  } catch (error) {
    state.failure = error;
  }
  present();
}

/** Whether there are more devices, channels or links than when they were listed last. */
function knowsNew(status) {
  const sum = (list, of) => (list ?? []).reduce((all, one) => all + of(one), 0);
  const seen = sum(status.devices, (device) => 1 + (device.channels ?? []).length) + sum(status.ports, (port) => (port.device ? 1 : 0));
  const more = seen > state.seen;
  state.seen = seen;
  return more;
}

function present() {
  presentConnection();
  if (!state.status) {
    return;
  }
  const { status } = state;
  state.devices = devicesOf(status, state.listed);
  text(byId("gateway"), status.gateway ?? "");
  document.title = `${status.gateway ?? "Forebay"} · Forebay`;
  const { level, word } = health(status);
  attribute(byId("health"), "data-level", state.failure ? "bad" : level);
  text(byId("health"), state.failure ? "no answer" : word);
  showAlarms(status.alarms ?? [], now());
  presentDevices();
  showLedger(state.devices.filter((device) => device.ledger).map((device) => ({ device: device.name, ledger: device.ledger })));
  showLinks(status, now());
  choose();
}

function presentDevices() {
  showDevices(state.devices, {
    filter: byId("filter").value,
    nowUs: state.failure ? now() : state.atUs,
    answering: state.failure === null,
    shown: (device, channel) => device === state.device && (state.channel === ALL || state.channel === channel),
    pick: (device, channel) => {
      state.device = device;
      state.channel = channel;
      choose();
      byId("charts-title").scrollIntoView({ block: "start", behavior: reducedMotion.matches ? "auto" : "smooth" });
    },
    clockTrusted: state.status?.clock?.trusted,
  });
}

function presentConnection() {
  const trouble = byId("trouble");
  const asked = byId("token-form");
  const { failure, stream } = state;
  show(asked, failure?.status === 401 || stream.why?.status === 401);
  let said = null;
  if (failure && failure.status === 0) {
    const since = state.answerAt ? ` What is shown is from ${clock(state.answerAt * 1000 + state.offsetUs)}, ${span((Date.now() - state.answerAt) / 1000)} ago.` : "";
    said = `The agent does not answer.${since} It is asked again.`;
  } else if (failure && failure.status !== 401) {
    said = `The agent refuses to answer: ${failure.message}`;
  }
  show(trouble, said !== null);
  text(trouble, said ?? "");
  let line = "Asking the agent";
  if (failure) {
    line = "Not connected";
  } else if (state.answerAt) {
    const waiting = `Waiting for a first reading, asked for each ${span(pace() / 1000)}`;
    line = stream.open ? "Live" : stream.object === null && !stream.why ? waiting : `Live readings are interrupted${stream.why?.message ? `: ${stream.why.message}` : ""}. Figures are asked for each ${span(pace() / 1000)}`;
  }
  text(byId("connection"), line);
  attribute(byId("connection"), "data-live", stream.open && !failure);
}

/** Keeps the selects and the charts to what there is. */
function choose() {
  const drawable = state.devices.filter((device) => device.channels.length > 0);
  show(byId("no-charts"), drawable.length === 0);
  // Nothing can be chosen while there is nothing.
  for (const id of ["device", "channel", "window"]) {
    show(byId(id).closest("label"), drawable.length > 0);
  }
  show(byId("ranges"), drawable.length > 0);
  if (drawable.length === 0) {
    return;
  }
  const device = drawable.find((one) => one.name === state.device) ?? drawable[0];
  state.device = device.name;
  const names = device.channels.map((channel) => channel.name);
  if (!names.includes(state.channel)) {
    state.channel = ALL;
  }
  options(byId("device"), drawable.map((one) => [one.name, one.name]), state.device);
  const all = names.length > CHARTS_MAX ? `the first ${CHARTS_MAX}` : "all";
  options(byId("channel"), [[ALL, all], ...names.map((name) => [name, name])], state.channel);
  const shown = device.channels.filter((channel) => state.channel === ALL || state.channel === channel.name).slice(0, CHARTS_MAX);
  if (board.show(device, shown)) {
    follow();
  }
  presentDevices();
}

function settings() {
  return { range: state.range, window: state.window };
}

/** Follows what is new of the channels shown, and what comes late. */
function follow() {
  state.stream.object?.close();
  state.stream.object = null;
  state.stream.open = false;
  if (board.charts.length === 0 || document.hidden) {
    return;
  }
  const parameters = {
    stream: ["readings", "late"],
    device: board.uid ?? state.device,
    channel: board.channels,
    from: "now",
  };
  state.stream.object = new Stream(parameters, {
    open: () => {
      state.stream.open = true;
      state.stream.why = null;
      presentConnection();
      // What came between is asked for; then both overlap, and nothing is missing.
      board.load(settings());
    },
    broken: (why) => {
      state.stream.open = false;
      state.stream.why = why;
      presentConnection();
    },
    event: onEvent,
  });
}

function onEvent({ event, data }) {
  let said;
  try {
    said = JSON.parse(data);
  } catch {
    return;
  }
  board.take(said.stream ?? event, said.op ?? event, said.row ?? said);
}

function tick() {
  if (document.hidden) {
    return;
  }
  board.draw();
  if (state.failure) {
    presentConnection();
    presentDevices();
  }
  if (Date.now() - state.askedAt >= pace()) {
    ask();
  }
}

function refreshCharts() {
  if (!document.hidden && !state.failure) {
    board.refresh();
  }
}

function recolour() {
  board.recolour();
}

const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

function wireScheme() {
  const select = byId("scheme");
  select.value = document.documentElement.dataset.scheme;
  select.addEventListener("change", () => {
    window.forebayScheme(select.value);
    try {
      localStorage.setItem("forebay.scheme", select.value);
    } catch {
      // Then it holds until the page is loaded again.
    }
    recolour();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
}

function wireRanges() {
  for (const range of RANGES) {
    const input = el("input", { type: "radio", name: "range", value: range.id, checked: range === state.range });
    input.addEventListener("change", () => {
      state.range = range;
      board.load(settings());
    });
    byId("ranges").append(el("label", {}, input, el("span", {}, range.label)));
  }
}

function wire() {
  wireScheme();
  wireRanges();
  byId("device").addEventListener("change", (event) => {
    state.device = event.target.value;
    state.channel = ALL;
    choose();
  });
  byId("channel").addEventListener("change", (event) => {
    state.channel = event.target.value;
    choose();
  });
  byId("window").addEventListener("change", (event) => {
    state.window = event.target.value;
    board.load(settings());
  });
  byId("filter").addEventListener("input", presentDevices);
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    useToken(byId("token").value);
    byId("token").value = "";
    ask();
    follow();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) {
      ask();
    }
    follow();
  });
}

wire();
ask();
setInterval(tick, DRAW_MS);
setInterval(refreshCharts, CHART_REFRESH_MS);
