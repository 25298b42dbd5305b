// What is drawn of a thread's life, and how a wait is followed to its root.
import { momentBefore, wakerOf } from "./data.js";

/**
 * The stretches of one colour that a lane of `width` pixels has over [from, to]: calls `draw(x, width, state)`. A pixel has the state of
 * the instant at its middle, however many moments lie in it: so a lane costs as many looks as it has pixels.
 */
export function laneStretches(rec, thread, from, to, width, draw) {
  const { first, start, ns, state } = rec.moments;
  const perPixel = (to - from) / width;
  const end = first[thread + 1];
  let x = 0;
  let at = momentBefore(rec, thread, from + perPixel / 2);
  if (at < 0) at = first[thread];
  let open = -1; // the state of the stretch that goes on
  let openX = 0;
  while (x < width && at < end) {
    const time = from + (x + 0.5) * perPixel;
    // Moments that end before this pixel's middle are not seen; many of them are skipped at once.
    if (start[at] + ns[at] <= time) {
      at = at + 8 < end && start[at + 8] <= time ? momentBefore(rec, thread, time) : at + 1;
      continue;
    }
    const now = start[at] <= time ? state[at] : -1;
    if (now !== open) {
      if (open >= 0) draw(openX, x - openX, open);
      open = now;
      openX = x;
    }
    // On to the first pixel that may differ.
    const until = now < 0 ? start[at] : start[at] + ns[at];
    x = Math.max(x + 1, Math.ceil((until - from) / perPixel - 0.5));
  }
  if (open >= 0) draw(openX, Math.min(x, width) - openX, open);
}

/** The moment that a wait was really for: what its waker did before it woke. -1 when that is not recorded. */
export function followed(rec, moment) {
  const waker = wakerOf(rec, moment);
  if (!waker || waker.thread < 0) return -1;
  const end = rec.moments.start[moment] + rec.moments.ns[moment];
  // What the waker did at the instant of the waking is to run; what it did before that is of interest when it waited, too.
  // Between two of its moments there may be ns that neither has: the former is meant.
  const at = momentBefore(rec, waker.thread, end - 1);
  if (at < 0) return -1;
  const began = rec.moments.start[moment];
  for (let before = at; before >= rec.moments.first[waker.thread] && rec.moments.start[before] + rec.moments.ns[before] > began; before -= 1) {
    if (rec.moments.waker[before]) return before;
  }
  return at;
}

/** The moments from a wait to its root, the wait first. */
export function chainOf(rec, moment) {
  const chain = [moment];
  for (let at = moment; chain.length < 9; ) {
    at = followed(rec, at);
    if (at < 0 || chain.includes(at)) break;
    chain.push(at);
  }
  return chain;
}
