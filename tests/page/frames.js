// How long lies between the timeline's frames with 1 000 000 moments of 200 threads, while it is panned and zoomed.
//
//     MODULES=…/node_modules node tests/page/frames.js PAGE.html       a page of `dwell report --html`, whose moments are replaced
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const { chromium } = createRequire(join(process.env.MODULES, "/"))("playwright-core");
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
await page.goto(`file://${resolve(process.argv[2])}#view=timeline`);
await page.waitForSelector("body[data-ready]");
const told = await page.evaluate(async () => {
  const [THREADS, MOMENTS] = [200, 1_000_000];
  const { rec } = window.dwell;
  const each = MOMENTS / THREADS;
  const ns = rec.window / each;
  const fill = (Kind, value) => Kind.from({ length: MOMENTS }, (_, i) => value(i));
  rec.moments = {
    first: Array.from({ length: THREADS + 1 }, (_, t) => t * each), start: fill(Float64Array, (i) => (i % each) * ns), ns: fill(Float64Array, () => ns),
    thread: fill(Uint32Array, (i) => Math.floor(i / each)), state: fill(Uint8Array, (i) => (i * 7) % rec.states.length), path: new Uint32Array(MOMENTS), waker: new Uint32Array(MOMENTS), wakers: [],
  };
  const name = (t) => `thread ${t}`;
  const names = Array.from({ length: THREADS }, (_, t) => name(t));
  rec.threads = { tid: names.map((_, t) => t + 1), name: names, pid: names.map(() => 1), process: names.map(() => "p"), group: names, start: names.map(() => 0), until: names.map(() => rec.window) };
  rec.entries = { thread: [], state: [], syscall: [], path: [], ns: [], idle: [] };
  window.dwell.set({});
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  await frame();
  const run = async (step) => {
    const between = [];
    let last = await frame();
    for (let i = 0; i < 240; i += 1) {
      step(i);
      const now = await frame();
      between.push(now - last);
      last = now;
    }
    const at = (all, part) => all.sort((a, b) => a - b)[Math.floor(part * (all.length - 1))].toFixed(1);
    return `between frames: median ${at(between, 0.5)} ms, p99 ${at(between, 0.99)} ms`;
  };
  const w = rec.window;
  const { look } = window.dwell;
  look(0, w);
  const pan = await run((i) => look((i / 480) * w, (i / 480 + 0.5) * w));
  const zoom = await run((i) => { const half = (w / 2) * 0.96 ** i; look(w / 2 - half, w / 2 + half); });
  return { pan, zoom };
});
for (const [what, words] of Object.entries(told)) console.log(`${what}: ${words}`);
await browser.close();
