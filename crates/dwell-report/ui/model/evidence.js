// Where one sees what a finding rests on.

const LOCKS = ["locks", "the locks"];
const MEMORY = ["memory", "what memory costs"];
const WAKERS = ["wakers", "who woke whom"];
const TIMELINE = ["timeline", "the timeline"];

/** By rule, beside the flame graph. */
const VIEWS = {
  "spin-convoy": [LOCKS, TIMELINE],
  "lock-held-while-asleep": [LOCKS, WAKERS],
  "lock-serialises-pool": [LOCKS, WAKERS],
  "more-threads-than-processors": [TIMELINE],
  "polling-by-sleeping": [TIMELINE, WAKERS],
  "allocation-churn": [MEMORY],
  "first-touch": [MEMORY],
  "shootdown-storm": [MEMORY],
  "synchronous-io": [TIMELINE, WAKERS],
  "priority-inversion": [LOCKS, TIMELINE],
  "dynamic-loading": [TIMELINE],
  "wake-up-storm": [WAKERS, TIMELINE],
  "serial-thread": [TIMELINE, WAKERS],
};

/** The views that show it, as `[words, what to choose]`: its function in the flame graph first; of a lock that it names, that lock. */
export function evidence(rec, finding) {
  const place = finding.stacks[0]?.frames.find((frame) => !frame.kernel)?.function;
  const text = `${finding.title} ${finding.evidence.map((number) => number.label).join(" ")}`;
  const lock = rec.locks.locks.find(({ name }) => name && text.includes(name));
  const choice = (view) => ({ view, ...(view === "locks" && lock ? { chosen: lock.address ?? lock.name } : {}) });
  const flame = place ? [["the flame graph", { view: "flame", search: place }]] : [];
  return [...flame, ...(VIEWS[finding.rule] ?? []).map(([view, words]) => [words, choice(view)])];
}
