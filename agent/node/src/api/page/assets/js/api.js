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

async function problem(response) {
  const body = await response.json().catch(() => ({}));
  const said = body.detail ?? body.title ?? `the agent answered ${response.status}`;
  return new ApiError(response.status, said);
}

/** A question; the answer also says at which time (`at_us`, the agent's clock) it was given. */
export async function get(path, parameters = {}, signal = undefined) {
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  const until = signal ? AbortSignal.any([signal, deadline]) : deadline;
  let response;
  try {
    response = await fetch(address(path, parameters), {
      headers: headers("application/json"),
      signal: until,
      cache: "no-store",
    });
  } catch (error) {
    if (signal?.aborted) {
      throw error;
    }
    throw new ApiError(0, "the agent does not answer");
  }
  if (!response.ok) {
    throw await problem(response);
  }
  try {
    const body = await response.json();
    return { body, at_us: Date.parse(response.headers.get("Date") ?? "") * 1000 };
  } catch (error) {
    if (signal?.aborted) {
      throw error;
    }
    throw new ApiError(0, "the agent's answer broke off");
  }
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

/**
 * Follows the agent's stream until it is closed. `on.event` gets each event, `on.open` says
 * that it is open (again), `on.broken` that it is not.
 */
export class Stream {
  constructor(parameters, on) {
    this.parameters = parameters;
    this.on = on;
    this.stop = new AbortController();
    this.tries = 0;
    this.last = null;
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
      await new Promise((done) => {
        const timer = setTimeout(done, wait);
        this.stop.signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
      });
    }
  }

  async once() {
    const attempt = new AbortController();
    const end = () => attempt.abort();
    this.stop.signal.addEventListener("abort", end, { once: true });
    let silence = setTimeout(end, STREAM_SILENCE_MS);
    try {
      const sent = headers("text/event-stream");
      if (this.last !== null) {
        sent["Last-Event-ID"] = this.last;
      }
      const response = await fetch(address("stream", this.parameters), {
        headers: sent,
        signal: attempt.signal,
        cache: "no-store",
      });
      if (!response.ok) {
        throw await problem(response);
      }
      this.tries = 0;
      this.on.open();
      const lines = new EventLines((event) => {
        this.last = event.id ?? this.last;
        this.on.event(event);
      });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) {
          return new ApiError(0, "the agent closed the stream");
        }
        clearTimeout(silence);
        silence = setTimeout(end, STREAM_SILENCE_MS);
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
