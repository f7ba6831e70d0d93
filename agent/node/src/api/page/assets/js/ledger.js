// The ledger: what became of all that each device produced, and whether the sums close.

import { attribute, byId, el, keyed, text } from "./dom.js";
import { count } from "./format.js";

const FIGURES = ["produced", "readings", "gaps", "lost", "missing"];

const total = (value) => (typeof value === "object" && value !== null ? value.total : value);

/** Which sums do not close, and by how much. */
function off(ledger) {
  const parts = Object.entries(ledger.off ?? {}).filter(([, by]) => by !== 0);
  return parts.map(([name, by]) => `${by} (${name})`).join(", ");
}

function sums(ledger) {
  if (ledger.closes === true) {
    return ["ok", "close"];
  }
  if (ledger.closes === false) {
    return ["bad", `do not close: off by ${off(ledger)}`];
  }
  return ["unknown", "not told yet"];
}

/** Brings the table up to date; each item is {device, ledger}. */
export function showLedger(items) {
  const make = () => el("tr", {}, el("th", { scope: "row" }), el("td", {}, el("span", { class: "pill" })), ...FIGURES.map(() => el("td", { class: "number" }, el("data"))));
  const change = (row, { device, ledger }) => {
    row.dataset.device = device;
    text(row.children[0], device);
    FIGURES.forEach((name, at) => {
      const cell = row.children[at + 2].firstElementChild;
      const value = total(ledger?.[name]);
      attribute(cell, "value", value ?? "");
      attribute(cell, "data-figure", name);
      text(cell, count(value));
    });
    const [level, said] = sums(ledger ?? {});
    const pill = row.children[1].firstElementChild;
    attribute(pill, "data-level", level);
    text(pill, said);
  };
  keyed(byId("ledger-rows"), items, (item) => item.device, make, change);
  const open = items.filter((item) => item.ledger?.closes === false).length;
  const known = items.some((item) => item.ledger?.closes === true);
  const sum = byId("ledger-sum");
  attribute(sum, "data-level", open > 0 ? "bad" : known ? "ok" : "unknown");
  text(sum, open > 0 ? `${open} of ${items.length} do not close` : known ? "all sums close" : "not known yet");
}
