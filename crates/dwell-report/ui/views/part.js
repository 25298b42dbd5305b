// What is looked at, when that is not all.
import { scopeText } from "../model/choice.js";
import { isPart } from "../model/selection.js";
import { duration } from "../model/text.js";
import { el } from "./dom.js";

/** Says that only a part is looked at, and what is not of that part; nothing when all is. */
export function partNote(app, words) {
  if (!isPart(app.choice)) return "";
  return el("p", { id: "part" }, el("b", {}, `Of ${scopeText(app.rec, app.choice, duration)}. `), words, " ", el("button", { click: () => app.drop() }, "look at all (Esc)"));
}
