// Asks the agent: questions with a deadline, and one stream of server-sent events that is
// opened again when it breaks. Read by fetch and not by EventSource, which takes no token.

const DEADLINE_MS = 10_000;
const STREAM_SILENCE_MS = 45_000;
const AGAIN_MS = [1000, 2000, 4000, 8000, 15_000];
const LINE_CHARS_MAX = 1_000_000;
const TOKEN_KEY = "forebay.token";

/** What went wrong with a question: `status` 0 where nobody answered. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let token = readToken();

function readToken() {
  try {
    return sessionStorage.getItem(TOKEN_KEY);
  } catch {
    return null;
  }
}

/** Gives the token to all questions of this tab. */
export function useToken(value) {
  token = value;
  try {
    sessionStorage.setItem(TOKEN_KEY, value);
  } catch {
    // Then it holds until the page is loaded again.
  }
}

function headers(accept) {
  const all = { Accept: accept };
  if (token) {
    all.Authorization = `Bearer ${token}`;
  }
  return all;
}

/** `/api/v1/path?parameters`; a list stands for one parameter several times. */
export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null) {
        query.append(name, one);
      }
    }
  }
  const text = query.toString();
  return `/api/v1/${path}${text ? `?${text}` : ""}`;
}

/** Runs of the agent that are over, and are not taken for new ones: so many are known. */
const PAST_MAX = 16;
const runs = { now: null, past: [], onOther: () => {} };

/** `react` is called with the version of the agent's page when another run of it answers. */
export function whenOther(react) {
  runs.onOther = react;
}

/**
 * Which run of the agent an answer is from: another process may have another log. Fails for
 * an answer of a run that is over.
 */
function runOf(response) {
  const run = response.headers.get("Forebay-Run") ?? "";
  if (runs.past.includes(run)) {
    throw new ApiError(0, "another agent answers");
  }
  if (run !== runs.now) {
    const isFirst = runs.now === null;
    runs.past = [...runs.past, runs.now].filter((one) => one !== null).slice(-PAST_MAX);
    runs.now = run;
    const page = response.headers.get("Forebay-Page") ?? "";
    if (!isFirst || page !== forebayPage.version) {
      runs.onOther(page);
    }
  }
  return run;
}

/** A signal that says when to give up; `end` lets go of all that it holds. */
function deadline(signal, ms) {
  const attempt = new AbortController();
  const give = () => attempt.abort();
  const timer = setTimeout(give, ms);
  signal?.addEventListener("abort", give);
  if (signal?.aborted) {
    give();
  }
  const end = () => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", give);
  };
  return { signal: attempt.signal, end };
}

async function problem(response) {
  const body = await response.json().catch(() => ({}));
  const said = body.detail ?? body.title ?? `the agent answered ${response.status}`;
  return new ApiError(response.status, said);
}

/** A question; the answer also says at which time (`at_us`, the agent's clock) it was given. */
export async function get(path, parameters = {}, signal = undefined) {
  const until = deadline(signal, DEADLINE_MS);
  try {
    return await answer(address(path, parameters), until.signal);
  } catch (error) {
    throw error instanceof ApiError || signal?.aborted ? error : new ApiError(0, "the agent does not answer");
  } finally {
    until.end();
  }
}

async function answer(asked, signal) {
  const response = await fetch(asked, { headers: headers("application/json"), signal, cache: "no-store" });
  if (!response.ok) {
    throw await problem(response);
  }
  const run = runOf(response);
  const body = await response.json().catch((error) => {
    throw signal.aborted ? error : new ApiError(0, "the agent's answer broke off");
  });
  if (run !== runs.now) {
    throw new ApiError(0, "the agent was started anew");
  }
  return { body, at_us: Date.parse(response.headers.get("Date") ?? "") * 1000 };
}

/** Takes the lines of an event stream, and gives whole events. */
export class EventLines {
  constructor(onEvent) {
    this.onEvent = onEvent;
    this.rest = "";
    this.event = { data: [] };
  }

  push(chunk) {
    const lines = (this.rest + chunk).split(/\r\n|\n|\r/);
    this.rest = lines.pop();
    if (this.rest.length > LINE_CHARS_MAX) {
      throw new ApiError(0, "a line of the stream is too long");
    }
    lines.forEach((line) => this.line(line));
  }

  line(line) {
    if (line === "") {
      if (this.event.data.length > 0) {
        this.onEvent({ ...this.event, data: this.event.data.join("\n") });
      }
      this.event = { data: [] };
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) {
      return;
    }
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") {
      this.event.data.push(value);
    } else if (name === "id" || name === "event") {
      this.event[name] = value;
    }
  }
}

/** So many milliseconds, or until the signal. */
function pause(ms, signal) {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      done();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}

/**
 * Follows the agent's stream until it is closed, from now on each time that it is opened.
 * `on.event` gets each event, `on.heard` is called whenever something comes, `on.open` says
 * that it is open (again), `on.broken` that it is not.
 */
export class Stream {
  constructor(parameters, on) {
    this.parameters = parameters;
    this.on = on;
    this.stop = new AbortController();
    this.tries = 0;
    this.run();
  }

  close() {
    this.stop.abort();
  }

  async run() {
    while (!this.stop.signal.aborted) {
      const why = await this.once().catch((error) => error);
      if (this.stop.signal.aborted) {
        return;
      }
      this.on.broken(why instanceof ApiError ? why : new ApiError(0, "the stream broke off"));
      const wait = AGAIN_MS[Math.min(this.tries, AGAIN_MS.length - 1)];
      this.tries += 1;
      await pause(wait, this.stop.signal);
    }
  }

  async once() {
    const attempt = new AbortController();
    const end = () => attempt.abort();
    this.stop.signal.addEventListener("abort", end, { once: true });
    let silence = setTimeout(end, STREAM_SILENCE_MS);
    try {
      const response = await fetch(address("stream", this.parameters), {
        headers: headers("text/event-stream"),
        signal: attempt.signal,
        cache: "no-store",
      });
      if (!response.ok) {
        throw await problem(response);
      }
      runOf(response);
      if (this.stop.signal.aborted) {
        throw new ApiError(0, "the agent was started anew");
      }
      this.tries = 0;
      this.on.open();
      const lines = new EventLines((event) => this.on.event(event));
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) {
          return new ApiError(0, "the agent closed the stream");
        }
        clearTimeout(silence);
        silence = setTimeout(end, STREAM_SILENCE_MS);
        this.on.heard();
        lines.push(value);
      }
    } finally {
      clearTimeout(silence);
      this.stop.signal.removeEventListener("abort", end);
      // A broken stream is not left open behind the next one.
      end();
    }
  }
}
