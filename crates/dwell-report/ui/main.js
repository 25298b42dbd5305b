// Puts the views together: tabs, keys, address, theme.
import { VIEWS, firstChoice, fromHash, scopeText, toHash } from "./model/choice.js";
import { unpack } from "./model/data.js";
import { duration } from "./model/text.js";
import { el, tip } from "./views/dom.js";
import { flame } from "./views/flame.js";
import { functions } from "./views/functions.js";
import { locks } from "./views/locks.js";
import { memory } from "./views/memory.js";
import { overview } from "./views/overview.js";
import { timeline } from "./views/timeline.js";
import { wakers } from "./views/wakers.js";
import { whatif } from "./views/whatif.js";

const DRAWN = { overview, timeline, flame, functions, wakers, locks, memory, whatif };
const NAMES = { overview: "Overview", timeline: "Timeline", flame: "Flame graph", functions: "Functions", wakers: "Wakers", locks: "Locks", memory: "Memory", whatif: "What if" };
const SHEET = [
  ["1 … 8", "the views"], ["/", "find"], ["Esc", "drop what is found, chosen or cut out"], ["?", "this sheet"], ["T", "light or dark"],
  ["w s a d", "timeline: closer, farther, left, right"], ["0", "timeline, flame graph: all of it"], ["drag", "timeline: this part of the window, in all views"],
  ["z", "timeline: closer to that part"], ["click", "timeline: a moment's stack, and who ended it"], ["f", "timeline: follow a wait to its root"],
  ["i", "flame graph: callees first"], ["o", "flame graph: from the top or the bottom"], ["t", "flame graph: threads apart"], ["u", "flame graph: idle pools"],
  ["Backspace", "flame graph: one caller back"], ["c", "flame graph: copy the stack under the pointer"],
];

const app = {
  rec: null,
  choice: firstChoice(),
  keys: {},
  /** Puts what is looked at into the address. */
  note(anew) {
    const hash = `#${toHash(app.choice)}`;
    if (anew) history.pushState(null, "", hash);
    else history.replaceState(null, "", hash);
  },
  /** Changes what is looked at; `focus` is the id of what keeps the keys. */
  set(change, focus) {
    const view = app.choice.view;
    Object.assign(app.choice, change);
    if (app.choice.view !== view && !("chosen" in change)) app.choice.chosen = "";
    app.note(app.choice.view !== view);
    draw();
    const field = focus && document.getElementById(focus);
    field?.focus();
    field?.setSelectionRange?.(field.value.length, field.value.length);
  },
};
// For tests, which drive the page as people do and then look at what it has.
window.dwell = app;

function draw() {
  app.keys = {};
  app.resized = null;
  tip(null, "");
  for (const tab of document.querySelectorAll("#tabs button")) tab.setAttribute("aria-selected", String(tab.dataset.view === app.choice.view));
  document.getElementById("scope").textContent = scopeText(app.rec, app.choice, duration);
  document.getElementById("view").replaceChildren(DRAWN[app.choice.view](app));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  if (app.rec) draw();
}

function turnTheme() {
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
}

function showSheet() {
  const sheet = document.getElementById("sheet");
  sheet.replaceChildren(el("h2", {}, "Keys"), el("dl", {}, SHEET.map(([key, words]) => [el("dt", {}, key), el("dd", {}, words)])),
    el("form", { method: "dialog" }, el("button", {}, "close")));
  sheet.showModal();
}

function drop() {
  app.moment = undefined;
  app.set({ search: "", chosen: "", from: 0, to: 0, pid: 0, thread: -1 });
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("sheet").open) return;
  const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
  if (typing && event.key !== "Escape") return;
  const view = VIEWS[Number(event.key) - 1];
  const act = {
    "?": showSheet, T: turnTheme, Escape: drop,
    "/": () => {
      if (!document.getElementById("search")) app.set({ view: "flame" });
      document.getElementById("search").focus();
    },
  }[event.key] ?? app.keys[event.key] ?? (view && (() => app.set({ view })));
  if (!act) return;
  event.preventDefault();
  act();
}

async function begin() {
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const data = document.getElementById("data");
  app.rec = await unpack(data.textContent);
  data.remove();
  app.choice = fromHash(location.hash);
  const { target } = app.rec.answer.recording;
  const shown = document.getElementById("target");
  shown.textContent = target;
  shown.title = target;
  document.getElementById("tabs").replaceChildren(...VIEWS.map((view) => el("button", { role: "tab", "data-view": view, click: () => app.set({ view }) }, NAMES[view])));
  document.getElementById("theme").addEventListener("click", turnTheme);
  document.getElementById("keys").addEventListener("click", showSheet);
  document.addEventListener("keydown", onKey);
  window.addEventListener("resize", () => app.resized?.());
  window.addEventListener("popstate", () => {
    app.choice = fromHash(location.hash);
    draw();
  });
  draw();
  document.body.dataset.ready = "yes";
}

begin().catch((error) => {
  document.getElementById("view").replaceChildren(el("p", {}, `This page cannot be shown: ${error}. It needs a browser of 2023 or newer.`));
});
