// The alarms that stand, each with what to do and where its runbook is.

import { attribute, byId, el, keyed, show, text } from "./dom.js";
import { clock, micros } from "./format.js";

const CRITICAL = ["critical", "failed"];

function make(alarm) {
  const runbook = el("p", { class: "runbook" });
  const details = el("details", {}, el("summary", {}, `What to do about ${alarm.code}`), runbook);
  return el("li", {}, el("p", { class: "alarm-head" }, el("strong"), el("code"), el("span", { class: "quiet" })), el("p"), details);
}

function change(item, alarm, nowUs) {
  const [head, said, details] = item.children;
  const [subject, code, since] = head.children;
  item.dataset.code = alarm.code;
  item.dataset.subject = alarm.subject ?? "";
  attribute(item, "data-severity", CRITICAL.includes(alarm.severity) ? "critical" : null);
  text(subject, alarm.subject || "the agent");
  text(code, alarm.code);
  text(since, alarm.since ? `since ${clock(micros(alarm.since), nowUs)}` : "");
  text(said, alarm.text ?? "");
  show(details, Boolean(alarm.runbook));
  const [page, section] = (alarm.runbook ?? "").split("#");
  text(details.querySelector(".runbook"), `What is said above comes first. All of it, with causes and what ends the alarm: agent/node/docs/${page}${section ? `, section ${section}` : ""}.`);
}

/** Brings the list up to date. */
export function showAlarms(alarms, nowUs) {
  const none = byId("no-alarms");
  text(none, alarms.length === 0 ? "None stands." : `${alarms.length} ${alarms.length === 1 ? "stands" : "stand"}.`);
  const list = byId("alarm-list");
  show(list, alarms.length > 0);
  keyed(list, alarms, (alarm) => `${alarm.code}\n${alarm.subject}`, make, (item, alarm) => change(item, alarm, nowUs));
}
