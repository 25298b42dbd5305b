// What every page has: tabs, keys, the address, the theme. Its views are functions from the app to an element.
import { firstChoice, fromHash, toHash } from "../model/choice.js";
import { unpack } from "../model/data.js";
import { el, tip } from "./dom.js";

const COMMON_KEYS = [["/", "find"], ["Esc", "drop what is found, chosen or cut out"], ["?", "this sheet"], ["T", "light or dark"]];

/**
 * Starts a page. `views` is `{name: [words, draw]}` in the order of the tabs; `keys` are the lines of the sheet; `made` makes what views read
 * from what the page has; `titled` and `scoped` are the words of the header.
 */
export function start({ views, keys, made, titled, scoped }) {
  const names = Object.keys(views);
  let noting;
  const app = {
    rec: null,
    choice: firstChoice(),
    keys: {},
    /** Puts what is looked at into the address. */
    note(anew) {
      clearTimeout(noting);
      const hash = `#${toHash(app.choice)}`;
      if (anew) history.pushState(null, "", hash);
      else history.replaceState(null, "", hash);
    },
    /** The same for what changes many times a second: browsers take only some of that. */
    noteSoon() {
      clearTimeout(noting);
      noting = setTimeout(() => app.note(), 200);
    },
    /** Changes what is looked at; `focus` is the id of what keeps the keys. */
    set(change, focus) {
      const { view } = app.choice;
      Object.assign(app.choice, change);
      if (app.choice.view !== view && !("chosen" in change)) app.choice.chosen = "";
      // Another tree has other places.
      if (!("focus" in change) && Object.keys(change).some((key) => key !== "search" && key !== "icicle")) app.choice.focus = "";
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
    document.getElementById("scope").textContent = scoped(app);
    document.getElementById("view").replaceChildren(views[app.choice.view][1](app));
  }

  function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    if (app.rec) draw();
  }
  app.drop = drop;
  const turnTheme = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");

  function showSheet() {
    const sheet = document.getElementById("sheet");
    const lines = [[`1 … ${names.length}`, "the views"], ...COMMON_KEYS, ...keys];
    sheet.replaceChildren(el("h2", {}, "Keys"), el("dl", {}, lines.map(([key, words]) => [el("dt", {}, key), el("dd", {}, words)])),
      el("form", { method: "dialog" }, el("button", {}, "close")));
    sheet.showModal();
  }

  function drop() {
    app.set({ search: "", chosen: "", from: 0, to: 0, pid: 0, thread: -1, moment: -1 });
  }

  function find() {
    if (!document.getElementById("search")) app.set({ view: "flame" });
    document.getElementById("search").focus();
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.getElementById("sheet").open) return;
    const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
    if (typing && event.key !== "Escape") return;
    // It is for what has the focus: a button, a row.
    if (event.key === "Enter" && !["CANVAS", "MAIN", "BODY"].includes(event.target.tagName)) return;
    const view = names[Number(event.key) - 1];
    const act = { "?": showSheet, T: turnTheme, Escape: drop, "/": find }[event.key] ?? app.keys[event.key] ?? (view && (() => app.set({ view })));
    if (!act) return;
    event.preventDefault();
    act();
  }

  async function begin() {
    setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    const data = document.getElementById("data");
    app.rec = made(await unpack(data.textContent));
    data.remove();
    app.choice = fromHash(location.hash, names);
    const shown = document.getElementById("target");
    shown.textContent = titled(app.rec);
    shown.title = shown.textContent;
    document.getElementById("tabs").replaceChildren(...names.map((view) => el("button", { role: "tab", "data-view": view, click: () => app.set({ view }) }, views[view][0])));
    document.getElementById("theme").addEventListener("click", turnTheme);
    document.getElementById("keys").addEventListener("click", showSheet);
    document.addEventListener("keydown", onKey);
    window.addEventListener("resize", () => app.resized?.());
    window.addEventListener("popstate", () => {
      app.choice = fromHash(location.hash, names);
      draw();
    });
    draw();
    document.body.dataset.ready = "yes";
  }

  begin().catch((error) => {
    document.getElementById("view").replaceChildren(el("p", {}, `This page cannot be shown: ${error}. It needs a browser of 2023 or newer.`));
  });
}
