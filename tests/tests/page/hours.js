// Hours in seconds. Put in before the page's own scripts: its clock, its timers and its agent
// are these, and go on only with `hours.go`. The agent here has one device with two channels.
(() => {
  const HZ = 5;
  const UID = "0123456789abcdef";
  const [realTimeout, realChannel] = [setTimeout, MessageChannel];
  const agent = { away: false, slow: false, busy: false, runs: 1, since: 0 };
  const seen = { asked: {}, waiting: 0, waitingMost: 0, streams: new Set(), streamsMost: 0, opened: 0 };
  const timers = new Map();
  /** `nowMs` is the agent's; this computer's clock is `setBy` further. */
  let [nowMs, setBy, nextTimer, ordinal, isHidden] = [Date.parse("2026-03-28T20:00:00Z"), 0, 1, 0, false];

  Date.now = () => nowMs + setBy;
  Object.defineProperty(document, "hidden", { get: () => isHidden });
  const arm = (run, ms, again) => {
    timers.set(nextTimer, { run, ms: Math.max(1, ms ?? 0), due: nowMs + Math.max(1, ms ?? 0), again });
    nextTimer += 1;
    return nextTimer - 1;
  };
  window.setTimeout = (run, ms) => arm(run, ms, false);
  window.setInterval = (run, ms) => arm(run, ms, true);
  window.clearTimeout = window.clearInterval = (id) => timers.delete(id);
  AbortSignal.timeout = (ms) => {
    const controller = new AbortController();
    arm(() => controller.abort(), ms, false);
    return controller.signal;
  };

  const text = (ms) => new Date(ms).toISOString();
  const value = (ms) => 20 + Math.sin(ms / 60_000);
  const channels = ["pressure", "temperature"];
  const span = (given) => Number(/^-(\d+)s$/.exec(given)[1]) * 1000;
  const series = (query, of) => query.getAll("channel").map((channel) => ({ device: "boiler", uid: UID, channel, unit: "degC", ...of(channel) }));
  const answers = {
    status: () => ({
      gateway: "plant-1", log_id: "00", recovered: true, health: "ok", alarms: [], destinations: [], space: { topics: [] },
      clock: { trusted: true },
      ports: [{ port: 1, device: "boiler", state: "open", frames_ok: nowMs / 1000 }],
      devices: [{ device: "boiler", uid: UID, channels: channels.map((channel) => ({ channel, unit: "degC", value: value(nowMs), time: text(nowMs) })), ledger: { produced: ordinal, readings: ordinal, gaps: { total: 0 }, lost: 0, missing: 0, closes: true } }],
    }),
    devices: () => ({ devices: [{ device: "boiler", uid: UID, boot: 1, clock: { uncertainty_us: 900 }, channels: channels.map((channel) => ({ channel, unit: "degC", period_us: 1e6 / HZ })) }] }),
    readings: (query) => {
      const count = Math.min((span(query.get("from")) / 1000) * HZ, Number(query.get("limit")) / query.getAll("channel").length);
      const times = Array.from({ length: count }, (_, at) => (nowMs - ((count - 1 - at) * 1000) / HZ) * 1000);
      return { series: series(query, () => ({ times, values: times.map((us) => value(us / 1000)), boot: times.map(() => 1), ordinal: times.map((us) => us / 2e5) })), gaps: [], next: null };
    },
    rollups: (query) => {
      const size = Number(/^(\d+)s$/.exec(query.get("window"))[1]) * 1000;
      const [from, starts] = [nowMs - span(query.get("from")), []];
      for (let at = Math.floor(from / size) * size; at < nowMs; at += size) {
        starts.push(at * 1000);
      }
      const all = (one) => starts.map(one);
      return { series: series(query, () => ({ starts, ends: all((at) => at + size * 1000), count: all(() => 300), mean: all(() => 20), min: all(() => 19), max: all(() => 21), preliminary: all(() => false) })) };
    },
    rolling: (query) => ({ series: series(query, () => ({ time: nowMs * 1000, count: 300, mean: 20, min: 19, max: 21 })) }),
    rows: () => ({ rows: [] }),
  };

  function headers(type) {
    const page = document.querySelector("script").src.split("/").at(-2);
    return { "Content-Type": type, Date: new Date(nowMs).toUTCString(), "Forebay-Run": `run-${agent.runs}`, "Forebay-Page": page };
  }

  function stream(query, signal) {
    let control;
    const body = new ReadableStream({ start: (given) => (control = given) });
    const one = { query, send: (event, row) => control.enqueue(new TextEncoder().encode(`id: readings@0=0:${ordinal}\nevent: insert\ndata: ${JSON.stringify({ stream: event, op: row.op ?? "insert", row })}\n\n`)), beat: () => control.enqueue(new TextEncoder().encode(":\n\n")) };
    const end = (error) => seen.streams.delete(one) && control.error(error);
    one.cut = () => end(new TypeError("network error"));
    signal.addEventListener("abort", () => end(new DOMException("aborted", "AbortError")), { once: true });
    seen.streams.add(one);
    seen.opened += 1;
    seen.streamsMost = Math.max(seen.streamsMost, seen.streams.size);
    return new Response(body, { headers: headers("text/event-stream") });
  }

  window.fetch = async (address, { signal }) => {
    const url = new URL(address, location.href);
    const name = url.pathname.replace("/api/v1/", "");
    seen.asked[name] = (seen.asked[name] ?? 0) + 1;
    if (agent.away) {
      throw new TypeError("Failed to fetch");
    }
    if (agent.slow) {
      seen.waiting += 1;
      seen.waitingMost = Math.max(seen.waitingMost, seen.waiting);
      await new Promise((_, fail) => signal.addEventListener("abort", () => ((seen.waiting -= 1), fail(new DOMException("aborted", "AbortError"))), { once: true }));
    }
    if (name === "stream" && agent.busy) {
      return new Response(JSON.stringify({ detail: "as many streams are followed as may be" }), { status: 503, headers: headers("application/problem+json") });
    }
    if (name === "stream") {
      return stream(url.searchParams, signal);
    }
    return new Response(JSON.stringify(answers[name](url.searchParams)), { headers: headers("application/json") });
  };

  /** What promises have to do is done. */
  async function settled() {
    for (let turn = 0; turn < 6; turn += 1) {
      await new Promise((done) => {
        const channel = new realChannel();
        channel.port1.onmessage = () => (channel.port1.close(), done());
        channel.port2.postMessage(0);
      });
    }
  }

  function produce(seconds) {
    const count = Math.min(seconds, 60) * HZ;
    ordinal += seconds * HZ;
    for (const one of seen.streams) {
      for (let at = count - 1; at >= 0; at -= 1) {
        const ms = nowMs - (at * 1000) / HZ;
        for (const channel of one.query.getAll("channel")) {
          one.send("readings", { device: "boiler", channel, time: text(ms), value: value(ms), boot: 1, ordinal: (ms * 1000) / 2e5 });
        }
      }
      one.send("readings", { op: "gap", device: UID, boot: 1, first: ordinal, count: 3, reason: "overwritten" });
      one.send("late", { device: "boiler", channel: channels[0], time: text(nowMs - 70_000), value: 1, reason: "late" });
    }
  }

  async function ring() {
    for (const [id, timer] of [...timers]) {
      if (timer.due <= nowMs && timers.has(id)) {
        if (timer.again) {
          timer.due = nowMs + timer.ms;
        } else {
          timers.delete(id);
        }
        timer.run();
      }
    }
    await settled();
  }

  window.hours = {
    agent,
    seen,
    timers,
    /** So many seconds pass, in steps. */
    async go(seconds, step = 10) {
      for (let left = seconds; left > 0; left -= step) {
        nowMs += step * 1000;
        if (!agent.away && !agent.slow) {
          produce(step);
        }
        await settled();
        await ring();
      }
    },
    /** The computer sleeps: nothing runs, and streams that were open say nothing any more. */
    async sleep(seconds) {
      seen.streams.clear();
      nowMs += seconds * 1000;
      ordinal += seconds * HZ;
      await ring();
    },
    /** The clock of this computer is set, and the agent's is not. */
    set: (seconds) => (setBy += seconds * 1000),
    cut: () => [...seen.streams].forEach((one) => one.cut()),
    async hide(hidden) {
      isHidden = hidden;
      document.dispatchEvent(new Event("visibilitychange"));
      await settled();
    },
    async restart() {
      agent.runs += 1;
      hours.cut();
      await settled();
    },
    async choose(selector) {
      document.querySelector(selector).click();
      await settled();
    },
    /** An hour with all that may happen in one. */
    async eventful() {
      for (let quarter = 0; quarter < 4; quarter += 1) {
        await hours.go(240);
        hours.cut();
        await hours.go(60);
        await hours.hide(true);
        await hours.go(120, 60);
        await hours.hide(false);
        await hours.choose(`tr.channel:nth-of-type(${2 + (quarter % 2)}) .pick`);
        await hours.go(120);
        await hours.choose(`#ranges input[value="${["15m", "24h", "5m", "1h"][quarter]}"]`);
        document.querySelector(".chart summary").click();
        await hours.go(60);
        agent.away = true;
        hours.cut();
        await hours.go(120);
        agent.away = false;
        await hours.restart();
        document.querySelector("#channel").value = "";
        document.querySelector("#channel").dispatchEvent(new Event("change"));
        document.querySelector("#scheme").value = quarter % 2 ? "dark" : "light";
        document.querySelector("#scheme").dispatchEvent(new Event("change"));
        await hours.go(60);
        await hours.sleep(120);
      }
      await hours.choose('#ranges input[value="5m"]');
      await hours.go(60);
    },
  };
})();
