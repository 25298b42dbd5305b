// Who made whom wait, what the waits were for in the end, and the longest ones.
import { threadName, wakerOf } from "../model/data.js";
import { chains, isPart, waits } from "../model/selection.js";
import { duration, percent } from "../model/text.js";
import { el, framesText, table } from "./dom.js";
import { partNote } from "./part.js";
import { sidesDrawing } from "./sides.js";

export function wakers(app) {
  const { answer } = app.rec;
  if (isPart(app.choice)) return partOfWakers(app);
  return el("div", { class: "page" }, who(answer), inTheEnd(answer), longest(answer));
}

/** Waits that are looked at for their roots. */
const MOST_CHAINS = 5000;

/** The same of a part, from the waits that were kept one by one. */
function partOfWakers(app) {
  const { rec, choice } = app;
  const { rows, known, blocked, longest: moments } = waits(rec, choice);
  const time = { head: "time", number: true, sort: (w) => w.ns, text: (w) => duration(w.ns) };
  const columns = [
    time,
    { head: "longest", number: true, sort: (w) => w.max, text: (w) => duration(w.max) },
    { head: "who waited", sort: (w) => w.waiter, text: (w) => `${w.waiter} ${w.reason}` },
    { head: "who ended it", sort: (w) => w.waker, text: (w) => w.waker },
  ];
  const { start, ns, thread, state, path } = rec.moments;
  const stack = (moment) => rec.paths[path[moment]].filter((f) => !rec.kernel[f]).slice(-4).reverse().map((f) => rec.functions[f]).join(" ← ");
  const each = [
    { head: "asleep", number: true, sort: (m) => ns[m], text: (m) => duration(ns[m]) },
    { head: "at", number: true, sort: (m) => start[m], text: (m) => duration(start[m]) },
    { head: "thread", text: (m) => threadName(rec, thread[m]) },
    { head: "why", text: (m) => rec.states[state[m]].label },
    { head: "ended by", text: (m) => wakerOf(rec, m)?.name ?? "" },
    { head: "where", mono: true, text: stack },
  ];
  const pick = (moment) => app.set({ view: "timeline", moment });
  const roots = [time, { head: "waiter ← … ← root", text: (c) => c.links }];
  return el("div", { class: "page" },
    partNote(app, `Who ended a wait is known of those that were kept one by one: ${duration(known)} of ${duration(blocked)} (${percent(known, blocked)}).`),
    el("section", {}, el("h2", {}, "Who made whom wait"), rows.length ? [sidesDrawing(rows.map((w) => ({ from: w.waiter, to: w.waker, ns: w.ns })), ["who waited", "who ended it"], "wakers-drawing"),
      table(columns, rows, { id: "wakers", most: 50 })] : el("p", { class: "quiet" }, "Nobody waited for anybody.")),
    el("section", {}, el("h2", {}, "What the waits were for in the end"), table(roots, chains(rec, moments, MOST_CHAINS), { id: "chains", most: 50 })),
    el("section", {}, el("h2", {}, "Longest waits"), table(each, moments.slice(0, 50), { id: "longest", pick })));
}

/** Somebody who ends waits, or an end of a chain, in words. */
export function party(p) {
  if (p.kind === "running") return `${p.name} running`;
  return p.kind === "runnable" ? `${p.name} wants a CPU` : p.name || p.kind;
}

function who(answer) {
  const columns = [
    { head: "time", number: true, sort: (w) => w.time_ns, text: (w) => duration(w.time_ns) },
    { head: "longest", number: true, sort: (w) => w.max_ns, text: (w) => duration(w.max_ns) },
    { head: "who waited", sort: (w) => w.waiter, text: (w) => `${w.waiter} ${w.reason}` },
    { head: "who ended it", sort: (w) => party(w.waker), text: (w) => party(w.waker) },
    { head: "from", mono: true, text: (w) => framesText(w.waker_frames, 4) },
  ];
  const pairs = answer.wakers.map((w) => ({ from: w.waiter, to: party(w.waker), ns: w.time_ns }));
  return el("section", {}, el("h2", {}, "Who made whom wait"),
    pairs.length ? [sidesDrawing(pairs, ["who waited", "who ended it"], "wakers-drawing"), table(columns, answer.wakers, { id: "wakers", most: 50 })]
      : el("p", { class: "quiet" }, "Nobody waited for anybody."));
}

function inTheEnd(answer) {
  const columns = [
    { head: "time", number: true, sort: (c) => c.time_ns, text: (c) => duration(c.time_ns) },
    { head: "of all thread time", number: true, text: (c) => percent(c.time_ns, answer.total.lifetime_ns) },
    { head: "waiter ← … ← root", text: (c) => [...c.links.map((l) => `${l.waiter} ${l.reason}`), party(c.root)].join(" ← ") },
  ];
  return el("section", {}, el("h2", {}, "What the waits were for in the end"), table(columns, answer.chains, { id: "chains", most: 50 }));
}

function longest(answer) {
  const columns = [
    { head: "asleep", number: true, sort: (w) => w.blocked_ns, text: (w) => duration(w.blocked_ns) },
    { head: "at", number: true, sort: (w) => w.at_ns, text: (w) => duration(w.at_ns) },
    { head: "thread", text: (w) => `${w.thread} (${w.tid})` },
    { head: "why", text: (w) => `${w.reason} ${w.syscall}` },
    { head: "ended by", text: (w) => party(w.waker) },
    { head: "where", mono: true, text: (w) => framesText(w.frames, 4) },
  ];
  return el("section", {}, el("h2", {}, "Longest waits"), table(columns, answer.longest_waits, { id: "longest", most: 50 }));
}
