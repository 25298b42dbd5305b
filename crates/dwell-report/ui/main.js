// The page of a recording.
import { scopeText } from "./model/choice.js";
import { recording } from "./model/data.js";
import { duration } from "./model/text.js";
import { flame } from "./views/flame.js";
import { functions } from "./views/functions.js";
import { locks } from "./views/locks.js";
import { memory } from "./views/memory.js";
import { overview } from "./views/overview.js";
import { start } from "./views/shell.js";
import { timeline } from "./views/timeline.js";
import { wakers } from "./views/wakers.js";
import { whatif } from "./views/whatif.js";

start({
  views: {
    overview: ["Overview", overview], timeline: ["Timeline", timeline], flame: ["Flame graph", flame], functions: ["Functions", functions],
    wakers: ["Wakers", wakers], locks: ["Locks", locks], memory: ["Memory", memory], whatif: ["What if", whatif],
  },
  keys: [
    ["w s a d", "timeline: closer, farther, left, right"], ["0", "timeline, flame graph: all of it"], ["drag", "timeline: this part of the window, in all views"],
    ["z", "timeline: closer to that part"], ["click", "timeline: a moment's stack, and who ended it; on a name: that thread or process alone, in all views"], ["f", "timeline: follow a wait to its root"],
    ["← → ↑ ↓", "timeline: the moment before or after, the thread above or below; flame graph: the box beside, above, below"], ["Enter", "flame graph: the marked box as wide as all; tables: choose the row"],
    ["b", "flame graph: a thread's stacks by time"], ["i", "flame graph: callees first"], ["o", "flame graph: from the top or the bottom"], ["t", "flame graph: threads apart; functions: the call tree"], ["u", "flame graph: idle pools"],
    ["Backspace", "flame graph: one caller back"], ["c", "flame graph: copy the stack under the pointer"],
  ],
  made: recording,
  titled: (rec) => rec.answer.recording.target,
  scoped: (app) => scopeText(app.rec, app.choice, duration),
});
