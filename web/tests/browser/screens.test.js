// The screens feature by feature: settings, audit, hosts, new runs, files, and what a run offers. One act per feature.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import http from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { PHONE, gitRepository, onScreen, standardStage, startRun, until, write } from "./support.js";

const MENU = String.raw`
tput civis; i=0
draw() { printf '\033[H\033[JPick a colour\n\n'; n=0; for e in red green blue; do
  if [ $n = $i ]; then printf '  \033[7m%s\033[0m\n' $e; else printf '  %s\n' $e; fi; n=$((n+1)); done; }
draw
while IFS= read -rsn1 key; do
  case $key in
    $'\033') read -rsn2 rest; [ "$rest" = '[B' ] && i=$((i+1)); [ "$rest" = '[A' ] && i=$((i-1)); draw;;
    '') tput cnorm; echo picked-$i; exec sleep 1000;;
  esac
done
`;

let stage;
before(async () => {
  stage = await standardStage({
    prepare: (made) => made.addPast([{ id: "old-box", name: "old machine" }], []),
    hub: ["--push-allow-private"],
  });
});
after(() => stage.close());

/** A test with a page of its own, and with the errors of its scripts. */
function testAs(user, name, body, options = {}) {
  test(name, async () => {
    const page = await stage.signedIn(user, options);
    await body(page);
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
}

const section = (page, heading) =>
  page.locator("section").filter({ has: page.getByRole("heading", { name: heading, exact: true }) });
const confirm = (page) =>
  page.getByRole("dialog").getByRole("button", { name: "Remove", exact: true }).click();
const status = async (path, token) =>
  (await fetch(stage.url + path, { headers: { authorization: `Bearer ${token}` } })).status;

testAs("admin", "a user is added, signs in by the link, and is removed", async (page) => {
  await page.goto("/settings");
  const users = section(page, "Users");
  await users.getByLabel("Name").fill("nina");
  await users.getByLabel("Role").selectOption("viewer");
  await users.getByRole("button", { name: "Add user" }).click();
  const row = users.getByRole("listitem").filter({ hasText: "nina" });
  await row.getByRole("button", { name: "One-time link" }).click();
  const link = await users.getByRole("textbox", { name: "One-time link" }).inputValue();
  const nina = await stage.page();
  await nina.goto(link);
  await nina.getByRole("heading", { name: "Running" }).waitFor();
  await nina.goto("/settings");
  await nina.getByText("Signed in as nina (viewer)").waitFor();
  await row.getByRole("button", { name: "Remove nina" }).click();
  await confirm(page);
  await row.waitFor({ state: "detached" });
  await nina.context().close();
});

testAs("admin", "a token is added, works, and is removed", async (page) => {
  await page.goto("/settings");
  const tokens = section(page, "Tokens");
  await tokens.getByLabel("Name").fill("script");
  await tokens.getByRole("button", { name: "Add token" }).click();
  const token = await tokens.getByRole("textbox", { name: "Tokens" }).inputValue();
  assert.equal(await status("/hosts", token), 200);
  await tokens.getByRole("button", { name: "Remove script" }).click();
  await confirm(page);
  await until("it is invalid", async () => (await status("/hosts", token)) === 401);
});

testAs("admin", "a webhook is added, tested and removed", async (page) => {
  const received = [];
  const server = http.createServer(async (request, response) => {
    received.push(Buffer.concat(await request.toArray()).toString());
    response.end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  stage.closers.push(() => server.close());
  await page.goto("/settings");
  const hooks = section(page, "Webhooks");
  await hooks.getByLabel("Name").fill("pager");
  await hooks.getByLabel("URL").fill(`http://127.0.0.1:${server.address().port}/hook`);
  await hooks.getByRole("button", { name: "Add webhook" }).click();
  const row = hooks.getByRole("listitem").filter({ hasText: "pager" });
  await row.getByRole("button", { name: "Test" }).click();
  await until("it arrives", async () => received.length > 0);
  assert.equal(JSON.parse(received[0]).kind, "test");
  await row.getByRole("button", { name: /Remove/ }).click();
  await confirm(page);
  await row.waitFor({ state: "detached" });
});

testAs("admin", "the logs of the hub and of a host are shown", async (page) => {
  await page.goto("/settings");
  const log = section(page, "Hub log");
  await log.getByRole("button", { name: "Show log" }).click();
  await log.getByText(/listening|connected/).waitFor();
  await page.goto("/hosts/box");
  await section(page, "Log").getByRole("button", { name: "Show log" }).click();
  await section(page, "Log").getByText("connected").waitFor();
  await page.getByRole("heading", { name: "Capabilities" }).click();
  await page.getByText("rpc.fs.read").waitFor();
});

testAs("admin", "the audit is filtered and exported", async (page) => {
  await page.goto("/audit");
  await page.getByLabel("Who").fill("admin");
  await page.getByLabel("Action").fill("user.sign_in");
  await page.getByRole("button", { name: "Filter", exact: true }).click();
  const entries = page.locator(".entries li");
  await until("only those are listed", async () => {
    const texts = await entries.allInnerTexts();
    return texts.length > 0 && texts.every((text) => text.includes("user.sign_in") && text.includes("admin"));
  });
  const downloading = page.waitForEvent("download");
  await page.getByRole("link", { name: "Export CSV" }).click();
  const csv = readFileSync(await (await downloading).path(), "utf8");
  assert.match(csv, /user\.sign_in/);
  assert.ok(!csv.includes("user.add"), "the export has the same filter");
});

testAs(
  "admin",
  "a host is added by a command or QR code; an older one says so, and is removed",
  async (page) => {
    await page.goto("/hosts");
    await page.getByRole("button", { name: "Add a host" }).click();
    const dialog = page.getByRole("dialog");
    assert.match(
      await dialog.getByRole("textbox", { name: "Command" }).inputValue(),
      /^rexd host --hub http\S+ --root ~ --join \S+$/,
    );
    await dialog.getByRole("img", { name: "QR code of the command" }).waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
    await page.getByRole("link", { name: /old machine/ }).click();
    await page.getByText(/rexd 0\.1\.0 is older than this hub .* Upgrade it/).waitFor();
    await page.getByRole("button", { name: "Remove host" }).click();
    await confirm(page);
    await page.waitForURL(/\/hosts$/);
    await page.getByRole("link", { name: /old machine/ }).waitFor({ state: "detached" });
  },
);

testAs("olga", "a run with an environment is repeated in a recent directory", async (page) => {
  write(stage.host.directory, "recent-one/file", "");
  const directory = join(stage.host.directory, "recent-one");
  await page.goto("/new");
  await page.getByRole("textbox", { name: "Directory" }).fill(directory);
  await page.getByRole("textbox", { name: "Command" }).fill("echo $COLOUR-in-$(basename $PWD)");
  await page.getByText("Tool and environment").click();
  await page.getByRole("textbox", { name: "Environment" }).fill("COLOUR=green");
  await page.getByRole("button", { name: "Start" }).click();
  await onScreen(page, "green-in-recent-one");
  await page.getByRole("button", { name: "Run again" }).click();
  const command = page.getByRole("textbox", { name: "Command" });
  await until("it is filled in", async () => (await command.inputValue()).startsWith("echo $COLOUR"));
  assert.equal(await page.getByRole("textbox", { name: "Directory" }).inputValue(), directory);
  await page.goto("/new");
  await page.getByRole("group", { name: "Recent" }).getByRole("button", { name: directory }).click();
  assert.equal(await page.getByRole("textbox", { name: "Directory" }).inputValue(), directory);
});

testAs("olga", "files are searched and read after the run has ended", async (page) => {
  write(stage.host.directory, "deep/inside.txt", "one\ntwo needle-in-files\n");
  const id = await startRun(page, "true");
  await page.getByText("Exit 0").first().waitFor();
  await page.goto(`/runs/${id}/files`);
  await page.getByRole("searchbox", { name: "Search in files" }).fill("needle-in-files");
  await page.getByRole("button", { name: "Search", exact: true }).click();
  await page.getByText("1 match", { exact: true }).waitFor();
  await page.getByRole("button", { name: /deep\/inside\.txt:2/ }).click();
  await page.locator(".cm-content").getByText("needle-in-files").waitFor();
});

testAs("vera", "theme, font size and key bar are kept on this device", async (page) => {
  await page.goto("/settings");
  await page.getByLabel("Theme").selectOption("dark");
  await page.getByLabel("Terminal font size").selectOption("18 px");
  await page.getByLabel("Show the key bar").selectOption("Always");
  await page.reload();
  await until("it is dark", () => page.evaluate(() => document.documentElement.dataset.theme === "dark"));
  const saved = await page.evaluate(() => JSON.parse(localStorage.getItem("preferences")));
  assert.deepEqual(saved, { theme: "dark", fontSize: 18, keyBar: "always" });
});

testAs("olga", "a choice of a program is answered by its button", async (page) => {
  write(stage.host.directory, "menu.sh", MENU);
  await startRun(page, "bash menu.sh");
  await page.getByRole("button", { name: "green" }).click();
  await onScreen(page, "picked-1");
});

testAs("olga", "a secret is typed into a masked field and is kept nowhere", async (page) => {
  const secret = "correct-horse-secret";
  const id = await startRun(page, "read -s -p 'Password: ' a; echo; echo length-${#a}; exec sleep 1000");
  const field = page.locator('input[type="password"][aria-label="Message"]');
  await field.fill(secret);
  await page.getByRole("button", { name: "Send" }).click();
  await onScreen(page, `length-${secret.length}`);
  // The program waits no more: the field for messages is back.
  await page.locator("textarea[aria-label=Message]").waitFor();
  await page.getByRole("tab", { name: "Activity" }).click();
  await page.getByText("(typed without echo, not recorded)").waitFor();
  const kept = await page.evaluate(() =>
    [document.documentElement.outerHTML, JSON.stringify(localStorage), JSON.stringify(sessionStorage)].join(),
  );
  assert.ok(!kept.includes(secret), "not in the page or its storage");
  const messages = await (await page.request.get(`/runs/${id}/messages?include_output=true`)).text();
  assert.ok(!messages.includes(secret), "not in the hub");
  const found = spawnSync("grep", ["-rl", secret, stage.path("hub"), stage.path("state-box")]);
  assert.equal(found.stdout.toString(), "", "not on disk");
});

testAs("olga", "a prompt that the program ends itself is not asked any more", async (page) => {
  // Long enough for the page to show the prompt on a loaded machine.
  await startRun(page, "read -t 30 -p 'Name? ' a; echo timed-out; while :; do sleep 1; done");
  await page.getByText("The program asks:").waitFor();
  await onScreen(page, "timed-out");
  await page.getByText("The program asks:").waitFor({ state: "detached" });
});

testAs("olga", "an approval for this run counts for the same command again", async (page) => {
  const id = await startRun(page, "exec sleep 1000");
  await page.goto(`/runs/${id}/files`);
  await page.getByText("Run a command here").click();
  const run = page.getByRole("button", { name: "Run", exact: true });
  await page.getByRole("textbox", { name: "Command" }).fill("echo again >> often");
  await run.click();
  const card = page.getByRole("article").filter({ hasText: "echo again" });
  await card.getByRole("button", { name: "Approve for this run" }).click();
  await page.getByText("Exit code 0").waitFor();
  await run.click();
  await until("it ran without a question", async () => {
    const file = join(stage.host.directory, "often");
    return existsSync(file) && readFileSync(file, "utf8") === "again\nagain\n";
  });
});

testAs("olga", "home keeps a card that was decided, and searches cards too", async (page) => {
  const other = await stage.signedIn("admin");
  const id = await startRun(page, "echo card-on-home; exec sleep 1000");
  const [first, second] = ["first", "second"].map((name) =>
    page.getByRole("article").filter({ hasText: `touch home-${name}` }),
  );
  // By two pages that stay open: a request ends with the page that made it.
  for (const [one, name] of [
    [page, "first"],
    [other, "second"],
  ]) {
    await one.goto(`/runs/${id}/files`);
    await one.getByText("Run a command here").click();
    await one.getByRole("textbox", { name: "Command" }).fill(`touch home-${name}`);
    await one.getByRole("button", { name: "Run", exact: true }).click();
    await one
      .getByRole("article")
      .filter({ hasText: `touch home-${name}` })
      .waitFor();
  }
  await page.getByRole("link", { name: "Home", exact: true }).click();
  await second.waitFor();
  const search = page.getByRole("searchbox", { name: "Search runs" });
  await search.fill("home-second");
  await first.waitFor({ state: "detached" });
  await second.waitFor();
  await search.fill("card-on-home");
  await first.waitFor();
  await search.fill("");
  await first.getByRole("button", { name: "Deny" }).click();
  await first.getByText("Denied by olga").waitFor();
  await second.getByRole("button", { name: "Deny" }).waitFor();
  const cards = page.getByRole("article").filter({ hasText: "touch home-" });
  // The decision is shown before the host has confirmed it.
  await until("what waits comes first", async () =>
    (await cards.last().innerText()).includes("Denied by olga"),
  );
  await second.getByRole("button", { name: "Deny" }).click();
  await second.getByText("Denied by olga").waitFor();
  await other.context().close();
});

testAs("olga", "git shows what is staged besides what is not", async (page) => {
  const directory = stage.path("work-box", "repository");
  gitRepository(directory);
  write(directory, "added.txt", "staged line\n");
  spawnSync("git", ["add", "added.txt"], { cwd: directory });
  const id = await startRun(page, "exec sleep 1000", directory);
  await page.goto(`/runs/${id}/git`);
  await page.getByRole("listitem").filter({ hasText: "added.txt" }).getByText("added, staged").waitFor();
  await page.getByText("+changed world").waitFor();
  await page.getByRole("heading", { name: "Staged changes" }).waitFor();
  await page.getByText("+staged line").waitFor();
  await page.getByRole("button", { name: "added.txt" }).click();
});

testAs("olga", "runs are listed by host and by state", async (page) => {
  const id = await startRun(page, "echo listed-by-host; exec sleep 1000");
  await page.goto("/");
  const row = page.locator(`a[href="/runs/${id}/terminal"]`);
  await row.waitFor();
  await page.getByRole("button", { name: "By host" }).click();
  await page.getByRole("heading", { level: 3 }).first().waitFor();
  await page.getByRole("combobox", { name: "State filter" }).selectOption("Finished");
  await row.waitFor({ state: "detached" });
  await page.getByRole("combobox", { name: "State filter" }).selectOption("Running");
  await row.waitFor();
  assert.equal(await page.getByRole("heading", { name: "Finished" }).count(), 0);
});

testAs("olga", "a sign-out removes what was typed, and is no ended sign-in", async (page) => {
  const id = await startRun(page, "exec sleep 1000");
  await page.getByRole("textbox", { name: "Message" }).fill("not for the next person");
  await page.goto("/settings");
  await page.getByRole("button", { name: "Sign out", exact: true }).click();
  await page.getByRole("button", { name: "Sign in" }).waitFor();
  assert.equal(new URL(page.url()).pathname + new URL(page.url()).search, "/login");
  assert.equal(await page.getByRole("alert").count(), 0);
  assert.ok(!(await page.evaluate(() => JSON.stringify(sessionStorage))).includes("next person"));
  await page.goto(`/runs/${id}`);
  await page.waitForURL(/\/login\?to=/);
  await page.getByRole("button", { name: "Sign in" }).waitFor();
  assert.equal(await page.getByRole("alert").count(), 0, "a first visit is no ended sign-in");
});

testAs(
  "olga",
  "a file that changed while its draft was kept is reported before it is saved",
  async (page) => {
    write(stage.host.directory, "drafted.txt", "before\n");
    const id = await startRun(page, "exec sleep 1000");
    const open = () => page.getByRole("tree", { name: "Files" }).getByText("drafted.txt").click();
    await page.goto(`/runs/${id}/files`);
    await open();
    await page.getByRole("button", { name: "Edit" }).click();
    await page.keyboard.press("Control+Home");
    await page.keyboard.type("mine, ");
    write(stage.host.directory, "drafted.txt", "changed by the agent\n");
    await page.reload();
    await open();
    await page.locator(".cm-content").getByText("mine, before").waitFor();
    await page
      .getByRole("alert")
      .getByText(/changed on the host after you opened it/)
      .waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.locator(".cm-content").getByText("changed by the agent").waitFor();
  },
);

testAs("vera", "on this machine, notifications need no certificate", async (page) => {
  await page.goto("/settings");
  await page.getByRole("button", { name: "Turn on notifications" }).waitFor();
  assert.equal(await page.getByText(/trusted certificate/).count(), 0);
});

testAs(
  "olga",
  "a directory is browsed, and the run starts there",
  async (page) => {
    write(stage.host.directory, "nested/inner/file.txt", "x");
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
  },
  { viewport: PHONE },
);
