// Elements, tables and the tip beside the pointer. Text is always set as text, never as markup.

/** An element with attributes (functions are listeners) and children (texts or elements). */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for a part of a drawing. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else if (name === "style") Object.assign(made.style, value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

/**
 * A table. A column is `{head, text(row), number, sort(row)}`; a click on the head of one with `sort` orders by it. `pick` is called with a
 * row that is clicked or entered. It begins ordered by the first column that can be, or with `asGiven` as the rows come.
 */
export function table(columns, rows, { pick, chosen, most = 200, id, asGiven } = {}) {
  let by = asGiven ? -1 : columns.findIndex((column) => column.sort);
  let falling = true;
  const body = el("tbody");
  const heads = columns.map((column, place) => {
    const turn = () => {
      falling = by === place ? !falling : true;
      by = place;
      fill();
    };
    const sortable = column.sort ? { class: `sortable ${column.number ? "number" : ""}`, tabindex: 0, click: turn, keydown: onEnter(turn) } : { class: column.number ? "number" : "" };
    return el("th", { scope: "col", ...sortable }, column.head);
  });
  const fill = () => {
    const sort = columns[by]?.sort;
    const order = (a, b) => (sort(a) < sort(b) ? -1 : sort(a) > sort(b) ? 1 : 0) * (falling ? -1 : 1);
    const shown = (sort ? [...rows].sort(order) : rows).slice(0, most);
    heads.forEach((head, place) => {
      if (place === by && sort) head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    body.replaceChildren(...shown.map((row) => {
      const act = pick && (() => pick(row));
      const attributes = act ? { tabindex: 0, click: act, keydown: onEnter(act) } : {};
      if (chosen?.(row)) attributes.class = "chosen";
      const cell = ({ text, number, mono }) => el("td", { class: number ? "number" : mono ? "mono name" : "name" }, text(row));
      return el("tr", attributes, columns.map(cell));
    }));
  };
  fill();
  const made = el("table", { id }, el("thead", {}, el("tr", {}, heads)), body);
  if (rows.length <= most) return made;
  return el("div", {}, made, el("p", { class: "quiet" }, `The first ${most} of ${rows.length}.`));
}

function onEnter(act) {
  return (event) => {
    if (event.key === "Enter") act();
  };
}

/** A bar divided like `parts`: `[color, weight, words]`. */
export function dividedBar(parts, small) {
  const total = parts.reduce((sum, [, weight]) => sum + weight, 0) || 1;
  const piece = ([color, weight, words]) => el("span", { style: { background: color, width: `${(100 * weight) / total}%` }, title: words });
  return el("div", { class: small ? "bar small" : "bar" }, parts.filter(([, weight]) => weight > 0).map(piece));
}

/** Shows a text beside the pointer; without one, hides it. */
export function tip(event, text) {
  const box = document.getElementById("tip");
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  const { innerWidth, innerHeight } = window;
  box.style.left = `${Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8)}px`;
  const below = event.clientY + 18;
  box.style.top = `${below + box.offsetHeight > innerHeight ? Math.max(4, event.clientY - box.offsetHeight - 10) : below}px`;
}

/** A canvas with as many dots as the screen has for its size; returns what draws on it. */
export function sized(canvas, width, height) {
  const dots = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * dots);
  canvas.height = Math.round(height * dots);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(dots, 0, 0, dots, 0, 0);
  return context;
}

/** A colour of the style sheet. */
export function themed(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The frames of a stack in words, the innermost first, from names that the answer has. */
export function framesText(frames, most = 6) {
  const names = frames.map((frame) => frame.function + (frame.kernel ? " [k]" : ""));
  const shown = names.slice(0, most).join(" ← ");
  return names.length > most ? `${shown} ← … ← ${names.at(-1)}` : shown;
}

/** The same without the kernel's frames, where the program has any. */
export function ownFramesText(frames, most) {
  const own = frames.filter((frame) => !frame.kernel);
  return framesText(own.length ? own : frames, most);
}
