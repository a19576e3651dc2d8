// The official conformance suite against `rex mcp --http`. Usage: conformance.mjs REVISION; says `ok REVISION` at the end.
// URL and TOKEN are those of the server, CLIENTS is where the suite is. The suite sends no token: a proxy adds it.

import { spawn } from "node:child_process";
import http from "node:http";
import path from "node:path";
import { fileURLToPath } from "node:url";

const { CLIENTS, URL: url, TOKEN } = process.env;
const revision = process.argv[2];
const server = new URL(url);

const proxy = http.createServer((request, response) => {
  // The Host header stays as it is: a scenario tests how the server checks it.
  const headers = { ...request.headers, authorization: `Bearer ${TOKEN}` };
  const { method, url: path } = request;
  const forwarded = http.request({ host: server.hostname, port: server.port, method, path, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  forwarded.on("error", () => response.destroy());
  response.on("close", () => forwarded.destroy());
  request.pipe(forwarded);
});
await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));

const suite = path.join(CLIENTS, "npm/node_modules/@modelcontextprotocol/conformance/dist/index.js");
const expected = path.join(path.dirname(fileURLToPath(import.meta.url)), `conformance-${revision}.yml`);
const target = `http://127.0.0.1:${proxy.address().port}${server.pathname}`;
const run = spawn(
  process.execPath,
  [suite, "server", "--url", target, "--requirements", revision, "--expected-failures", expected],
  { stdio: "inherit" },
);
const status = await new Promise((resolve) => run.on("close", resolve));
if (status !== 0) process.exit(1);
console.log("ok", revision);
proxy.closeAllConnections();
proxy.close();
