// What getting and giving back memory costs, by whom, and where else it is paid.
import { count, duration, percent } from "../model/text.js";
import { el, framesText, table } from "./dom.js";

export function memory(app) {
  const { memory } = app.rec.answer;
  if (!memory) {
    return el("div", { class: "page" }, el("h2", {}, "Memory"),
      el("p", {}, "Not recorded. ", el("code", {}, "dwell record --memory"), " keeps a ledger of what page faults, clearing and unmapping cost."));
  }
  return el("div", { class: "page" }, costs(memory), el("div", { class: "two" }, events(memory), elsewhere(memory)), stacks(memory));
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
    ["pages cleared", count(counts.zeroed_pages)],
    ["TLB shootdowns", `${count(counts.shootdowns)}, ${duration(counts.remote_ns)} on other CPUs`],
    ["waits for mmap_lock", `${count(counts.mmap_lock_waits)}, ${duration(counts.mmap_lock_wait_ns)}`],
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
    { head: "mostly", text: (s) => [...s.components].sort((a, b) => b.time_ns - a.time_ns)[0]?.name ?? "" },
    { head: "stack that causes it", mono: true, text: (s) => framesText(s.frames) },
  ];
  return el("section", {}, el("h2", {}, "By the stack that causes it"), table(columns, rows, { id: "memory-stacks" }));
}

const faults = (stack) => stack.counts.minor_faults + stack.counts.major_faults;
