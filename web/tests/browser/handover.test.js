// Runs that began elsewhere: in a terminal of the host, and by the released Codex as a client of exec-server.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { startCodex } from "./codex.js";
import {
  PHONE,
  REXD,
  Stage,
  hostEnvironment,
  line,
  onScreen,
  screenText,
  terminal,
  until,
  write,
} from "./support.js";

let stage;
before(async () => {
  stage = new Stage();
  stage.addUser("admin", "admin");
  stage.addUser("olga", "operator");
  await stage.startHub();
});
after(() => stage.close());

/** A program in a terminal of its own, with the output that a person would see. */
function inTerminal(command, env) {
  const child = spawn("script", ["-qfec", `stty cols 90 rows 20; exec ${command}`, "/dev/null"], {
    cwd: env.cwd,
    env: { ...process.env, ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  child.shown = "";
  child.stdout.on("data", (data) => (child.shown += data));
  child.log = "";
  child.stderr.on("data", (data) => (child.log += data));
  stage.children.add(child);
  child.on("exit", () => stage.children.delete(child));
  return child;
}

test("a run of `rexd run` is taken over on the phone and given back", async () => {
  const host = await stage.startHost("box");
  const env = { ...hostEnvironment(stage, "box"), HOME: stage.path("home"), cwd: host.directory };
  const loop =
    "old=$(stty size); echo size $old; while sleep 0.1; do now=$(stty size </dev/tty); " +
    'test "$now" = "$old" || echo now $now; old=$now; done & while read x; do echo "got $x"; done';
  write(host.directory, "loop.sh", loop);
  const local = inTerminal(`${REXD} run -- bash loop.sh`, env);
  await until(
    "the local terminal",
    async () => local.shown.includes("size 20 90"),
    async () => local.shown + local.log,
  );

  const phone = await stage.signedIn("olga", { viewport: PHONE, hasTouch: true });
  await phone.getByRole("link", { name: "loop.sh" }).click();
  await onScreen(phone, "size 20 90");
  const sizes = (text) => [...text.matchAll(/now (\d+ \d+)/g)].map((match) => match[1]);
  assert.deepEqual(sizes(local.shown), [], "watching does not resize");
  await phone.getByRole("button", { name: "Take over" }).click();
  await until("the phone's size", async () => Number(sizes(local.shown).at(-1)?.split(" ")[1]) < 60);
  await phone.getByRole("textbox", { name: "Message" }).fill("from the phone");
  await phone.getByRole("button", { name: "Send" }).click();
  await until("the local terminal shows it", async () => local.shown.includes("got from the phone"));

  local.stdin.write("from the terminal\r");
  await until("it is given back", async () => sizes(local.shown).at(-1) === "20 90");
  await onScreen(phone, "got from the terminal");
  // The host notices the size of its own terminal in a pause of the output, and the phone reads it after output.
  let next = 0;
  await until("the phone shows that size", async () => {
    if (Date.now() > next) {
      next = Date.now() + 2_000;
      local.stdin.write("again\r");
    }
    return phone.getByText("Shown at 90 × 20").isVisible();
  });
  await phone.getByRole("button", { name: "Stop" }).click();
  await phone.getByRole("button", { name: "Kill" }).click();
  await until("`rexd run` ends too", async () => local.exitCode !== null);
  assert.deepEqual(phone.problems, []);
  await phone.context().close();
});

test("a process that Codex started is watched, and its question answered", async () => {
  const directory = stage.path("work-codex");
  const env = hostEnvironment(stage, "codex");
  const args = ["serve", "--exec-server", "ws://127.0.0.1:0", "--hub", stage.url, "--host-id", "codex"];
  const daemon = stage.spawn(REXD, [...args, "--root", directory], { env });
  const url = (await line(daemon, /(ws:\/\/127\.0\.0\.1:\d+)/))[1];
  const question =
    'printf "Delete the build directory? [y/N] "; read answer; echo "answered $answer" | tee result';
  write(directory, "ask.sh", question);
  const codex = await startCodex(stage, url, directory, "sh ask.sh");
  const page = await stage.signedIn("olga", { viewport: PHONE });
  const card = page.getByRole("article").filter({ hasText: "Delete the build directory" });
  const explain = async () => codex.shown + daemon.log;
  await until("the question arrives", async () => (await card.count()) > 0, explain);
  await card.getByText("codex").first().waitFor();
  await card.getByRole("link", { name: "Open the run" }).click();
  await onScreen(page, "Delete the build directory? [y/N]");
  await page.getByRole("article").getByRole("button", { name: "Approve", exact: true }).click();
  // The file is empty before it has the answer.
  const result = join(directory, "result");
  const answer = () => (existsSync(result) ? readFileSync(result, "utf8") : "");
  await until("the program has the answer", async () => answer().endsWith("\n"), explain);
  assert.equal(answer(), "answered y\n");
  await until("Codex has ended", async () => codex.exitCode !== null, explain);
  assert.equal(codex.exitCode, 0, codex.shown);
  const outputs = codex.outputs.join("\n");
  assert.ok(outputs.includes("answered y") && outputs.includes("exited with code 0"), outputs);
  await onScreen(page, "answered y");
  assert.ok(!(await screenText(page)).includes("answered yy"));
  assert.equal(await terminal(page).count(), 1);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
