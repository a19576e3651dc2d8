// Every screen and state in both themes: axe finds nothing serious, nothing overflows at 360 px, and text can be enlarged.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { issuesInBothThemes } from "./accessible.js";
import {
  DESKTOP,
  PHONE,
  Stage,
  gitRepository,
  onScreen,
  proxy,
  signIn,
  standardStage,
  startRun,
  until,
  write,
} from "./support.js";

let stage;
let run;
before(async () => {
  stage = await standardStage();
  gitRepository(stage.host.directory);
  const nested = "a-rather-long-directory-name/with-another-one-inside/file.rs";
  write(stage.host.directory, nested, "fn main() {}\n");
  const page = await stage.signedIn("admin");
  run = await startRun(page, "echo accessible; exec sleep 1000");
  await onScreen(page, "accessible");
  await requestCommand(page, `touch ${"a-long-file-name-".repeat(20)}`);
});
after(() => stage.close());

/** The request stays as long as its page. */
async function requestCommand(page, command) {
  await page.goto(`/runs/${run}/files`);
  await page.getByText("Run a command here").click();
  await page.getByRole("textbox", { name: "Command" }).fill(command);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("article").filter({ hasText: command }).waitFor();
}

/** A test with a page of its own, so that a failure concerns no other test; `check` notes the issues of a state. */
function testPage(name, { user = "admin", ...options }, body) {
  test(name, async () => {
    const page = await stage.signedIn(user, options);
    const found = [];
    await body(page, async (state, checked = page) =>
      found.push(...(await issuesInBothThemes(checked, state))),
    );
    assert.deepEqual(found, []);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
}

const SCREENS = {
  home: ["/", (page) => page.getByRole("article").first().waitFor()],
  approvals: ["/approvals", (page) => page.getByRole("article").first().waitFor()],
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
const FOR_ADMINS = ["new run", "audit"];

async function open(page, name) {
  const [path, ready] = SCREENS[name];
  await page.goto(path.replace("ID", run));
  await ready(page);
}

async function assertNoOverflow(page, name) {
  const width = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  assert.ok(width <= 0, `${name}: ${width} px too wide`);
}

for (const viewport of [DESKTOP, PHONE])
  testPage(`every screen at ${viewport.width} px`, { viewport }, async (page, check) => {
    for (const name of Object.keys(SCREENS)) {
      await open(page, name);
      await assertNoOverflow(page, name);
      await check(name);
    }
  });

testPage("the screens of a viewer", { user: "vera", viewport: PHONE }, async (page, check) => {
  for (const name of Object.keys(SCREENS).filter((one) => !FOR_ADMINS.includes(one))) {
    const [path] = SCREENS[name];
    await page.goto(path.replace("ID", run));
    await page.getByRole("status").getByText("Connected").waitFor();
    if (name !== "settings") await SCREENS[name][1](page);
    await check(`${name} of a viewer`);
  }
});

test("an empty hub, and a failed sign-in", async () => {
  const empty = new Stage();
  try {
    empty.addUser("admin", "admin");
    await empty.startHub();
    const page = await empty.page({ viewport: PHONE });
    const found = [];
    const check = async (name) => found.push(...(await issuesInBothThemes(page, name)));
    await page.goto("/login");
    await page.getByLabel("User name").fill("admin");
    await page.getByLabel("Password").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").waitFor();
    await check("a wrong password");
    await signIn(page, "admin");
    for (const [path, text] of [
      ["/", "Add a host"],
      ["/approvals", "Nothing"],
      ["/hosts", "No host"],
    ]) {
      await page.goto(path);
      await page.locator("main").getByText(text).first().waitFor();
      await check(`empty ${path}`);
    }
    await page.setViewportSize(DESKTOP);
    await page.goto("/audit");
    await page.getByLabel("Who").fill("nobody");
    await page.getByRole("button", { name: "Filter", exact: true }).click();
    await page.getByText("No entry matches.").waitFor();
    await check("no entry of the audit");
    assert.deepEqual(found, []);
    assert.deepEqual(page.problems, []);
  } finally {
    await empty.close();
  }
});

testPage("dialogs, a shared run and the sign-in", {}, async (page, check) => {
  const dialog = page.getByRole("dialog");
  const closed = async () => {
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  };
  await open(page, "terminal");
  await page.getByRole("button", { name: "Stop" }).click();
  await dialog.waitFor();
  await check("stop");
  await closed();
  await page.getByRole("button", { name: "Share" }).click();
  await page.getByRole("button", { name: "Create link" }).click();
  const url = await page.getByLabel("Share link").inputValue();
  await check("share");
  await open(page, "hosts");
  await page.getByRole("button", { name: "Add a host" }).click();
  await dialog.getByRole("img").waitFor();
  await check("add a host");
  await open(page, "host");
  await page.getByRole("button", { name: "Remove host" }).click();
  await dialog.waitFor();
  await check("remove a host");
  const guest = await stage.page({ viewport: PHONE });
  await guest.goto("/login");
  await guest.getByLabel("User name").waitFor();
  await check("sign-in", guest);
  await guest.goto(url);
  await onScreen(guest, "accessible");
  await check("shared run", guest);
  await guest.goto("/share/unknown");
  await guest.getByRole("alert").waitFor();
  await check("a share link that has ended", guest);
  await guest.context().close();
});

testPage("states of the tabs of a run", {}, async (page, check) => {
  await open(page, "terminal");
  await page.getByRole("button", { name: "Search" }).click();
  await page.getByRole("searchbox").waitFor();
  await check("search in the terminal");
  await open(page, "files");
  await page.getByRole("treeitem", { name: "greeting.txt" }).click();
  await page.getByRole("button", { name: "Edit" }).click();
  await page.getByText("Ctrl+S saves").waitFor();
  await check("the editor");
  await page.getByRole("searchbox", { name: "Search in files" }).fill("hello");
  await page.getByRole("button", { name: "Search", exact: true }).click();
  await page.getByText("1 match", { exact: true }).waitFor();
  await check("matches in files");
  await open(page, "git");
  await page.getByRole("button", { name: "Side by side" }).click();
  await page.getByText("+changed world").waitFor();
  await check("a diff side by side");
  await startRun(page, 'read -s -p "Password: " secret; exec sleep 1000');
  await page.getByText("stored nowhere").first().waitFor();
  await check("a secret");
  const denied = "echo to-be-denied";
  await requestCommand(page, denied);
  const card = page.getByRole("article").filter({ hasText: denied });
  await card.getByRole("button", { name: "Deny" }).click();
  await card.getByText("Denied by admin").waitFor();
  await check("a decided request");
});

testPage("addresses of nothing", { viewport: PHONE }, async (page, check) => {
  for (const path of ["/nowhere", "/runs/unknown/terminal", "/hosts/unknown"]) {
    await page.goto(path);
    await page.getByRole("alert").waitFor();
    await check(path);
  }
});

test("screens that load, and the time without a connection", async () => {
  const link = await proxy(stage);
  const page = await stage.signedIn("admin", { url: link.url });
  const found = [];
  const check = async (name) => found.push(...(await issuesInBothThemes(page, name)));
  const go = async (name) => {
    await page.getByRole("link", { name, exact: true }).click();
    await until(name, () => page.getByRole("link", { name, exact: true, current: "page" }).isVisible());
  };
  // Within the page, so that its modules are there before the connection stalls.
  const visit = async (visited) => {
    for (const name of ["Hosts", "Audit", "Settings", "Home"]) {
      await go(name);
      await visited(name);
    }
    await page.locator(`a[href="/runs/${run}/terminal"]`).first().click();
    for (const name of ["Terminal", "Activity", "Files", "Git"]) {
      await page.getByRole("tab", { name }).click();
      await until(name, () => page.getByRole("tab", { name, selected: true }).isVisible());
      await visited(name);
    }
    await go("Home");
  };
  await visit(async () => undefined);
  link.stall();
  await visit((name) => check(`${name} while it loads`));
  link.refuse();
  await page.getByRole("status").getByText("Offline").waitFor();
  await visit((name) => check(`${name} offline`));
  assert.deepEqual(found, []);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

testPage("text at 200 % stays usable", { viewport: { width: 720, height: 900 } }, async (page) => {
  const enlarged = "document.documentElement.style.fontSize = '200%'";
  for (const name of Object.keys(SCREENS)) {
    await open(page, name);
    await page.evaluate(enlarged);
    await assertNoOverflow(page, name);
  }
});

// The last one: the host does not come back.
testPage("a host that is away", { viewport: PHONE }, async (page, check) => {
  await stage.end(stage.host);
  for (const [path, text] of [
    ["/hosts/box", "Offline"],
    [`/runs/${run}/files`, "offline"],
    [`/runs/${run}/git`, "offline"],
  ]) {
    await page.goto(path);
    await page.locator("main").getByText(text).first().waitFor();
    await check(`${path} without its host`);
  }
});
