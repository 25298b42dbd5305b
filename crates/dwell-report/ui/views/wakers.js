// Who made whom wait, what the waits were for in the end, and the longest ones.
import { duration, percent } from "../model/text.js";
import { el, framesText, table } from "./dom.js";
import { sidesDrawing } from "./sides.js";

export function wakers(app) {
  const { answer } = app.rec;
  return el("div", { class: "page" }, who(answer), chains(answer), longest(answer));
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

function chains(answer) {
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
