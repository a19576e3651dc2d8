// What fails in the field: the hub restarts, the network stalls, the page sleeps. Every line once, every tap once.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { onScreen, proxy, screenText, signIn, standardStage, startRun, until, write } from "./support.js";

let stage;
before(async () => {
  stage = await standardStage();
});
after(() => stage.close());

const ticks = (pause) =>
  `for i in $(seq 1 40); do echo tick-$i-; ${pause}; done; echo ticks-done; exec sleep 1000`;
const TICKS = ticks("sleep 0.2");

async function assertEachOnce(page) {
  await onScreen(page, "ticks-done");
  const text = await screenText(page);
  const numbers = [...text.matchAll(/tick-(\d+)-/g)].map((match) => Number(match[1]));
  const expected = numbers.map((_, index) => (numbers[0] ?? 0) + index);
  assert.deepEqual(numbers, expected, "no line is missing or repeated");
}

/** "Reconnecting" may be gone before it is looked for; the new socket is an event. */
async function cutAndReconnect(page, link) {
  const opened = page.waitForEvent("websocket");
  link.cut();
  await opened;
  await page.getByRole("status").getByText("Connected").waitFor();
}

/** Asks for a command that needs approval, in the run's Files tab. */
async function requestCommand(page, id, command) {
  await page.goto(`/runs/${id}/files`);
  await page.getByText("Run a command here").click();
  await page.getByRole("textbox", { name: "Command" }).fill(command);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const card = page.getByRole("article").filter({ hasText: command });
  // Enabled once the exact command is shown.
  await card.getByRole("button", { name: "Approve", exact: true, disabled: false }).waitFor();
  return card;
}

test("the hub is killed and started again: every line once, and the approval is still there", async () => {
  const page = await stage.signedIn("olga");
  // Half of the lines come after the restart, and with them the host is back, which the decision needs.
  const pause = "sleep 0.1; while [ $i = 20 ] && [ ! -e hub-is-back ]; do sleep 0.1; done";
  const id = await startRun(page, ticks(pause));
  await onScreen(page, "tick-");
  const other = await stage.signedIn("admin");
  await requestCommand(other, id, "touch after-restart");
  await stage.end(stage.hub);
  await page
    .getByRole("status")
    .getByText(/Reconnecting|Offline/)
    .waitFor();
  await stage.startHub();
  await page.getByRole("status").getByText("Connected").waitFor();
  write(stage.host.directory, "hub-is-back", "");
  await assertEachOnce(page);
  const card = page.getByRole("article").filter({ hasText: "touch after-restart" });
  await card.getByRole("button", { name: "Approve", exact: true }).click();
  await card.getByText("Approved by olga").waitFor();
  await until("the command ran", async () => existsSync(join(stage.host.directory, "after-restart")));
  assert.deepEqual(page.problems, []);
  for (const one of [page, other]) await one.context().close();
});

test("a tap on a stalled connection waits, shows that it does, and counts once", async () => {
  const link = await proxy(stage);
  const page = await stage.signedIn("olga", { url: link.url });
  const id = await startRun(page, "exec sleep 1000");
  const card = await requestCommand(page, id, "echo once >> counted");
  link.stall();
  link.cut();
  await page
    .getByRole("status")
    .getByText(/Reconnecting|Offline/)
    .waitFor();
  await card.getByRole("button", { name: "Approve", exact: true }).click();
  await card.getByText("Waiting for the connection; it is sent once").waitFor();
  assert.equal(existsSync(join(stage.host.directory, "counted")), false);
  link.resume();
  await page.getByRole("status").getByText("Connected").waitFor();
  await card.getByText("Approved by olga").waitFor();
  const counted = join(stage.host.directory, "counted");
  // The file is empty before it has the line.
  await until("the command ran", async () => existsSync(counted) && readFileSync(counted, "utf8") !== "");
  await cutAndReconnect(page, link);
  assert.equal(readFileSync(counted, "utf8"), "once\n");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a message typed without a connection is sent once", async () => {
  const link = await proxy(stage);
  const page = await stage.signedIn("olga", { url: link.url });
  await startRun(page, "echo begin; cat");
  await onScreen(page, "begin");
  link.stall();
  link.cut();
  await page
    .getByRole("status")
    .getByText(/Reconnecting|Offline/)
    .waitFor();
  const message = page.getByRole("textbox", { name: "Message" });
  await message.fill("sent-while-away");
  await message.press("Enter");
  await page.getByText("Waiting for the connection; it is sent once").waitFor();
  link.resume();
  await onScreen(page, "sent-while-away");
  await cutAndReconnect(page, link);
  await message.fill("after");
  await message.press("Enter");
  // The terminal's echo and cat's own line.
  const count = async (text) => (await screenText(page)).split(text).length - 1;
  await until("cat's next line", async () => (await count("after")) >= 2);
  assert.equal(await count("sent-while-away"), 2);
  await page.context().close();
});

test("a network that is away until the app is offline: every line once, and the question is still there", async () => {
  const link = await proxy(stage);
  const page = await stage.signedIn("olga", { url: link.url });
  const id = await startRun(page, TICKS);
  await onScreen(page, "tick-");
  link.refuse();
  // Five attempts with growing pauses, while the run goes on.
  await page.getByRole("status").getByText("Offline").waitFor();
  const other = await stage.signedIn("admin");
  await requestCommand(other, id, "touch after-the-cut");
  link.resume();
  await page.evaluate(() => window.dispatchEvent(new Event("online")));
  await page.getByRole("status").getByText("Connected").waitFor();
  await assertEachOnce(page);
  const card = page.getByRole("article").filter({ hasText: "touch after-the-cut" });
  await card.getByRole("button", { name: "Approve", exact: true }).click();
  await card.getByText("Approved by olga").waitFor();
  await until("the command ran", async () => existsSync(join(stage.host.directory, "after-the-cut")));
  assert.deepEqual(page.problems, []);
  for (const one of [page, other]) await one.context().close();
});

test("a page that was frozen continues by itself, and a tap made meanwhile counts once", async () => {
  const link = await proxy(stage);
  const page = await stage.signedIn("olga", { url: link.url });
  const id = await startRun(page, TICKS);
  await onScreen(page, "tick-");
  const other = await stage.signedIn("admin");
  await requestCommand(other, id, "echo once >> tapped");
  const card = page.getByRole("article").filter({ hasText: "echo once >> tapped" });
  await card.getByRole("button", { name: "Approve", exact: true, disabled: false }).waitFor();
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Page.setWebLifecycleState", { state: "frozen" });
  link.cut();
  // Not by the mouse, whose events a frozen page may drop.
  const tap = `[...document.querySelectorAll("article button")].find((one) => one.textContent === "Approve").click()`;
  await devtools.send("Runtime.evaluate", { expression: tap });
  await devtools.send("Page.setWebLifecycleState", { state: "active" });
  await card.getByText("Approved by olga").waitFor();
  await assertEachOnce(page);
  await page.getByRole("status").getByText("Connected").waitFor();
  const tapped = join(stage.host.directory, "tapped");
  await until("the command ran", async () => existsSync(tapped) && readFileSync(tapped, "utf8") !== "");
  await cutAndReconnect(page, link);
  assert.equal(readFileSync(tapped, "utf8"), "once\n");
  assert.deepEqual(page.problems, []);
  for (const one of [page, other]) await one.context().close();
});

test("two people answer: the slower one sees who was first", async () => {
  const [first, second] = [await stage.signedIn("olga"), await stage.signedIn("admin")];
  const id = await startRun(first, "exec sleep 1000");
  const link = await proxy(stage);
  await second.context().close();
  const slow = await stage.signedIn("admin", { url: link.url });
  const card = await requestCommand(first, id, "touch answered-first");
  await slow.goto("/approvals");
  const late = slow.getByRole("article").filter({ hasText: "touch answered-first" });
  await late.getByRole("button", { name: "Deny" }).waitFor();
  link.stall();
  link.cut();
  await slow
    .getByRole("status")
    .getByText(/Reconnecting|Offline/)
    .waitFor();
  await late.getByRole("button", { name: "Deny" }).click();
  await card.getByRole("button", { name: "Approve", exact: true }).click();
  await card.getByText("Approved by olga").waitFor();
  link.resume();
  await late.getByText(/olga/).first().waitFor();
  await late
    .getByRole("alert")
    .getByText(/Another person was faster/)
    .waitFor();
  await until("it ran", async () => existsSync(join(stage.host.directory, "answered-first")));
  for (const one of [first, slow]) await one.context().close();
});

test("an ended sign-in says so, and leads back to the same place", async () => {
  const page = await stage.signedIn("vera");
  await page.goto("/hosts/box");
  await page.getByRole("heading", { name: "Doctor" }).waitFor();
  await page.context().clearCookies();
  const other = await stage.signedIn("vera");
  await other.goto("/settings");
  await other.getByRole("button", { name: "Sign out everywhere" }).click();
  await other.getByRole("button", { name: "Sign in" }).waitFor();
  await page
    .getByRole("alert")
    .getByText(/Your sign-in has ended/)
    .waitFor();
  await page.getByLabel("User name").fill("vera");
  await page.getByLabel("Password").fill("correct horse battery");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL(/\/hosts\/box$/);
  await page.getByRole("heading", { name: "Doctor" }).waitFor();
  for (const one of [page, other]) await one.context().close();
});

test("a late response from before the sign-in does not end it", async () => {
  const page = await stage.page();
  let release;
  const released = new Promise((resolve) => (release = resolve));
  // The real response to the first request, delivered late.
  await page.route(
    "**/auth/me",
    async (route) => {
      const response = await route.fetch();
      await released;
      await route.fulfill({ response });
    },
    { times: 1 },
  );
  const late = page.waitForResponse((response) => response.status() === 401);
  await signIn(page, "olga");
  release();
  await (await late).finished();
  await page.getByRole("link", { name: "Hosts", exact: true }).click();
  await page.getByRole("link", { name: "Online" }).waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
