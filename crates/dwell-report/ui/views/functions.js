// Functions in a table; who calls the chosen one, and whom it calls.
import { functionTable, neighbours } from "../model/functions.js";
import { duration, percent } from "../model/text.js";
import { el, table } from "./dom.js";
import { searchField, toggle } from "./boxes.js";
import { callTree } from "./calltree.js";
import { stateChoice } from "./flame.js";

export function functions(app) {
  const { rec, choice } = app;
  Object.assign(app.keys, {
    t: () => app.set({ asTree: !choice.asTree }),
    i: () => choice.asTree && app.set({ inverted: !choice.inverted }),
  });
  if (choice.asTree) return el("div", { class: "page" }, toolsOver(app, toggle(app, "inverted", "inverted (i)")), callTree(app));
  const wanted = choice.search.toLowerCase();
  const name = (row) => rec.functions[row.id] + (rec.kernel[row.id] ? " [k]" : "");
  const { rows: all, whole } = functionTable(rec, choice);
  const rows = all.filter((row) => name(row).toLowerCase().includes(wanted));
  const cell = (key) => ({ number: true, sort: (row) => row[key], text: (row) => (row[key] ? `${duration(row[key])}  ${percent(row[key], whole)}` : "-") });
  const columns = [
    { head: "itself, on CPU", ...cell("own") },
    { head: "with callees", ...cell("total") },
    { head: "off CPU", ...cell("off") },
    { head: "function", text: name, mono: true, sort: name },
  ];
  const chosen = rec.functions.findIndex((f) => f === choice.chosen);
  const list = table(columns, rows, {
    id: "functions", pick: (row) => app.set({ chosen: rec.functions[row.id] }), chosen: (row) => row.id === chosen,
  });
  return el("div", { class: "page" }, toolsOver(app, el("span", { class: "quiet" }, "Choose a function to see who calls it and whom it calls.")),
    chosen >= 0 ? butterfly(app, chosen) : "", list);
}

function toolsOver(app, more) {
  return el("div", { class: "tools" }, stateChoice(app), toggle(app, "asTree", "call tree (t)"), searchField(app), more);
}

function butterfly(app, id) {
  const { rec, choice } = app;
  const { callers, callees } = neighbours(rec, choice, id);
  const side = (rows, head, tableId) => {
    const whole = rows.reduce((sum, row) => sum + row.ns, 0);
    const columns = [
      { head: "time", number: true, sort: (row) => row.ns, text: (row) => `${duration(row.ns)}  ${percent(row.ns, whole)}` },
      { head, mono: true, sort: (row) => row.name, text: (row) => row.name },
    ];
    const pick = (row) => !row.name.startsWith("[") && app.set({ chosen: row.name });
    return table(columns, rows, { id: tableId, pick, most: 30 });
  };
  return el("section", {}, el("h2", { class: "mono" }, choice.chosen, rec.places.has(id) ? el("span", { class: "quiet" }, `  ${rec.places.get(id)}`) : "",
    " ", el("button", { click: () => app.set({ chosen: "" }) }, "close")),
  el("div", { class: "two" }, side(callers, "called by", "callers"), side(callees, "calls", "callees")), el("h2", {}, "All functions"));
}
