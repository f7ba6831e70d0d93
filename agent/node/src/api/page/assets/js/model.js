// What the answers of the API say of devices, put together: /devices knows periods and
// clocks, /status the newest readings, also of recorded ones that never had a link. Pure.

import { micros } from "./format.js";

function channelOf(known, live) {
  const newest = live ?? known?.newest ?? {};
  return {
    name: known?.channel ?? live.channel,
    unit: known?.unit ?? live?.unit ?? "",
    periodUs: known?.desired?.period_us ?? known?.period_us ?? null,
    value: newest.value ?? null,
    quality: newest.quality ?? null,
    newestUs: micros(newest.time),
  };
}

function deviceOf(said, counted, connectedNames) {
  const name = said?.device ?? counted.device;
  const known = said?.channels ?? [];
  const live = new Map((counted?.channels ?? []).map((channel) => [channel.channel, channel]));
  const channels = known.map((channel) => channelOf(channel, live.get(channel.channel)));
  const names = new Set(known.map((channel) => channel.channel));
  channels.push(...[...live.values()].filter((channel) => !names.has(channel.channel)).map((channel) => channelOf(null, channel)));
  return {
    name,
    uid: said?.uid ?? counted?.uid,
    // A device that said hello once has a link that it may be missed on; recorded ones have none.
    hasLink: said?.boot !== undefined || connectedNames.has(name),
    connected: connectedNames.has(name),
    uncertaintyUs: said?.clock?.uncertainty_us,
    channels: channels.sort((a, b) => (a.name < b.name ? -1 : 1)),
    ledger: counted?.ledger ?? said?.ledger ?? null,
  };
}

/** All devices, by name. Either answer may be missing. */
export function devices(status, listed) {
  const open = (status?.ports ?? []).filter((port) => port.device && (port.state === undefined || port.state === "open"));
  const said = new Map((listed?.devices ?? []).map((device) => [device.device, device]));
  const counted = new Map((status?.devices ?? []).map((device) => [device.device, device]));
  const connected = new Set([...open.map((port) => port.device), ...(status ? [] : [...said.values()].filter((device) => device.open).map((device) => device.device))]);
  const names = [...new Set([...said.keys(), ...counted.keys()])].sort();
  return names.map((name) => deviceOf(said.get(name), counted.get(name), connected));
}

/** The agent's health as a level and a word. */
export function health(status) {
  const known = { ok: ["ok", "healthy"], degraded: ["warn", "degraded"], failed: ["bad", "failed"] };
  const said = typeof status.health === "string" ? status.health : status.health?.state;
  const [level, word] = known[said] ?? ["unknown", said ?? "unknown"];
  return { level, word };
}
