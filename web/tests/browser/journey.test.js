// A person's way through the app of `rex up`, on a phone and on a desktop: from the link to the end of a run.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { DESKTOP, PHONE, REX, REXHUB, Stage, gitRepository, line, onScreen, write } from "./support.js";

const HOST = "this-machine";

let stage;
let up;
let directory;
let links;
before(async () => {
  stage = new Stage();
  // The program of `make run`, on its sample workspace.
  up = stage.spawn(REX, ["up"], { env: { TMPDIR: stage.path("tmp") } });
  const printed = await line(up, /serves (\S+)[^]*?(http\S+)(\/login#\S+)\s/);
  [, directory, stage.url] = printed;
  gitRepository(directory);
  const args = ["user", "link", "admin", "--url", stage.url, "--data", join(dirname(directory), "hub")];
  links = {
    phone: stage.url + printed[3],
    desktop: spawnSync(REXHUB, args, { encoding: "utf8" }).stdout.trim(),
  };
});
after(() => stage.close());

for (const [name, viewport] of Object.entries({ phone: PHONE, desktop: DESKTOP })) {
  test(`from the link that \`rex up\` prints to the end of a run, on a ${name}`, async () => {
    const page = await stage.page({ viewport });
    await page.goto(links[name]);
    for (const heading of ["Waiting for you", "Running", "Finished"])
      await page.getByRole("heading", { name: heading }).waitFor();
    await page.getByRole("status").getByText("Connected").waitFor();
    assert.ok(!page.url().includes("#"), "the code is removed from the address");

    await page.getByRole("button", { name: "New run" }).click();
    await page.getByRole("combobox", { name: "Host" }).selectOption(HOST);
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
  write(directory, `notes-${name}.txt`, "first line\n");
  await page.getByRole("tab", { name: "Files" }).click();
  await page.getByRole("tree", { name: "Files" }).getByText(`notes-${name}.txt`).click();
  await page.getByText("first line").waitFor();
  await page.getByRole("button", { name: "Edit" }).click();
  await page.keyboard.press("Control+Home");
  await page.keyboard.type("typed in the browser ");
  await page.getByRole("button", { name: "Save" }).click();
  const card = page.getByRole("article").filter({ hasText: `notes-${name}.txt` });
  await card.getByText("+typed in the browser first line").waitFor();
  for (const text of ["-first line", HOST, directory, "admin"]) await card.getByText(text).first().waitFor();
  await card.getByRole("button", { name: "Approve", exact: true }).click();
  await page.getByText("Saved.").waitFor();
  await card.getByText("Approved by admin").waitFor();
  const written = readFileSync(join(directory, `notes-${name}.txt`), "utf8");
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
  await card.getByText("Denied by admin").waitFor();
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
  await page.getByText("Denied by admin").first().waitFor();
}

test("Ctrl-C ends `rex up` and leaves nothing", async () => {
  await stage.end(up, "SIGINT");
  assert.equal(up.exitCode, 130, up.log);
  assert.ok(!existsSync(dirname(directory)));
});
