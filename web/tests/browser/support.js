// The real parts of the browser tests: hub, hosts, Chromium, and a proxy whose connections can be cut.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const program = (variable, name) => process.env[variable] ?? join(ROOT, "target/debug", name);
export const REXHUB = program("REXHUB", "rexhub");
export const REXD = program("REXD", "rexd");
export const REX = program("REX", "rex");
export const PASSWORD = "correct horse battery";
/** For every wait on a condition: CI runs on two loaded cores. */
export const DEADLINE_MS = Number(process.env.DEADLINE_MS ?? 180_000);

const CHROMIUM_FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-dev-shm-usage",
];
export const PHONE = { width: 360, height: 740 };
export const DESKTOP = { width: 1440, height: 900 };

/** A temporary directory with everything of one test file; `close` ends what was started and removes it. */
export class Stage {
  constructor() {
    this.directory = mkdtempSync(join(tmpdir(), "rexhub-web-"));
    this.children = new Set();
    this.closers = [];
    // Questions that a slow test asks early are still open at its end.
    write(this.path("config"), "rexd/config.toml", "[approvals]\ntimeout_ms = 3600000\n");
  }

  async close() {
    for (const closer of this.closers.reverse()) await closer();
    for (const child of this.children) await this.end(child, "SIGTERM");
    // A process that is being killed may still create a file.
    await until("the directory is removed", async () => {
      killLeftOvers(this.directory);
      try {
        rmSync(this.directory, { recursive: true, force: true });
        return true;
      } catch (error) {
        if (error.code !== "ENOTEMPTY") throw error;
        return false;
      }
    });
  }

  path(...parts) {
    const path = join(this.directory, ...parts);
    mkdirSync(path, { recursive: true });
    return path;
  }

  spawn(path, args, options = {}) {
    const env = {
      ...process.env,
      HOME: this.path("home"),
      XDG_CONFIG_HOME: this.path("config"),
      XDG_STATE_HOME: this.path("state"),
      ...options.env,
    };
    for (const name of ["REXD_CONFIG", "HOST_TOKEN", "HOST_ID"]) delete env[name];
    const child = spawn(path, args, { cwd: this.directory, env, stdio: ["ignore", "pipe", "pipe"] });
    child.log = "";
    child.stderr.on("data", (data) => (child.log = (child.log + data).slice(-20_000)));
    this.children.add(child);
    child.on("exit", () => this.children.delete(child));
    return child;
  }

  async end(child, signal = "SIGKILL") {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit").then(() => true);
    child.kill(signal);
    if (await within(ended, DEADLINE_MS / 2)) return;
    child.kill("SIGKILL");
    if (!(await within(ended, DEADLINE_MS))) throw new Error(`process ${child.pid} does not end`);
  }

  /** Runs a command of rexhub on the hub's data and returns its output. */
  rexhub(args, input = "") {
    const result = spawnSync(REXHUB, [...args, "--data", this.path("hub")], { input, encoding: "utf8" });
    if (result.status !== 0) throw new Error(`rexhub ${args.join(" ")}: ${result.stderr}`);
    return result.stdout;
  }

  /** Changes the hub's data while it does not run: statements with the rows of their values. */
  changeData(statements) {
    const [file] = readdirSync(this.path("hub")).filter((name) => name.endsWith(".db"));
    const script =
      "import json, sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\nfor sql, rows in json.load(sys.stdin): db.executemany(sql, rows)\ndb.commit()";
    const input = JSON.stringify(statements);
    const result = spawnSync("python3", ["-c", script, join(this.path("hub"), file)], {
      input,
      encoding: "utf8",
    });
    if (result.status !== 0) throw new Error(result.stderr);
  }

  /** Hosts and ended runs as the hub stores them. */
  addPast(hosts, runs) {
    const now = Date.now();
    this.changeData([
      [
        "INSERT INTO hosts (id, token, name, version, generation, lease_ms, last_seen_ms, created) VALUES (?, zeroblob(32), ?, '0.1.0', 1, 0, ?, 1)",
        hosts.map(({ id, name }) => [id, name, now]),
      ],
      [
        "INSERT INTO runs (id, host_id, tool, cwd, command, status, started_ms, active_ms, ended_ms, exit_code, last_seq, highest_seq, state_seq, bytes) VALUES (?, ?, 'shell', ?, ?, 'exited', ?, ?, ?, 0, 1, 1, 1, 0)",
        runs.map(({ id, host, cwd, command }, index) => {
          const at = now - index * 60_000;
          return [id, host, cwd, command, at, at, at];
        }),
      ],
    ]);
  }

  addUser(name, role) {
    this.rexhub(["user", "add", name, "--role", role, "--password-stdin"], PASSWORD);
  }

  /** Starts the hub, or starts it again at the same address. */
  async startHub(extra = []) {
    const listen = this.url ? new URL(this.url).host : "127.0.0.1:0";
    const args = ["serve", "--listen", listen, "--data", this.path("hub"), "--enrol", "tofu", ...extra];
    this.hub = this.spawn(REXHUB, args);
    this.url = (await line(this.hub, /listening (http\S+)/))[1];
    return this.url;
  }

  async startHost(id = "box", options = {}) {
    const directory = options.root ?? this.path(`work-${id}`);
    const args = ["host", "--hub", options.hub ?? this.url, "--host-id", id, "--root", directory];
    const child = this.spawn(REXD, args, { env: hostEnvironment(this, id) });
    child.directory = directory;
    const token = await this.token("admin");
    await until(`host ${id} online`, async () => {
      const response = await fetch(`${this.url}/hosts`, { headers: { authorization: `Bearer ${token}` } });
      const hosts = await response.json();
      return hosts.some((host) => host.id === id && host.online);
    });
    return child;
  }

  /** A token for requests of the test itself. */
  async token(user) {
    const body = JSON.stringify({ username: user, password: PASSWORD });
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${this.url}/auth/login`, { method: "POST", headers, body });
    return (await response.json()).access_token;
  }

  async browser() {
    if (!this.launched) {
      const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
      this.launched = await chromium.launch({ executablePath, args: CHROMIUM_FLAGS, timeout: DEADLINE_MS });
      this.closers.push(() => this.launched.close());
    }
    return this.launched;
  }

  /** A page of its own browser profile; errors of its scripts fail the test. */
  async page(options = {}) {
    const browser = await this.browser();
    const { url, ...rest } = options;
    const context = await browser.newContext({ viewport: DESKTOP, baseURL: url ?? this.url, ...rest });
    context.setDefaultTimeout(DEADLINE_MS);
    const page = await context.newPage();
    page.problems = [];
    page.on("pageerror", (error) => page.problems.push(String(error.stack ?? error)));
    return page;
  }

  async signedIn(user = "admin", options = {}) {
    const page = await this.page(options);
    await signIn(page, user);
    return page;
  }
}

/** The variables by which a host and its local clients find each other. */
export function hostEnvironment(stage, id) {
  const state = stage.path(`state-${id}`);
  return { XDG_STATE_HOME: state, XDG_RUNTIME_DIR: state, LOCAL_UNIX_SOCKET: join(state, "h.sock") };
}

export async function signIn(page, user) {
  await page.goto("/login");
  await page.getByLabel("User name").fill(user);
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Running" }).waitFor();
}

/** A hub with an administrator, an operator, a viewer, and one host. */
export async function standardStage({ prepare = () => {}, hub = [] } = {}) {
  const stage = new Stage();
  for (const [name, role] of [
    ["admin", "admin"],
    ["olga", "operator"],
    ["vera", "viewer"],
  ])
    stage.addUser(name, role);
  prepare(stage);
  await stage.startHub(hub);
  stage.host = await stage.startHost();
  return stage;
}

/** Starts a run through the app and returns its id. */
export async function startRun(page, command, directory = "") {
  await page.goto("/new");
  await page.getByRole("textbox", { name: "Command" }).fill(command);
  if (directory) await page.getByRole("textbox", { name: "Directory" }).fill(directory);
  await page.getByRole("button", { name: "Start" }).click();
  await page.waitForURL(/\/runs\/[^/]+\/terminal/);
  return decodeURIComponent(new URL(page.url()).pathname.split("/")[2]);
}

export function terminal(page) {
  return page.getByRole("region", { name: "Terminal" });
}

/** Waits until the terminal's text contains this. */
export async function onScreen(page, text) {
  await until(
    `"${text}" on the screen`,
    async () => (await screenText(page)).includes(text),
    async () => screenText(page),
  );
}

export async function screenText(page) {
  const text = await terminal(page).locator(".xterm-accessibility-tree").innerText();
  return text.replaceAll("\u00a0", " ");
}

export async function until(what, condition, explain = async () => "") {
  const end = Date.now() + DEADLINE_MS;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`not within ${DEADLINE_MS} ms: ${what}\n${await explain()}`);
    await new Promise((done) => setTimeout(done, 25));
  }
}

export function write(directory, name, text) {
  mkdirSync(dirname(join(directory, name)), { recursive: true });
  writeFileSync(join(directory, name), text);
}

export function gitRepository(directory) {
  const git = (...args) => {
    const identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
    const result = spawnSync("git", [...identity, ...args], { cwd: directory, encoding: "utf8" });
    if (result.status !== 0) throw new Error(result.stderr);
  };
  git("init", "-q");
  write(directory, "greeting.txt", "hello\nworld\n");
  git("add", ".");
  git("commit", "-qm", "first");
  write(directory, "greeting.txt", "hello\nchanged world\n");
}

/** A proxy to the hub that can stall, cut and refuse its connections. */
export async function proxy(stage) {
  const target = new URL(stage.url);
  const sockets = new Set();
  let isStalled = false;
  let isRefusing = false;
  const server = net.createServer((client) => {
    // Also of a stalled connection, which the browser may reset.
    client.on("error", () => client.destroy());
    if (isRefusing) return client.destroy();
    if (isStalled) return client.pause() && sockets.add(client);
    const upstream = net.connect(Number(target.port), target.hostname);
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ]) {
      sockets.add(from);
      from.on("data", (data) => isStalled || to.write(data));
      from.on("error", () => to.destroy());
      from.on("close", () => sockets.delete(from) && to.destroy());
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = () => sockets.forEach((socket) => socket.destroy());
  stage.closers.push(() => {
    cut();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    cut,
    stall: () => (isStalled = true),
    refuse: () => {
      isRefusing = true;
      cut();
    },
    resume: () => {
      isStalled = isRefusing = false;
      cut();
    },
  };
}

/** The first output of a program that matches. */
export function line(child, pattern) {
  return new Promise((resolve, reject) => {
    let text = "";
    const settle = (action) => {
      clearTimeout(timer);
      child.off("close", ended);
      child.stdout.off("data", read).resume();
      action();
    };
    const fail = (why) => settle(() => reject(new Error(`${why} ${pattern}: ${text}${child.log}`)));
    const read = (data) => {
      text += data;
      const match = pattern.exec(text);
      if (match) settle(() => resolve(match));
    };
    const ended = () => fail("ended without");
    const timer = setTimeout(() => fail(`not within ${DEADLINE_MS} ms:`), DEADLINE_MS);
    child.on("close", ended);
    child.stdout.on("data", read);
  });
}

/** The result of a promise, or undefined after this time. */
function within(promise, ms) {
  let timer;
  const late = new Promise((resolve) => (timer = setTimeout(resolve, ms)));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Keepers and their programs outlive a host; those of this stage have its directory in their environment. */
function killLeftOvers(directory) {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      if (Number(pid) !== process.pid && readFileSync(`/proc/${pid}/environ`, "utf8").includes(directory))
        process.kill(Number(pid), "SIGKILL");
    } catch {
      // It has ended, or belongs to another user.
    }
  }
}
