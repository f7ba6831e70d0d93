// The page as a whole: asks the agent now and then, follows one stream of what is new, and
// shows both. Costs the agent one stream and two questions each few seconds, fewer the more
// devices there are, and none while nobody looks at the page.

import { Stream, get, useToken, whenOther } from "./api.js";
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
/** Between two ticks no more passes but where the computer slept, or its clock was set. */
const SLEPT_MS = 20_000;
/** [devices at the most, ms between two questions] */
const PACE = [[20, 2000], [60, 4000], [Infinity, 10_000]];
const ALL = "";
/** What is chosen, while the page loads itself anew. */
const CHOSEN_KEY = "forebay.chosen";

const state = {
  status: null,
  listed: null,
  devices: [],
  atUs: NaN,
  offsetUs: 0,
  askedAt: -Infinity,
  tickedAt: Date.now(),
  /** When the stream last said something, also that nothing came; us. */
  heardAt: NaN,
  asking: false,
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

/** One question at a time: a slow agent is not asked again before it has answered. */
async function ask() {
  if (state.asking) {
    return;
  }
  state.asking = true;
  state.askedAt = Date.now();
  try {
    const { body, at_us: atUs } = await get("status");
    keepTime(atUs);
    state.status = body;
    state.atUs = now();
    if (knowsNew(body) || state.listed === null || state.polls % LISTED_EACH === 0) {
      state.listed = (await get("devices")).body;
    }
    state.polls += 1;
    state.answerAt = Date.now();
    state.failure = null;
  } catch (error) {
    state.failure = error;
  }
  state.asking = false;
  present();
}

/**
 * Another run of the agent answers: what is known of the one before may be of another log,
 * and its page may be another.
 */
function startedAnew(page) {
  if (page !== forebayPage.version) {
    keepChosen();
    forebayPage.renew();
  }
  Object.assign(state, { status: null, listed: null, polls: 0, seen: 0 });
  unfollow();
  board.forget();
  ask();
}

function keepChosen() {
  const { device, channel, window: size, range } = state;
  try {
    sessionStorage.setItem(CHOSEN_KEY, JSON.stringify({ device, channel, size, range: range.id }));
  } catch {
    // Then the first device is shown again.
  }
}

function takeChosen() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(CHOSEN_KEY) ?? "null");
    sessionStorage.removeItem(CHOSEN_KEY);
    if (kept) {
      const { device, channel } = kept;
      const range = RANGES.find((one) => one.id === kept.range) ?? state.range;
      const sizes = [...byId("window").options].map((option) => option.value);
      Object.assign(state, { device, channel, range, window: sizes.includes(kept.size) ? kept.size : state.window });
      byId("window").value = state.window;
    }
  } catch {
    // Nothing was chosen.
  }
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
    const since = state.answerAt ? ` What is shown is from ${clock(state.answerAt * 1000 + state.offsetUs, now())}, ${span((Date.now() - state.answerAt) / 1000)} ago.` : "";
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
  if (board.show(device, shown) || state.stream.object === null) {
    follow();
  }
  presentDevices();
}

function settings() {
  return { range: state.range, window: state.window };
}

function unfollow() {
  if (state.stream.open) {
    board.heard(state.heardAt);
  }
  state.stream.object?.close();
  state.stream.object = null;
  state.stream.open = false;
}

/** Follows what is new of the channels shown, and what comes late. */
function follow() {
  unfollow();
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
      state.heardAt = now();
      board.heard(Infinity);
      presentConnection();
      // What came between is asked for; then both overlap, and nothing is missing.
      board.load(settings());
    },
    broken: (why) => {
      if (state.stream.open) {
        board.heard(state.heardAt);
      }
      state.stream.open = false;
      state.stream.why = why;
      presentConnection();
      if (!board.isAsked) {
        // As many streams are followed as may be: what there is so far is shown all the same.
        board.heard(now());
        board.load(settings());
      }
    },
    heard: () => (state.heardAt = now()),
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

/** Whether so much time passed that the stream may have ended without a word. */
function slept() {
  const before = state.tickedAt;
  state.tickedAt = Date.now();
  return Math.abs(state.tickedAt - before) > SLEPT_MS;
}

function tick() {
  const wakes = slept();
  if (document.hidden) {
    return;
  }
  if (wakes) {
    follow();
  }
  board.draw();
  if (state.failure) {
    presentConnection();
    presentDevices();
  }
  // Also where this computer's clock was put back.
  if (Math.abs(Date.now() - state.askedAt) >= pace()) {
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

takeChosen();
wire();
whenOther(startedAnew);
ask();
setInterval(tick, DRAW_MS);
setInterval(refreshCharts, CHART_REFRESH_MS);
