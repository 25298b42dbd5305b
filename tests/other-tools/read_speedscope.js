// Reads a file with speedscope's own importer and prints, as JSON, what it found: for each profile its name, its unit, its
// total and the weight of each frame itself.
//
//   node read_speedscope.js FOLDER-OF-NODE_MODULES FILE
//
// The package has the importer only inside the page's one script. That is run up to where it would draw.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [modules, file] = process.argv.slice(2);
const release = path.join(modules, "speedscope", "dist", "release");
const script = fs.readdirSync(release).find((name) => /^speedscope-.*\.js$/.test(name));
const source = fs.readFileSync(path.join(release, script), "utf8");

const exported = source.match(/(\w+)=\{\};\$?\w+\(\1,\{[^}]*importProfileGroupFromText:/);
const loaded = new RegExp(`Promise\\.resolve\\(\\)\\.then\\(\\(\\)=>\\(\\w+\\(\\),${exported[1]}\\)\\)`);
const opened = source.replace(loaded, (load) => `globalThis.importer=${load}`);

// What the page asks of a browser before it draws does not matter: anything may be called and gives nothing.
const nothing = new Proxy(function () {}, {
  get: (_, name) => (name === Symbol.toPrimitive ? () => "" : nothing),
  apply: () => nothing,
  construct: () => nothing,
});
const context = vm.createContext({ window: nothing, document: nothing, navigator: nothing, localStorage: nothing,
  location: nothing, self: nothing, performance, setTimeout, TextDecoder, TextEncoder, console: { log() {}, warn() {}, error() {} } });
try {
  vm.runInContext(opened, context);
} catch (error) {
  if (!context.importer) throw error;
}

(async () => {
  const { importProfileGroupFromText } = await context.importer;
  const group = await importProfileGroupFromText(path.basename(file), fs.readFileSync(file, "utf8"));
  const profiles = group.profiles.map((profile) => {
    const frames = {};
    profile.forEachFrame((frame) => { frames[frame.name] = (frames[frame.name] || 0) + frame.getSelfWeight(); });
    return { name: profile.getName(), unit: profile.getWeightUnit(), total: profile.getTotalNonIdleWeight(), frames };
  });
  process.stdout.write(JSON.stringify(profiles));
})();
