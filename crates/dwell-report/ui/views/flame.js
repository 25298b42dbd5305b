// The flame graph: width is time, on and off the CPU alike.
import { nodeColor, stackTree } from "../model/tree.js";
import { duration, percent } from "../model/text.js";
import { boxesDrawing, toggle } from "./boxes.js";
import { el } from "./dom.js";

export function flame(app) {
  const { rec, choice } = app;
  const { root, idle } = stackTree(rec, choice);
  const folded = idle ? `: ${duration(idle)} folded away` : "";
  Object.assign(app.keys, {
    i: () => app.set({ inverted: !choice.inverted }),
    u: () => app.set({ idle: !choice.idle }),
    t: () => app.set({ perThread: !choice.perThread }),
  });
  return boxesDrawing(app, root, {
    color: (node) => nodeColor(rec, node),
    words: (node) => nodeWords(rec, node, root),
    time: duration,
    tools: [stateChoice(app), toggle(app, "inverted", "inverted (i)"), toggle(app, "perThread", "threads apart (t)"), toggle(app, "idle", `idle pools (u)${folded}`)],
  });
}

function nodeWords(rec, node, root) {
  const states = [...node.states].sort((a, b) => b[1] - a[1]).slice(0, 5);
  const divided = states.map(([state, ns]) => `${rec.states[state].label} ${percent(ns, node.total)}`).join(" · ");
  const place = rec.places.get(rec.functions.indexOf(node.name));
  return `${node.name}${node.kernel ? " [k]" : ""}\n${duration(node.total)}, ${percent(node.total, root.total)}; itself ${duration(node.own)}\n${divided}${place ? `\n${place}` : ""}`;
}

/** On, off, both, or one reason. */
export function stateChoice(app) {
  const reasons = app.rec.states.filter((s) => s.reason && app.rec.answer.total.blocked_by_reason_ns[s.reason]);
  const options = [["both", "on and off CPU"], ["on", "on CPU"], ["off", "off CPU"], ["runnable", "wants a CPU"], ...reasons.map((s) => [s.reason, `blocked: ${s.reason}`])];
  const option = ([value, text]) => el("option", { value, selected: value === app.choice.states }, text);
  return el("select", { id: "states", title: "which time", change: (event) => app.set({ states: event.target.value }) }, options.map(option));
}

