// Every screen in both themes: axe finds nothing serious, nothing overflows at 360 px, and the keyboard suffices.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { DESKTOP, PHONE, gitRepository, onScreen, standardStage, startRun, until, write } from "./support.js";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let stage;
let run;
before(async () => {
  stage = await standardStage();
  gitRepository(stage.host.directory);
  write(
    stage.host.directory,
    "a-rather-long-directory-name/with-another-one-inside/file.rs",
    "fn main() {}\n",
  );
  const page = await stage.signedIn("admin");
  run = await startRun(page, "echo accessible; exec sleep 1000");
  await onScreen(page, "accessible");
  await page.goto(`/runs/${run}/files`);
  await page.getByText("Run a command here").click();
  await page.getByRole("textbox", { name: "Command" }).fill(`touch ${"a-long-file-name-".repeat(20)}`);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("article").waitFor();
});
after(() => stage.close());

/** A test with a page of its own, so that a failure concerns no other test. */
function testPage(name, options, body) {
  test(name, async () => {
    const page = await stage.signedIn("admin", options);
    await body(page);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
}

const SCREENS = {
  home: ["/", (page) => page.getByRole("article").waitFor()],
  approvals: ["/approvals", (page) => page.getByRole("button", { name: "Approve", exact: true }).waitFor()],
  "new run": ["/new", (page) => page.getByRole("button", { name: "Start" }).waitFor()],
  hosts: ["/hosts", (page) => page.getByRole("link", { name: "Online" }).waitFor()],
  host: ["/hosts/box", (page) => page.getByRole("heading", { name: "Doctor" }).waitFor()],
  terminal: ["/runs/ID/terminal", (page) => onScreen(page, "accessible")],
  activity: ["/runs/ID/activity", (page) => page.getByText("Run started").waitFor()],
  files: ["/runs/ID/files", (page) => page.getByRole("treeitem").first().waitFor()],
  git: ["/runs/ID/git", (page) => page.getByText("+changed world").waitFor()],
  audit: ["/audit", (page) => page.getByText("user.sign_in").first().waitFor()],
  settings: ["/settings", (page) => page.getByText("olga", { exact: true }).waitFor()],
};

async function seriousIssues(page) {
  // Through the debugging protocol, which the content security policy does not concern.
  await page.evaluate(`${axe}; 0`);
  const result = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return result.violations
    .filter((violation) => ["serious", "critical"].includes(violation.impact))
    .map(
      (violation) =>
        `${violation.id}: ${violation.nodes.map((node) => node.target.join(" ") + " " + node.failureSummary).join(" | ")}`,
    );
}

async function press(page, ...keys) {
  for (const key of keys) await page.keyboard.press(key);
}

/** Moves the focus with Tab until it is on the element of this name. */
async function focusBy(page, name) {
  for (let steps = 0; steps < 200; steps += 1) {
    await press(page, "Tab");
    const label = await page.evaluate(() => {
      let element = document.activeElement;
      // The terminal is in a shadow tree.
      while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
      return (
        element?.getAttribute("aria-label") ??
        element?.labels?.[0]?.textContent?.trim() ??
        element?.textContent?.trim() ??
        ""
      );
    });
    if (label.startsWith(name)) return;
  }
  assert.fail(`${name} is not reached by Tab`);
}

for (const theme of ["light", "dark"]) {
  const name = `axe finds no serious issue, and nothing overflows, in the ${theme} theme`;
  testPage(name, { colorScheme: theme }, async (page) => {
    const found = [];
    for (const [name, [path, ready]] of Object.entries(SCREENS)) {
      for (const viewport of [DESKTOP, PHONE]) {
        await page.setViewportSize(viewport);
        await page.goto(path.replace("ID", run));
        await ready(page);
        const width = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        if (width > 0) found.push(`${name} at ${viewport.width}: ${width} px too wide`);
        for (const issue of await seriousIssues(page)) found.push(`${name} at ${viewport.width}: ${issue}`);
      }
    }
    assert.deepEqual(found, []);
  });
}

testPage(
  "the sign-in, a shared run and the dialogs have no serious issue in either theme",
  {},
  async (page) => {
    const found = [];
    const check = async (checked, name) => {
      for (const theme of ["light", "dark"]) {
        await checked.emulateMedia({ colorScheme: theme });
        for (const issue of await seriousIssues(checked)) found.push(`${name}, ${theme}: ${issue}`);
      }
    };
    await page.goto(`/runs/${run}`);
    await onScreen(page, "accessible");
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("dialog").waitFor();
    await check(page, "stop");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Share" }).click();
    await page.getByRole("button", { name: "Create link" }).click();
    const url = await page.getByLabel("Share link").inputValue();
    await check(page, "share");
    const guest = await stage.page({ viewport: PHONE });
    await guest.goto("/login");
    await guest.getByLabel("User name").waitFor();
    await check(guest, "sign-in");
    await guest.goto(url);
    await onScreen(guest, "accessible");
    await check(guest, "shared run");
    await guest.context().close();
    assert.deepEqual(found, []);
  },
);

testPage("text at 200 % stays usable", { viewport: { width: 720, height: 900 } }, async (page) => {
  const enlarged = "document.documentElement.style.fontSize = '200%'";
  for (const [name, [path, ready]] of Object.entries(SCREENS)) {
    await page.goto(path.replace("ID", run));
    await ready(page);
    await page.evaluate(enlarged);
    const width = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    assert.ok(width <= 0, `${name}: ${width} px too wide`);
  }
});

testPage("a request is approved and another one denied by keyboard alone", {}, async (page) => {
  for (const [key, outcome] of [
    ["Approve", "Approved by admin"],
    ["Deny", "Denied by admin"],
  ]) {
    const command = `true ${key}`;
    await page.goto(`/runs/${run}/files`);
    await page.getByText("Run a command here").waitFor();
    await focusBy(page, "Run a command here");
    await page.keyboard.press("Enter");
    await focusBy(page, "Command");
    await page.keyboard.type(command);
    await focusBy(page, "Run");
    await page.keyboard.press("Enter");
    const card = page.getByRole("article").filter({ hasText: command });
    await card.getByRole("button", { name: "Approve", exact: true }).waitFor();
    // The skip link leads to the content; the card of this test is the last one.
    await card.focus();
    await focusBy(page, key);
    await page.keyboard.press("Enter");
    await card.getByText(outcome).waitFor();
  }
});

testPage("a run is started, answered and stopped by keyboard alone", {}, async (page) => {
  await page.goto("/");
  await page.getByRole("button", { name: "New run" }).waitFor();
  await focusBy(page, "New run");
  await press(page, "Enter");
  await page.getByRole("heading", { name: "New run" }).waitFor();
  await focusBy(page, "Command");
  await page.keyboard.type("echo by-keyboard; cat");
  // Before the hosts are known, it is disabled, and Tab passes it.
  await until("a run can start", () => page.getByRole("button", { name: "Start" }).isEnabled());
  await focusBy(page, "Start");
  await press(page, "Enter");
  await onScreen(page, "by-keyboard");
  await focusBy(page, "Terminal input");
  await press(page, "Control+F6");
  await page.keyboard.type("typed-by-key");
  await press(page, "Enter");
  await onScreen(page, "typed-by-key");
  await page.getByRole("tab", { name: "Terminal" }).focus();
  await press(page, "ArrowRight");
  await page.waitForURL(/\/activity$/);
  await press(page, "ArrowRight");
  await page.getByRole("treeitem", { name: "a-rather-long" }).focus();
  for (const child of ["with-another-one-inside", "file.rs"]) {
    await press(page, "ArrowRight");
    await page.getByRole("treeitem", { name: child }).waitFor();
    await press(page, "ArrowDown");
  }
  await press(page, "Enter");
  await page.getByText("fn main").waitFor();
  await page.getByRole("button", { name: "Stop" }).focus();
  await press(page, "Enter");
  await page.getByRole("dialog").waitFor();
  await focusBy(page, "Kill");
  await press(page, "Enter");
  await page.getByText("Exit 137").first().waitFor();
});
