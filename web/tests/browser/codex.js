// The released Codex as a client of exec-server, with a scripted model: one command in a terminal, polled until it has ended.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import http from "node:http";
import { join } from "node:path";
import { ROOT, write } from "./support.js";

const PROGRAM = join(process.env.CARGO_TARGET_DIR ?? join(ROOT, "target"), "codex-clients/codex-0.166.0");
const LAST_WORDS = "the script is over";
const ENDED = "Process exited with code";

/** Starts Codex in a directory, on the exec-server at this URL. Its model runs `command` once; `outputs` are the tool's results. */
export async function startCodex(stage, url, directory, command) {
  if (!existsSync(PROGRAM))
    throw new Error(
      `${PROGRAM} is missing: run \`make setup\` (it calls crates/daemon/tests/codex/setup.sh)`,
    );
  const model = await startModel(stage, command);
  const home = stage.path("codex-home");
  write(home, "config.toml", config(model.url));
  const child = spawn(
    PROGRAM,
    ["exec", "--skip-git-repo-check", "-s", "danger-full-access", "play the script"],
    {
      cwd: directory,
      env: {
        PATH: "/usr/local/bin:/usr/bin:/bin",
        LANG: "C.UTF-8",
        SHELL: "/bin/bash",
        HOME: home,
        CODEX_HOME: home,
        CODEX_EXEC_SERVER_URL: url,
      },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  child.shown = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (child.shown += data));
  child.outputs = model.outputs;
  stage.children.add(child);
  child.on("exit", () => stage.children.delete(child));
  return child;
}

/** A configuration whose model is the scripted one, and that calls nobody else. */
function config(url) {
  return `model = "fake-model"
model_provider = "fake"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.fake]
name = "fake"
base_url = "${url}"
wire_api = "responses"
`;
}

async function startModel(stage, command) {
  const outputs = [];
  const server = http.createServer(async (request, response) => {
    const body = JSON.parse(Buffer.concat(await request.toArray()).toString() || "{}");
    if (request.method !== "POST" || !request.url.endsWith("/responses")) {
      response.writeHead(404).end();
      return;
    }
    // A request contains the whole conversation, so it determines the response.
    const known = (body.input ?? []).filter(({ type }) => type === "function_call_output");
    outputs.splice(0, outputs.length, ...known.map(({ output }) => text(output)));
    const item = (body.tools ?? []).length === 0 ? lastWords() : nextItem(command, outputs);
    response.writeHead(200, { "content-type": "text/event-stream" }).end(events(item));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stage.closers.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${server.address().port}/v1`, outputs };
}

const text = (output) => (typeof output === "string" ? output : JSON.stringify(output));

function nextItem(command, outputs) {
  if (outputs.length === 0) return call(0, "exec_command", { cmd: command, tty: true, yield_time_ms: 250 });
  const session = /session ID (\d+)/.exec(outputs.join("\n"));
  if (outputs.at(-1).includes(ENDED) || session === null) return lastWords();
  return call(outputs.length, "write_stdin", {
    session_id: Number(session[1]),
    chars: "",
    yield_time_ms: 1000,
  });
}

function call(number, name, args) {
  return {
    type: "function_call",
    id: `fc_${number}`,
    call_id: `call-${number}`,
    name,
    arguments: JSON.stringify(args),
  };
}

function lastWords() {
  const content = [{ type: "output_text", text: LAST_WORDS }];
  return { type: "message", role: "assistant", id: "m", content };
}

/** A response of one item as a stream of events. */
function events(item) {
  const usage = {
    input_tokens: 1,
    input_tokens_details: null,
    output_tokens: 1,
    output_tokens_details: null,
    total_tokens: 2,
  };
  return [
    { type: "response.created", response: { id: "r" } },
    { type: "response.output_item.done", item },
    { type: "response.completed", response: { id: "r", usage } },
  ]
    .map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    .join("");
}
