// What was recorded, what the rules say, how time divides, how far to trust it.
import { count, duration, percent } from "../model/text.js";
import { evidence } from "../model/evidence.js";
import { division, isPart } from "../model/selection.js";
import { dividedBar, el, framesText, table } from "./dom.js";
import { partNote } from "./part.js";

export function overview(app) {
  const { answer } = app.rec;
  const whole = divided(app);
  return el("div", { class: "page" },
    about(answer.recording), partNote(app, "Findings and losses are those of the whole recording."), findings(app), divides(app, whole), processes(app, whole), trust(app));
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
    blind.length ? el("p", { class: "quiet" }, `Not looked for: ${blind.join(", ")}; dwell record ${options.join(" ")} looks for them.`) : "");
}

function card(app, finding) {
  const numbers = finding.evidence.map((n) => [el("dt", {}, value(n)), el("dd", {}, n.label)]);
  const stacks = finding.stacks.map((s) => el("p", { class: "mono" }, el("span", { class: "quiet" }, `${s.label}: `), framesText(s.frames)));
  const { low, high, of, how } = finding.effect;
  const [least, most] = [low, high].map((share) => Math.round(100 * share));
  const range = least === most ? `${most} %` : `${least} to ${most} %`;
  return el("div", { class: `finding ${finding.severity}` },
    el("h3", {}, `${finding.severity}: ${finding.title} `, el("span", { class: "quiet" }, finding.rule)),
    el("dl", {}, numbers), stacks,
    el("p", {}, el("b", {}, "Remedy: "), finding.remedy),
    el("p", {}, el("b", {}, "Saves "), `${range} of ${of}: ${how}. `, el("span", { class: "quiet" }, `Sure: ${finding.confidence}; ${finding.page}`)),
    el("p", {}, evidence(app.rec, finding).map(([words, choice]) => [el("button", { click: () => app.set(choice) }, words), " "])));
}

function value(number) {
  if (number.unit === "ns") return duration(number.value);
  if (number.unit === "share") return percent(number.value, 1);
  const text = number.value < 100 && number.value % 1 ? number.value.toFixed(1) : count(Math.round(number.value));
  return number.unit === "per_second" ? `${text}/s` : text;
}

/** What a division of the answer has, as one of a selection: `{name, pid, threads, states, total, groups}`. */
function fromAnswer(app, name, pid, d, groups = []) {
  const states = app.rec.states.map((state) => {
    if (state.reason) return d.blocked_by_reason_ns[state.reason] ?? 0;
    return state.name === "running" ? d.running_ns - d.spinning_ns : d[`${state.name}_ns`] ?? 0;
  });
  return { name, pid, threads: d.threads, states, total: d.lifetime_ns, groups };
}

/** How what is looked at divides: the answer's sums, or those of a part. */
function divided(app) {
  const { rec, choice } = app;
  if (isPart(choice)) return division(rec, choice);
  const { total, processes } = rec.answer;
  const groups = (p) => p.groups.map((g) => fromAnswer(app, g.name, p.pid, g.division));
  return fromAnswer(app, "", 0, total, processes.map((p) => fromAnswer(app, `${p.name} (${p.pid})`, p.pid, p.division, groups(p))));
}

const bar = (app, d, small) => dividedBar(app.rec.states.map((state, i) => [state.color, d.states[i], `${state.label}: ${duration(d.states[i])}, ${percent(d.states[i], d.total)}`]), small);

/** Time of the states that `wanted` says. */
const timeOf = (app, d, wanted) => d.states.reduce((sum, ns, i) => sum + (wanted(app.rec.states[i]) ? ns : 0), 0);

const cpusOf = (app, d) => timeOf(app, d, (state) => state.onCpu) / (app.choice.to - app.choice.from || app.rec.window);

function divides(app, d) {
  const entry = (state, i) => d.states[i] > 0 && el("span", { "data-state": state.reason || state.name },
    el("i", { style: { background: state.color } }), `${state.label} ${percent(d.states[i], d.total)}`, el("span", { class: "quiet" }, `  ${duration(d.states[i])}`));
  return el("section", {},
    el("h2", {}, "How it divides"),
    el("p", { class: "quiet" }, `${duration(d.total)} of thread time, ${cpusOf(app, d).toFixed(2)} CPUs in use`),
    bar(app, d), el("div", { class: "legend", id: "division" }, app.rec.states.map(entry).filter(Boolean)));
}

function processes(app, d) {
  const rows = d.groups.flatMap((p) => [p, ...(p.groups.length > 1 ? p.groups.map((g) => ({ ...g, name: `\u2003${g.name}` })) : [])]);
  const share = (wanted) => (r) => percent(timeOf(app, r, wanted), r.total);
  const columns = [
    { head: "process, threads", text: (r) => r.name },
    { head: "threads", number: true, text: (r) => count(r.threads) },
    { head: "CPUs", number: true, text: (r) => cpusOf(app, r).toFixed(2) },
    { head: "running", number: true, text: share((state) => state.onCpu) },
    { head: "wants a CPU", number: true, text: share((state) => state.name === "runnable") },
    { head: "blocked", number: true, text: share((state) => state.reason) },
    { head: "", text: (r) => el("div", { style: { width: "220px" } }, bar(app, r, true)) },
  ];
  return el("section", {}, el("h2", {}, "By process"),
    table(columns, rows, { id: "processes", pick: (r) => app.set({ view: "timeline", pid: r.pid, thread: -1 }) }));
}

function trust(app) {
  const { losses, closure, notes, recording } = app.rec.answer;
  const { reduced } = app.rec;
  const lines = [];
  if (losses.nothing_lost) lines.push("Nothing was lost.");
  else for (const loss of losses.events) lines.push(`Lost: ${count(loss.lost)} ${loss.name.replaceAll("_", " ")}${loss.share === null ? "" : ` (${percent(loss.share, 1)})`}`);
  lines.push(`${count(recording.samples)} stacks taken, one per ${duration(recording.period_ns)} of thread time.`);
  lines.push(closure.max_error_share === 0 ? "Every thread's states add up to its lifetime exactly." : `Every thread's states add up to its lifetime within ${percent(closure.max_error_share, 1)}.`);
  if (reduced.shorter_than_ns) lines.push(`The timeline is reduced: moments shorter than ${duration(reduced.shorter_than_ns)} are put together (${count(reduced.before)} became ${count(reduced.after)}). Sums are not.`);
  if (app.rec.entries.without_stack) lines.push(`The ${count(app.rec.entries.without_stack)} smallest stacks are left out; their time is not.`);
  return el("section", {}, el("h2", {}, "How far to trust it"), el("ul", { class: "notes" }, [...lines, ...notes].map((line) => el("li", {}, line))));
}
