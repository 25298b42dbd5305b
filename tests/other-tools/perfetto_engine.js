// Perfetto's trace processor as its own page runs it, in headless Chromium: what comes on stdin goes to it, what it answers
// comes on stdout, both in the protocol of `TraceProcessorRpcStream`. It ends with stdin.
//
//     node perfetto_engine.js NODE_MODULES FOLDER       the folder that has engine_bundle.js
const { readFile } = require("node:fs/promises");
const { createServer } = require("node:http");
const { createRequire } = require("node:module");
const { basename, join, resolve } = require("node:path");

const [modules, folder] = process.argv.slice(2).map((path) => resolve(path));
const { chromium } = createRequire(join(modules, "/"))("playwright-core");
const KINDS = { js: "text/javascript", wasm: "application/wasm" };

/** A server of the folder's files, and of an empty page. */
async function served() {
  const server = createServer(async (request, answer) => {
    const name = basename(request.url);
    answer.setHeader("Content-Type", KINDS[Object.keys(KINDS).find((end) => name.endsWith(end))] ?? "text/html");
    answer.end(name ? await readFile(join(folder, name)).catch(() => "") : "<!doctype html>");
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return server;
}

async function main() {
  const server = await served();
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  try {
    const page = await browser.newPage();
    await page.exposeFunction("answered", (base64) => process.stdout.write(Buffer.from(base64, "base64")));
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.evaluate(() => {
      const { port1, port2 } = new MessageChannel();
      const worker = new Worker("engine_bundle.js");
      worker.postMessage(port2, [port2]);
      port1.onmessage = ({ data }) => window.answered(btoa(Array.from(data, (byte) => String.fromCharCode(byte)).join("")));
      window.ask = (base64) => port1.postMessage(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)));
    });
    for await (const bytes of process.stdin) await page.evaluate((base64) => window.ask(base64), bytes.toString("base64"));
  } finally {
    await browser.close();
    server.close();
  }
}

main();
