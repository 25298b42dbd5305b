// Locks: which cost most, and of one of them who held it and who waited.
import { isPart, lockWaits } from "../model/selection.js";
import { count, duration, percent } from "../model/text.js";
import { el, framesText, ownFramesText, svg, table, tip } from "./dom.js";
import { partNote } from "./part.js";
import { sidesDrawing } from "./sides.js";
import { party } from "./wakers.js";

export function locks(app) {
  const { locks } = app.rec;
  if (isPart(app.choice)) return partOfLocks(app);
  const pairs = locks.blocks.map((b) => ({ from: b.waiter, to: party(b.waker), ns: b.waited_ns }));
  return el("div", { class: "page" }, deadlocks(locks.deadlocks), ranking(app),
    pairs.length ? el("section", {}, el("h2", {}, "Who blocks whom"), sidesDrawing(pairs, ["who waited for a lock", "who let it go"], "blocks")) : "",
    spun(locks.spun), inKernel(locks.kernel), counted(locks.lock_counts));
}

const nameOf = (l) => l.name || l.address || l.kind;
const keyOf = (lock) => lock.address ?? lock.name;

/** Waits for locks of a part, from those that were kept one by one. */
function partOfLocks(app) {
  const { locks, timelines } = app.rec;
  const { rows, other } = lockWaits(app.rec, app.choice);
  const of = (row) => locks.locks[row.lock];
  const chosen = rows.find((row) => keyOf(of(row)) === app.choice.chosen);
  const byTime = (map) => [...map].map(([who, ns]) => ({ who, ns })).sort((a, b) => b.ns - a.ns);
  const time = { head: "waited", number: true, sort: (r) => r.ns, text: (r) => duration(r.ns) };
  const columns = [
    time,
    { head: "waits", number: true, sort: (r) => r.waits, text: (r) => count(r.waits) },
    { head: "longest", number: true, sort: (r) => r.max, text: (r) => duration(r.max) },
    { head: "lock", mono: true, sort: (r) => nameOf(of(r)), text: (r) => nameOf(of(r)) },
    { head: "kind", text: (r) => `${of(r).runtime} ${of(r).kind}`.trim() },
  ];
  const sideTable = (head, map, id) => table([time, { head, text: (r) => r.who }], byTime(map), { id, most: 10 });
  const seen = chosen && locks.contended.find((c) => c.address === of(chosen).address);
  const shown = seen && timelines.find((t) => t.lock.lock === seen.lock);
  return el("div", { class: "page" }, partNote(app, `Which lock it was is known of waits that were kept one by one. ${duration(other)} of other waits on futexes, for work or too short to be kept, are not in these.`),
    el("section", {}, el("h2", {}, "Locks"), rows.length ? table(columns, rows, { id: "locks", pick: (r) => app.set({ chosen: keyOf(of(r)) }), chosen: (r) => r === chosen })
      : el("p", { class: "quiet" }, "No wait for a lock that was kept.")),
    chosen ? el("section", { id: "lock" }, el("h2", { class: "mono" }, nameOf(of(chosen))), shown ? overTime(cut(shown, app.choice)) : "",
      el("div", { class: "two" }, sideTable("who waited", chosen.waiters, "lock-waiters"), sideTable("who let it go", chosen.wakers, "lock-blame"))) : "");
}

/** Of a lock's parts those that lie in the chosen part of the window. */
function cut(timeline, { from, to }) {
  if (!to) return timeline;
  const { parts, at_ns: at, part_ns: each } = timeline;
  const [first, end] = [Math.max(0, Math.floor((from - at) / each)), Math.ceil((to - at) / each)];
  return { ...timeline, parts: parts.slice(first, end), at_ns: at + first * each };
}

function ranking(app) {
  const all = app.rec.locks.locks;
  const whole = app.rec.locks.waited_ns;
  const columns = [
    { head: "waited", number: true, sort: (l) => l.waited_ns, text: (l) => duration(l.waited_ns) },
    { head: "of all waiting", number: true, text: (l) => percent(l.waited_ns, whole) },
    { head: "waits", number: true, sort: (l) => l.waits, text: (l) => count(l.waits) },
    { head: "acquired", number: true, sort: (l) => l.acquired ?? 0, text: (l) => (l.acquired === null ? "-" : count(l.acquired)) },
    { head: "longest", number: true, sort: (l) => l.max_ns, text: (l) => duration(l.max_ns) },
    { head: "queue", number: true, sort: (l) => l.queue_longest, text: (l) => String(l.queue_longest) },
    { head: "lock", mono: true, sort: (l) => l.name, text: nameOf },
    { head: "kind", text: (l) => `${l.runtime} ${l.kind}`.trim() },
  ];
  const chosen = all.find((l) => keyOf(l) === app.choice.chosen);
  return el("section", {}, el("h2", {}, "Locks"),
    all.length ? table(columns, all, { id: "locks", pick: (l) => app.set({ chosen: keyOf(l) }), chosen: (l) => l === chosen })
      : el("p", { class: "quiet" }, "No thread waited for a lock."),
    chosen ? detail(app, chosen) : "");
}

const time = (key) => ({ head: "time", number: true, sort: (r) => r[key], text: (r) => duration(r[key]) });
const where = { head: "where", mono: true, text: (r) => ownFramesText(r.frames) };

function detail(app, lock) {
  const seen = app.rec.locks.contended.find((c) => c.address === lock.address);
  const shown = seen && app.rec.timelines.find((t) => t.lock.lock === seen.lock);
  return el("section", { id: "lock" }, el("h2", { class: "mono" }, lock.name || lock.address),
    el("p", { class: "quiet" }, `Waits: half within ${duration(lock.p50_ns)}, 99 of 100 within ${duration(lock.p99_ns)}. ${Math.round(100 * lock.handed_on_share)} % of them ended by one who had waited for it, too.`),
    shown ? overTime(shown) : el("p", { class: "quiet" }, "Recorded with --locks, owners and the queue would be shown over time."),
    el("h2", {}, "Who waited"), table([time("waited_ns"), { head: "waits", number: true, text: (r) => count(r.waits) }, { head: "who", text: (r) => r.group }, where], lock.waiters, { id: "lock-waiters", most: 10 }),
    el("h2", {}, "Who let it go"), table([time("blamed_ns"), { head: "who", text: (r) => party(r.waker) }, { head: "for", text: (r) => r.waiter }, where], lock.blame, { id: "lock-blame", most: 10 }),
    seen ? inside(seen) : "");
}

function inside(seen) {
  const spread = (name, s) => `${name}: mean ${duration(s.mean_ns)}, 99 of 100 within ${duration(s.p99_ns)}, longest ${duration(s.max_ns)}`;
  const away = [{ head: "time", number: true, sort: (r) => r.time_ns, text: (r) => duration(r.time_ns) }, { head: "owner", text: (r) => r.group }, { head: "was", text: (r) => r.reason ?? r.state }, where];
  return [
    el("h2", {}, "Who held it while others waited"),
    el("p", { class: "quiet" }, `${spread("Wait", seen.wait)}. ${spread("Hold", seen.hold)}. ${seen.convoys.dominate ? "Convoys dominate." : ""}`),
    table([time("waited_ns"), { head: "times", number: true, text: (r) => count(r.times) }, { head: "who", text: (r) => r.group ?? "not known" }, { head: "in", mono: true, text: (r) => `${r.function ?? ""}${r.at_another_lock ? " (seen at another lock)" : ""}` }, where], seen.owners, { id: "lock-owners", most: 10 }),
    seen.away.length ? [el("h2", {}, "Owners off the CPU while they held it"), table(away, seen.away, { most: 10 })] : "",
  ];
}

/** How much of each part of the time the lock was held, by whom, and how many waited. */
function overTime({ parts, owners, at_ns, part_ns }) {
  const [wide, tall] = [1100, 120];
  const most = Math.max(1, ...parts.map((p) => p.waiting));
  const step = wide / parts.length;
  const hue = (owner) => (owner === null ? "var(--line)" : `hsl(${(owner * 137) % 360} 55% 55%)`);
  const bars = parts.map((p, i) => svg("rect", {
    x: i * step, width: step + 0.3, y: 96 - 26 * p.held_share, height: 26 * p.held_share, fill: hue(p.owner),
    mousemove: (event) => tip(event, `${duration(at_ns + i * part_ns)}: held ${Math.round(100 * p.held_share)} %${p.owner === null ? "" : `, mostly by ${owners[p.owner].thread} (${owners[p.owner].tid})`}; ${p.waiting.toFixed(1)} waited`),
    mouseleave: (event) => tip(event, ""),
  }));
  const queue = parts.map((p, i) => `${i ? "L" : "M"}${(i + 0.5) * step},${64 - (48 * p.waiting) / most}`).join("");
  return el("div", { class: "sides", id: "lock-time" }, svg("svg", { viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": "owners and queue over time" },
    svg("text", { x: 0, y: 10, class: "head" }, `waiting, up to ${most.toFixed(1)}`), svg("path", { d: queue, class: "line" }), bars,
    svg("text", { x: 0, y: 112, class: "head" }, duration(at_ns)), svg("text", { x: wide, y: 112, "text-anchor": "end", class: "head" }, duration(at_ns + parts.length * part_ns)),
    svg("text", { x: wide / 2, y: 112, "text-anchor": "middle", class: "head" }, "held, a colour per owner")));
}

function spun(all) {
  if (!all.length) return "";
  const columns = [
    { head: "time", number: true, sort: (s) => s.time_ns, text: (s) => duration(s.time_ns) },
    { head: "who", text: (s) => s.group },
    { head: "spins in", mono: true, text: (s) => s.function.function },
    { head: "for", mono: true, text: (s) => s.caller?.function ?? "" },
    where,
  ];
  return el("section", {}, el("h2", {}, "Spun: on a CPU, only to wait"), table(columns, all, { id: "spun", most: 20 }));
}

function inKernel(kernel) {
  if (!kernel?.places.length) return "";
  const columns = [
    { head: "waited", number: true, sort: (p) => p.waited_ns, text: (p) => duration(p.waited_ns) },
    { head: "waits", number: true, sort: (p) => p.waits, text: (p) => count(p.waits) },
    { head: "longest", number: true, sort: (p) => p.max_ns, text: (p) => duration(p.max_ns) },
    { head: "kind", text: (p) => p.kind },
    { head: "wanted by", mono: true, text: (p) => p.caller ?? "" },
  ];
  return el("section", {}, el("h2", {}, "Locks of the kernel"), table(columns, kernel.places, { id: "kernel-locks", most: 30 }));
}

function counted(counts) {
  if (!counts) return "";
  return el("p", { class: "quiet" }, `Counted: ${count(counts.acquired)} acquisitions of ${count(counts.locks)} locks, ${count(counts.contended)} of them contended; ${count(counts.unwaited_locks)} locks nobody waited for.`);
}

function deadlocks(all) {
  const told = (d) => el("div", { class: "finding high" }, el("h3", {}, `Deadlock of ${d.threads.length} threads`),
    d.threads.map((t) => el("p", {}, `${t.thread.name} (${t.thread.tid}) waits for ${t.lock}, which ${t.held_by.name} (${t.held_by.tid}) holds `, el("span", { class: "mono quiet" }, framesText(t.frames)))));
  return all.map(told);
}
