// The table of devices: freshness of each channel and how well its clock is known.

import { attribute, byId, el, keyed, show, text } from "./dom.js";
import { clock, count, figure, unit } from "./format.js";
import { clockQuality, freshness, worst } from "./freshness.js";

const FILTER_FROM = 8;

function lines(devices, filter) {
  const wanted = filter.trim().toLowerCase();
  const fits = (device) => wanted === "" || device.name.toLowerCase().includes(wanted) || device.channels.some((channel) => channel.name.toLowerCase().includes(wanted));
  return devices.filter(fits).flatMap((device) => [{ kind: "device", device }, ...device.channels.map((channel) => ({ kind: "channel", device, channel }))]);
}

const keyOf = (line) => (line.kind === "device" ? line.device.name : `${line.device.name}\n${line.channel.name}`);

function state(cell, found) {
  const [pill, why] = cell.children;
  attribute(pill, "data-is", found.is);
  text(pill, found.label);
  text(why, found.why);
}

function stateCell() {
  return el("td", {}, el("span", { class: "state" }), el("span", { class: "why" }));
}

/** How fresh a channel is, as of the answer that brought it. */
export function channelFreshness(device, channel, { nowUs, answering }) {
  return freshness({ answering, newestUs: channel.newestUs, periodUs: channel.periodUs, connected: device.connected, hasLink: device.hasLink, nowUs });
}

/** Brings the table up to date; `pick(device, channel)` shows one in the charts. */
export function showDevices(devices, { filter, nowUs, answering, shown, pick, clockTrusted }) {
  show(byId("no-devices"), devices.length === 0);
  show(byId("device-scroll"), devices.length > 0);
  show(byId("filter-box"), devices.length >= FILTER_FROM);
  const states = devices.map((device) => worst(device.channels.map((channel) => channelFreshness(device, channel, { nowUs, answering }).is)));
  const troubled = ["away", "stale"].map((name) => [name, states.filter((one) => one === name).length]).filter(([, many]) => many > 0);
  text(byId("device-count"), devices.length === 0 ? "" : [`${count(devices.length)} in all`, ...troubled.map(([name, many]) => `${many} ${name}`)].join(", "));
  const make = (line) => {
    if (line.kind === "device") {
      return el("tr", { class: "device" }, el("th", { scope: "row" }), el("td", { class: "number" }), stateCell(), el("td"));
    }
    const button = el("button", { type: "button", class: "pick" }, line.channel.name);
    button.addEventListener("click", () => pick(line.device.name, line.channel.name));
    attribute(button, "aria-label", `Show ${line.channel.name} of ${line.device.name}`);
    return el("tr", { class: "channel" }, el("th", { scope: "row" }, button), el("td", { class: "number" }, el("data"), el("span", { class: "unit" })), stateCell(), el("td"));
  };
  const change = (row, line) => {
    const [head, newest, fresh, quality] = row.children;
    const { device } = line;
    row.dataset.device = device.name;
    if (line.kind === "device") {
      text(head, device.name);
      const found = device.channels.map((channel) => channelFreshness(device, channel, { nowUs, answering }));
      const is = worst(found.map((one) => one.is));
      const away = answering && device.hasLink && !device.connected;
      const good = found.filter((one) => one.is === "fresh").length;
      const label = { unknown: "not known", away: "away", stale: "stale", none: "no reading yet", recorded: "recorded", fresh: "fresh" }[away ? "away" : is];
      const why = { unknown: "the agent does not answer", recorded: "no link here" }[is] ?? `${good} of ${device.channels.length} fresh`;
      state(fresh, { is: away ? "away" : is, label, why: away ? "not connected" : why });
      const known = clockQuality(device.uncertaintyUs, clockTrusted);
      text(quality, known.label);
      attribute(quality, "class", known.level === "warn" ? "clock-warn" : "quiet");
      return;
    }
    const { channel } = line;
    row.dataset.channel = channel.name;
    row.dataset.shown = shown(device.name, channel.name);
    const found = channelFreshness(device, channel, { nowUs, answering });
    state(fresh, found);
    const bad = channel.value === null && channel.quality;
    attribute(newest.children[0], "value", channel.value ?? "");
    attribute(newest.children[0], "title", Number.isFinite(channel.newestUs) ? `at ${clock(channel.newestUs, nowUs)}` : null);
    text(newest.children[0], bad ? channel.quality.replaceAll("_", " ") : figure(channel.value));
    text(newest.children[1], bad ? "" : unit(channel.unit));
    attribute(newest, "data-quality", bad ? "bad" : null);
    text(quality, "");
  };
  keyed(byId("device-rows"), lines(devices, filter), keyOf, make, change);
}
