// Runs speedscope's importer, made for a browser, under Node.
// Usage: node speedscope.js BUNDLE FILE [NAME]   Prints JSON: per profile its name, and each node of its call tree as
// [frame names from the root, self weight]. Exit status 3: speedscope refused the file.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [bundle, file, name] = process.argv.slice(2);

// The bundle draws a page when it is loaded; any object that answers to everything will do for a page.
const anything = new Proxy(function () {}, {
  get: (_target, key) => (key === Symbol.toPrimitive ? () => '' : key === 'then' ? undefined : anything),
  apply: () => anything,
  construct: () => anything,
  set: () => true,
});
const quiet = () => {};
const world = {
  console: {log: quiet, info: quiet, warn: quiet, error: quiet}, document: anything, navigator: {userAgent: '', platform: ''},
  location: {hash: '', search: '', protocol: 'http:', href: ''}, localStorage: anything, matchMedia: () => anything,
  TextDecoder, TextEncoder, URL, setTimeout, clearTimeout, requestAnimationFrame: quiet, performance,
  addEventListener: quiet, fetch: anything, Image: anything, Element: class {}, HTMLElement: class {},
};
world.window = world.self = world.globalThis = world;
vm.createContext(world);

const wrapper = /async function (\w+)\(\w+,\w+\)\{return\(await \w+\)\.importProfileGroupFromText\(/;
const code = fs.readFileSync(bundle, 'utf8').replace(wrapper, (text, found) => `globalThis.importText=${found};${text}`);
try {
  vm.runInContext(code, world, {filename: 'speedscope.js'});
} catch (error) {
  // The page cannot be drawn; the importer is there by then.
}

(async () => {
  const group = await world.importText(name || path.basename(file), fs.readFileSync(file, 'utf8'));
  if (!group) throw new Error('no profile was recognised');
  const profiles = group.profiles.map((profile) => {
    const nodes = [];
    const walk = [[profile.getAppendOrderCalltreeRoot(), []]];
    while (walk.length) {
      const [node, above] = walk.pop();
      const stack = node.isRoot() ? above : [...above, node.frame.name];
      if (!node.isRoot()) nodes.push([stack, node.getSelfWeight()]);
      for (const child of node.children) walk.push([child, stack]);
    }
    return {name: profile.getName(), nodes};
  });
  process.stdout.write(JSON.stringify(profiles));
})().catch((error) => {
  process.stderr.write(String((error && error.stack) || error) + '\n');
  process.exit(3);
});
