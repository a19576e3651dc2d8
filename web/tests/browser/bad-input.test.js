// More of what goes wrong: expired links, a clock that is off, a full disk, a host that ends in the middle of an action.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { PASSWORD, Stage, onScreen, standardStage, startRun, until, write } from "./support.js";

let stage;
before(async () => {
  stage = await standardStage();
});
after(() => stage.close());

const alert = (page, text) => page.getByRole("alert").getByText(text).first().waitFor();
const DAY_MS = 24 * 3600 * 1000;

test("an expired link and too many wrong passwords", async () => {
  const other = new Stage();
  try {
    other.addUser("ann", "operator");
    const link = other.rexhub(["user", "link", "ann"]).match(/#(\S+)/)[1];
    // Before the hub starts, so that its data has one owner at a time.
    other.changeData([["UPDATE sign_in_links SET ends = ?", [[1]]]]);
    await other.startHub();
    const page = await other.page();
    await page.goto(`/login#${link}`);
    await alert(page, /unknown, used or expired.*rexhub user link/);
    await page.getByLabel("User name").fill("ann");
    const submit = page.getByRole("button", { name: "Sign in" });
    await until("the hub throttles", async () => {
      await page.getByLabel("Password").fill("wrong");
      const answered = page.waitForResponse((response) => response.url().endsWith("/auth/login"));
      await submit.click();
      return (await answered).status() === 429;
    });
    await alert(page, /Too many failed attempts. Try again in \d+ seconds, or use a one-time link./);
    const fresh = other.rexhub(["user", "link", "ann"]).match(/#(\S+)/)[1];
    await page.goto(`/login#${fresh}`);
    await page.getByRole("heading", { name: "Running" }).waitFor();
    assert.deepEqual(page.problems, []);
  } finally {
    await other.close();
  }
});

test("a clock that is off by a day is named, and deadlines follow the hub", async () => {
  const operator = await stage.signedIn("olga");
  const id = await startRun(operator, "echo clocked; exec sleep 1000");
  await onScreen(operator, "clocked");
  await operator.goto(`/runs/${id}/files`);
  await operator.getByText("Run a command here").click();
  await operator.getByRole("textbox", { name: "Command" }).fill("touch in-time");
  await operator.getByRole("button", { name: "Run", exact: true }).click();
  await operator.getByRole("article").waitFor();
  for (const offset of [DAY_MS, -DAY_MS]) {
    const page = await stage.page();
    await page.clock.setSystemTime(Date.now() + offset);
    await page.goto("/login");
    await page.getByLabel("User name").fill("admin");
    await page.getByLabel("Password").fill(PASSWORD);
    await page.getByRole("button", { name: "Sign in" }).click();
    await alert(page, /The clock of this device differs from the hub's by (1 d|23 h)/);
    await page.goto("/approvals");
    const card = page.getByRole("article").filter({ hasText: "touch in-time" });
    await card.getByText(/\d+ (s|min|h) left/).waitFor();
    assert.equal(await card.getByText("Expired").count(), 0);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  }
  await operator.context().close();
});

/** A file system with little space; null where mounting is not permitted. */
function smallDisk() {
  const directory = stage.path("small-disk");
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=128k", "none", directory]);
  if (mounted.status !== 0) return null;
  stage.closers.push(() => void spawnSync("umount", ["-l", directory]));
  return directory;
}

test("a full disk on the host: the file stays as it was, and the text is not lost", async (context) => {
  const directory = smallDisk();
  if (!directory) return context.skip("mounting is not permitted here");
  write(directory, "notes.txt", "before\n");
  const host = await stage.startHost("full", { root: directory });
  const page = await stage.signedIn("olga");
  await page.goto("/new");
  await page.getByRole("combobox", { name: "Host" }).selectOption("full");
  await page.getByRole("textbox", { name: "Command" }).fill("echo on-a-small-disk; exec sleep 1000");
  await page.getByRole("button", { name: "Start" }).click();
  await onScreen(page, "on-a-small-disk");
  await page.getByRole("tab", { name: "Files" }).click();
  await page.getByRole("tree", { name: "Files" }).getByText("notes.txt").click();
  await page.getByText("before").waitFor();
  await page.getByRole("button", { name: "Edit" }).click();
  await page.keyboard.press("Control+Home");
  await page.keyboard.insertText("x".repeat(20_000));
  fill(directory);
  await page.getByRole("button", { name: "Save" }).click();
  const card = page.getByRole("article").filter({ hasText: "notes.txt" });
  await card.getByRole("button", { name: "Approve", exact: true }).click();
  await alert(page, /no space left on device/i);
  assert.equal(readFileSync(join(directory, "notes.txt"), "utf8"), "before\n");
  assert.deepEqual(readdirSync(directory).sort(), ["filler", "notes.txt"], "nothing is left half written");
  assert.match(await page.locator(".cm-content").innerText(), /xxxx/);
  await page.getByRole("button", { name: "Save" }).waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
  await stage.end(host);
});

function fill(directory) {
  for (let size = 256 * 1024; size >= 4096; size /= 2) {
    for (;;) {
      try {
        writeFileSync(join(directory, "filler"), Buffer.alloc(size), { flag: "a" });
      } catch {
        break;
      }
    }
  }
}

test("a host that ends while a save, a command and a decision are under way", async () => {
  const { directory } = stage.host;
  write(directory, "kept.txt", "before\n");
  const page = await stage.signedIn("olga");
  const id = await startRun(page, "echo started; exec sleep 1000");
  await onScreen(page, "started");
  await page.getByRole("tab", { name: "Files" }).click();
  await page.getByRole("tree", { name: "Files" }).getByText("kept.txt").click();
  await page.getByText("before").waitFor();
  await page.getByRole("button", { name: "Edit" }).click();
  await page.keyboard.press("Control+Home");
  await page.keyboard.type("after, ");
  await page.getByRole("button", { name: "Save" }).click();
  const card = page.getByRole("article").filter({ hasText: "kept.txt" });
  await card.getByText("+after, before").waitFor();
  await stage.end(stage.host);
  // The decision reaches the hub; the host is not there to act on it.
  await page.goto(`/runs/${id}/files`);
  await alert(page, /offline/i);
  const again = page.getByRole("article").filter({ hasText: "kept.txt" });
  await again.getByRole("button", { name: "Approve", exact: true }).click();
  await again
    .getByText(/offline|Received by the hub|Approved by olga/)
    .first()
    .waitFor();
  assert.equal(readFileSync(join(directory, "kept.txt"), "utf8"), "before\n");
  stage.host = await stage.startHost("box", { root: directory });
  // The question and the text survive the host: it is decided once, and the file is written whole or not at all.
  await page.goto("/approvals");
  const pending = page.getByRole("article").filter({ hasText: "kept.txt" });
  await until("it is decided", async () => {
    const button = pending.getByRole("button", { name: "Approve", exact: true });
    // It may be gone before the click.
    if (await button.isVisible().catch(() => false))
      await button.click({ timeout: 5_000 }).catch(() => undefined);
    return readFileSync(join(directory, "kept.txt"), "utf8") !== "before\n";
  });
  assert.equal(readFileSync(join(directory, "kept.txt"), "utf8"), "after, before\n");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("an image that is none, one that is cut, and a drawing with a script", async () => {
  const { directory } = stage.host;
  const pixel =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
  writeFileSync(join(directory, "pixel.png"), Buffer.from(pixel, "base64"));
  write(directory, "broken.png", "not an image");
  const script =
    '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><script>parent.hacked=1</script></svg>';
  write(directory, "drawing.svg", script);
  const page = await stage.signedIn("vera");
  const operator = await stage.signedIn("olga");
  const id = await startRun(operator, "echo images; exec sleep 1000");
  await page.goto(`/runs/${id}/files`);
  const tree = page.getByRole("tree", { name: "Files" });
  await tree.getByText("pixel.png").click();
  await page.getByRole("img", { name: "pixel.png" }).waitFor();
  await page.getByText("1 × 1, 70 bytes").waitFor();
  await tree.getByText("broken.png").click();
  await alert(page, /not an image that this browser can show/);
  await tree.getByText("drawing.svg").click();
  await page.getByText("40 × 30").waitFor();
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  await page.getByRole("button", { name: "Show as text" }).click();
  await page.locator(".cm-content").getByText("parent.hacked").waitFor();
  await page.getByRole("button", { name: "Show as image" }).click();
  await page.getByRole("img", { name: "drawing.svg" }).waitFor();
  assert.deepEqual(page.problems, []);
  for (const one of [page, operator]) await one.context().close();
});
