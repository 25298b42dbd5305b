// Functions by time, and who calls them and whom they call.
import { eachStack, leafName } from "./tree.js";

/** Of every function met `{id, own, total, off}`: ns on a CPU innermost and anywhere, ns off the CPU; and the whole of it. */
export function functionTable(rec, choice) {
  const sums = new Map();
  const seen = new Set();
  let whole = 0;
  eachStack(rec, choice, (_thread, state, _syscall, path, ns, idle) => {
    if (idle && !choice.idle) return;
    whole += ns;
    const functions = rec.paths[path];
    const { onCpu, name } = rec.states[state];
    const off = !onCpu && name !== "stolen" && name !== "lost";
    seen.clear();
    functions.forEach((id, depth) => {
      const row = sums.get(id) ?? { id, own: 0, total: 0, off: 0 };
      sums.set(id, row);
      if (onCpu && depth === functions.length - 1) row.own += ns;
      if (seen.has(id)) return;
      seen.add(id);
      if (onCpu) row.total += ns;
      if (off) row.off += ns;
    });
  });
  return { rows: [...sums.values()], whole };
}

/** What lies next to a function: `{name, ns}` of its callers and of what it calls, or does itself; the longest first. */
export function neighbours(rec, choice, id) {
  const callers = new Map();
  const callees = new Map();
  const count = (map, name, ns) => map.set(name, (map.get(name) ?? 0) + ns);
  eachStack(rec, choice, (thread, state, syscall, path, ns, idle) => {
    if (idle && !choice.idle) return;
    const functions = rec.paths[path];
    const outer = functions.indexOf(id);
    if (outer < 0) return;
    const inner = functions.lastIndexOf(id);
    count(callers, outer ? rec.functions[functions[outer - 1]] : `[${rec.threads.process[thread]}]`, ns);
    const below = functions[inner + 1];
    const leaf = leafName(rec.states[state], rec.syscalls[syscall]) || "[itself]";
    count(callees, below === undefined ? leaf : rec.functions[below], ns);
  });
  const sorted = (map) => [...map].map(([name, ns]) => ({ name, ns })).sort((a, b) => b.ns - a.ns);
  return { callers: sorted(callers), callees: sorted(callees) };
}
