// A lane for each thread, coloured by state.
import { hasThread } from "../model/choice.js";
import { momentAt, momentBefore, threadName, wakerOf } from "../model/data.js";
import { chainOf, laneStretches } from "../model/lanes.js";
import { duration, shorten } from "../model/text.js";
import { el, sized, themed, tip } from "./dom.js";

const LANE = 18;
const NAMES_WIDE = 190;
const AXIS = 22;
/** The least part of the window that can be looked at, ns. */
const LEAST = 1000;

export function timeline(app) {
  const { rec, choice } = app;
  const lanes = lanesOf(rec, choice);
  let [from, to] = choice.spanTo ? [choice.spanFrom, choice.spanTo] : [0, rec.window];
  app.span = [from, to];
  app.moment = choice.moment >= 0 && choice.moment < rec.moments.ns.length ? choice.moment : undefined;
  let drag = null;
  const colors = rec.states.map(({ color }) => {
    const rgb = parseInt(color.slice(1), 16);
    return (0xff000000 | ((rgb & 255) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
  });
  const canvas = el("canvas", { tabindex: 0, "aria-label": "timeline" });
  const box = el("div", { class: "canvas", id: "lanes" }, canvas, el("div", { class: "tall", style: { height: `${lanes.length * LANE + AXIS}px` } }));
  const detail = el("div", { class: "detail", id: "moment" }, el("p", { class: "quiet" },
    "Click a moment to see its stack and who ended it, a name to see that thread or process alone. Drag to choose a part of the window for all views; Esc ends both. w s or Ctrl+wheel zoom, a d pan."));

  const width = () => Math.max(100, box.clientWidth - NAMES_WIDE);
  const timeAt = (x) => from + ((x - NAMES_WIDE) / width()) * (to - from);
  const xAt = (time) => NAMES_WIDE + ((time - from) / (to - from)) * width();
  const laneAt = (y) => Math.floor((y - AXIS + box.scrollTop) / LANE);
  let asked = false;
  const redraw = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };

  function draw() {
    const height = box.clientHeight;
    const context = sized(canvas, box.clientWidth, height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const ink = themed("--ink");
    const quiet = themed("--quiet");
    const first = Math.max(0, Math.floor(box.scrollTop / LANE));
    const shown = lanes.slice(first, Math.ceil((box.scrollTop + height - AXIS) / LANE) + 1);
    const strips = stripsOf(shown);
    context.imageSmoothingEnabled = false;
    shown.forEach((lane, row) => {
      const y = AXIS + (first + row) * LANE - box.scrollTop;
      context.fillStyle = lane.thread < 0 ? ink : quiet;
      context.fillText(shorten(lane.name, 30), lane.thread < 0 ? 6 : 16, y + LANE / 2);
      if (lane.thread >= 0) context.drawImage(strips, 0, row, strips.width, 1, NAMES_WIDE, y + 2, width(), LANE - 4);
    });
    drawAxis(context, quiet);
    drawChosen(context, ink);
  }

  /** The lanes as an image of one row each: a hundred times as quick as a rectangle for each stretch. */
  function stripsOf(shown) {
    const wide = Math.round(width() * (window.devicePixelRatio || 1));
    const strips = new OffscreenCanvas(wide, Math.max(1, shown.length));
    const image = new ImageData(wide, strips.height);
    const dots = new Uint32Array(image.data.buffer);
    shown.forEach(({ thread }, row) => {
      if (thread < 0) return;
      laneStretches(rec, thread, from, to, wide, (x, many, state) => dots.fill(colors[state], row * wide + x, row * wide + x + many));
    });
    strips.getContext("2d").putImageData(image, 0, 0);
    return strips;
  }

  function drawAxis(context, quiet) {
    context.fillStyle = themed("--raised");
    context.fillRect(0, 0, box.clientWidth, AXIS);
    context.fillStyle = quiet;
    context.strokeStyle = themed("--line");
    const step = niceStep((to - from) / (width() / 110));
    context.beginPath();
    for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
      const x = Math.round(xAt(time)) + 0.5;
      context.moveTo(x, AXIS - 5);
      context.lineTo(x, AXIS);
      context.fillText(duration(time), x + 3, AXIS / 2);
    }
    context.stroke();
    const [left, right] = drag ? [drag.from, drag.to].sort((a, b) => a - b) : [app.choice.from, app.choice.to];
    if (right > left) {
      context.fillStyle = "rgba(0, 98, 168, .14)";
      context.fillRect(xAt(left), 0, xAt(right) - xAt(left), box.clientHeight);
    }
  }

  /** The chosen moment, framed, and arrows from those who ended it, back to the root. */
  function drawChosen(context, ink) {
    if (app.moment === undefined) return;
    const chain = chainOf(rec, app.moment);
    context.save();
    context.beginPath();
    context.rect(NAMES_WIDE, AXIS, width(), box.clientHeight);
    context.clip();
    context.strokeStyle = ink;
    context.fillStyle = ink;
    context.lineWidth = 1.5;
    let woken = null;
    for (const moment of chain) {
      const { start, ns, thread } = rec.moments;
      const lane = lanes.findIndex((l) => l.thread === thread[moment]);
      if (lane < 0) break;
      const y = AXIS + lane * LANE - box.scrollTop;
      const left = xAt(start[moment]);
      const right = xAt(start[moment] + ns[moment]);
      context.strokeRect(left, y + 1, Math.max(1, right - left), LANE - 2);
      if (woken) arrow(context, woken.x, y + LANE / 2, woken.y);
      woken = { x: right, y: y + LANE / 2 };
    }
    context.restore();
  }

  function show(moment) {
    app.moment = moment < 0 ? undefined : moment;
    choice.moment = moment;
    app.noteSoon();
    const chain = moment < 0 ? [] : chainOf(rec, moment);
    const line = (at, place) => {
      const state = rec.states[rec.moments.state[at]];
      const waker = wakerOf(rec, at);
      const stack = rec.paths[rec.moments.path[at]].slice(-7).reverse().map((f) => rec.functions[f] + (rec.kernel[f] ? " [k]" : "")).join(" ← ");
      return el("div", {}, el("b", {}, `${"\u2003".repeat(place)}${place ? "← " : ""}${threadName(rec, rec.moments.thread[at])}: `),
        `${state.label} ${duration(rec.moments.ns[at])} at ${duration(rec.moments.start[at])}`, waker ? `, ended by ${waker.name}` : "",
        el("div", { class: "mono quiet" }, `${"\u2003".repeat(place)}${stack}`));
    };
    detail.replaceChildren(...(chain.length ? chain.map(line) : [el("p", { class: "quiet" }, "Nothing there.")]));
    redraw();
  }

  function look(newFrom, newTo) {
    const length = Math.min(rec.window, Math.max(LEAST, newTo - newFrom));
    from = Math.max(0, Math.min(newFrom, rec.window - length));
    to = from + length;
    app.span = [from, to];
    [choice.spanFrom, choice.spanTo] = length < rec.window ? [Math.round(from), Math.round(to)] : [0, 0];
    app.noteSoon();
    redraw();
  }
  /** Goes to the moment before or after the chosen one, or to what the thread above or below did then. */
  function step(along, lane) {
    const threads = lanes.filter((l) => l.thread >= 0).map((l) => l.thread);
    if (!threads.length) return;
    const { first, start, ns, thread } = rec.moments;
    let next = first[threads[0]];
    if (app.moment !== undefined && lane) {
      const place = threads.indexOf(thread[app.moment]) + lane;
      const middle = Math.min(to, Math.max(from, start[app.moment] + ns[app.moment] / 2));
      next = place >= 0 && place < threads.length ? momentBefore(rec, threads[place], middle) : -1;
    } else if (app.moment !== undefined) {
      next = app.moment + along;
      if (next < first[thread[app.moment]] || next >= first[thread[app.moment] + 1]) next = -1;
    }
    if (next < 0 || next >= ns.length) return;
    show(next);
    bringIntoView(next);
  }

  function bringIntoView(moment) {
    const { start, ns, thread } = rec.moments;
    const length = to - from;
    if (start[moment] < from || start[moment] >= to) look(start[moment] + ns[moment] / 2 - length / 2, start[moment] + ns[moment] / 2 + length / 2);
    const y = AXIS + lanes.findIndex((l) => l.thread === thread[moment]) * LANE;
    if (y - AXIS < box.scrollTop) box.scrollTop = y - AXIS;
    else if (y + LANE > box.scrollTop + box.clientHeight) box.scrollTop = y + LANE - box.clientHeight;
  }
  const zoom = (factor, around) => look(around - (around - from) * factor, around + (to - around) * factor);

  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    if (event.ctrlKey) zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event.offsetX));
    else look(from + ((to - from) * event.deltaY) / 600, to + ((to - from) * event.deltaY) / 600);
  }, { passive: false });
  canvas.addEventListener("mousedown", (event) => {
    const time = timeAt(event.offsetX);
    drag = { from: time, to: time, x: event.offsetX };
  });
  canvas.addEventListener("mousemove", (event) => {
    if (drag) {
      drag.to = timeAt(event.offsetX);
      redraw();
      return;
    }
    tip(event, momentText(event));
  });
  canvas.addEventListener("mouseleave", (event) => tip(event, ""));
  canvas.addEventListener("mouseup", (event) => {
    if (!drag) return;
    const { x, from: a, to: b } = drag;
    drag = null;
    if (Math.abs(event.offsetX - x) > 3) app.set({ from: Math.max(0, Math.min(a, b)), to: Math.min(rec.window, Math.max(a, b)) });
    else if (event.offsetX < NAMES_WIDE) alone(laneAt(event.offsetY));
    else show(pointed(event));
  });
  box.addEventListener("scroll", redraw);

  /** A thread or process alone, in all views. */
  function alone(place) {
    const lane = lanes[place];
    if (lane) app.set(lane.thread < 0 ? { pid: lane.pid, thread: -1 } : { thread: lane.thread });
  }
  function pointed(event) {
    const lane = event.offsetY < AXIS ? undefined : lanes[laneAt(event.offsetY)];
    return lane && lane.thread >= 0 && event.offsetX >= NAMES_WIDE ? momentAt(rec, lane.thread, timeAt(event.offsetX)) : -1;
  }
  function momentText(event) {
    const at = pointed(event);
    if (at < 0) return "";
    const { state, ns, start, path, thread } = rec.moments;
    const waker = wakerOf(rec, at);
    const innermost = rec.paths[path[at]].slice(-3).reverse().map((f) => rec.functions[f]).join(" ← ");
    return `${threadName(rec, thread[at])}\n${rec.states[state[at]].label} ${duration(ns[at])} at ${duration(start[at])}${waker ? `, ended by ${waker.name}` : ""}\n${innermost}`;
  }

  app.keys = {
    w: () => zoom(0.7, (from + to) / 2), s: () => zoom(1 / 0.7, (from + to) / 2),
    a: () => look(from - (to - from) / 5, to - (to - from) / 5), d: () => look(from + (to - from) / 5, to + (to - from) / 5),
    0: () => look(0, rec.window),
    f: () => {
      const chain = app.moment === undefined ? [] : chainOf(rec, app.moment);
      if (chain.length < 2) return;
      show(chain.at(-1));
      bringIntoView(chain.at(-1));
    },
    ArrowLeft: () => step(-1, 0), ArrowRight: () => step(1, 0), ArrowUp: () => step(0, -1), ArrowDown: () => step(0, 1),
    z: () => app.choice.to && look(app.choice.from, app.choice.to),
  };
  app.look = look;
  app.lanes = lanes;
  app.resized = redraw;
  const page = el("div", { style: { display: "flex", flexDirection: "column", flex: 1, minHeight: 0 } }, tools(app, lanes), box, detail);
  requestAnimationFrame(() => {
    if (app.moment === undefined) draw();
    else show(app.moment);
  });
  return page;
}

function tools(app, lanes) {
  const legend = app.rec.states.filter((state, place) => app.rec.moments.state.includes(place));
  const threads = lanes.filter((l) => l.thread >= 0).length;
  return el("div", { class: "tools" },
    el("span", { class: "quiet" }, threads === 1 ? "1 thread" : `${threads} threads`),
    el("div", { class: "legend" }, legend.map((state) => el("span", {}, el("i", { style: { background: state.color } }), state.label))));
}

/** Processes with their threads, those that ran most first. */
function lanesOf(rec, choice) {
  const ran = new Float64Array(rec.threads.tid.length);
  const e = rec.entries;
  for (let i = 0; i < e.ns.length; i += 1) if (rec.states[e.state[i]].onCpu) ran[e.thread[i]] += e.ns[i];
  const processes = new Map();
  rec.threads.tid.forEach((_, thread) => {
    if (!hasThread(rec, choice, thread)) return;
    const pid = rec.threads.pid[thread];
    const known = processes.get(pid) ?? { pid, name: rec.threads.process[thread], ran: 0, threads: [] };
    known.ran += ran[thread];
    known.threads.push(thread);
    processes.set(pid, known);
  });
  const lanes = [];
  for (const { pid, name, threads } of [...processes.values()].sort((a, b) => b.ran - a.ran)) {
    lanes.push({ thread: -1, pid, name: `${name} (${pid})` });
    threads.sort((a, b) => ran[b] - ran[a] || a - b);
    lanes.push(...threads.map((thread) => ({ thread, name: `${rec.threads.name[thread]} (${rec.threads.tid[thread]})` })));
  }
  return lanes;
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least);
}

function arrow(context, x, fromY, toY) {
  const tipY = toY + (toY < fromY ? 6 : -6);
  context.beginPath();
  context.moveTo(x, fromY);
  context.lineTo(x, tipY);
  context.stroke();
  context.beginPath();
  context.moveTo(x, toY);
  context.lineTo(x - 4, tipY);
  context.lineTo(x + 4, tipY);
  context.fill();
}
