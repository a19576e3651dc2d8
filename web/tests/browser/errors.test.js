// Bad input and failing parts: each gives a message that says what happened and what to do.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Stage, gitRepository, onScreen, standardStage, startRun, until, write } from "./support.js";

let stage;
before(async () => {
  stage = await standardStage();
});
after(() => stage.close());

const alert = (page, text) => page.getByRole("alert").getByText(text).first().waitFor();

async function tryPassword(page, user, password) {
  await page.getByLabel("User name").fill(user);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
}

test("wrong passwords, used and unknown links", async () => {
  const other = new Stage();
  try {
    other.addUser("ann", "operator");
    await other.startHub();
    const page = await other.page();
    await page.goto("/login");
    await tryPassword(page, "ann", "");
    await alert(page, "Enter your user name and your password.");
    await tryPassword(page, "ann", "wrong");
    await alert(page, "User name or password is wrong.");
    const link = other.rexhub(["user", "link", "ann"]).match(/#(\S+)/)[1];
    await page.goto(`/login#${link}`);
    await page.getByRole("heading", { name: "Running" }).waitFor();
    const third = other.rexhub(["user", "link", "ann"]).match(/#(\S+)/)[1];
    const elsewhere = await other.page();
    await elsewhere.goto(`/login?to=%2Fsettings#${third}`);
    await elsewhere.getByRole("heading", { name: "Settings" }).waitFor();
    assert.equal(new URL(elsewhere.url()).pathname, "/settings");
    const second = await other.page();
    await second.goto(`/login#${link}`);
    await alert(second, /unknown, used or expired/);
    await second.goto("/login#nonsense");
    await alert(second, /unknown, used or expired/);
    assert.deepEqual([page.problems, second.problems], [[], []]);
  } finally {
    await other.close();
  }
});

test("files that are too large, binary, gone, or changed meanwhile", async () => {
  const { directory } = stage.host;
  write(directory, "large.txt", "0123456789abcdef\n".repeat(80_000));
  writeFileSync(join(directory, "binary.dat"), Buffer.from([0, 255, 254, 1, 128]));
  write(directory, "gone.txt", "here\n");
  write(directory, "changing.txt", "before\n");
  const page = await stage.signedIn("olga");
  const id = await startRun(page, "exec sleep 1000");
  await page.goto(`/runs/${id}/files`);
  const tree = page.getByRole("tree", { name: "Files" });
  await tree.getByText("large.txt").click();
  await alert(page, /longer than 1 MiB/);
  assert.equal(await page.getByRole("button", { name: "Edit" }).count(), 0);
  await tree.getByText("binary.dat").click();
  await alert(page, /not text/);
  const { unlinkSync } = await import("node:fs");
  unlinkSync(join(directory, "gone.txt"));
  await tree.getByText("gone.txt").click();
  await page.getByRole("alert").first().waitFor();
  await tree.getByText("changing.txt").click();
  await page.getByRole("button", { name: "Edit" }).click();
  await page.keyboard.type("mine ");
  write(directory, "changing.txt", "changed by the agent\n");
  await page.getByRole("button", { name: "Save" }).click();
  await alert(page, /changed on the host after you opened it/);
  assert.equal(readFileSync(join(directory, "changing.txt"), "utf8"), "changed by the agent\n");
  await page.getByRole("button", { name: "Discard and reload" }).click();
  await page.getByText("changed by the agent").waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a start that fails says why, and keeps what was typed", async () => {
  const page = await stage.signedIn("olga");
  await page.goto("/new");
  await page.getByRole("textbox", { name: "Directory" }).fill("/no/such/directory");
  await page.getByRole("textbox", { name: "Command" }).fill("echo never");
  await page.getByRole("button", { name: "Start" }).click();
  await alert(page, /directory|root|exist/i);
  assert.equal(await page.getByRole("textbox", { name: "Command" }).inputValue(), "echo never");
  await page.goto("/runs/no-such-run");
  await alert(page, /no such run/);
  await page.goto("/runs/x/y/z");
  await alert(page, /no such page/);
  await page.goto("/hosts/no-such-host");
  await alert(page, /no such host/);
  await page.context().close();
});

test("a directory outside of git says so, and what to do", async () => {
  const directory = stage.path("work-box", "no-repository");
  const page = await stage.signedIn("olga");
  const id = await startRun(page, "exec sleep 1000", directory);
  await page.goto(`/runs/${id}/git`);
  await alert(page, /is not in a git repository. Run `git init` there/);
  for (const name of ["Status", "Diff"]) await page.getByRole("heading", { name }).waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a line of 1 MB and a diff of 10,000 lines", async () => {
  const { directory } = stage.host;
  gitRepository(directory);
  write(
    directory,
    "greeting.txt",
    Array.from({ length: 10_000 }, (_, line) => `changed line ${line}\n`).join(""),
  );
  const page = await stage.signedIn("olga");
  const id = await startRun(
    page,
    "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo end-of-line; exec sleep 1000",
  );
  await onScreen(page, "end-of-line");
  await page.goto(`/runs/${id}/git`);
  await page.getByText("changed line 0", { exact: false }).first().waitFor();
  const all = page.getByRole("button", { name: "Show all" });
  if (await all.isVisible()) await all.click();
  await page.getByText("+changed line 9999", { exact: true }).waitFor({ state: "attached" });
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("only what was shown is approved, and the exact text is loaded when its host is back", async () => {
  const page = await stage.signedIn("olga");
  const id = await startRun(page, "exec sleep 1000");
  await page.goto(`/runs/${id}/files`);
  await page.getByText("Run a command here").click();
  await page.getByRole("textbox", { name: "Command" }).fill("touch shown-first");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("article").getByRole("button", { name: "Approve", exact: true }).waitFor();
  const other = await stage.signedIn("admin");
  const card = other.getByRole("article").filter({ hasText: "touch shown-first" });
  const approve = card.getByRole("button", { name: "Approve", exact: true });
  let release;
  const released = new Promise((resolve) => (release = resolve));
  await other.route("**/approvals/*/*", async (route) => {
    await released;
    await route.continue();
  });
  await other.goto("/approvals");
  await card.getByText("Loading the exact text").waitFor();
  assert.equal(await approve.isDisabled(), true);
  assert.equal(await card.getByRole("button", { name: "Deny" }).isDisabled(), false);
  release();
  await card.getByText("Loading the exact text").waitFor({ state: "detached" });
  assert.equal(await approve.isDisabled(), false);
  await stage.end(stage.host);
  await other.reload();
  await card
    .getByRole("alert")
    .getByText(/exact text could not be loaded/)
    .waitFor();
  assert.equal(await approve.isDisabled(), false, "the person was told");
  // As by a host that has just come back and does not know its runs yet.
  await other.route("**/approvals/*/*", (route) => route.fulfill({ status: 503 }), { times: 1 });
  stage.host = await stage.startHost("box", { root: stage.host.directory });
  await card.getByRole("alert").waitFor({ state: "detached" });
  await card.getByRole("button", { name: "Deny" }).click();
  await card.getByText("Denied by admin").waitFor();
  for (const one of [page, other]) await one.context().close();
});

test("a host that goes away in the middle", async () => {
  const page = await stage.signedIn("olga");
  const id = await startRun(page, "echo before-the-end; exec sleep 1000");
  await onScreen(page, "before-the-end");
  await stage.end(stage.host);
  const message = page.getByRole("textbox", { name: "Message" });
  await until("the hub knows", async () => {
    const token = await stage.token("olga");
    const hosts = await (
      await fetch(`${stage.url}/hosts`, { headers: { authorization: `Bearer ${token}` } })
    ).json();
    return hosts.every((host) => !host.online);
  });
  await message.fill("too late");
  await message.press("Enter");
  await alert(page, /offline/);
  // The page is the same all the time, as a person's is.
  await page.getByRole("tab", { name: "Files" }).click();
  await alert(page, /offline/);
  await page.getByRole("tab", { name: "Git" }).click();
  await alert(page, /offline/);
  await page.getByRole("tab", { name: "Terminal" }).click();
  await onScreen(page, "before-the-end");
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Terminate" }).click();
  await page
    .getByRole("dialog")
    .getByRole("alert")
    .getByText(/offline/)
    .waitFor();
  await page.goto("/hosts/box");
  await alert(page, /The host is offline/);
  await page.goto("/new");
  await alert(page, /No host is online/);
  stage.host = await stage.startHost("box", { root: stage.host.directory });
  await page.goto(`/runs/${id}`);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Kill" }).click();
  await page.getByText("Exit 137").first().waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
