// Weighted stacks as a tree: what flame graphs are made from.
import { hasThread, wantedStates } from "./choice.js";

/**
 * Calls `visit(thread, state, syscall, path, ns, idle)` for all that is looked at: the profile's exact sums, or of a part of
 * the window what lies in it.
 */
export function eachStack(rec, choice, visit) {
  const wanted = wantedStates(rec, choice);
  const isThread = Array.from(rec.threads.tid, (_, thread) => hasThread(rec, choice, thread));
  if (!choice.to) {
    const e = rec.entries;
    for (let i = 0; i < e.ns.length; i += 1) {
      if (wanted[e.state[i]] && isThread[e.thread[i]]) visit(e.thread[i], e.state[i], e.syscall[i], e.path[i], e.ns[i], e.idle[i]);
    }
    return;
  }
  const m = rec.moments;
  for (let i = 0; i < m.ns.length; i += 1) {
    const ns = Math.min(m.start[i] + m.ns[i], choice.to) - Math.max(m.start[i], choice.from);
    if (ns > 0 && wanted[m.state[i]] && isThread[m.thread[i]]) visit(m.thread[i], m.state[i], 0, m.path[i], ns, 0);
  }
}

/** The name of what a thread did at the end of a stack; empty while it ran. */
export function leafName(state, syscall) {
  if (state.name === "running" || state.name === "stolen" || state.name === "lost") return "";
  if (!state.reason) return `[${state.name}]`;
  return `[blocked: ${syscall ? `${state.reason} ${syscall}` : state.reason}]`;
}

/**
 * The tree of what is looked at. A node is `{name, kernel, total, own, states, children, depth}`; `states` has ns by state, children are
 * in the order of their time. Inverted, callers lie below callees.
 */
export function stackTree(rec, choice) {
  const root = node("all", false);
  let idle = 0;
  eachStack(rec, choice, (thread, state, syscall, path, ns, isIdle) => {
    if (isIdle && !choice.idle) {
      idle += ns;
      return;
    }
    const leaf = leafName(rec.states[state], rec.syscalls[syscall]);
    let at = add(root, state, ns);
    const step = (name, kernel) => {
      at = add(child(at, name, kernel), state, ns);
    };
    const functions = rec.paths[path];
    if (choice.inverted) {
      if (leaf) step(leaf, false);
      for (let i = functions.length - 1; i >= 0; i -= 1) step(rec.functions[functions[i]], rec.kernel[functions[i]]);
    } else {
      const { process, group, name, tid, pid } = rec.threads;
      step(choice.perThread ? `${process[thread]} (${pid[thread]})` : process[thread], false);
      step(choice.perThread ? `${name[thread]} (${tid[thread]})` : group[thread], false);
      for (const f of functions) step(rec.functions[f], rec.kernel[f]);
      if (leaf) step(leaf, false);
    }
    at.own += ns;
  });
  settle(root);
  return { root, idle };
}

/** Moments that are put one after the other at most: more are narrower than a screen's dots. */
const MOST_BY_TIME = 200000;

/**
 * One thread's stacks in the order of time, as a tree whose neighbours of the same name are one. `left` are the moments at the end that
 * are not in it: there are too many.
 */
export function timeTree(rec, choice, thread) {
  const { first, start, ns, state, path } = rec.moments;
  const wanted = wantedStates(rec, choice);
  const to = choice.to || rec.window;
  const root = node("all", false);
  let way = [root];
  let many = 0;
  let left = 0;
  for (let i = first[thread]; i < first[thread + 1]; i += 1) {
    const within = Math.min(start[i] + ns[i], to) - Math.max(start[i], choice.from);
    if (within <= 0 || !wanted[state[i]]) continue;
    many += 1;
    if (many > MOST_BY_TIME) {
      left += 1;
      continue;
    }
    const leaf = leafName(rec.states[state[i]], "");
    const functions = rec.paths[path[i]].map((f) => ({ name: rec.functions[f], kernel: Boolean(rec.kernel[f]) }));
    const frames = leaf ? [...functions, { name: leaf, kernel: false }] : functions;
    let same = 0;
    while (same < frames.length && way[same + 1]?.name === frames[same].name && way[same + 1].kernel === frames[same].kernel) same += 1;
    way.length = same + 1;
    for (const { name, kernel } of frames.slice(same)) {
      const next = node(name, kernel);
      way.at(-1).children.push(next);
      way.push(next);
    }
    for (const at of way) add(at, state[i], within);
    way.at(-1).own += within;
  }
  measureDepths(root);
  return { root, left };
}

/** The thread that ran longest. */
export function busiest(rec) {
  const ran = new Float64Array(rec.threads.tid.length);
  const e = rec.entries;
  for (let i = 0; i < e.ns.length; i += 1) if (rec.states[e.state[i]].onCpu) ran[e.thread[i]] += e.ns[i];
  return ran.indexOf(Math.max(...ran));
}

function node(name, kernel) {
  return { name, kernel: Boolean(kernel), total: 0, own: 0, states: new Map(), byName: new Map(), children: [], depth: 0 };
}

function child(parent, name, kernel) {
  const key = kernel ? `${name}\u0000k` : name;
  let found = parent.byName.get(key);
  if (!found) {
    found = node(name, kernel);
    parent.byName.set(key, found);
  }
  return found;
}

function add(to, state, ns) {
  to.total += ns;
  to.states.set(state, (to.states.get(state) ?? 0) + ns);
  return to;
}

/** Orders children, the longest first, and notes how deep it is below each node. */
function settle(root) {
  const open = [root];
  while (open.length) {
    const at = open.pop();
    at.children = [...at.byName.values()].sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : 1));
    at.byName = null;
    for (const child of at.children) open.push(child);
  }
  measureDepths(root);
}

/** Notes how deep it is below each node. */
function measureDepths(root) {
  const order = [root];
  for (const at of order) for (const child of at.children) order.push(child);
  for (const at of order.reverse()) at.depth = at.children.reduce((most, child) => Math.max(most, child.depth + 1), 0);
}

/** The boxes to draw below `root`: `{node, x, width, depth}` in parts of 1, none narrower than `least`. */
export function boxes(root, least) {
  const found = [];
  const open = [[root, 0, 0]];
  while (open.length) {
    const [at, x, depth] = open.pop();
    const width = root.total ? at.total / root.total : 0;
    if (width < least) continue;
    found.push({ node: at, x, width, depth });
    let left = x;
    for (const c of at.children) {
      open.push([c, left, depth + 1]);
      left += c.total / root.total;
    }
  }
  return found;
}

/** Time of all nodes whose name contains a text, those within others not counted again. */
export function searchTotal(root, text) {
  if (!text) return 0;
  const wanted = text.toLowerCase();
  let total = 0;
  const open = [root];
  while (open.length) {
    const at = open.pop();
    if (at.name.toLowerCase().includes(wanted)) total += at.total;
    else open.push(...at.children);
  }
  return total;
}

/** The colour of a node: its state's at the end of a stack, else the mix of what is below, paler. */
export function nodeColor(rec, at) {
  let sum = [0, 0, 0];
  let all = 0;
  for (const [state, ns] of at.states) {
    const rgb = parseInt(rec.states[state].color.slice(1), 16);
    sum = [sum[0] + ns * (rgb >> 16), sum[1] + ns * ((rgb >> 8) & 255), sum[2] + ns * (rgb & 255)];
    all += ns;
  }
  const paler = at.children.length ? 0.38 : 0;
  return sum.map((part) => Math.round(part / all + (255 - part / all) * paler));
}
