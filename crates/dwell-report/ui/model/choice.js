// What the person looks at. It lies in the page's address, so that a view can be shared.

const DEFAULTS = {
  view: "overview",
  thread: -1, // its place; -1 is all
  pid: 0, // 0 is all
  from: 0, // ns; both 0: the whole window
  to: 0,
  states: "both", // on, off, both, or a reason
  search: "",
  inverted: false,
  icicle: true,
  perThread: false,
  idle: false, // idle pools unfolded
  byTime: false, // a thread's stacks one after the other
  asTree: false, // functions as a call tree
  chosen: "", // a function, a lock
  spanFrom: 0, // what the timeline shows, ns; both 0: the whole window
  spanTo: 0,
  moment: -1, // of the timeline
  focus: "", // of a flame graph: places of children from its root on, with dots between
  asked: "", // of the simulation
  side: "after", // of a comparison: whose time the widths are
};

/** What is looked at first. */
export function firstChoice() {
  return { ...DEFAULTS };
}

/** The choice as the part of an address behind the `#`: what differs from the first one. */
export function toHash(choice) {
  const pairs = Object.keys(DEFAULTS).filter((key) => choice[key] !== DEFAULTS[key]);
  return pairs.map((key) => `${key}=${encodeURIComponent(choice[key])}`).join("&");
}

/** The choice that such a text says; what it does not know, or cannot be, is as at first. `views` are those that there are. */
export function fromHash(hash, views) {
  const choice = firstChoice();
  for (const pair of hash.replace(/^#/, "").split("&")) {
    const [key, text = ""] = pair.split("=");
    if (!Object.hasOwn(DEFAULTS, key)) continue;
    const value = decoded(text);
    if (typeof DEFAULTS[key] === "boolean") choice[key] = value === "true";
    else if (typeof DEFAULTS[key] === "number") choice[key] = Number.isFinite(Number(value)) ? Number(value) : DEFAULTS[key];
    else choice[key] = value;
  }
  if (!views.includes(choice.view)) choice.view = DEFAULTS.view;
  if (!(choice.to > choice.from)) choice.from = choice.to = 0;
  if (!(choice.spanTo > choice.spanFrom)) choice.spanFrom = choice.spanTo = 0;
  return choice;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

/** Whether a thread is among those looked at. */
export function hasThread(rec, choice, thread) {
  if (choice.thread >= 0) return choice.thread === thread;
  return !choice.pid || rec.threads.pid[thread] === choice.pid;
}

/** Which states are looked at, by number. */
export function wantedStates(rec, choice) {
  return rec.states.map((state) => {
    if (choice.states === "both") return true;
    if (choice.states === "on") return state.onCpu;
    if (choice.states === "off") return !state.onCpu && state.name !== "stolen" && state.name !== "lost";
    return state.reason === choice.states || state.name === choice.states;
  });
}

/** What is looked at, of what there is, in words; empty when it is all. */
export function scopeText(rec, choice, duration) {
  const parts = [];
  if (choice.thread >= 0) parts.push(rec.threads.name[choice.thread] ?? "");
  else if (choice.pid) parts.push(`pid ${choice.pid}`);
  if (choice.to) parts.push(`${duration(choice.from)} to ${duration(choice.to)}`);
  return parts.join(", ");
}
