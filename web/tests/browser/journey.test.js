// The way of a person through the app, on a phone and on a desktop: from the link to the end of a run.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  DESKTOP,
  PHONE,
  gitRepository,
  onScreen,
  standardStage,
  startRun,
  terminal,
  until,
  write,
} from "./support.js";

let stage;
before(async () => {
  stage = await standardStage();
  gitRepository(stage.host.directory);
});
after(() => stage.close());

for (const [name, viewport] of Object.entries({ phone: PHONE, desktop: DESKTOP })) {
  test(`from the one-time link to the end of a run, on a ${name}`, async () => {
    const page = await stage.page({ viewport });
    const link = stage.rexhub(["user", "link", "olga"]).match(/#(\S+)/)[1];
    await page.goto(`/login#${link}`);
    for (const heading of ["Waiting for you", "Running", "Finished"])
      await page.getByRole("heading", { name: heading }).waitFor();
    await page.getByRole("status").getByText("Connected").waitFor();
    assert.ok(!page.url().includes(link), "the code is removed from the address");

    await page.getByRole("button", { name: "New run" }).click();
    await page.getByRole("combobox", { name: "Host" }).selectOption("box");
    const command = `echo ready-${name}; read -p "Your name? " who; echo "hello $who"; exec sleep 1000`;
    await page.getByRole("textbox", { name: "Command" }).fill(command);
    await page.getByRole("button", { name: "Start" }).click();
    await onScreen(page, `ready-${name}`);
    await page.getByRole("textbox", { name: "Message" }).fill("Ada");
    await page.getByRole("button", { name: "Send" }).click();
    await onScreen(page, "hello Ada");

    await editFile(page, name);
    await denyCommand(page);
    await seeDiff(page, name);

    await page.goto("/");
    const row = page.getByRole("link", { name: `ready-${name}` });
    await row.click();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Terminate" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page
      .getByText(/^Exit \d+$/)
      .first()
      .waitFor();
    assert.equal(await page.getByRole("button", { name: "Stop" }).count(), 0);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
}

async function editFile(page, name) {
  write(stage.host.directory, `notes-${name}.txt`, "first line\n");
  await page.getByRole("tab", { name: "Files" }).click();
  await page.getByRole("tree", { name: "Files" }).getByText(`notes-${name}.txt`).click();
  await page.getByText("first line").waitFor();
  await page.getByRole("button", { name: "Edit" }).click();
  await page.keyboard.press("Control+Home");
  await page.keyboard.type("typed in the browser ");
  await page.getByRole("button", { name: "Save" }).click();
  const card = page.getByRole("article").filter({ hasText: `notes-${name}.txt` });
  await card.getByText("+typed in the browser first line").waitFor();
  for (const text of ["-first line", "box", stage.host.directory, "olga"])
    await card.getByText(text).first().waitFor();
  await card.getByRole("button", { name: "Approve", exact: true }).click();
  await page.getByText("Saved.").waitFor();
  await card.getByText("Approved by olga").waitFor();
  const written = readFileSync(join(stage.host.directory, `notes-${name}.txt`), "utf8");
  assert.equal(written, "typed in the browser first line\n");
}

async function denyCommand(page) {
  const back = page.getByRole("button", { name: "Back" });
  if (await back.isVisible()) await back.click();
  await page.getByText("Run a command here").click();
  const command = page.getByRole("textbox", { name: "Command" });
  await command.fill("touch forbidden-file");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const card = page.getByRole("article").filter({ hasText: "touch forbidden-file" });
  await card.getByRole("textbox", { name: "Reason" }).fill("not on this machine");
  await card.getByRole("button", { name: "Deny" }).click();
  await page
    .getByRole("alert")
    .getByText(/denied/i)
    .waitFor();
  await card.getByText("Denied by olga").waitFor();
}

async function seeDiff(page, name) {
  await page.getByRole("tab", { name: "Git" }).click();
  await page.getByRole("heading", { name: "Status" }).waitFor();
  await page.getByRole("heading", { name: "Diff" }).waitFor();
  await page.getByText("+changed world").waitFor();
  const untracked = page.getByRole("listitem").filter({ hasText: `notes-${name}.txt` });
  await untracked.getByText("untracked").waitFor();
  await page.getByRole("button", { name: "Side by side" }).click();
  await page.getByText("+changed world").waitFor();
  await page.getByRole("tab", { name: "Activity" }).click();
  await page.getByText("Denied by olga").first().waitFor();
}

test("a directory is browsed, and the run starts there", async () => {
  write(stage.host.directory, "nested/inner/file.txt", "x");
  const page = await stage.signedIn("olga", { viewport: PHONE });
  await page.goto("/new");
  await page.getByRole("button", { name: "Browse" }).click();
  const list = page.getByRole("region", { name: "Directories" });
  await list.getByRole("button", { name: "nested" }).click();
  await list.getByRole("button", { name: "inner" }).click();
  await list.getByText("No directories here.").waitFor();
  await list.getByRole("button", { name: "Up" }).click();
  const directory = page.getByRole("textbox", { name: "Directory" });
  const nested = join(stage.host.directory, "nested");
  await until("it is chosen", async () => (await directory.inputValue()) === nested);
  await page.getByRole("textbox", { name: "Command" }).fill("echo in-$(basename $PWD); exec sleep 1000");
  await page.getByRole("button", { name: "Start" }).click();
  await onScreen(page, "in-nested");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a run of another person appears by itself, and its end too", async () => {
  const [watcher, starter] = [await stage.signedIn("vera"), await stage.signedIn("olga")];
  const id = await startRun(starter, "echo shared-output; exec sleep 1000");
  const row = watcher.getByRole("link", { name: "shared-output" });
  await row.click();
  await onScreen(watcher, "shared-output");
  assert.equal(await terminal(watcher).count(), 1);
  await starter.getByRole("button", { name: "Stop" }).click();
  await starter.getByRole("dialog").getByRole("button", { name: "Kill" }).click();
  await watcher.getByText("Exit 137").first().waitFor();
  await until("the list is right", async () => {
    await watcher.goto("/");
    return (await watcher.locator(`a[href="/runs/${id}/terminal"]`).textContent()).includes("Exit 137");
  });
  assert.deepEqual([watcher.problems, starter.problems], [[], []]);
});
