// The flame graph: width is time, on and off the CPU alike.
import { boxes, nodeColor, searchTotal, stackTree } from "../model/tree.js";
import { duration, percent, shorten } from "../model/text.js";
import { el, sized, themed, tip } from "./dom.js";

const HEIGHT = 18;

export function flame(app) {
  const { rec, choice } = app;
  const { root, idle } = stackTree(rec, choice);
  let top = root; // what the whole width is
  let path = [root]; // from the root to it
  let shown = [];
  const canvas = el("canvas", { tabindex: 0, "aria-label": "flame graph" });
  const tall = el("div", { class: "tall" });
  const box = el("div", { class: "canvas", id: "flame" }, canvas, tall);
  const status = el("span", { class: "quiet", id: "flame-status" });
  let asked = false;
  const redraw = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };

  function focus(newPath) {
    path = newPath;
    top = path.at(-1);
    const rows = path.length + top.depth;
    tall.style.height = `${rows * HEIGHT}px`;
    box.scrollTop = choice.icicle ? 0 : rows * HEIGHT;
    status.textContent = `${duration(top.total)} · ${percent(top.total, root.total)} of what is shown`;
    redraw();
  }

  function draw() {
    const width = box.clientWidth;
    const height = box.clientHeight;
    const context = sized(canvas, width, height);
    context.font = "11px ui-monospace, 'DejaVu Sans Mono', monospace";
    context.textBaseline = "middle";
    const rows = path.length + top.depth;
    const yOf = (depth) => (choice.icicle ? depth : Math.max(rows, Math.floor(height / HEIGHT)) - 1 - depth) * HEIGHT - box.scrollTop;
    const paper = themed("--raised");
    const wanted = choice.search.toLowerCase();
    // What is focussed lies below all its callers, which are as wide.
    const callers = path.slice(0, -1).map((node, depth) => ({ node, x: 0, width: 1, depth, above: true }));
    const below = boxes(top, 0.6 / width).map((b) => ({ ...b, depth: b.depth + path.length - 1 }));
    shown = [];
    for (const b of [...callers, ...below]) {
      const y = yOf(b.depth);
      if (y < -HEIGHT || y > height) continue;
      const x = b.x * width;
      const wide = b.width * width;
      shown.push({ ...b, left: x, wide, y });
      const found = wanted && b.node.name.toLowerCase().includes(wanted);
      const [red, green, blue] = found ? [230, 60, 220] : nodeColor(rec, b.node);
      context.globalAlpha = b.above ? 0.6 : 1;
      context.fillStyle = `rgb(${red},${green},${blue})`;
      context.fillRect(x, y, Math.max(0.5, wide - 0.6), HEIGHT - 1);
      if (wide > 26) {
        context.fillStyle = 0.299 * red + 0.587 * green + 0.114 * blue < 130 ? "#fff" : "#111";
        context.fillText(shorten(b.node.name + (b.node.kernel ? " [k]" : ""), Math.floor((wide - 6) / 6.7)), x + 3, y + HEIGHT / 2);
      }
      context.globalAlpha = 1;
    }
    if (!root.total) {
      context.fillStyle = themed("--quiet");
      context.fillText("Nothing of what is looked at.", 12, 20);
    }
    context.fillStyle = paper;
  }

  const pointed = (event) => shown.find((b) => event.offsetX >= b.left && event.offsetX < b.left + b.wide && event.offsetY >= b.y && event.offsetY < b.y + HEIGHT);
  canvas.addEventListener("mousemove", (event) => {
    const b = pointed(event);
    app.pointed = b?.node;
    tip(event, b ? words(rec, b.node, root) : "");
  });
  canvas.addEventListener("mouseleave", (event) => tip(event, ""));
  canvas.addEventListener("click", (event) => {
    const b = pointed(event);
    if (b) focus(pathTo(root, b, path, shown));
  });
  box.addEventListener("scroll", redraw);

  app.keys = {
    i: () => app.set({ inverted: !choice.inverted }),
    o: () => app.set({ icicle: !choice.icicle }),
    u: () => app.set({ idle: !choice.idle }),
    t: () => app.set({ perThread: !choice.perThread }),
    0: () => focus([root]),
    Backspace: () => path.length > 1 && focus(path.slice(0, -1)),
    c: () => app.pointed && navigator.clipboard?.writeText(stackText(root, app.pointed)),
  };
  app.flameRoot = root;
  app.resized = redraw;
  const found = searchTotal(root, choice.search);
  const page = el("div", { style: { display: "flex", flexDirection: "column", flex: 1, minHeight: 0 } },
    el("div", { class: "tools" },
      stateChoice(app),
      toggle(app, "inverted", "inverted (i)"), toggle(app, "icicle", "from the top (o)"), toggle(app, "perThread", "threads apart (t)"),
      toggle(app, "idle", idle || choice.idle ? `idle pools (u)${idle ? `: ${duration(idle)} folded away` : ""}` : "idle pools (u)"),
      searchField(app), choice.search ? el("span", { id: "found" }, `${duration(found)} · ${percent(found, root.total)}`) : "",
      status),
    box);
  requestAnimationFrame(() => focus([root]));
  return page;
}

/** The way from the root to a box that is shown. */
function pathTo(root, b, path, shown) {
  if (b.above) return path.slice(0, b.depth + 1);
  const way = [b.node];
  let left = b;
  for (let depth = b.depth - 1; depth >= path.length; depth -= 1) {
    left = shown.find((other) => other.depth === depth && other.node.children.includes(left.node));
    if (!left) return walked(root, b.node);
    way.unshift(left.node);
  }
  return b.depth < path.length ? path.slice(0, b.depth + 1) : [...path, ...way];
}

/** The same by looking everywhere, for what lies outside of what is drawn. */
function walked(root, wanted) {
  const open = [[root]];
  while (open.length) {
    const way = open.pop();
    if (way.at(-1) === wanted) return way;
    for (const child of way.at(-1).children) open.push([...way, child]);
  }
  return [root];
}

function stackText(root, node) {
  return walked(root, node).slice(1).map((n) => n.name).join(";");
}

function words(rec, node, root) {
  const states = [...node.states].sort((a, b) => b[1] - a[1]).slice(0, 5);
  const divided = states.map(([state, ns]) => `${rec.states[state].label} ${percent(ns, node.total)}`).join(" · ");
  const place = rec.places.get(rec.functions.indexOf(node.name));
  return `${node.name}${node.kernel ? " [k]" : ""}\n${duration(node.total)}, ${percent(node.total, root.total)}; itself ${duration(node.own)}\n${divided}${place ? `\n${place}` : ""}`;
}

export function toggle(app, key, words) {
  return el("button", { "aria-pressed": String(app.choice[key]), click: () => app.set({ [key]: !app.choice[key] }) }, words);
}

/** On, off, both, or one reason. */
export function stateChoice(app) {
  const reasons = app.rec.states.filter((s) => s.reason && app.rec.answer.total.blocked_by_reason_ns[s.reason]);
  const options = [["both", "on and off CPU"], ["on", "on CPU"], ["off", "off CPU"], ["runnable", "wants a CPU"], ...reasons.map((s) => [s.reason, `blocked: ${s.reason}`])];
  const option = ([value, text]) => el("option", { value, selected: value === app.choice.states }, text);
  return el("select", { id: "states", title: "which time", change: (event) => app.set({ states: event.target.value }) }, options.map(option));
}

/** A field whose text is looked for, a moment after it was typed. */
export function searchField(app) {
  let timer;
  const field = el("input", {
    type: "search", id: "search", placeholder: "find (/)", value: app.choice.search,
    input: () => {
      clearTimeout(timer);
      timer = setTimeout(() => app.set({ search: field.value }, "search"), 200);
    },
  });
  return field;
}
