// What getting and giving back memory costs, by whom, and where else it is paid.
import { count, duration, percent } from "../model/text.js";
import { isPart, memoryOverTime, memoryTime } from "../model/selection.js";
import { el, framesText, svg, table, tip } from "./dom.js";
import { partNote } from "./part.js";

export function memory(app) {
  const { memory } = app.rec.answer;
  if (!memory) {
    return el("div", { class: "page" }, el("h2", {}, "Memory"),
      el("p", {}, "Not recorded. ", el("code", {}, "dwell record --memory"), " keeps a ledger of what page faults, clearing and unmapping cost."));
  }
  if (isPart(app.choice)) return partOfMemory(app);
  return el("div", { class: "page" }, costs(memory), memoryChart(app), el("div", { class: "two" }, events(memory), elsewhere(memory)), stacks(memory));
}

/** Processor time for memory of a part; counts are of the whole window. */
function partOfMemory(app) {
  const { rec, choice } = app;
  const { running, kinds, stacks: all } = memoryTime(rec, choice);
  const whole = kinds.reduce((sum, k) => sum + k.ns, 0);
  const kind = { head: "for", text: (r) => rec.memoryKinds[r.kind] };
  const share = { head: "of all of it", number: true, text: (k) => percent(k.ns, running) };
  const path = (r) => [...r.functions].reverse().slice(0, 6).map((f) => rec.functions[f]).join(" ← ") || "[no stack taken]";
  return el("div", { class: "page" }, partNote(app, "How often things happened, and what is paid elsewhere, is known of the whole recording only."),
    el("section", {}, el("h2", {}, "What memory costs"), el("p", { class: "quiet" }, `${duration(whole)} of ${duration(running)} CPU time (${percent(whole, running)}).`),
      table([{ head: "CPU time", ...ns("ns") }, share, kind], kinds, { id: "components" })),
    memoryChart(app),
    el("section", {}, el("h2", {}, "By the stack that causes it"),
      table([{ head: "CPU time", ...ns("ns") }, kind, { head: "stack that causes it", mono: true, text: path }], all, { id: "memory-stacks" })));
}

/** Colours of kinds of work, apart for colour-blind eyes (Okabe and Ito); the last is for all others. */
const COLORS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8a8a8a"];
const PARTS = 150;

/** Which share of the processors worked for memory, over time, by kind. */
function memoryChart(app) {
  const { rec } = app;
  const { from, each, parts } = memoryOverTime(rec, app.choice, PARTS);
  const sums = rec.memoryKinds.map((name, kind) => ({ name, kind, ns: parts.reduce((sum, part) => sum + part[kind], 0) })).filter((k) => k.ns).sort((a, b) => b.ns - a.ns);
  if (!sums.length) return "";
  const named = sums.slice(0, COLORS.length - 1);
  const rest = sums.slice(COLORS.length - 1);
  const layers = [...named.map((k) => ({ name: k.name, kinds: [k.kind], ns: k.ns })), ...(rest.length ? [{ name: "others", kinds: rest.map((k) => k.kind), ns: rest.reduce((sum, k) => sum + k.ns, 0) }] : [])];
  const [wide, tall] = [1100, 130];
  const heights = parts.map((part) => layers.map(({ kinds }) => kinds.reduce((sum, kind) => sum + part[kind], 0) / each));
  const most = Math.max(...heights.map((layer) => layer.reduce((sum, h) => sum + h, 0)));
  const step = wide / PARTS;
  const bars = heights.map((layer, part) => {
    let y = 108;
    const words = () => `${duration(from + part * each)}: ${layers.map(({ name }, i) => `${name} ${(100 * layer[i]).toFixed(1)} %`).join(", ")} of a CPU`;
    return layer.map((height, i) => {
      const high = (90 * height) / most;
      y -= high;
      return high > 0 && svg("rect", { x: part * step, width: step, y, height: high, fill: COLORS[i], mousemove: (event) => tip(event, words()), mouseleave: (event) => tip(event, "") });
    });
  });
  const entry = ({ name, ns: time }, i) => el("span", {}, el("i", { style: { background: COLORS[i] } }), name, el("span", { class: "quiet" }, `  ${duration(time)}`));
  return el("section", {}, el("h2", {}, "Over time"), el("div", { class: "sides", id: "memory-time" },
    svg("svg", { viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": "CPU time for memory over time" },
      svg("text", { x: 0, y: 12, class: "head" }, `up to ${most.toFixed(2)} CPUs`), bars.flat().filter(Boolean),
      svg("text", { x: 0, y: 124, class: "head" }, duration(from)), svg("text", { x: wide, y: 124, "text-anchor": "end", class: "head" }, duration(from + PARTS * each))),
    el("div", { class: "legend" }, layers.map(entry))));
}

const ns = (key) => ({ number: true, sort: (r) => r[key], text: (r) => duration(r[key]) });

function costs(memory) {
  const columns = [
    { head: "CPU time", ...ns("time_ns") },
    { head: "of all of it", number: true, text: (c) => percent(c.time_ns, memory.running_ns) },
    { head: "for", text: (c) => c.name },
  ];
  return el("section", {}, el("h2", {}, "What memory costs"),
    el("p", { class: "quiet" }, `${duration(memory.memory_ns)} of ${duration(memory.running_ns)} CPU time (${percent(memory.memory_ns, memory.running_ns)}), from ${count(memory.memory_samples)} samples; counts are exact.`),
    table(columns, memory.components, { id: "components" }));
}

function events(memory) {
  const { counts, machine } = memory;
  const rows = [
    ...Object.entries(counts.faults_by_kind).map(([kind, many]) => [`page faults: ${kind}`, count(many)]),
    ["of these from a disk", count(counts.major_faults)],
    ["pages allocated", count(counts.allocated_pages)],
    ["pages given back", count(counts.freed_pages)],
    ["pages in use at the peak, estimated", count(counts.peak_pages)],
    ["pages cleared", count(counts.zeroed_pages)],
    ["TLB shootdowns", `${count(counts.shootdowns)}, ${duration(counts.remote_ns)} on other CPUs`],
    ["waits for mmap_lock", `${count(counts.mmap_lock_waits)}, ${duration(counts.mmap_lock_wait_ns)}`],
    ["waits for the kernel's spin locks", `${count(counts.spin_lock_waits)}, ${duration(counts.spin_lock_wait_ns)}`],
    ["of these for zones' free pages", `${count(counts.zone_lock_waits)}, ${duration(counts.zone_lock_wait_ns)}`],
    ["of these for lists of pages in use", `${count(counts.list_lock_waits)}, ${duration(counts.list_lock_wait_ns)}`],
    ["the whole machine allocated", `${count(machine.allocated_pages)} pages`],
    ["cleared per CPU second", memory.zeroed_gb_per_cpu_second === null ? "-" : `${memory.zeroed_gb_per_cpu_second.toFixed(1)} GB`],
    ["this machine clears at most", `${machine.clears_uncached_gb_per_s.toFixed(1)} GB/s, ${machine.clears_cached_gb_per_s.toFixed(0)} in the cache`],
    ...memory.calls.map((c) => [`calls of ${c.name}`, `${count(c.calls)}, ${duration(c.time_ns)}`]),
  ];
  const columns = [{ head: "what", text: (r) => r[0] }, { head: "how many", text: (r) => r[1] }];
  return el("section", {}, el("h2", {}, "How often"), table(columns, rows, { id: "memory-events" }));
}

function elsewhere(memory) {
  const columns = [
    { head: "kernel thread", text: (t) => t.name },
    { head: "CPU time", ...ns("cpu_ns") },
    { head: "attributed to what was recorded", ...ns("attributed_ns") },
  ];
  const rows = memory.kernel_threads.filter((t) => t.cpu_ns);
  return el("section", {}, el("h2", {}, "Paid elsewhere"),
    rows.length ? table(columns, rows, { id: "kernel-threads" }) : el("p", { class: "quiet" }, "No kernel thread worked for memory."));
}

function stacks(memory) {
  const rows = memory.stacks.filter((s) => s.time_ns || faults(s) || s.counts.allocated_pages);
  const columns = [
    { head: "CPU time", ...ns("time_ns") },
    { head: "faults", number: true, sort: faults, text: (s) => count(faults(s)) },
    { head: "pages", number: true, sort: (s) => s.counts.allocated_pages, text: (s) => count(s.counts.allocated_pages) },
    { head: "given back", number: true, sort: (s) => s.counts.freed_pages, text: (s) => count(s.counts.freed_pages) },
    { head: "at the peak, estimated", number: true, sort: (s) => s.counts.peak_pages, text: (s) => count(s.counts.peak_pages) },
    { head: "mostly", text: (s) => [...s.components].sort((a, b) => b.time_ns - a.time_ns)[0]?.name ?? "" },
    { head: "stack that causes it", mono: true, text: (s) => framesText(s.frames) },
  ];
  return el("section", {}, el("h2", {}, "By the stack that causes it"), table(columns, rows, { id: "memory-stacks" }));
}

const faults = (stack) => stack.counts.minor_faults + stack.counts.major_faults;
