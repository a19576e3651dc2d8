// Every action by keyboard alone: Tab, Enter, Space and arrows, and the documented keys of terminal and editor.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { activate, press, reach } from "./accessible.js";
import { gitRepository, onScreen, standardStage, terminal, until, write } from "./support.js";

let stage;
before(async () => {
  stage = await standardStage();
  gitRepository(stage.host.directory);
  write(stage.host.directory, "outer/inner/notes.txt", "first line\n");
});
after(() => stage.close());

const button = (page, name) => page.getByRole("button", { name, exact: true });
const field = (page, name) => page.getByRole("textbox", { name, exact: true });

/** A test whose page starts at home; from there on, only keys are pressed. */
function testKeys(name, body) {
  test(name, async () => {
    const page = await stage.signedIn("admin");
    await body(page);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
}

async function startRun(page, command) {
  await activate(page, button(page, "New run"));
  await reach(page, field(page, "Command"));
  await page.keyboard.type(command);
  await activate(page, button(page, "Start"));
  await page.waitForURL(/\/runs\/[^/]+\/terminal/);
}

/** Selects a tab of a run with the arrows. */
async function selectTab(page, name) {
  await reach(page, page.getByRole("tab", { selected: true }));
  await reach(page, page.getByRole("tab", { name }), "ArrowRight");
  await page.getByRole("tab", { name, selected: true }).waitFor();
}

/** Asks for a command that needs approval, in the Files tab, and returns its card. */
async function requestCommand(page, command) {
  const input = field(page, "Command");
  if (!(await input.isVisible())) await activate(page, page.getByText("Run a command here"));
  await reach(page, input);
  await press(page, "Control+a");
  await page.keyboard.type(command);
  await activate(page, button(page, "Run"));
  const card = page.getByRole("article").filter({ hasText: command });
  await card.waitFor();
  return card;
}

testKeys("a run is started, answered, shared and stopped", async (page) => {
  await startRun(page, 'read -p "Your name? " who; echo "hello $who"; cat');
  await onScreen(page, "Your name?");
  await reach(page, terminal(page).locator("textarea"));
  await press(page, "Control+F6");
  await reach(page, field(page, "Message"));
  await page.keyboard.type("Ada");
  await activate(page, button(page, "Send"), "Space");
  await onScreen(page, "hello Ada");
  // In the terminal itself, every key goes to the program.
  await reach(page, terminal(page).locator("textarea"), "Shift+Tab");
  await page.keyboard.type("typed-there");
  await press(page, "Enter");
  await onScreen(page, "typed-there");

  await press(page, "Control+F6");
  await reach(page, field(page, "Message"));
  await activate(page, button(page, "Share"));
  const dialog = page.getByRole("dialog");
  await reach(page, dialog.getByRole("combobox"));
  await press(page, "ArrowDown");
  await activate(page, dialog.getByRole("button", { name: "Create link" }));
  await reach(page, dialog.getByRole("textbox", { name: "Share link" }));
  await activate(page, dialog.getByRole("button", { name: "Revoke" }), "Space");
  await dialog.getByText("No link exists.").waitFor();
  await press(page, "Escape");
  await dialog.waitFor({ state: "detached" });

  await activate(page, button(page, "Stop"));
  await activate(page, dialog.getByRole("button", { name: "Terminate" }));
  await dialog.waitFor({ state: "detached" });
  await page
    .getByText(/^Exit \d+$/)
    .first()
    .waitFor();
});

testKeys("a command is approved, and another one denied with a reason", async (page) => {
  await startRun(page, "exec sleep 1000");
  await selectTab(page, "Files");
  const approved = await requestCommand(page, "touch approved-by-key");
  await activate(page, approved.getByRole("button", { name: "Approve", exact: true }));
  await approved.getByText("Approved by admin").waitFor();
  await until("it ran", async () => existsSync(join(stage.host.directory, "approved-by-key")));
  const denied = await requestCommand(page, "touch denied-by-key");
  await reach(page, denied.getByRole("textbox", { name: "Reason" }));
  await page.keyboard.type("not today");
  await activate(page, denied.getByRole("button", { name: "Deny" }), "Space");
  await denied.getByText("Denied by admin").waitFor();
  await selectTab(page, "Activity");
  await page.getByText("not today").first().waitFor();
  assert.ok(!existsSync(join(stage.host.directory, "denied-by-key")));
});

testKeys("a file is found, edited and saved, and its diff shown", async (page) => {
  await startRun(page, "exec sleep 1000");
  await selectTab(page, "Files");
  const item = (name) => page.getByRole("treeitem", { name });
  await item("outer").waitFor();
  await until("the tree is reached", async () => {
    await press(page, "Tab");
    return page.evaluate(() => document.activeElement?.getAttribute("role") === "treeitem");
  });
  for (const [name, child] of [
    ["outer", "inner"],
    ["inner", "notes.txt"],
  ]) {
    await reach(page, item(name), "ArrowDown");
    await press(page, "ArrowRight");
    await item(child).waitFor();
  }
  await reach(page, item("notes.txt"), "ArrowDown");
  await press(page, "Enter");
  await page.getByText("first line").waitFor();
  await activate(page, button(page, "Edit"));
  const text = page.getByRole("textbox", { name: "Text of the file" });
  await reach(page, text);
  await press(page, "Control+Home");
  await page.keyboard.type("by keyboard ");
  // Tab indents; after Escape, it leaves the text.
  await press(page, "Tab", "Escape");
  await reach(page, button(page, "Save"), "Shift+Tab");
  await press(page, "Enter");
  const card = page.getByRole("article").filter({ hasText: "notes.txt" });
  await card.getByText(/^\+\s+by keyboard first line$/).waitFor();
  await activate(page, card.getByRole("button", { name: "Approve", exact: true }));
  await page.getByText("Saved.").waitFor();
  const path = join(stage.host.directory, "outer/inner/notes.txt");
  assert.match(readFileSync(path, "utf8"), /^\s+by keyboard first line\n$/);

  await selectTab(page, "Git");
  await page.getByText("+changed world").waitFor();
  await activate(page, button(page, "Side by side"), "Space");
  await until("it is side by side", () =>
    page.getByRole("button", { name: "Side by side", pressed: true }).isVisible(),
  );
});

testKeys("settings are changed, a user is added and removed, the audit is filtered", async (page) => {
  const link = (name) => page.getByRole("navigation").getByRole("link", { name, exact: true });
  await activate(page, link("Settings"));
  await reach(page, page.getByLabel("Theme"));
  await press(page, "End");
  await until("it is dark", () => page.evaluate(() => document.documentElement.dataset.theme === "dark"));
  const users = page
    .locator("section")
    .filter({ has: page.getByRole("heading", { name: "Users", exact: true }) });
  await reach(page, users.getByLabel("Name"));
  await page.keyboard.type("kay");
  await activate(page, users.getByRole("button", { name: "Add user" }));
  await activate(page, button(page, "Remove kay"));
  const dialog = page.getByRole("dialog");
  await activate(page, dialog.getByRole("button", { name: "Remove", exact: true }));
  await button(page, "Remove kay").waitFor({ state: "detached" });
  await activate(page, link("Audit"));
  await reach(page, page.getByLabel("Action"));
  await page.keyboard.type("user.add");
  await activate(page, button(page, "Filter"));
  const entries = page.locator(".entries li");
  await until("only those are listed", async () => {
    const texts = await entries.allInnerTexts();
    return texts.length > 0 && texts.every((text) => text.includes("user.add"));
  });
});
