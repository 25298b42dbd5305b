// Two sides with bands between them, as a drawing.
import { sides } from "../model/sides.js";
import { duration, shorten } from "../model/text.js";
import { el, svg, tip } from "./dom.js";

const WIDE = 1100;
const BAR = 10;
const NAMES_PLACE = 330;
/** Names on a side, and the height of their words. */
const MOST = 12;
const LINE = 15;

/** Draws pairs `{from, to, ns}`; `heads` are the words over the two sides. */
export function sidesDrawing(pairs, heads, id) {
  const rows = Math.min(MOST + 1, Math.max(...["from", "to"].map((key) => new Set(pairs.map((pair) => pair[key])).size)));
  const tall = 60 + 28 * rows;
  const { left, right, bands } = sides(pairs, MOST, LINE / tall);
  const at = (part) => 22 + part * (tall - 26);
  const [x0, x1] = [NAMES_PLACE, WIDE - NAMES_PLACE];
  const label = (side, x, anchor) => side.map((s) => [
    svg("rect", { x: anchor === "end" ? x : x - BAR, y: at(s.y), width: BAR, height: Math.max(1, s.height * (tall - 26)), class: "bar-of-side" }),
    svg("text", { x: anchor === "end" ? x - 8 : x + 8, y: at(s.y + s.height / 2), "text-anchor": anchor, "dominant-baseline": "central" },
      `${shorten(s.name, 38)}  ${duration(s.ns)}`),
  ]);
  const drawn = bands.map((b) => {
    const height = Math.max(1, b.height * (tall - 26));
    const [y0, y1, middle] = [at(b.fromY) + height / 2, at(b.toY) + height / 2, (x0 + x1) / 2];
    const words = `${b.from} waited for ${b.to}: ${duration(b.ns)}`;
    return svg("path", {
      d: `M${x0 + BAR},${y0} C${middle},${y0} ${middle},${y1} ${x1 - BAR},${y1}`, "stroke-width": height, class: "band",
      mousemove: (event) => tip(event, words), mouseleave: (event) => tip(event, ""),
    });
  });
  return el("div", { class: "sides", id }, svg("svg", { viewBox: `0 0 ${WIDE} ${tall}`, role: "img", "aria-label": `${heads[0]} and ${heads[1]}` },
    svg("text", { x: x0 + BAR, y: 12, "text-anchor": "end", class: "head" }, heads[0]), svg("text", { x: x1 - BAR, y: 12, class: "head" }, heads[1]),
    drawn, label(left, x0, "end"), label(right, x1, "start")));
}
