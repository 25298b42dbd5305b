'use strict';
// Threads that stand in known places, and say themselves where, in JSON: the names, files and lines of the functions that they
// execute, innermost first. A function is one line, or one is said that is not where it is defined.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const vm = require('vm');
Error.stackTraceLimit = Infinity;

const word = new Int32Array(new SharedArrayBuffer(4));
const site = (s) => [s.getFunctionName() || '(anonymous)', s.getFileName() || '', s.getLineNumber()];
const isThere = (s) => !s.isAsync() && (s.getFileName() || s.isEval());
function where() {
  const before = Error.prepareStackTrace;
  Error.prepareStackTrace = (_, sites) => sites.filter(isThere).map(site);
  const told = new Error().stack.slice(1);
  Error.prepareStackTrace = before;
  return told;
}

function nap() { for (;;) Atomics.wait(word, 0, 0, 20); }
function stand() { for (;;) Atomics.wait(word, 0, 0); }
const wait = workerData && workerData.stands ? stand : nap;

class Shape {
  constructor(wait) { wait(); }
}
class Square extends Shape {
  constructor(wait) { super(wait); }
  static make(wait) { return new Square(wait); }
  get area() { this.wait(); return 1; }
  #hidden() { this.wait(); }
  shown() { this.#hidden(); }
}
const deep = (n, wait) => n ? deep(n - 1, wait) : wait();
function* produced(wait) { yield wait(); }
async function later(wait) { await null; wait(); }
const assigned = { held: (wait) => wait(), 'in quotes': function (wait) { wait(); } };

const places = {
  plain(wait) { wait(); },
  deep(wait) { deep(120, wait); },
  map(wait) { [1].map(() => wait()); },
  sort(wait) { [2, 1].sort(function compare() { wait(); return 0; }); },
  replace(wait) { 'text'.replace(/t/, () => wait()); },
  json(wait) { JSON.stringify({ toJSON() { wait(); } }); },
  made(wait) { Square.make(wait); },
  getter(wait) { Object.assign(Object.create(Square.prototype), { wait }).area; },
  hidden(wait) { const square = new Square(() => {}); square.wait = wait; square.shown(); },
  proxy(wait) { new Proxy({}, { get: () => wait() }).anything; },
  generator(wait) { for (const _ of produced(wait)); },
  apply(wait) { Reflect.apply(assigned.held.bind(null, wait), null, []); },
  quotes(wait) { assigned['in quotes'](wait); },
  evaluated(wait) { eval('(function inner() { wait(); })()'); },
  script(wait) { vm.runInThisContext('(function ofScript(wait) { wait(); })', 'a script.js')(wait); },
  ünïcode_名(wait) { wait(); },
  later(wait) { later(wait); },
  callback(wait) { setTimeout(() => wait(), 1); },
};

function busy(seconds) {
  const end = Date.now() + 1000 * seconds;
  const done = { most: 0, rest: 0 };
  while (Date.now() < end) { done.most += most(); done.rest += rest(); }
  return done;
}
function most() { const end = process.cpuUsage().user + 20000; let n = 0; while (process.cpuUsage().user < end) n += work(2000); return n; }
function rest() { const end = process.cpuUsage().user + 10000; let n = 0; while (process.cpuUsage().user < end) n += [1].map(() => work(2000))[0]; return n; }
function work(n) { let x = 0; for (let i = 0; i < n; i++) x = (x * 31 + i) | 0; return x & 1; }

if (!isMainThread) {
  places[workerData.place](() => { parentPort.postMessage(where()); wait(); });
} else if (process.argv[2] === 'busy') {
  busy(Number(process.argv[3]));
} else {
  const told = {};
  for (const place of Object.keys(places)) {
    const worker = new Worker(__filename, { workerData: { place, stands: process.argv[2] === 'stand' } });
    worker.on('message', (sites) => {
      told[place] = sites;
      if (Object.keys(told).length === Object.keys(places).length) console.log(JSON.stringify(told));
    });
  }
}
