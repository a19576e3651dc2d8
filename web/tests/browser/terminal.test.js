// The terminal: full-screen programs, sizes of several viewers, keys, search, late viewers, old output.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  DESKTOP,
  PHONE,
  onScreen,
  screenText,
  standardStage,
  startRun,
  terminal,
  until,
  write,
} from "./support.js";

let stage;
before(async () => {
  stage = await standardStage();
});
after(() => stage.close());

/** The size of the terminal as the program sees it. */
const SIZE_LOOP =
  'trap \'echo "now $(stty size)"\' WINCH; echo "size $(stty size)"; while :; do sleep 0.1; done';

/** Whether the end of the terminal's lines is inside its element, or can be scrolled there. */
function isReachable(element) {
  const screen = element.shadowRoot.querySelector(".xterm-screen").getBoundingClientRect();
  const fits = screen.right <= element.getBoundingClientRect().right + 1;
  return fits || getComputedStyle(element).overflowX === "auto";
}

async function focusTerminal(page) {
  await terminal(page).locator("textarea").focus();
}

test("vim edits a file in the browser's terminal", async () => {
  const page = await stage.signedIn("olga");
  await startRun(page, "vim -u NONE -N typed.txt; echo vim-ended");
  await onScreen(page, "~");
  await focusTerminal(page);
  await page.keyboard.type("ihello from the browser");
  await onScreen(page, "hello from the browser");
  await page.keyboard.press("Escape");
  await page.keyboard.type(":wq");
  await page.keyboard.press("Enter");
  await onScreen(page, "vim-ended");
  assert.equal(readFileSync(join(stage.host.directory, "typed.txt"), "utf8"), "hello from the browser\n");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("top runs full-screen, and a resized window resizes it", async () => {
  const page = await stage.signedIn("olga");
  await startRun(page, "exec top -d 1");
  await onScreen(page, "PID");
  const rows = async () => (await screenText(page)).split("\n").length;
  const before = await rows();
  await page.setViewportSize({ width: 1000, height: 600 });
  await until("fewer rows", async () => (await rows()) < before - 5);
  await focusTerminal(page);
  // top drops a key that it reads while it handles the new size.
  await until("top ends", async () => {
    await page.keyboard.type("q");
    return page.getByText("Exit 0").first().isVisible();
  });
  await page.context().close();
});

test("the viewer who typed last gives the size; another one sees it scaled and can take over", async () => {
  const desktop = await stage.signedIn("olga");
  const id = await startRun(desktop, SIZE_LOOP);
  await onScreen(desktop, "size ");
  const lastColumns = async (page) =>
    Number([...(await screenText(page)).matchAll(/now \d+ (\d+)/g)].at(-1)?.[1]);
  const phone = await stage.signedIn("admin", { viewport: PHONE, hasTouch: true });
  await phone.goto(`/runs/${id}`);
  await onScreen(phone, "size ");
  await phone.getByRole("button", { name: "Take over" }).waitFor();
  assert.ok(!((await lastColumns(desktop)) < 60), "watching does not resize");
  const overflow = await phone.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
  assert.equal(overflow, false);
  await until("every column is visible or reached by scrolling", () => terminal(phone).evaluate(isReachable));
  await phone.getByRole("button", { name: "Take over" }).click();
  await until("the phone's size", async () => (await lastColumns(phone)) < 60);
  await until("the desktop shows it", async () => (await lastColumns(desktop)) < 60);
  await desktop.getByRole("button", { name: "Take over" }).click();
  await until("the desktop's size again", async () => (await lastColumns(desktop)) > 80);
  for (const page of [desktop, phone]) {
    assert.deepEqual(page.problems, []);
    await page.context().close();
  }
});

test("keys that a phone lacks, with sticky modifiers", async () => {
  const page = await stage.signedIn("olga", { viewport: PHONE, hasTouch: true });
  // The run goes on after the keys: those of an ended run are gone, and with them what is looked at.
  await startRun(page, "echo begin; cat -v; echo cat-ended; exec sleep 1000");
  await onScreen(page, "begin");
  const keys = page.getByRole("group", { name: "Keys" });
  await keys.getByRole("button", { name: "Esc" }).click();
  await keys.getByRole("button", { name: "Up", exact: true }).click();
  await keys.getByRole("button", { name: "Enter" }).click();
  await onScreen(page, "^[^[[A");
  const ctrl = keys.getByRole("button", { name: "Ctrl", exact: true });
  await ctrl.click();
  const isPressed = (value) => async () => (await ctrl.getAttribute("aria-pressed")) === value;
  await until("Ctrl holds", isPressed("true"));
  await page.keyboard.type("d");
  await until("Ctrl is released", isPressed("false"));
  await onScreen(page, "cat-ended");
  await page.context().close();
});

test("a late viewer sees the screen, and older output when it scrolls up", async () => {
  const page = await stage.signedIn("olga");
  const id = await startRun(
    page,
    'for i in $(seq 1 3000); do echo "line $i"; done; echo all-done; exec sleep 1000',
  );
  await onScreen(page, "all-done");
  const late = await stage.signedIn("vera", { viewport: { width: 900, height: 600 } });
  await late.goto(`/runs/${id}`);
  await onScreen(late, "all-done");
  const older = late.getByRole("button", { name: "Load older output" });
  await older.waitFor();
  const shown = (await screenText(late)).match(/line \d+/)[0];
  await terminal(late).hover();
  await late.mouse.wheel(0, -100);
  await older.waitFor({ state: "detached" });
  // Until all is written, the terminal scrolls by itself.
  const isBusy = () => terminal(late).getAttribute("aria-busy");
  await until("it is loaded", async () => (await isBusy()) === "false");
  await onScreen(late, shown);
  await late.getByRole("button", { name: "Search" }).click();
  await late.getByLabel("Search in the terminal").fill("line 2500");
  await late.getByRole("button", { name: "Previous match" }).click();
  await onScreen(late, "line 2500");
  assert.deepEqual(late.problems, []);
  for (const one of [page, late]) await one.context().close();
});

test("the text of the region is the text of the screen, each line once", async () => {
  const page = await stage.signedIn("olga");
  await startRun(page, "seq -f 'row-%g' 1 200; printf 'scrolled\\033[2J\\033[Hlast-one\\n'; exec sleep 1000");
  await onScreen(page, "last-one");
  const region = terminal(page);
  // The screen is drawn in the next frame.
  await until("the rows before are gone", async () => !(await region.innerText()).includes("row-"));
  for (const text of [await region.innerText(), await region.textContent()]) {
    assert.equal(text.split("last-one").length, 2, text);
    assert.equal(text.replaceAll("\u00a0", " ").trim(), "last-one", "nothing else");
  }
  // What is announced is beside the region, and ends with it.
  assert.equal(await region.locator("[aria-live]").count(), 0);
  assert.equal(await page.locator(".live-region").count(), 1);
  await page.getByRole("link", { name: "Home", exact: true }).click();
  await page.locator(".live-region").waitFor({ state: "detached" });
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a link in the terminal opens in a page of its own, and the cursor is drawn for those who only watch", async () => {
  const page = await stage.signedIn("olga");
  const id = await startRun(page, `echo see ${stage.url}/login; echo ready; exec sleep 1000`);
  await onScreen(page, "ready");
  const { x, y, width, height } = await terminal(page)
    .locator(".xterm-rows")
    .getByText("/login")
    .boundingBox();
  await page.mouse.move(x + width / 2, y + height / 2);
  await terminal(page).locator(".xterm-screen.xterm-cursor-pointer").waitFor();
  const opening = page.context().waitForEvent("page");
  await page.mouse.down();
  await page.mouse.up();
  await (await opening).waitForURL(/^http:\/\/127\.0\.0\.1/);
  const watcher = await stage.signedIn("vera");
  await watcher.goto(`/runs/${id}`);
  await onScreen(watcher, "ready");
  await terminal(watcher).locator(".xterm-cursor").waitFor();
  assert.deepEqual([page.problems, watcher.problems], [[], []]);
  for (const one of [page, watcher]) await one.context().close();
});

test("messages have a history", async () => {
  const page = await stage.signedIn("olga");
  await startRun(page, "cat");
  const message = page.getByRole("textbox", { name: "Message" });
  await message.fill("first message");
  await message.press("Enter");
  await onScreen(page, "first message");
  await until("the field is empty", async () => (await message.inputValue()) === "");
  await message.press("ArrowUp");
  assert.equal(await message.inputValue(), "first message");
  await page.context().close();
});

test("a message waits in the queue while the program is busy, and is sent when it waits", async () => {
  const page = await stage.signedIn("olga");
  await startRun(
    page,
    'echo busy; while [ ! -e go ]; do sleep 0.1; done; read -p "next? " line; echo "got $line"',
  );
  await onScreen(page, "busy");
  await page.getByRole("textbox", { name: "Message" }).fill("queued message");
  await page.getByRole("button", { name: "Queue" }).click();
  await page.getByText("1 queued until the program waits for input").waitFor();
  assert.ok(!(await screenText(page)).includes("queued message"));
  write(stage.host.directory, "go", "");
  await onScreen(page, "got queued message");
  await page.context().close();
});

test("a queued message answers neither a question for permission nor a password", async () => {
  const page = await stage.signedIn("olga");
  write(
    stage.host.directory,
    "ask.sh",
    `echo busy; while [ ! -e go-on ]; do sleep 0.1; done
read -p 'Continue? [y/N] ' a; echo "first=$a"
read -s -p 'Password: ' b; echo; echo "second=\${#b}"
read -p 'next? ' c; echo "third=$c"; exec sleep 1000`,
  );
  await startRun(page, "bash ask.sh");
  await onScreen(page, "busy");
  await page.getByRole("textbox", { name: "Message" }).fill("queued text");
  await page.getByRole("button", { name: "Queue" }).click();
  const queued = page.getByText("1 queued until the program waits for input");
  await queued.waitFor();
  write(stage.host.directory, "go-on", "");
  await page.getByRole("article").getByRole("button", { name: "Approve", exact: true }).click();
  await onScreen(page, "first=y");
  const secret = page.locator('input[type="password"][aria-label="Message"]');
  await secret.waitFor();
  assert.equal(await queued.count(), 1, "it still waits");
  await secret.fill("123456");
  await page.getByRole("button", { name: "Send" }).click();
  await onScreen(page, "second=6");
  await onScreen(page, "third=queued text");
  await queued.waitFor({ state: "detached" });
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a message submits to a program that reads keys itself", async () => {
  const page = await stage.signedIn("olga");
  // Raw mode, as agents use it: only a carriage return is the key Return.
  write(
    stage.host.directory,
    "raw.py",
    `import os, sys, tty
tty.setraw(0)
os.write(1, b"raw-mode\\r\\n")
text = b""
while not text.endswith(b"\\r"): text += os.read(0, 1)
os.write(1, b"submitted " + text[:-1] + b"\\r\\n")
os.read(0, 1)
`,
  );
  await startRun(page, "python3 raw.py");
  await onScreen(page, "raw-mode");
  await page.getByRole("textbox", { name: "Message" }).fill("to the agent");
  await page.getByRole("button", { name: "Send" }).click();
  await onScreen(page, "submitted to the agent");
  await page.context().close();
});

test("queries of programs are not answered by viewers", async () => {
  const page = await stage.signedIn("olga", { viewport: DESKTOP });
  const typed = [];
  page.on("websocket", (socket) =>
    socket.on(
      "framesent",
      ({ payload }) => String(payload).includes("run.send_stdin") && typed.push(payload),
    ),
  );
  await page.goto("/");
  await startRun(page, "printf '\\033[c\\033[6n\\033]11;?\\007'; echo asked; exec sleep 1000");
  await onScreen(page, "asked");
  assert.deepEqual(typed, []);
  await terminal(page).locator("textarea").focus();
  await page.keyboard.type("x");
  await until("a key is sent", async () => typed.length === 1);
  await page.context().close();
});

test("the screen is copied, also where nothing can be selected by touch", async () => {
  const page = await stage.signedIn("olga", { viewport: PHONE, hasTouch: true });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: stage.url });
  await startRun(page, "echo text-to-copy; exec sleep 1000");
  await onScreen(page, "text-to-copy");
  await page.getByRole("button", { name: "Copy" }).click();
  await until("it is copied", async () =>
    (await page.evaluate(() => navigator.clipboard.readText())).includes("text-to-copy"),
  );
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("on a phone, the terminal has one row of controls, every key is visible, and its size is its own", async () => {
  const page = await stage.signedIn("olga", { viewport: PHONE, hasTouch: true });
  await startRun(page, "echo begin; exec sleep 1000");
  await onScreen(page, "begin");
  // There is no other viewer: the size of the start is replaced by that of this window.
  await page.getByText("Shown at").waitFor({ state: "detached" });
  for (const key of await page.getByRole("group", { name: "Keys" }).getByRole("button").all()) {
    const box = await key.boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= PHONE.width, `${await key.innerText()} is outside`);
  }
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
  for (const one of [watcher, starter]) await one.context().close();
});
