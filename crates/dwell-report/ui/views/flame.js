// The flame graph: width is time, on and off the CPU alike.
import { threadName } from "../model/data.js";
import { busiest, nodeColor, stackTree, timeTree } from "../model/tree.js";
import { duration, percent } from "../model/text.js";
import { boxesDrawing, toggle } from "./boxes.js";
import { el } from "./dom.js";

export function flame(app) {
  const { choice } = app;
  app.keys.b = () => app.set({ byTime: !choice.byTime });
  return choice.byTime ? oneAfterTheOther(app) : longestFirst(app);
}

function longestFirst(app) {
  const { rec, choice } = app;
  const { root, idle } = stackTree(rec, choice);
  const folded = idle ? `: ${duration(idle)} folded away` : "";
  Object.assign(app.keys, {
    i: () => app.set({ inverted: !choice.inverted }),
    u: () => app.set({ idle: !choice.idle }),
    t: () => app.set({ perThread: !choice.perThread }),
  });
  return drawing(app, root, [toggle(app, "inverted", "inverted (i)"), toggle(app, "perThread", "threads apart (t)"), toggle(app, "idle", `idle pools (u)${folded}`)]);
}

/** One thread's stacks in the order of time. */
function oneAfterTheOther(app) {
  const { rec, choice } = app;
  const thread = choice.thread >= 0 ? choice.thread : busiest(rec);
  const { root, left } = timeTree(rec, choice, thread);
  const option = (place) => el("option", { value: place, selected: place === thread }, threadName(rec, place));
  const threads = el("select", { id: "thread", title: "which thread", change: (event) => app.set({ thread: Number(event.target.value) }) }, rec.threads.tid.map((_, place) => option(place)));
  return drawing(app, root, [threads, left ? el("span", { class: "quiet" }, `the last ${left} moments are left out: choose a part of the window`) : ""]);
}

function drawing(app, root, tools) {
  return boxesDrawing(app, root, {
    color: (node) => nodeColor(app.rec, node),
    words: (node) => nodeWords(app.rec, node, root),
    time: duration,
    tools: [stateChoice(app), toggle(app, "byTime", "by time (b)"), tools],
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

