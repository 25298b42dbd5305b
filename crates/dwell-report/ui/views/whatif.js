// What a change would do: the usual remedies, and, where `dwell view` serves the page, what one asks for.
import { duration } from "../model/text.js";
import { sweep, wideText } from "../model/knobs.js";
import { el, svg, table } from "./dom.js";
import { partNote } from "./part.js";

const KNOBS = {
  threads: ["threads", [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]],
  batch: ["units per acquisition", [1, 2, 3, 4, 6, 8, 16, 32, 64]],
  shards: ["shards", [1, 2, 3, 4, 8, 16, 32]],
  hold: ["hold, % of what it is", [200, 150, 100, 75, 50, 25, 10]],
  processors: ["processors", [1, 2, 4, 8, 16, 32, 64, 96, 128, 272]],
};
const KINDS = ["tas", "ttas", "ticket", "mcs", "adaptive", "mutex"];

export function whatif(app) {
  const { remedies } = app.rec;
  const page = el("div", { class: "page" }, partNote(app, "The simulation is of the whole recording."), el("h2", {}, "What if"));
  if (!remedies.answer) {
    page.append(el("p", {}, remedies.why));
    return page;
  }
  const { lock, recorded_per_s: rate, reproduced, notes } = remedies.answer;
  page.append(el("p", {}, el("b", { class: "mono" }, lock.name), ` ${lock.kind}, taken by ${lock.threads} threads: ${duration(lock.think_ns)} of work and a hold of ${duration(lock.hold_ns)} per acquisition. `,
    `${lock.useful_threads.toFixed(1)} threads keep it taken; more only wait.`),
  rate ? el("p", { class: "quiet" }, `${perSecond(rate)} units/s were recorded; simulated as it is, ${reproduced.likely.toFixed(2)} times that.`) : "",
  el("ul", { class: "notes" }, notes.map((note) => el("li", {}, note))));
  page.append(location.protocol.startsWith("http") ? knobs(app) : el("p", { class: "quiet" }, "Served by dwell view, this page lets you choose a lock and move threads, batches, kinds and shards."));
  page.append(el("section", {}, el("h2", {}, "The usual remedies, the best first"), table(COLUMNS, remedies.answer.rows, { id: "remedies" }),
    el("p", { class: "quiet" }, "Simulated; in brackets the bounds of nine in ten runs.")));
  return page;
}

const perSecond = (n) => (n < 10 ? n.toFixed(1) : Math.round(n).toLocaleString("en").replaceAll(",", "\u202f"));

const COLUMNS = [
  { head: "times as many units", number: true, sort: (r) => r.gain.likely, text: (r) => wideText(r.gain) },
  { head: "units/s", number: true, text: (r) => (r.units_per_s ? perSecond(r.units_per_s.likely) : "-") },
  { head: "CPU per unit", number: true, sort: (r) => r.cpu_ratio.likely, text: (r) => `× ${r.cpu_ratio.likely.toFixed(2)}` },
  { head: "spinning", number: true, sort: (r) => r.wasted_processors.likely, text: (r) => `${r.wasted_processors.likely.toFixed(2)} CPUs` },
  { head: "change", text: (r) => r.what + (r.larger_machine ? " (a larger machine than was recorded: a prediction)" : "") },
  { head: "then", text: (r) => (r.queue_at ? `the queue is at ${r.queue_at}` : r.explanation) },
];

/** Choices, and what `dwell view` makes of them. */
function knobs(app) {
  const asked = new URLSearchParams(app.choice.asked);
  const out = el("div", { id: "predicted", class: "predicted" });
  let turn = 0;
  const ask = async () => {
    const mine = (turn += 1);
    app.choice.asked = asked.toString();
    app.note();
    out.classList.add("waiting");
    const threads = sweep(app.rec.remedies.answer.lock.threads, Number(asked.get("threads")));
    const question = new URLSearchParams(asked);
    question.set("threads", threads.join(","));
    const reply = await fetch(`/whatif?${question}`);
    const text = await reply.text();
    if (mine !== turn) return;
    out.classList.remove("waiting");
    out.replaceChildren(...(reply.ok ? predicted(JSON.parse(text), Number(asked.get("threads"))) : [el("p", {}, text)]));
  };
  let timer;
  const set = (key, value) => {
    if (value) asked.set(key, value);
    else asked.delete(key);
    clearTimeout(timer);
    timer = setTimeout(ask, 120);
  };
  ask();
  const locks = [...new Set([app.rec.remedies.answer.lock.name, ...app.rec.locks.contended.map((l) => l.name)])];
  return el("section", { id: "knobs" }, el("h2", {}, "Try it"), el("div", { class: "knobs" },
    choose("lock", "lock", locks, asked.get("lock"), set), choose("kind", "kind of lock", ["", ...KINDS], asked.get("kind"), set),
    Object.entries(KNOBS).map(([key, [words, values]]) => slider(key, words, values, asked.get(key), set))), out);
}

function choose(key, words, values, now, set) {
  const option = (value) => el("option", { value, selected: value === now }, value || "as it is");
  return el("label", {}, el("span", {}, words), el("select", { id: `knob-${key}`, change: (event) => set(key, event.target.value) }, values.map(option)), el("output"));
}

/** A slider over a list; its first place leaves things as they are. */
function slider(key, words, values, now, set) {
  const told = el("output", {}, now ?? "as it is");
  return el("label", {}, el("span", {}, words), el("input", {
    type: "range", min: 0, max: values.length, value: values.indexOf(Number(now)) + 1, id: `knob-${key}`,
    input: (event) => {
      const value = values[Number(event.target.value) - 1];
      told.textContent = value ?? "as it is";
      set(key, value === undefined ? "" : String(value));
    },
  }), told);
}

function predicted(answer, threads) {
  const now = threads || answer.lock.threads;
  const row = answer.rows.find((r) => r.threads === now) ?? answer.rows[0];
  const rate = row.units_per_s ? `, ${perSecond(row.units_per_s.likely)} units/s [${perSecond(row.units_per_s.low)}, ${perSecond(row.units_per_s.high)}]` : "";
  return [
    el("p", { class: "headline" }, el("b", {}, row.gain.likely.toFixed(2)), ` times as many units [${row.gain.low.toFixed(2)}, ${row.gain.high.toFixed(2)}]${rate}`),
    el("p", {}, `${row.what}: CPU per unit × ${row.cpu_ratio.likely.toFixed(2)}; ${row.wasted_processors.likely.toFixed(2)} CPUs spin. `, row.queue_at ? `The queue is then at ${row.queue_at}. ` : "", row.explanation),
    chart(answer.rows, now),
  ];
}

/** Throughput by the number of threads, with its bounds. */
function chart(rows, now) {
  const [wide, tall, left, low] = [1100, 190, 46, 24];
  const most = Math.max(1.2, ...rows.map((r) => r.gain.high));
  const x = (place) => left + ((place + 0.5) * (wide - left)) / rows.length;
  const y = (gain) => 8 + (1 - gain / most) * (tall - low - 12);
  const line = (key) => rows.map((r, i) => `${x(i)},${y(r.gain[key])}`);
  return el("div", { class: "sides" }, svg("svg", { viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": "throughput by threads" },
    svg("polygon", { points: [...line("high"), ...line("low").reverse()].join(" "), class: "range" }),
    svg("polyline", { points: line("likely").join(" "), class: "line" }),
    svg("line", { x1: left, x2: wide, y1: y(1), y2: y(1), class: "as-it-is" }), svg("text", { x: 0, y: y(1) + 4, class: "head" }, "as it is"),
    rows.map((r, i) => [svg("circle", { cx: x(i), cy: y(r.gain.likely), r: r.threads === now ? 6 : 3, class: "bar-of-side" }),
      svg("text", { x: x(i), y: tall - 6, "text-anchor": "middle", class: r.threads === now ? "" : "head" }, `${r.threads} ${r.threads === 1 ? "thread" : "threads"}`)])));
}
