// The call tree: callers with what they call below them, or turned round.
import { openRows, openWay } from "../model/calltree.js";
import { stackTree } from "../model/tree.js";
import { duration, percent } from "../model/text.js";
import { el } from "./dom.js";

const MOST_ROWS = 1000;

export function callTree(app) {
  const { rec, choice } = app;
  const { root } = stackTree(rec, choice);
  const open = new Set();
  for (const child of root.children.slice(0, 1)) openWay(child, open);
  let order = "total";
  const wanted = choice.search.toLowerCase();
  const body = el("tbody");
  const heads = [["total", "with callees"], ["own", "itself"], ["name", "function"]].map(([key, words]) => {
    const turn = () => {
      order = key;
      fill();
    };
    return el("th", { scope: "col", class: `sortable ${key === "name" ? "" : "number"}`, tabindex: 0, "data-order": key, click: turn, keydown: (event) => event.key === "Enter" && turn() }, words);
  });
  const time = (ns) => (ns ? `${duration(ns)}  ${percent(ns, root.total)}` : "-");
  const tr = ({ node, depth }, place) => {
    const turn = (wish) => {
      if (open.has(node) && wish !== true) open.delete(node);
      else if (wish !== false) openWay(node, open);
      fill(place);
    };
    const sign = node.children.length ? (open.has(node) ? "▾" : "▸") : "\u2002";
    const found = wanted && node.name.toLowerCase().includes(wanted);
    return el("tr", { tabindex: 0, "aria-level": depth + 1, "aria-expanded": node.children.length ? String(open.has(node)) : null, class: found ? "chosen" : null, click: () => turn(), keydown: (event) => onKey(event, turn) },
      el("td", { class: "number" }, time(node.total)), el("td", { class: "number" }, time(node.own)),
      el("td", { class: "mono name" }, el("span", { style: { paddingLeft: `${depth * 14}px` } }, `${sign} ${node.name}${node.kernel ? " [k]" : ""}`)));
  };
  function onKey(event, turn) {
    const row = event.currentTarget;
    const act = {
      Enter: () => turn(), ArrowRight: () => turn(true), ArrowLeft: () => turn(false),
      ArrowDown: () => row.nextSibling?.focus(), ArrowUp: () => row.previousSibling?.focus(),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
  function fill(focussed = -1) {
    for (const head of heads) {
      if (head.dataset.order === order) head.setAttribute("aria-sort", "descending");
      else head.removeAttribute("aria-sort");
    }
    body.replaceChildren(...openRows(root, open, order, MOST_ROWS).map(tr));
    body.children[focussed]?.focus();
  }
  fill();
  return el("table", { id: "calltree", role: "treegrid" }, el("thead", {}, el("tr", {}, heads)), body);
}
