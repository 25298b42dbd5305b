// The page's model without a browser: node --test tests/page/model.test.js
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { firstChoice, fromHash, scopeText, toHash, wantedStates } from "../../crates/dwell-report/ui/model/choice.js";
import { momentAt, recording, wakerOf } from "../../crates/dwell-report/ui/model/data.js";
import { functionTable, neighbours } from "../../crates/dwell-report/ui/model/functions.js";
import { chainOf, laneStretches } from "../../crates/dwell-report/ui/model/lanes.js";
import { sweep, wideText } from "../../crates/dwell-report/ui/model/knobs.js";
import { openRows, openWay } from "../../crates/dwell-report/ui/model/calltree.js";
import { evidence } from "../../crates/dwell-report/ui/model/evidence.js";
import { chains, division, isPart, lockWaits, memoryOverTime, memoryTime, waits } from "../../crates/dwell-report/ui/model/selection.js";
import { OTHERS, sides } from "../../crates/dwell-report/ui/model/sides.js";
import { count, duration, percent, shorten } from "../../crates/dwell-report/ui/model/text.js";
import { boxes, busiest, searchTotal, stackTree, timeTree } from "../../crates/dwell-report/ui/model/tree.js";

const [RUNNING, RUNNABLE, LOCK, SLEEP] = [0, 1, 2, 3];

/** Two threads: `a` waits for a lock until `b`, which slept before, lets it go. */
function small(moments = {}) {
  return recording({
    answer: { recording: { window_ns: 1000 }, could_not_look: [] },
    states: [["running", "", "#ff0000"], ["runnable", "", "#ffff00"], ["lock", "lock", "#800080"], ["sleep", "sleep", "#c0c0c0"]],
    functions: ["main", "work", "lock_slow", "nap"],
    kernel: [0, 0, 1, 1],
    places: [[1, "work.c:7"]],
    paths: [[0], [0, 1], [0, 1, 2], [0, 3], [0, 1, 1]],
    syscalls: ["", "futex"],
    threads: { tid: [11, 12], name: ["a", "b"], pid: [10, 10], process: ["p", "p"], group: ["p/a", "p/b"], start: [0, 0], until: [1000, 1000] },
    entries: {
      thread: [0, 0, 1, 1, 0], state: [RUNNING, LOCK, SLEEP, RUNNING, RUNNING], syscall: [0, 1, 0, 0, 0], path: [1, 2, 3, 1, 4],
      ns: [300, 600, 500, 500, 100], idle: [0, 0, 1, 0, 0], waits: [0, 1, 1, 0, 0], without_stack: 0,
    },
    moments: {
      count: [3, 2], gap: [0, 0, 0, 0, 0], ns: [300, 600, 100, 500, 500], state: [RUNNING, LOCK, RUNNING, SLEEP, RUNNING],
      path: [1, 2, 4, 3, 1], waker: [0, 1, 0, 2, 0], wakers: [[1, ""], [-1, "[timer]"]], lock: [0, 1, 0, 0, 0],
      ...moments,
    },
    memory_work: { kinds: ["clearing pages", "page faults"], paths: [[4, 1]] },
    reduced: {}, locks: {}, timelines: [], remedies: {},
  });
}

test("a tree has all the time, its idle pools apart", () => {
  const rec = small();
  const { root, idle } = stackTree(rec, firstChoice());
  assert.equal(root.total, 1500);
  assert.equal(idle, 500);
  assert.equal(stackTree(rec, { ...firstChoice(), idle: true }).root.total, 2000);
  const leaves = (node) => (node.children.length ? node.own + node.children.reduce((sum, c) => sum + leaves(c), 0) : node.own);
  assert.equal(leaves(root), root.total);
  const widths = boxes(root, 0).filter((b) => b.depth === 1).reduce((sum, b) => sum + b.width, 0);
  assert.ok(Math.abs(widths - 1) < 1e-12);
});

test("inverted, what ends stacks comes first", () => {
  const { root } = stackTree(small(), { ...firstChoice(), inverted: true });
  assert.deepEqual(root.children.map((c) => [c.name, c.total]), [["work", 900], ["[blocked: lock futex]", 600]]);
  assert.deepEqual(root.children[1].children.map((c) => c.name), ["lock_slow"]);
});

test("a part of the window has what lies in it", () => {
  const { root } = stackTree(small(), { ...firstChoice(), from: 200, to: 950, thread: 0 });
  assert.equal(root.total, 750);
  assert.equal(searchTotal(root, "LOCK_slow"), 600);
  // Recursive calls count once.
  assert.equal(searchTotal(root, "work"), 750);
});

test("by time, neighbours of the same name are one and all time is there", () => {
  const rec = small();
  const { root, left } = timeTree(rec, firstChoice(), 0);
  assert.equal(left, 0);
  assert.equal(root.total, 1000);
  assert.deepEqual(root.children.map((c) => [c.name, c.total]), [["main", 1000]]);
  const work = root.children[0].children;
  assert.deepEqual(work.map((c) => [c.name, c.total]), [["work", 1000]]);
  assert.deepEqual(work[0].children.map((c) => [c.name, c.total]), [["lock_slow", 600], ["work", 100]]);
  assert.equal(timeTree(rec, { ...firstChoice(), from: 250, to: 350 }, 0).root.total, 100);
  assert.equal(root.depth, 4);
  assert.equal(busiest(rec), 1);
});

test("on, off and one reason", () => {
  const rec = small();
  const total = (states) => stackTree(rec, { ...firstChoice(), states, idle: true }).root.total;
  assert.deepEqual([total("on"), total("off"), total("lock"), total("runnable")], [900, 1100, 600, 0]);
  assert.deepEqual(wantedStates(rec, { states: "off" }), [false, true, true, true]);
});

test("functions: their own time, their callees', and their neighbours", () => {
  const rec = small();
  const { rows, whole } = functionTable(rec, { ...firstChoice(), idle: true });
  assert.equal(whole, 2000);
  const row = (name) => rows.find((r) => rec.functions[r.id] === name);
  assert.deepEqual(row("work"), { id: 1, own: 900, total: 900, off: 600 });
  assert.deepEqual(row("main"), { id: 0, own: 0, total: 900, off: 1100 });
  const { callers, callees } = neighbours(rec, firstChoice(), 1);
  assert.deepEqual(callers, [{ name: "main", ns: 1500 }]);
  assert.deepEqual(callees, [{ name: "[itself]", ns: 900 }, { name: "lock_slow", ns: 600 }]);
});

test("a wait is followed to its root", () => {
  const rec = small();
  assert.equal(momentAt(rec, 0, 299), 0);
  assert.equal(momentAt(rec, 0, 300), 1);
  assert.equal(momentAt(rec, 0, 1000), -1);
  assert.equal(wakerOf(rec, 1).thread, 1);
  assert.equal(wakerOf(rec, 3).name, "[timer]");
  assert.deepEqual(chainOf(rec, 1), [1, 3]);
  assert.deepEqual(chainOf(rec, 0), [0]);
  // So it is where the waking lies between two moments of the waker.
  assert.deepEqual(chainOf(small({ gap: [0, 0, 0, 0, 401], ns: [300, 600, 100, 500, 99] }), 1), [1, 3]);
});

test("a lane has every pixel once, with the state at its middle", () => {
  const rec = small();
  for (const width of [1, 7, 100, 1000, 3333]) {
    for (const [from, to] of [[0, 1000], [250, 350], [899, 905]]) {
      const pixels = [];
      laneStretches(rec, 0, from, to, width, (x, wide, state) => {
        for (let i = 0; i < wide; i += 1) {
          assert.equal(pixels[x + i], undefined);
          pixels[x + i] = state;
        }
      });
      for (let x = 0; x < width; x += 1) {
        const at = momentAt(rec, 0, from + ((x + 0.5) * (to - from)) / width);
        assert.equal(pixels[x], at < 0 ? undefined : rec.moments.state[at], `pixel ${x} of ${width}, ${from} to ${to}`);
      }
    }
  }
});

test("many short moments cost no more looks than pixels", () => {
  const many = 1_000_000;
  const rec = small();
  const column = (kind, value) => Object.assign(new kind(many), { ...value });
  rec.moments = {
    first: [0, many], start: Float64Array.from({ length: many }, (_, i) => i), thread: column(Uint32Array),
    ns: new Float64Array(many).fill(1), state: Uint8Array.from({ length: many }, (_, i) => i % 4), path: column(Uint32Array), waker: column(Uint32Array), wakers: [],
  };
  let stretches = 0;
  laneStretches(rec, 0, 0, many, 1000, (_, wide) => { stretches += wide; });
  assert.equal(stretches, 1000);
});

test("a call tree opens what has no choice, and all open rows have all time", () => {
  const { root } = stackTree(small(), firstChoice());
  const open = new Set();
  openWay(root.children[0], open);
  const names = (order) => openRows(root, open, order, 99).map(({ node, depth }) => `${depth} ${node.name}`);
  assert.deepEqual(names("total"), ["0 p", "1 p/a", "1 p/b"]);
  assert.deepEqual(names("name"), names("total"));
  const every = (node) => node.children.forEach((child) => every(open.add(child) && child));
  every(root);
  const rows = openRows(root, open, "own", 99);
  assert.equal(rows.reduce((sum, { node }) => sum + node.own, 0), root.total);
  assert.equal(openRows(root, open, "own", 3).length, 3);
});

test("a part divides as the whole does, cut to its window", () => {
  const rec = small();
  assert.ok(!isPart(firstChoice()) && isPart({ ...firstChoice(), pid: 10 }));
  const all = division(rec, firstChoice());
  assert.deepEqual([all.total, all.threads, all.states.map(Number)], [2000, 2, [900, 0, 600, 500]]);
  const part = division(rec, { ...firstChoice(), from: 200, to: 950, states: "on" });
  assert.deepEqual([part.total, part.states], [1500, [100 + 50 + 450, 0, 600, 300]]);
  assert.deepEqual(part.groups[0].groups.map((g) => [g.name, g.total]), [["p/a", 750], ["p/b", 750]]);
});

test("waits of a part: who ended them, whose lock, what for in the end", () => {
  const rec = small();
  const { rows, blocked, known, longest } = waits(rec, { ...firstChoice(), thread: 0, from: 400, to: 1000 });
  assert.deepEqual([blocked, known, longest], [500, 500, [1]]);
  assert.deepEqual(rows, [{ waiter: "p/p/a", reason: "lock", waker: "p/p/b", ns: 500, max: 600 }]);
  assert.deepEqual(chains(rec, longest, 9), [{ links: "p/p/a lock ← p/p/b sleep", ns: 600 }]);
  const [lock] = lockWaits(rec, { ...firstChoice(), from: 0, to: 500 }).rows;
  assert.deepEqual([lock.lock, lock.ns, lock.waits, lock.max, [...lock.wakers]], [0, 200, 1, 600, [["p/p/b", 200]]]);
  assert.equal(lockWaits(rec, { ...firstChoice(), thread: 1 }).rows.length, 0);
});

test("memory over time has all its time", () => {
  const rec = small();
  const { running, kinds, stacks } = memoryTime(rec, firstChoice());
  assert.deepEqual([running, kinds, stacks.map((s) => s.ns)], [900, [{ kind: 1, ns: 100 }], [100]]);
  const { parts, each } = memoryOverTime(rec, firstChoice(), 30);
  assert.equal(Math.round(parts.reduce((sum, part) => sum + part[1], 0)), 100);
  assert.ok(parts.every((part, i) => !part[1] || (i + 1) * each > 900));
});

test("every rule has views that show what it rests on", () => {
  const rules = readFileSync(new URL("../../docs/findings.md", import.meta.url), "utf8").match(/^## [a-z-]+$/gm).map((line) => line.slice(3));
  assert.ok(rules.length > 10);
  const rec = { locks: { locks: [{ name: "the_lock", address: "0x10" }] } };
  for (const rule of rules) {
    const [flame, ...others] = evidence(rec, { rule, title: "threads wait for the_lock", evidence: [], stacks: [{ frames: [{ function: "f", kernel: false }] }] });
    assert.deepEqual(flame[1], { view: "flame", search: "f" });
    assert.ok(others.length, rule);
    for (const [, { view, chosen }] of others) assert.equal(chosen, view === "locks" ? "0x10" : undefined);
  }
});

test("the address has what is looked at", () => {
  const choice = { ...firstChoice(), view: "flame", search: "a&b=c #", from: 5, to: 9, inverted: true, states: "lock", focus: "0.2.1", moment: 7, spanFrom: 3, spanTo: 12 };
  assert.deepEqual(fromHash(`#${toHash(choice)}`, ["overview", "flame"]), choice);
  assert.equal(toHash(firstChoice()), "");
  for (const strange of ["#view=nowhere", "#%E0%A4%A", "#from=9&to=5", "#spanFrom=9&spanTo=5", "#from=x", "#search=%E0%A4%A", "#__proto__=1&constructor=2"]) assert.deepEqual(fromHash(strange, ["overview"]), firstChoice(), strange);
  assert.equal(scopeText(small(), { ...firstChoice(), thread: 1, from: 0, to: 500 }, duration), "b, 0 s to 500 ns");
});

test("two sides hold the same time", () => {
  const pairs = Array.from({ length: 40 }, (_, i) => ({ from: `w${i % 20}`, to: `e${i % 3}`, ns: 1 + i }));
  const { left, right, bands } = sides(pairs, 12, 0.01);
  assert.equal(left.length, 13);
  assert.equal(left.at(-1).name, OTHERS);
  const all = pairs.reduce((sum, p) => sum + p.ns, 0);
  for (const side of [left, right, bands]) assert.equal(side.reduce((sum, s) => sum + s.ns, 0), all);
  for (const side of [left, right]) {
    side.forEach((at, i) => assert.ok(at.y >= 0 && at.y + at.height <= 1 && (!i || at.y >= side[i - 1].y + side[i - 1].height)));
    for (const at of side) assert.ok(Math.abs(at.used - at.height) < 1e-9);
  }
  assert.deepEqual(sides([], 12, 0.01), { left: [], right: [], bands: [] });
});

test("numbers in words", () => {
  assert.deepEqual([0, 12, 1234, 999_600, 2.5e9, 1e12].map(duration), ["0 s", "12 ns", "1.23 µs", "1.00 ms", "2.50 s", "1000 s"]);
  assert.deepEqual([percent(1, 3), percent(1, 1e6), percent(0, 5), percent(1, 0)], ["33.3 %", "<0.1 %", "0 %", "-"]);
  assert.deepEqual([4, 9999, 12345, 999_999].map(count), ["4", "9 999", "12.3k", "1.00M"]);
  assert.equal(shorten("std::collections::hash_map::insert", 12).length, 12);
  assert.equal(shorten("main", 4), "main");
});

test("threads to try lie around those that there are", () => {
  assert.deepEqual(sweep(3, 0), [1, 2, 3, 4, 8]);
  assert.deepEqual(sweep(3, 12), [1, 2, 3, 4, 8, 12, 16]);
  assert.equal(wideText({ low: 1.955, likely: 1.97, high: 2 }), "1.97 [1.96, 2.00]");
});
