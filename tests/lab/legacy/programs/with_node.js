// Node's http, without a timeout: an agent that keeps connections, or one that does not.
// with_node.js HOST PORT MODE WORKERS PAUSE; prints what loop.py prints.
"use strict";
const http = require("node:http");

const [host, port, mode, workers, pause] = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: mode === "pooled" });

function ask(done) {
  http
    .get({ host, port: Number(port), path: "/", agent }, (answer) => {
      answer.resume();
      answer.on("error", done);
      answer.on("end", () => done(null));
    })
    .on("error", done);
}

function work(worker) {
  const at = Date.now() / 1000;
  const began = process.hrtime.bigint();
  let ended = false;
  ask((error) => {
    if (ended) return;
    ended = true;
    const took = Number(process.hrtime.bigint() - began) / 1e9;
    const line = {
      worker,
      at,
      took,
      error: error ? error.code || error.name : "",
      what: error ? String(error.message) : "",
    };
    process.stdout.write(JSON.stringify(line) + "\n");
    setTimeout(work, Number(pause) * 1000, worker);
  });
}

for (let worker = 0; worker < Number(workers); worker++) work(worker);
