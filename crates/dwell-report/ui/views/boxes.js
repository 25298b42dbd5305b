// Boxes within boxes: the drawing that flame graphs share.
import { boxes, searchTotal } from "../model/tree.js";
import { percent, shorten } from "../model/text.js";
import { el, sized, themed, tip } from "./dom.js";

const HEIGHT = 18;

/**
 * The drawing of a tree and the tools over it. `color` gives a node's red, green and blue, `words` its tip, `time` a number of ns in words;
 * `tools` are put before the field that finds.
 */
export function boxesDrawing(app, root, { color, words, time, tools }) {
  const { choice } = app;
  let path = focused(root, choice.focus); // from the root to what the whole width is
  let marked = null; // by the arrow keys: the way to it
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
    choice.focus = placesOf(path);
    app.noteSoon();
    const top = path.at(-1);
    const rows = path.length + top.depth;
    tall.style.height = `${rows * HEIGHT}px`;
    box.scrollTop = choice.icicle ? 0 : rows * HEIGHT;
    status.textContent = `${time(top.total)} · ${percent(top.total, root.total)} of what is shown`;
    redraw();
  }

  function draw() {
    const width = box.clientWidth;
    const height = box.clientHeight;
    const context = sized(canvas, width, height);
    context.font = "11px ui-monospace, 'DejaVu Sans Mono', monospace";
    context.textBaseline = "middle";
    const top = path.at(-1);
    const rows = Math.max(path.length + top.depth, Math.floor(height / HEIGHT));
    const yOf = (depth) => (choice.icicle ? depth : rows - 1 - depth) * HEIGHT - box.scrollTop;
    // What is focussed lies below all its callers, which are as wide.
    const callers = path.slice(0, -1).map((node, depth) => ({ node, x: 0, width: 1, depth, above: true }));
    const below = boxes(top, 0.6 / width).map((b) => ({ ...b, depth: b.depth + path.length - 1 }));
    const placed = [...callers, ...below].map((b) => ({ ...b, left: b.x * width, wide: b.width * width, y: yOf(b.depth) }));
    shown = placed.filter((b) => b.y >= -HEIGHT && b.y <= height);
    for (const b of shown) drawBox(context, b);
    if (!root.total) {
      context.fillStyle = themed("--quiet");
      context.fillText("Nothing of what is looked at.", 12, 20);
    }
  }

  function drawBox(context, { node, left, wide, y, above }) {
    const found = choice.search && node.name.toLowerCase().includes(choice.search.toLowerCase());
    const [red, green, blue] = found ? [230, 60, 220] : color(node);
    context.globalAlpha = above ? 0.6 : 1;
    context.fillStyle = `rgb(${red},${green},${blue})`;
    context.fillRect(left, y, Math.max(0.5, wide - 0.6), HEIGHT - 1);
    if (wide > 26) {
      context.fillStyle = 0.299 * red + 0.587 * green + 0.114 * blue < 130 ? "#fff" : "#111";
      context.fillText(shorten(node.name + (node.kernel ? " [k]" : ""), Math.floor((wide - 6) / 6.7)), left + 3, y + HEIGHT / 2);
    }
    context.globalAlpha = 1;
    if (node !== marked?.at(-1)) return;
    context.strokeStyle = themed("--ink");
    context.lineWidth = 2;
    context.strokeRect(left + 1, y + 1, Math.max(2, wide - 2), HEIGHT - 3);
  }

  /** Marks the node that `to` finds from the marked one; its words are told. */
  function mark(to) {
    const next = to(marked ?? path);
    if (!next) return;
    marked = next;
    const depth = marked.length - 1;
    const y = (choice.icicle ? depth : Math.max(path.length + path.at(-1).depth, Math.floor(box.clientHeight / HEIGHT)) - 1 - depth) * HEIGHT;
    if (y < box.scrollTop) box.scrollTop = y;
    else if (y + HEIGHT > box.scrollTop + box.clientHeight) box.scrollTop = y + HEIGHT - box.clientHeight;
    under = marked.at(-1);
    status.textContent = words(under).replaceAll("\n", " · ");
    redraw();
  }
  const inward = (way) => way.at(-1).children.length > 0 && [...way, way.at(-1).children[0]];
  const outward = (way) => way.length > 1 && way.slice(0, -1);
  const beside = (by) => (way) => {
    const all = way.at(-2)?.children ?? [];
    const next = all[all.indexOf(way.at(-1)) + by];
    return next && [...way.slice(0, -1), next];
  };

  const pointed = (event) => shown.find((b) => event.offsetX >= b.left && event.offsetX < b.left + b.wide && event.offsetY >= b.y && event.offsetY < b.y + HEIGHT);
  let under = null;
  canvas.addEventListener("mousemove", (event) => {
    under = pointed(event)?.node ?? null;
    tip(event, under ? words(under) : "");
  });
  canvas.addEventListener("mouseleave", (event) => tip(event, ""));
  canvas.addEventListener("click", (event) => {
    const b = pointed(event);
    if (b) focus(b.above ? path.slice(0, b.depth + 1) : wayTo(b.node, path));
  });
  box.addEventListener("scroll", redraw);

  Object.assign(app.keys, {
    o: () => app.set({ icicle: !choice.icicle }),
    0: () => focus([root]),
    Backspace: () => path.length > 1 && focus(path.slice(0, -1)),
    ArrowDown: () => mark(choice.icicle ? inward : outward),
    ArrowUp: () => mark(choice.icicle ? outward : inward),
    ArrowLeft: () => mark(beside(-1)),
    ArrowRight: () => mark(beside(1)),
    Enter: () => marked && focus(marked),
    c: () => under && navigator.clipboard?.writeText(wayTo(under, [root]).slice(1).map((n) => n.name).join(";")),
  });
  app.flameRoot = root;
  app.resized = redraw;
  const found = searchTotal(root, choice.search);
  requestAnimationFrame(() => focus(path));
  return el("div", { style: { display: "flex", flexDirection: "column", flex: 1, minHeight: 0 } },
    el("div", { class: "tools" }, tools, toggle(app, "icicle", "from the top (o)"), searchField(app),
      choice.search ? el("span", { id: "found" }, `${time(found)} · ${percent(found, root.total)}`) : "", status),
    box);
}

/** Where the last node of a way from the root is: places of children, with dots between. */
function placesOf(path) {
  return path.slice(1).map((node, depth) => path[depth].children.indexOf(node)).join(".");
}

/** The way that such places say, as far as there is one. */
function focused(root, places) {
  const path = [root];
  for (const place of places ? places.split(".") : []) {
    const next = path.at(-1).children[place];
    if (!next) break;
    path.push(next);
  }
  return path;
}

/** The nodes from the root to `wanted`, which lies below the last of `path`. */
function wayTo(wanted, path) {
  const open = [path];
  while (open.length) {
    const way = open.pop();
    if (way.at(-1) === wanted) return way;
    for (const child of way.at(-1).children) open.push([...way, child]);
  }
  return path;
}

export function toggle(app, key, words) {
  return el("button", { "aria-pressed": String(app.choice[key]), click: () => app.set({ [key]: !app.choice[key] }) }, words);
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
