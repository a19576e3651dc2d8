// The official TypeScript client against `rex mcp`. Usage: client.mjs SCENARIO; says `ok SCENARIO` at the end.
// REX is the program, HERE the directory to work in, CLIENTS where the SDK is. With URL and TOKEN over HTTP, else stdio,
// where ARGUMENTS are arguments of `rex mcp`. With GENERATION=2 the client of 2026-07-28, else that of the versions before.

import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { promisify } from "node:util";

const { REX, HERE, CLIENTS, URL: url, TOKEN, ARGUMENTS, GENERATION } = process.env;
const isNew = GENERATION === "2";
const sdk = createRequire(path.join(CLIENTS, "npm/package.json"));
const { Client } = sdk(isNew ? "@modelcontextprotocol/client" : "@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = sdk(isNew ? "@modelcontextprotocol/client/stdio" : "@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = sdk(isNew ? "@modelcontextprotocol/client" : "@modelcontextprotocol/sdk/client/streamableHttp.js");
const elicitation = isNew ? "elicitation/create" : sdk("@modelcontextprotocol/sdk/types.js").ElicitRequestSchema;

const NAMES = "bash bash_output bash_input kill read write edit patch list glob grep stat".split(" ");
const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
const at = (name) => path.join(HERE, name);
const text = (result) => result.content.filter((part) => part.type === "text").map((part) => part.text).join("\n");

async function connected(use, capabilities = {}, prepare = () => {}) {
  const versionNegotiation = { mode: "auto" };
  const client = new Client({ name: "test", version: "1" }, { capabilities, versionNegotiation });
  prepare(client);
  const headers = { Authorization: `Bearer ${TOKEN}` };
  const transport = url
    ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })
    : new StdioClientTransport({ command: REX, args: ["mcp", ...(ARGUMENTS ?? "").split(" ").filter(Boolean)], env: process.env, cwd: HERE });
  await client.connect(transport);
  try {
    await use(client);
  } finally {
    await client.close();
  }
}

function tried(client, name, args, options) {
  const params = { name, arguments: args };
  return isNew ? client.callTool(params, options) : client.callTool(params, undefined, options);
}

async function call(client, name, args, options) {
  const result = await tried(client, name, args, options);
  assert(!result.isError, `${name} ${JSON.stringify(args)}: ${text(result)}`);
  return result;
}

// The SDK has no tasks. Their package sends its own requests; it needs these functions of the program that uses it.
const v2RequestFraming = {
  protocolVersion: "2026-07-28",
  clientInfo: { name: "test", version: "1" },
  clientCapabilities: { extensions: { "io.modelcontextprotocol/tasks": {} } },
};

async function rawDispatch(request) {
  const { method, params } = request;
  const response = await fetch(url, {
    method: "POST",
    headers: {
      Authorization: `Bearer ${TOKEN}`,
      Accept: "application/json, text/event-stream",
      "Content-Type": "application/json",
      "MCP-Protocol-Version": v2RequestFraming.protocolVersion,
      "Mcp-Method": method,
      "Mcp-Name": params.name ?? params.taskId,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, ...request }),
  });
  const body = await response.text();
  const event = body.split("\n").findLast((line) => line.startsWith("data:") && line.includes("jsonrpc"));
  const { result, error } = JSON.parse(event?.slice("data:".length) ?? body);
  return error ? { kind: "error", error } : { kind: "result", result };
}

const scenarios = {
  tools: () =>
    connected(async (client) => {
      assert.equal(client.getServerVersion().name, "rex");
      if (isNew) assert.equal(client.getNegotiatedProtocolVersion(), "2026-07-28");
      assert.match(client.getInstructions(), /background/);
      const { tools } = await client.listTools();
      assert.deepEqual(tools.map((tool) => tool.name), NAMES);
      assert(tools.every((tool) => tool.inputSchema.additionalProperties === false && tool.annotations));
      const ran = await call(client, "bash", { command: "echo out; echo err >&2; exit 3" });
      assert.match(text(ran), /\nout/);
      assert.match(text(ran), /\nerr/);
      assert.equal(ran.structuredContent.exit_code, 3);
      await call(client, "write", { path: "d/a.txt", content: "one\ntwo\n" });
      assert.match(text(await call(client, "read", { path: "d/a.txt" })), / 2\ttwo\n/);
      const edited = await call(client, "edit", { path: "d/a.txt", old_string: "two", new_string: "zwei" });
      const { uri } = edited.content.find((part) => part.type === "resource_link");
      assert.equal((await client.readResource({ uri })).contents[0].text, "one\nzwei\n");
      const patch_text = "*** Begin Patch\n*** Delete File: d/a.txt\n*** Add File: d/b.txt\n+new\n*** End Patch";
      assert.deepEqual((await call(client, "patch", { patch_text })).structuredContent.deleted, [at("d/a.txt")]);
      assert.equal((await call(client, "list", { path: "d" })).structuredContent.entries.length, 1);
      assert.deepEqual((await call(client, "glob", { pattern: "d/*" })).structuredContent.matches, [at("d/b.txt")]);
      assert.equal((await call(client, "grep", { pattern: "new" })).structuredContent.matches[0].line, 1);
      assert.equal((await call(client, "stat", { path: "d" })).structuredContent.type, "dir");
      const started = await call(client, "bash", { command: "cat", background: true });
      const { process_id } = started.structuredContent;
      await call(client, "bash_input", { process_id, data: "hello\n" });
      const echoed = await call(client, "bash_output", { process_id, until: "hello\\n" });
      assert.equal(echoed.structuredContent.output, "hello\n");
      assert((await call(client, "kill", { process_id })).structuredContent.ok);
      assert.equal((await call(client, "bash_output", { process_id })).structuredContent.status, "killed");
      const failed = await client.callTool({ name: "read", arguments: { path: 5 } });
      assert(failed.isError && text(failed).includes("`path`"));
    }),

  cancel: () =>
    connected(async (client) => {
      execFileSync("mkfifo", [at("pids")]);
      const controller = new AbortController();
      const command = "sleep 1000 & echo $$ $! > pids; wait";
      const running = tried(client, "bash", { command }, { signal: controller.signal });
      const outcome = running.then(() => "done", () => "cancelled");
      const pids = (await fs.promises.readFile(at("pids"), "utf8")).trim().split(" ");
      controller.abort();
      assert.equal(await outcome, "cancelled");
      // `tail` ends when the process does.
      const ended = (pid) => promisify(execFile)("tail", ["-f", "/dev/null", "--pid", pid], { timeout: 120_000 });
      await Promise.all(pids.map(ended));
      assert.match(text(await call(client, "bash", { command: "echo still here" })), /still here/);
    }),

  progress: () =>
    connected(async (client) => {
      const heard = [];
      const onprogress = (progress) => heard.push(progress);
      await call(client, "bash", { command: "echo a; echo step 7; sleep 5" }, { onprogress });
      assert(heard.length >= 2 && heard.at(-1).message === "step 7", JSON.stringify(heard));
    }),

  pages: () =>
    connected(async (client) => {
      const command = "seq -f 'Zeile %010.0f ✓ äöü' 1 2000000";
      const { process_id, end, truncated } = (await call(client, "bash", { command }, { timeout: 300_000 })).structuredContent;
      assert(truncated && end > 50_000_000);
      const digest = createHash("sha256");
      let cursor = 0;
      while (cursor < end) {
        const page = (await call(client, "bash_output", { process_id, cursor })).structuredContent;
        assert(page.start === cursor && page.cursor > cursor && page.lost === 0);
        digest.update(page.output);
        cursor = page.cursor;
      }
      const expected = execFileSync("sh", ["-c", command], { maxBuffer: 1e9 });
      assert.equal(cursor, expected.length);
      assert.equal(digest.digest("hex"), createHash("sha256").update(expected).digest("hex"));
    }),

  image: () =>
    connected(async (client) => {
      fs.writeFileSync(at("dot.png"), PNG);
      const shown = await call(client, "read", { path: "dot.png" });
      const picture = shown.content.find((part) => part.type === "image");
      assert.equal(picture.mimeType, "image/png");
      assert(Buffer.from(picture.data, "base64").equals(PNG));
    }),

  elicit: async () => {
    const asked = [];
    const answers = [
      { action: "accept", content: {} },
      { action: "decline" },
    ];
    const prepare = (client) =>
      client.setRequestHandler(elicitation, async ({ params }) => {
        asked.push(params.message);
        return answers[asked.length - 1];
      });
    const use = async (client) => {
      await call(client, "bash", { command: "touch marks" });
      assert(fs.existsSync(at("marks")) && asked[0].includes("touch marks"));
      const refused = await client.callTool({ name: "bash", arguments: { command: "touch marks2" } });
      assert(refused.isError && !fs.existsSync(at("marks2")), text(refused));
      assert.match(text(refused), /^not approved: (the user denied it|the MCP client denied it by itself)/m);
    };
    await connected(use, { elicitation: {} }, prepare);
    await connected(async (client) => {
      const refused = await client.callTool({ name: "bash", arguments: { command: "touch marks3" } });
      assert(refused.isError && /touches|rule/.test(text(refused)), text(refused));
    });
  },

  tasks: () =>
    connected(async (client) => {
      const tasks = path.join(CLIENTS, "npm/node_modules/@modelcontextprotocol/ext-tasks/dist/client/index.js");
      const { createTaskSessionFromClient, resultFromTaskOutcome } = await import(tasks);
      const session = createTaskSessionFromClient(client, { endpointId: "rex", rawDispatch, v2RequestFraming });
      const short = await session.callTool("bash", { command: "echo short" });
      assert.match(text(resultFromTaskOutcome((await short.settle()).outcome)), /\nshort/);
      execFileSync("mkfifo", [at("go")]);
      const long = await session.callTool("bash", { command: "echo begun; cat go" });
      assert.equal(long.kind, "task");
      await fs.promises.writeFile(at("go"), "ended\n");
      assert.match(text(resultFromTaskOutcome((await long.settle()).outcome)), /\nbegun\nended/);
      await session.close();
    }),

  switch: () =>
    connected(async (client) => {
      for (const target of ["one", "two", "one"]) {
        execFileSync(REX, ["target", "use", target], { cwd: HERE });
        const ran = await call(client, "bash", { command: "cat name" });
        assert.equal(ran.structuredContent.output.trim(), target);
      }
    }),
};

const name = process.argv[2];
await scenarios[name]();
console.log("ok", name);
