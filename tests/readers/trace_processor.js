// Runs the trace processor's WebAssembly build, a browser worker, under Node.
// Usage: node trace_processor.js FOLDER REQUEST REPLY   (FOLDER holds engine_bundle.js and its .wasm files;
// REQUEST and REPLY are TraceProcessorRpcStream messages.) Reads no network. Exit status 3: it crashed.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [folder, request, reply] = process.argv.slice(2);
const read = (url) => fs.readFileSync(path.join(folder, path.basename(String(url))));
const quiet = () => {};
const complain = (...words) => process.stderr.write(words.join(' ') + '\n');

// What the worker expects to find around it.
const world = {
  console: {log: quiet, info: quiet, debug: quiet, warn: complain, error: complain},
  TextDecoder, TextEncoder, URL, performance, setTimeout, clearTimeout, setInterval, clearInterval, queueMicrotask,
  crypto: globalThis.crypto, location: {href: 'http://localhost/engine_bundle.js'}, navigator: {},
  importScripts: quiet, WorkerGlobalScope: function () {},
};
world.self = world.globalThis = world;
world.XMLHttpRequest = function () {
  this.open = (_method, url) => { this.url = url; };
  this.send = () => {
    const bytes = read(this.url);
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    this.status = 200;
  };
};
vm.createContext(world);
vm.runInContext(read('engine_bundle.js').toString(), world, {filename: 'engine_bundle.js'});

const answers = [];
const port = {postMessage: (bytes) => answers.push(Buffer.from(bytes)), onmessage: null};
world.onmessage({data: port});

// The module is loaded by now; what runs once it is ready are microtasks, over before this timer fires.
setTimeout(() => {
  // The worker checks `instanceof Uint8Array`, so the array has to be one of its own world.
  const Bytes = vm.runInContext('Uint8Array', world);
  const input = fs.readFileSync(request);
  const piece = 16 << 20;
  let status = 0;
  try {
    for (let at = 0; at < input.length; at += piece) {
      port.onmessage({data: Bytes.from(input.subarray(at, at + piece))});
    }
  } catch (error) {
    complain('crashed:', error.message.slice(0, 2000));
    status = 3;
  }
  fs.writeFileSync(reply, Buffer.concat(answers));
  process.exit(status);
}, 20);
