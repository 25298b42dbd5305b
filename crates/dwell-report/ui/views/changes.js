// What differs between two sides: measures, findings, functions, waits, and the flame graph of both.
import { changeColor, changeText, sideTree } from "../model/changes.js";
import { duration, percent } from "../model/text.js";
import { boxesDrawing, searchField } from "./boxes.js";
import { el, ownFramesText, table } from "./dom.js";

const PER = { second: " a second", "thread-time": " a second of thread time", work: " a unit of work", run: "" };

export function changes(app) {
  const { answer } = app.rec;
  const side = (s) => `${s.target}${s.recordings > 1 ? ` (${s.recordings} recordings)` : ""}`;
  return el("div", { class: "page" }, el("h2", {}, "What changed"), el("p", { class: "mono" }, `${side(answer.before)} → ${side(answer.after)}`),
    el("p", { class: "quiet" }, `Times are${PER[answer.per] || " those of a run"}. What is pale is within the noise: half the interval that the true difference is in with 95 % probability.`),
    table(columns(answer, { head: "", text: (m) => m.name }), answer.measures, { id: "measures", asGiven: true }), findings(answer),
    predictions(answer),
    answer.notes.length ? el("ul", { class: "notes" }, answer.notes.map((note) => el("li", {}, note))) : "");
}

/** Before, after, the difference and its noise of rows with a `change`. */
function columns(answer, what) {
  const value = (row, ns) => (row.name?.startsWith("number") || ["threads", "processes"].includes(row.name) ? ns.toFixed(1) : duration(Math.round(ns)));
  return [
    { head: "before", number: true, sort: (r) => r.change.before, text: (r) => value(r, r.change.before) },
    { head: "after", number: true, sort: (r) => r.change.after, text: (r) => value(r, r.change.after) },
    { head: "change", number: true, sort: (r) => Math.abs(r.change.difference), text: (r) => el("span", { class: r.change.significant ? "" : "quiet" }, changeText(r.change.before, r.change.after)) },
    { head: "noise", number: true, text: (r) => (r.change.noise === null ? "-" : r.change.before ? `± ${percent(r.change.noise, r.change.before)}` : `± ${duration(Math.round(r.change.noise))}`) },
    what,
  ];
}

function findings(answer) {
  const list = (head, all, words) => (all.length ? [el("h2", {}, head), el("ul", { class: "notes" }, all.map((f) => el("li", {}, words(f))))] : "");
  return [list("Findings that are gone", answer.findings_gone, (f) => f.title), list("New findings", answer.findings_new, (f) => `${f.title}. ${f.remedy}`),
    list("Findings that stayed", answer.findings_stayed, (f) => f)];
}

function predictions(answer) {
  const share = (part) => `${(100 * part).toFixed(0)} %`;
  const columns = [
    { head: "finding", text: (p) => p.rule },
    { head: "of", text: (p) => (p.measure === "running" ? "CPU time" : p.measure) },
    { head: "predicted to be less by", number: true, text: (p) => `${share(p.low)} to ${share(p.high)}` },
    { head: "measured", number: true, text: (p) => share(p.measured) + (p.noise === null ? "" : ` ± ${share(p.noise)}`) },
    { head: "", text: (p) => VERDICTS[p.verdict] },
  ];
  return answer.predictions.length ? el("section", {}, el("h2", {}, "What was predicted"), table(columns, answer.predictions, { id: "predictions" })) : "";
}

const VERDICTS = { "as-predicted": "as predicted", less: "less than predicted", more: "more than predicted" };

export function changedFunctions(app) {
  const { answer } = app.rec;
  const wanted = app.choice.search.toLowerCase();
  const name = (f) => f.function + (f.kernel ? " [k]" : "");
  const rows = answer.functions.map((f) => ({ what: name(f.function), change: f.own })).filter((r) => r.what.toLowerCase().includes(wanted));
  const waits = answer.waits.map((w) => ({ what: `${w.who} ${w.reason} ${w.syscall}: ${ownFramesText(w.frames, 4)}`, change: w.time })).filter((r) => r.what.toLowerCase().includes(wanted));
  const what = { head: "function", mono: true, text: (r) => r.what };
  return el("div", { class: "page" }, el("div", { class: "tools" }, searchField(app)), el("h2", {}, "Functions, on a CPU themselves"),
    byChange(table, columns(answer, what), rows, "functions"), el("h2", {}, "Waits"), byChange(table, columns(answer, { ...what, head: "who waited, for what, where" }), waits, "waits"),
    answer.left_out ? el("p", { class: "quiet" }, `${answer.left_out} smaller ones are left out.`) : "");
}

/** A table that begins with the greatest difference. */
function byChange(make, all, rows, id) {
  if (!rows.length) return el("p", { class: "quiet" }, "None beyond the noise.");
  const [before, after, change, ...rest] = all;
  return make([change, before, after, ...rest], rows, { id });
}

export function changedFlame(app) {
  const { answer, nodes } = app.rec;
  const { side } = app.choice;
  const root = sideTree(nodes, side);
  const time = (ns) => duration(Math.round(ns)) + (PER[answer.per] ?? "");
  const turn = () => app.set({ side: side === "after" ? "before" : "after" });
  app.keys.b = turn;
  return boxesDrawing(app, root, {
    color: (node) => changeColor(node, side),
    words: (node) => {
      const [before, after] = side === "after" ? [node.other, node.total] : [node.total, node.other];
      return `${node.name}\n${time(after)}, was ${time(before)}: ${changeText(before, after)}${node.noise ? "\nno more than chance explains" : ""}`;
    },
    time,
    tools: [el("button", { id: "side", click: turn }, side === "after" ? "widths: after (b)" : "widths: before (b)"),
      el("span", {}, el("i", { class: "dot", style: { background: "#c8281e" } }), "grew"), el("span", {}, el("i", { class: "dot", style: { background: "#1e64b4" } }), "shrank")],
  });
}
