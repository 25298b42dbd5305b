// What a part of the recording did: some threads, some of the time. Whole recordings are told by their answer.
import { hasThread } from "./choice.js";
import { wakerOf } from "./data.js";
import { chainOf } from "./lanes.js";
import { eachStack } from "./tree.js";

/** Whether less than all is looked at. */
export function isPart(choice) {
  return choice.to > 0 || choice.thread >= 0 || choice.pid > 0;
}

/** Calls `visit(moment, ns)` for every moment that is looked at, with the part of it that lies in the window. */
export function eachMoment(rec, choice, visit) {
  const { first, start, ns } = rec.moments;
  const to = choice.to || rec.window;
  rec.threads.tid.forEach((_, thread) => {
    if (!hasThread(rec, choice, thread)) return;
    for (let i = first[thread]; i < first[thread + 1] && start[i] < to; i += 1) {
      const within = Math.min(start[i] + ns[i], to) - Math.max(start[i], choice.from);
      if (within > 0) visit(i, within);
    }
  });
}

/** Time by state, in all, by process and by group of threads: `{name, pid, threads, states, total}`, `states` ns by number of the state. */
export function division(rec, choice) {
  const make = (name, pid) => ({ name, pid, tids: new Set(), states: new Array(rec.states.length).fill(0), total: 0, groups: new Map() });
  const whole = make("", 0);
  const processes = new Map();
  const count = (to, thread, state, ns) => {
    to.tids.add(thread);
    to.states[state] += ns;
    to.total += ns;
  };
  const of = (map, key, name, pid) => map.get(key) ?? map.set(key, make(name, pid)).get(key);
  eachStack(rec, { ...choice, states: "both" }, (thread, state, _syscall, _path, ns) => {
    const { pid, process, group } = rec.threads;
    const own = of(processes, pid[thread], `${process[thread]} (${pid[thread]})`, pid[thread]);
    for (const to of [whole, own, of(own.groups, group[thread], group[thread], pid[thread])]) count(to, thread, state, ns);
  });
  const told = ({ name, pid, tids, states, total, groups }) => ({ name, pid, threads: tids.size, states, total, groups: [...groups.values()].map(told).sort((a, b) => b.total - a.total) });
  return { ...told(whole), groups: [...processes.values()].map(told).sort((a, b) => b.total - a.total) };
}

/** `process/group` of a thread. */
export function groupName(rec, thread) {
  const { process, group } = rec.threads;
  return process[thread] === group[thread] ? group[thread] : `${process[thread]}/${group[thread]}`;
}

const wakerName = (rec, moment) => {
  const waker = wakerOf(rec, moment);
  if (!waker) return "";
  return waker.thread >= 0 ? groupName(rec, waker.thread) : waker.name;
};

/**
 * Waits whose end is known, by who waited why and who ended it: `rows` of `{waiter, reason, waker, ns, max}`; `blocked` and `known` are ns of
 * all waits and of these; `longest` are moments.
 */
export function waits(rec, choice) {
  const rows = new Map();
  const told = { rows: [], blocked: 0, known: 0, longest: [] };
  eachMoment(rec, choice, (moment, ns) => {
    const { reason } = rec.states[rec.moments.state[moment]];
    if (!reason) return;
    told.blocked += ns;
    told.longest.push(moment);
    const waker = wakerName(rec, moment);
    if (!waker) return;
    told.known += ns;
    const waiter = groupName(rec, rec.moments.thread[moment]);
    const key = `${waiter}\u0000${reason}\u0000${waker}`;
    const row = rows.get(key) ?? rows.set(key, { waiter, reason, waker, ns: 0, max: 0 }).get(key);
    row.ns += ns;
    row.max = Math.max(row.max, rec.moments.ns[moment]);
  });
  told.longest.sort((a, b) => rec.moments.ns[b] - rec.moments.ns[a]);
  told.rows = [...rows.values()].sort((a, b) => b.ns - a.ns);
  return told;
}

/** What the longest of these waits were for in the end: `{links, ns}`, `links` from the waiter to the root. */
export function chains(rec, moments, most) {
  const sums = new Map();
  for (const moment of moments.slice(0, most)) {
    const links = chainOf(rec, moment).map((at) => `${groupName(rec, rec.moments.thread[at])} ${rec.states[rec.moments.state[at]].label}`);
    if (links.length < 2) continue;
    const text = links.join(" ← ");
    sums.set(text, (sums.get(text) ?? 0) + rec.moments.ns[moment]);
  }
  return [...sums].map(([links, ns]) => ({ links, ns })).sort((a, b) => b.ns - a.ns);
}

/** Waits for locks: `rows` of `{lock, ns, waits, max, waiters, wakers}`, the last two ns by name; `other` are ns of waits whose lock is not known. */
export function lockWaits(rec, choice) {
  const rows = new Map();
  let other = 0;
  const add = (map, name, ns) => map.set(name, (map.get(name) ?? 0) + ns);
  eachMoment(rec, choice, (moment, ns) => {
    if (rec.states[rec.moments.state[moment]].reason !== "lock") return;
    const lock = rec.moments.lock[moment] - 1;
    if (lock < 0) {
      other += ns;
      return;
    }
    const row = rows.get(lock) ?? rows.set(lock, { lock, ns: 0, waits: 0, max: 0, waiters: new Map(), wakers: new Map() }).get(lock);
    row.ns += ns;
    row.waits += 1;
    row.max = Math.max(row.max, rec.moments.ns[moment]);
    add(row.waiters, groupName(rec, rec.moments.thread[moment]), ns);
    add(row.wakers, wakerName(rec, moment) || "not known", ns);
  });
  return { rows: [...rows.values()].sort((a, b) => b.ns - a.ns), other };
}

/** Processor time for memory by kind of work: `kinds` of `{kind, ns}`, `stacks` of `{functions, kind, ns}`; `running` is all processor time. */
export function memoryTime(rec, choice) {
  const kinds = new Map();
  const stacks = new Map();
  let running = 0;
  eachStack(rec, { ...choice, states: "on" }, (_thread, _state, _syscall, path, ns) => {
    running += ns;
    const kind = rec.memoryWork.get(path);
    if (kind === undefined) return;
    kinds.set(kind, (kinds.get(kind) ?? 0) + ns);
    const functions = rec.paths[path].filter((f) => !rec.kernel[f]);
    const key = `${kind};${functions}`;
    const stack = stacks.get(key) ?? stacks.set(key, { functions, kind, ns: 0 }).get(key);
    stack.ns += ns;
  });
  const byTime = (all) => all.sort((a, b) => b.ns - a.ns);
  return { running, kinds: byTime([...kinds].map(([kind, ns]) => ({ kind, ns }))), stacks: byTime([...stacks.values()]) };
}

/** Processor time for memory over time: of `many` parts of what is looked at, ns by kind of work. */
export function memoryOverTime(rec, choice, many) {
  const from = choice.to ? choice.from : 0;
  const to = choice.to || rec.window;
  const each = (to - from) / many;
  const parts = Array.from({ length: many }, () => new Array(rec.memoryKinds.length).fill(0));
  const { start, ns, path, state } = rec.moments;
  eachMoment(rec, choice, (moment) => {
    if (!rec.states[state[moment]].onCpu) return;
    const kind = rec.memoryWork.get(path[moment]);
    if (kind === undefined) return;
    const [begin, end] = [Math.max(from, start[moment]), Math.min(to, start[moment] + ns[moment])];
    for (let part = Math.floor((begin - from) / each); part < many && from + part * each < end; part += 1) {
      parts[part][kind] += Math.min(end, from + (part + 1) * each) - Math.max(begin, from + part * each);
    }
  });
  return { from, each, parts };
}
