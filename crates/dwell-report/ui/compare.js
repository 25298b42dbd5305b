// The page of a comparison.
import { changedFlame, changedFunctions, changes } from "./views/changes.js";
import { start } from "./views/shell.js";

start({
  views: { overview: ["What changed", changes], flame: ["Flame graph", changedFlame], functions: ["Functions and waits", changedFunctions] },
  keys: [["b", "flame graph: widths before or after"], ["o", "flame graph: from the top or the bottom"], ["0", "flame graph: all of it"], ["Backspace", "flame graph: one caller back"], ["← → ↑ ↓ Enter", "flame graph: the box beside, above, below; as wide as all"],
    ["c", "flame graph: copy the stack under the pointer"]],
  made: (payload) => payload,
  titled: ({ answer }) => answer.after.target,
  scoped: () => "",
});
