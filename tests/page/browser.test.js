// Drives the page in headless Chromium, by clicks and keys, and compares what it shows with what `dwell report --json`,
// `dwell locks --json` and `dwell export --to folded` say of the same recording.
//
//     DWELL=… PROGRAMS=… MODULES=…/node_modules [RECORDING=x.dwell] [SHOTS=folder] node --test tests/page/browser.test.js
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { get } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { wideText } from "../../crates/dwell-report/ui/model/knobs.js";
import { count, duration, percent } from "../../crates/dwell-report/ui/model/text.js";

const { DWELL, PROGRAMS, MODULES, SHOTS } = process.env;
const { chromium } = createRequire(join(MODULES, "/"))("playwright-core");
const folder = mkdtempSync(join(tmpdir(), "dwell-page-"));
const recording = process.env.RECORDING ?? join(folder, "x.dwell");
const dwell = (...args) => execFileSync(DWELL, args, { maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "ignore"] }).toString();
const complaints = [];
let browser;
let page;
let wanted;
let wantedLocks;
let wantedRemedies;
let folded;

before(async () => {
  if (!process.env.RECORDING) dwell("record", "--locks", "--memory", "-o", recording, "--", join(PROGRAMS, "mixed"), "--dir", folder);
  wanted = JSON.parse(dwell("report", "--json", recording));
  wantedLocks = JSON.parse(dwell("locks", "--json", recording));
  wantedRemedies = JSON.parse(dwell("whatif", "--json", recording));
  folded = dwell("export", "--to", "folded", recording).trim().split("\n").map((line) => {
    const at = line.lastIndexOf(" ");
    return { frames: line.slice(0, at).split(";"), ns: Number(line.slice(at + 1)) };
  });
  dwell("report", "--html", join(folder, "x.html"), recording);
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  page = await (await browser.newContext({ viewport: { width: 1280, height: 720 }, offline: true })).newPage();
  page.on("console", (message) => complaints.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => complaints.push(String(error.stack)));
  page.on("request", (request) => request.url().startsWith("file:") || complaints.push(`asks for ${request.url()}`));
  await page.addInitScript(() => {
    window.jumps = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((e) => { window.jumps += e.value; })).observe({ type: "layout-shift", buffered: true });
  });
  await page.goto(`file://${folder}/x.html`);
  await page.waitForSelector("body[data-ready]");
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Presses keys, one after the other, and waits until the page has been drawn. */
async function press(...keys) {
  for (const key of keys) await page.keyboard.press(key);
  await drawn();
}

const drawn = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
/** What the page's own objects have. */
const has = (look, argument) => page.evaluate(look, argument);
/** The texts of a table's cells, row by row. */
const cells = (id) => page.$$eval(`#${id} tbody tr`, (rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
const near = (got, want, part = 1e-4) => assert.ok(Math.abs(got - want) <= part * Math.max(1, want), `${got} and not ${want}`);

async function shot(name) {
  const { wide, scrolls } = await has(() => ({ wide: document.documentElement.scrollWidth, scrolls: innerWidth }));
  assert.ok(wide <= scrolls, `${name} is wider than the window`);
  if (SHOTS) await page.screenshot({ path: join(SHOTS, `${name}.png`) });
}

test("the overview divides time as the report does", async () => {
  assert.equal(await has(() => window.jumps), 0, "the page stands still while it loads");
  const { total, findings, recording: about, processes } = wanted;
  const shown = Object.fromEntries(await page.$$eval("#division > span", (spans) => spans.map((s) => [s.dataset.state, s.textContent])));
  const states = { ...total.blocked_by_reason_ns, runnable: total.runnable_ns, running: total.running_ns - total.spinning_ns };
  for (const [state, ns] of Object.entries(states).filter(([, ns]) => ns)) {
    assert.ok(shown[state].includes(duration(ns)) && shown[state].includes(percent(ns, total.lifetime_ns)), `${state}: ${shown[state]}`);
  }
  assert.ok((await page.textContent("main")).includes(about.target));
  const titles = await page.$$eval(".finding h3", (heads) => heads.map((h) => h.textContent));
  assert.equal(titles.length, findings.length);
  findings.forEach((f, i) => assert.ok(titles[i].includes(f.title)));
  const rows = await cells("processes");
  assert.equal(rows.length, processes.reduce((sum, p) => sum + 1 + (p.groups.length > 1 ? p.groups.length : 0), 0));
  await shot("overview");
});

test("the timeline has every thread, and all its time", async () => {
  await press("2");
  const lanes = await has(() => {
    const { rec } = window.dwell;
    return rec.threads.tid.map((tid, thread) => {
      let ns = 0;
      for (let i = rec.moments.first[thread]; i < rec.moments.first[thread + 1]; i += 1) ns += rec.moments.ns[i];
      return { tid, ns, life: rec.threads.until[thread] - rec.threads.start[thread] };
    });
  });
  assert.equal(lanes.length, wanted.recording.threads);
  for (const { tid, ns, life } of lanes) near(ns, life, 1e-3, `thread ${tid}`);
  near(lanes.reduce((sum, l) => sum + l.ns, 0), wanted.total.lifetime_ns, 1e-3);
  await shot("timeline");
});

test("a moment tells who ended it, and is followed", async () => {
  const place = await has(() => {
    const { rec } = window.dwell;
    // A wait whose waker is a thread, the longest.
    let best = -1;
    rec.moments.waker.forEach((w, i) => {
      if (w && rec.moments.wakers[w - 1][0] >= 0 && (best < 0 || rec.moments.ns[i] > rec.moments.ns[best])) best = i;
    });
    const thread = rec.moments.thread[best];
    return { best, row: [...document.querySelectorAll("#lanes")].length && window.dwell.lanes.findIndex((l) => l.thread === thread), at: (rec.moments.start[best] + rec.moments.ns[best] / 2) / rec.window,
      waker: rec.threads.tid[rec.moments.wakers[rec.moments.waker[best] - 1][0]] };
  });
  const box = await (await page.$("#lanes canvas")).boundingBox();
  const names = 190;
  await page.mouse.click(box.x + names + place.at * (box.width - names), box.y + 22 + place.row * 18 + 9);
  assert.equal(await has(() => window.dwell.moment), place.best);
  assert.match(await page.textContent("#moment"), new RegExp(`ended by .*\\(${place.waker}\\)`));
  await press("f");
  assert.notEqual(await has(() => window.dwell.moment), place.best);
});

test("keys zoom and pan; what is dragged over is what other views show", async () => {
  await press("0", "w", "w", "d");
  const [from, to] = await has(() => window.dwell.span);
  assert.ok(from > 0 && to - from < 0.6 * wanted.recording.window_ns);
  await press("0");
  const box = await (await page.$("#lanes canvas")).boundingBox();
  await page.mouse.move(box.x + 400, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + 700, box.y + 60);
  await page.mouse.up();
  const choice = await has(() => window.dwell.choice);
  near((choice.to - choice.from) / wanted.recording.window_ns, 300 / (box.width - 190), 0.01);
  await press("3");
  const { total, lived } = await has(() => {
    const { rec, choice, flameRoot } = window.dwell;
    let lived = 0;
    rec.threads.start.forEach((start, t) => { lived += Math.max(0, Math.min(rec.threads.until[t], choice.to) - Math.max(start, choice.from)); });
    return { total: flameRoot.total, lived };
  });
  near(total, lived, 1e-3);
  await press("Escape");
});

/** A frame of folded stacks without the mark of the kernel's. */
const bare = (frame) => frame.replace(/_\[k\]$/, "");

test("the flame graph has the folded stacks' time", async () => {
  await press("3", "u");
  const all = folded.reduce((sum, { ns }) => sum + ns, 0);
  near(await has(() => window.dwell.flameRoot.total), all, 0.0001);
  // What lies under each function, against the folded stacks.
  const names = [...new Set(folded.sort((a, b) => b.ns - a.ns).slice(0, 40).flatMap((s) => s.frames.slice(2)))].map(bare);
  for (const name of names.slice(0, 12)) {
    const want = folded.filter(({ frames }) => frames.some((f) => bare(f).toLowerCase().includes(name.toLowerCase()))).reduce((sum, { ns }) => sum + ns, 0);
    await page.fill("#search", name);
    await page.waitForFunction((n) => window.dwell.choice.search === n, name);
    assert.equal(await page.textContent("#found"), `${duration(want)} · ${percent(want, all)}`, name);
  }
  await press("Escape", "Escape");
  assert.equal(await has(() => window.dwell.choice.search), "");
  await shot("flame");
});

test("the flame graph turns, focuses and goes back", async () => {
  const before = await has(() => window.dwell.flameRoot.total);
  await press("i");
  near(await has(() => window.dwell.flameRoot.total), before);
  assert.equal(await page.getAttribute("button:text-matches('inverted')", "aria-pressed"), "true");
  await press("i", "t");
  near(await has(() => window.dwell.flameRoot.total), before);
  await press("t", "o", "o");
  const box = await (await page.$("#flame canvas")).boundingBox();
  await page.mouse.click(box.x + 40, box.y + 2 * 18 + 9);
  await drawn();
  const group = await has(() => window.dwell.flameRoot.children[0].children[0]?.total);
  assert.ok((await page.textContent("#flame-status")).startsWith(duration(group)));
  await press("Backspace", "Backspace");
  assert.ok((await page.textContent("#flame-status")).startsWith(duration(before)));
  await press("b");
  const { total, life } = await has(() => {
    const { rec, flameRoot } = window.dwell;
    const thread = Number(document.querySelector("#thread").value);
    return { total: flameRoot.total, life: rec.threads.until[thread] - rec.threads.start[thread] };
  });
  near(total, life, 1e-3);
  await shot("flame-by-time");
  await press("b");
  await page.selectOption("#states", "off");
  const off = await has(() => window.dwell.flameRoot.total);
  near(off, wanted.total.blocked_ns + wanted.total.runnable_ns, 1e-3);
  await page.selectOption("#states", "both");
});

test("boxes are reached by keys, and their stacks copied", async () => {
  await press("3", "0", "ArrowDown", "ArrowDown", "ArrowDown", "Enter");
  const way = await has(() => {
    const way = [window.dwell.flameRoot];
    for (let i = 0; i < 3; i += 1) way.push(way.at(-1).children[0]);
    return way.map(({ name, total }) => ({ name, total }));
  });
  assert.ok((await page.textContent("#flame-status")).startsWith(duration(way[3].total)));
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await press("c");
  assert.equal(await has(() => navigator.clipboard.readText()), way.slice(1).map((n) => n.name).join(";"));
  // The address leads to the same box.
  await page.waitForFunction(() => location.hash.includes("focus=0.0.0"));
  await page.reload();
  await page.waitForSelector("body[data-ready]");
  await page.waitForFunction((words) => document.querySelector("#flame-status").textContent.startsWith(words), duration(way[3].total));
  await press("0");
});

test("moments are reached by keys; the address has the part and the moment", async () => {
  await press("Escape", "2", "ArrowRight", "ArrowRight", "ArrowDown", "w", "w");
  const { span, moment, thread } = await has(() => ({ span: window.dwell.span, moment: window.dwell.moment, thread: window.dwell.rec.moments.thread[window.dwell.moment] }));
  const threads = await has(() => window.dwell.lanes.filter((l) => l.thread >= 0).map((l) => l.thread));
  assert.equal(thread, threads[1]);
  await page.waitForFunction(() => location.hash.includes("spanTo"));
  await page.reload();
  await page.waitForSelector("body[data-ready]");
  assert.deepEqual(await has(() => window.dwell.span), span.map(Math.round));
  assert.equal(await has(() => window.dwell.moment), moment);
  await press("Escape", "0");
});

test("what is chosen is what every view shows", async () => {
  // The process alone, by a click on its name: exact sums, those of the report.
  await press("2", "0");
  const box = await (await page.$("#lanes canvas")).boundingBox();
  await page.mouse.click(box.x + 30, box.y + 22 + 9);
  assert.ok((await page.textContent("#scope")).includes("pid"));
  await press("1");
  const { total } = wanted;
  const divided = () => page.$$eval("#division > span", (spans) => Object.fromEntries(spans.map((s) => [s.dataset.state, s.textContent])));
  assert.ok((await divided()).lock.includes(duration(total.blocked_by_reason_ns.lock)));
  assert.equal((await cells("processes"))[0][1], String(total.threads));
  await press("7");
  const components = await cells("components");
  assert.deepEqual(components.map((c) => c[0]).sort(), wanted.memory.components.map((c) => duration(c.time_ns)).sort());
  assert.ok((await page.$$("#memory-time rect")).length > 0);
  await shot("memory-part");
  await press("5");
  assert.ok((await page.textContent("#part")).includes(`of ${duration(total.blocked_ns)} (`));
  await shot("wakers-part");
  await press("6");
  const known = new Map(wantedLocks.locks.map((l) => [l.name || l.address || l.kind, l]));
  const locks = await cells("locks");
  assert.ok(locks.length > 0);
  for (const [, waits, longest, name] of locks) {
    assert.ok(known.has(name), name);
    assert.ok(Number(waits.replaceAll(" ", "")) > 0 && longest);
  }
  assert.equal(locks[0][3], wantedLocks.locks[0].name);
  await page.click("#locks tbody tr:first-child");
  assert.ok((await cells("lock-waiters")).length > 0);
  await shot("locks-part");
  // And a part of the window.
  await press("Escape", "2");
  await page.mouse.move(box.x + 400, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + 600, box.y + 60);
  await page.mouse.up();
  const lived = await has(() => {
    const { rec, choice } = window.dwell;
    return rec.threads.start.reduce((sum, start, t) => sum + Math.max(0, Math.min(rec.threads.until[t], choice.to) - Math.max(start, choice.from)), 0);
  });
  await press("1");
  const shown = await page.textContent("#division >> xpath=..");
  assert.ok(shown.includes(`${duration(lived)} of thread time`), `${shown} and not ${duration(lived)}`);
  await shot("overview-part");
  await press("Escape");
  assert.equal(await page.$("#part"), null);
});

test("each finding opens its evidence in the other views", async () => {
  await press("1");
  const many = await page.$$eval(".finding", (cards) => cards.map((card) => card.querySelectorAll("button").length));
  for (let finding = 0; finding < many.length; finding += 1) {
    assert.ok(many[finding] > 0, `finding ${finding}`);
    for (let button = 0; button < many[finding]; button += 1) {
      await press("1");
      await page.locator(".finding").nth(finding).locator("button").nth(button).click();
      await drawn();
      assert.notEqual(await has(() => window.dwell.choice.view), "overview");
    }
  }
  await press("Escape");
});

test("functions are those of the report; their callers and callees add up", async () => {
  await press("4");
  const rows = await cells("functions");
  const onCpu = (byState) => (byState.running ?? 0) + (byState.spinning ?? 0);
  for (const { function: f, self_ns: own, total_ns: total } of wanted.functions_on_cpu.slice(0, 10)) {
    const row = rows.find(([, , , name]) => name === f.function + (f.kernel ? " [k]" : ""));
    assert.ok(row, `${f.function} is not in the table`);
    assert.ok(row[0].startsWith(onCpu(own) ? duration(onCpu(own)) : "-"), `${row} and not ${duration(onCpu(own))}`);
    assert.ok(row[1].startsWith(duration(onCpu(total))), `${row} and not ${duration(onCpu(total))}`);
  }
  await page.click("#functions thead th:nth-child(2)");
  await page.click("#functions tbody tr:first-child");
  await page.waitForSelector("#callers");
  const sums = await has(async () => ["callers", "callees"].map((id) => document.querySelectorAll(`#${id} tbody tr`).length));
  assert.ok(sums.every((n) => n > 0));
  await shot("functions");
});

test("the call tree opens and closes by keys and has the flame graph's time", async () => {
  await press("3");
  const [first, total] = await has(() => [window.dwell.flameRoot.children[0], window.dwell.flameRoot.total].map((n) => n.total ?? n));
  await press("4", "t");
  const rows = () => cells("calltree");
  assert.ok((await rows())[0][0].startsWith(`${duration(first)}  ${percent(first, total)}`));
  await page.focus("#calltree tbody tr:nth-child(2)");
  const before = (await rows()).length;
  await press("ArrowRight");
  const opened = (await rows()).length;
  assert.ok(opened > before);
  await press("ArrowLeft");
  assert.ok((await rows()).length < opened);
  await page.click("#calltree th[data-order=name]");
  await press("i");
  assert.ok((await rows()).length > 0);
  await shot("calltree");
  await press("i", "t");
});

test("wakers, locks and memory are those of the answers", async () => {
  await press("5");
  const wakers = await cells("wakers");
  assert.equal(wakers[0][0], duration(wanted.wakers[0].time_ns));
  assert.ok(wakers.length >= Math.min(50, wanted.wakers.length));
  assert.ok((await page.$$("#wakers-drawing .band")).length > 0);
  await shot("wakers");
  await press("6");
  const locks = await cells("locks");
  wantedLocks.locks.forEach((l, i) => assert.deepEqual([locks[i][0], locks[i][2], locks[i][6]], [duration(l.waited_ns), count(l.waits), l.name]));
  await page.click("#locks tbody tr:first-child");
  const waiters = await cells("lock-waiters");
  assert.equal(waiters[0][0], duration(wantedLocks.locks[0].waiters[0].waited_ns));
  assert.ok((await page.$$("#lock-time rect")).length > 100);
  await shot("locks");
  await press("7");
  const components = await cells("components");
  assert.deepEqual(components.map((c) => c[0]).sort(), wanted.memory.components.map((c) => duration(c.time_ns)).sort());
  const events = Object.fromEntries(await cells("memory-events"));
  assert.equal(events["pages allocated"], count(wanted.memory.counts.allocated_pages));
  await shot("memory");
});

test("remedies are those of dwell whatif", async () => {
  await press("8");
  const rows = await cells("remedies");
  assert.equal(rows.length, wantedRemedies.rows.length);
  for (const { what, gain } of wantedRemedies.rows) assert.equal(rows.find((row) => row[4] === what)[0], wideText(gain), what);
  await shot("whatif");
});

test("a view's address leads back to it; tabs and sheet are there for keys", async () => {
  await press("3", "/");
  await page.keyboard.type("solve");
  await page.waitForFunction(() => window.dwell.choice.search === "solve");
  const address = page.url();
  const shown = await page.textContent("#found");
  await page.goto("about:blank");
  await page.goto(address);
  await page.waitForSelector("body[data-ready]");
  await page.waitForSelector("#found");
  assert.equal(await page.textContent("#found"), shown);
  await press("Escape", "?");
  assert.ok(await page.isVisible("#sheet"));
  await press("Escape");
  assert.ok(!(await page.isVisible("#sheet")));
  const theme = () => has(() => getComputedStyle(document.body).backgroundColor);
  const light = await theme();
  await press("T");
  assert.notEqual(await theme(), light);
  await shot("flame-dark");
  await press("1");
  await shot("overview-dark");
});

test("nothing jumps, complains, or is asked for from elsewhere", async () => {
  assert.deepEqual(complaints, []);
  assert.ok((await has(() => window.jumps)) < 0.1);
});

test("the page of a comparison has its measures, and both sides' stacks", async () => {
  const other = join(folder, "other.dwell");
  // Nothing in it looks like an idle pool, however busy the machine: a comparison's stacks are without those.
  dwell("record", "-o", other, "--", "sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; ls -R /usr/share >/dev/null");
  const html = join(folder, "diff.html");
  const answer = JSON.parse(dwell("diff", recording, other, "--json", "--html", html));
  await page.goto(`file://${html}`);
  await page.waitForSelector("body[data-ready]");
  const rows = await cells("measures");
  assert.deepEqual(rows.map((row) => row[4]), answer.measures.map((m) => m.name));
  answer.measures.filter((m) => m.name !== "threads").forEach((m, i) => assert.equal(rows[i][0], duration(Math.round(m.change.before)), m.name));
  // The time of spinning is in that of running already.
  const times = (side) => answer.measures.filter((m) => !["duration", "spinning", "threads"].includes(m.name)).reduce((sum, m) => sum + m.change[side], 0);
  await press("2");
  near(await has(() => window.dwell.flameRoot.total), times("after"), 1e-3);
  await press("b");
  near(await has(() => window.dwell.flameRoot.total), times("before"), 1e-3);
  await shot("diff-flame");
  await press("3");
  assert.equal((await cells("waits")).length, answer.waits.length);
  await shot("diff-functions");
  assert.deepEqual(complaints, []);
});

test("dwell view serves the same page to this machine only", async () => {
  const served = spawn(DWELL, ["view", "--no-browser", recording], { stdio: ["ignore", "pipe", "ignore"] });
  try {
    const address = await new Promise((done) => served.stdout.once("data", (text) => done(String(text).trim())));
    const ask = (path, host) => new Promise((done, failed) => {
      const { port } = new URL(address);
      get({ host: "127.0.0.1", port, path, headers: { host: host ?? `localhost:${port}` } }, (answer) => {
        answer.resume();
        answer.on("end", () => done(answer.statusCode));
      }).on("error", failed);
    });
    assert.equal(await ask("/"), 200);
    assert.equal(await ask("/other"), 404);
    assert.equal(await ask("/", "evil.example"), 403);
    const other = await (await browser.newContext()).newPage();
    await other.goto(address);
    await other.waitForSelector("body[data-ready]");
    assert.ok((await other.textContent("main")).includes(wanted.recording.target));
    // The simulation, moved by its knobs.
    await other.keyboard.press("8");
    await other.fill("#knob-shards", "3");
    await other.selectOption("#knob-kind", "mcs");
    const { threads } = wantedRemedies.lock;
    const all = JSON.parse(dwell("whatif", "--json", "--shards", "3", "--kind", "mcs", "--threads", String(threads), recording));
    const { gain } = all.rows[0];
    await other.waitForFunction((words) => document.querySelector(".headline")?.textContent.includes(words),
      `${gain.likely.toFixed(2)} times as many units [${gain.low.toFixed(2)}, ${gain.high.toFixed(2)}]`);
    assert.equal(await ask("/whatif?threads=none"), 400);
    assert.equal(await ask("/whatif?input=/etc/passwd"), 400);
  } finally {
    served.kill("SIGINT");
  }
});
