// What was recorded, what the rules say, how time divides, how far to trust it.
import { count, duration, percent } from "../model/text.js";
import { dividedBar, el, framesText, table } from "./dom.js";

export function overview(app) {
  const { answer } = app.rec;
  return el("div", { class: "page" },
    about(answer.recording), findings(app), division(app), processes(app), trust(app));
}

function about(r) {
  const facts = [
    `${duration(r.window_ns)} on ${r.host}`, `${r.cpus} CPUs`, many(r.processes, "process", "processes"), many(r.threads, "thread", "threads"),
    `Linux ${r.kernel}`, new Date(r.start_unix_ns / 1e6).toLocaleString(),
  ];
  if (r.exit_code !== null) facts.push(`exit code ${r.exit_code}`);
  if (!r.complete) facts.push("cut short");
  return el("div", {}, el("h2", { class: "mono" }, r.target), el("p", { class: "quiet" }, facts.join(" · ")));
}

const many = (n, one, more) => `${count(n)} ${n === 1 ? one : more}`;

function findings(app) {
  const { findings } = app.rec.answer;
  const blind = app.rec.couldNotLook.map((b) => b.rule);
  const options = [...new Set(app.rec.couldNotLook.map((b) => b.option))];
  return el("section", {}, el("h2", {}, "Findings"),
    findings.length ? findings.map((finding) => card(app, finding)) : el("p", { class: "quiet" }, "Nothing found."),
    blind.length ? el("p", { class: "quiet" }, `Not looked for: ${blind.join(", ")}; dwell record ${options.join(" ")} would let these.`) : "");
}

function card(app, finding) {
  const numbers = finding.evidence.map((n) => [el("dt", {}, value(n)), el("dd", {}, n.label)]);
  const stacks = finding.stacks.map((s) => el("p", { class: "mono" }, el("span", { class: "quiet" }, `${s.label}: `), framesText(s.frames)));
  const place = finding.stacks[0]?.frames.find((f) => !f.kernel)?.function;
  const { low, high, of, how } = finding.effect;
  const [least, most] = [low, high].map((share) => Math.round(100 * share));
  const range = least === most ? `${most} %` : `${least} to ${most} %`;
  const look = place && el("button", { click: () => app.set({ view: "flame", search: place }) }, "look at it in the flame graph");
  return el("div", { class: `finding ${finding.severity}` },
    el("h3", {}, `${finding.severity}: ${finding.title} `, el("span", { class: "quiet" }, finding.rule)),
    el("dl", {}, numbers), stacks,
    el("p", {}, el("b", {}, "Remedy: "), finding.remedy),
    el("p", {}, el("b", {}, "Saves "), `${range} of ${of}: ${how}. `, el("span", { class: "quiet" }, `Sure: ${finding.confidence}; ${finding.page}`)),
    look || "");
}

function value(number) {
  if (number.unit === "ns") return duration(number.value);
  if (number.unit === "share") return percent(number.value, 1);
  const text = number.value < 100 && number.value % 1 ? number.value.toFixed(1) : count(Math.round(number.value));
  return number.unit === "per_second" ? `${text}/s` : text;
}

/** Time by state of a division, in the order of the states: `[state, ns]`. */
function byState(app, d) {
  return app.rec.states.map((state) => {
    if (state.reason) return [state, d.blocked_by_reason_ns[state.reason] ?? 0];
    if (state.name === "running") return [state, d.running_ns - d.spinning_ns];
    return [state, d[`${state.name}_ns`] ?? 0];
  });
}

function bar(app, d, small) {
  return dividedBar(byState(app, d).map(([state, ns]) => [state.color, ns, `${state.label}: ${duration(ns)}, ${percent(ns, d.lifetime_ns)}`]), small);
}

function division(app) {
  const { total } = app.rec.answer;
  const shown = byState(app, total).filter(([, ns]) => ns > 0);
  const entry = ([state, ns]) => el("span", { "data-state": state.reason || state.name },
    el("i", { style: { background: state.color } }), `${state.label} ${percent(ns, total.lifetime_ns)}`, el("span", { class: "quiet" }, `  ${duration(ns)}`));
  return el("section", {},
    el("h2", {}, "How it divides"),
    el("p", { class: "quiet" }, `${duration(total.lifetime_ns)} of thread time, ${total.cpus.toFixed(2)} CPUs in use`),
    bar(app, total), el("div", { class: "legend", id: "division" }, shown.map(entry)));
}

function processes(app) {
  const rows = [];
  for (const p of app.rec.answer.processes) {
    rows.push({ name: `${p.name} (${p.pid})`, pid: p.pid, d: p.division });
    if (p.groups.length > 1) rows.push(...p.groups.map((g) => ({ name: `\u2003${g.name}`, pid: p.pid, d: g.division })));
  }
  const columns = [
    { head: "process, threads", text: (r) => r.name },
    { head: "threads", number: true, text: (r) => count(r.d.threads) },
    { head: "CPUs", number: true, text: (r) => r.d.cpus.toFixed(2) },
    { head: "running", number: true, text: (r) => percent(r.d.running_ns, r.d.lifetime_ns) },
    { head: "wants a CPU", number: true, text: (r) => percent(r.d.runnable_ns, r.d.lifetime_ns) },
    { head: "blocked", number: true, text: (r) => percent(r.d.blocked_ns, r.d.lifetime_ns) },
    { head: "", text: (r) => el("div", { style: { width: "220px" } }, bar(app, r.d, true)) },
  ];
  return el("section", {}, el("h2", {}, "By process"),
    table(columns, rows, { id: "processes", pick: (r) => app.set({ view: "timeline", pid: r.pid, thread: -1 }) }));
}

function trust(app) {
  const { losses, closure, notes, recording } = app.rec.answer;
  const { reduced } = app.rec;
  const lines = [];
  if (losses.nothing_lost) lines.push("Nothing was lost.");
  else for (const loss of losses.events) lines.push(`Lost: ${count(loss.lost)} ${loss.name}${loss.share === null ? "" : ` (${percent(loss.share, 1)})`}`);
  lines.push(`${count(recording.samples)} stacks taken, one per ${duration(recording.period_ns)} of thread time.`);
  lines.push(closure.max_error_share === 0 ? "Every thread's states add up to its lifetime exactly." : `Every thread's states add up to its lifetime within ${percent(closure.max_error_share, 1)}.`);
  if (reduced.shorter_than_ns) lines.push(`The timeline is reduced: moments shorter than ${duration(reduced.shorter_than_ns)} are put together (${count(reduced.before)} became ${count(reduced.after)}). Sums are not.`);
  if (app.rec.entries.without_stack) lines.push(`The ${count(app.rec.entries.without_stack)} smallest stacks are left out; their time is not.`);
  return el("section", {}, el("h2", {}, "How far to trust it"), el("ul", { class: "notes" }, [...lines, ...notes].map((line) => el("li", {}, line))));
}
