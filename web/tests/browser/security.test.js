// Hostile text stays text; other sites, share links and viewers reach only what they may.
import assert from "node:assert/strict";
import http from "node:http";
import { after, before, test } from "node:test";
import { onScreen, standardStage, startRun, until, write } from "./support.js";

const XSS = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>';

let stage;
before(async () => {
  stage = await standardStage({
    prepare: (made) =>
      made.addPast(
        [{ id: "old", name: XSS }],
        [{ id: "run-old", host: "old", cwd: `/${XSS}`, command: `old ${XSS}` }],
      ),
  });
});
after(() => stage.close());

async function assertNotHacked(page) {
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.locator("img[src='x']").count(), 0);
  assert.deepEqual(page.problems, []);
}

test("markup in commands, output, titles, file names, files and diffs stays text", async () => {
  const page = await stage.signedIn("olga");
  write(stage.host.directory, "<img src=x onerror=hacked=1>.txt", `${XSS}\n`);
  const command = `printf '%s\\n' '${XSS}'; printf '\\033]0;${XSS}\\007'; echo end-of-output; exec sleep 1000`;
  const id = await startRun(page, command);
  await onScreen(page, "end-of-output");
  await onScreen(page, "<script>");
  await assertNotHacked(page);
  for (const tab of ["activity", "files", "git"]) {
    await page.goto(`/runs/${id}/${tab}`);
    await page.getByRole("tabpanel").waitFor();
    if (tab === "files") {
      await page.getByRole("treeitem").filter({ hasText: "onerror" }).click();
      await page.locator(".cm-content").getByText("<script>").waitFor();
      await page.getByRole("button", { name: "Edit" }).click();
      await page.keyboard.type(XSS);
      await page.getByRole("button", { name: "Save" }).click();
      const card = page.getByRole("article").filter({ hasText: "onerror" });
      await card.getByText("<script>").first().waitFor();
      await card.getByRole("textbox", { name: "Reason" }).fill(XSS);
      await card.getByRole("button", { name: "Deny" }).click();
      await card.getByText("Denied by olga").waitFor();
    }
    await assertNotHacked(page);
  }
  await page.goto("/");
  await page.getByRole("link", { name: "end-of-output" }).waitFor();
  await assertNotHacked(page);
  await page.context().close();
});

test("markup in names of hosts, questions, options and answers stays text", async () => {
  const page = await stage.signedIn("olga");
  await page.goto("/hosts");
  await page.getByText(XSS).first().waitFor();
  await assertNotHacked(page);
  await page.goto("/runs/run-old/activity");
  await page.getByRole("heading", { name: `old ${XSS}` }).waitFor();
  await assertNotHacked(page);
  await page.goto("/");
  await page.getByRole("combobox", { name: "Host filter" }).selectOption({ label: `${XSS} (old)` });
  await page.getByRole("link", { name: "old <img" }).waitFor();
  await assertNotHacked(page);
  await startRun(page, `read -p 'Delete <img src=x onerror="hacked=1">? [y/N] ' answer; echo "said $answer"`);
  const card = page.getByRole("article").filter({ hasText: "Delete" });
  await card.getByText('<img src=x onerror="hacked=1">').first().waitFor();
  await assertNotHacked(page);
  await card.getByRole("textbox", { name: "Reason" }).fill(XSS);
  await card.getByRole("button", { name: "Deny" }).click();
  await onScreen(page, "said n");
  await page.getByRole("tab", { name: "Activity" }).click();
  await page.getByText("Denied by olga").first().waitFor();
  await assertNotHacked(page);
  await page.context().close();
});

test("the content security policy blocks an injected script", async () => {
  const page = await stage.signedIn("vera");
  const blocked = await page.evaluate(async () => {
    const violation = new Promise((resolve) =>
      document.addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective)),
    );
    const script = document.createElement("script");
    script.textContent = "window.hacked = 1";
    document.body.append(script);
    return violation;
  });
  assert.match(blocked, /^script-src/);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  const response = await page.request.get("/");
  const policy = response.headers()["content-security-policy"];
  assert.match(policy, /script-src 'self'(;|$)/);
  assert.match(policy, /frame-ancestors 'none'/);
  const cookies = await page.context().cookies();
  assert.ok(cookies.length > 0 && cookies.every((cookie) => cookie.httpOnly && cookie.sameSite === "Strict"));
  const stored = await page.evaluate(() =>
    JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]),
  );
  assert.doesNotMatch(stored, /token/i);
  await page.context().close();
});

test("a page of another site can neither read, nor post, nor open a socket", async () => {
  const page = await stage.signedIn("admin");
  const site = http.createServer((_request, response) =>
    response.setHeader("content-type", "text/html").end("<h1>other</h1>"),
  );
  await new Promise((done) => site.listen(0, "127.0.0.1", done));
  stage.closers.push(() => new Promise((done) => site.close(done)));
  const other = await page.context().newPage();
  await other.goto(`http://localhost:${site.address().port}/`);
  const result = await other.evaluate(async (hub) => {
    const attempt = (promise) =>
      promise.then((response) => response.status || "opaque").catch(() => "blocked");
    const socket = new Promise((resolve) => {
      const opened = new WebSocket(hub.replace("http", "ws") + "/ws/app");
      opened.onmessage = () => resolve("message");
      opened.onclose = () => resolve("closed");
    });
    const body = JSON.stringify({ name: "mallory", role: "admin", password: "12345678" });
    return {
      read: await attempt(fetch(`${hub}/runs`, { credentials: "include" })),
      post: await attempt(
        fetch(`${hub}/users`, { method: "POST", mode: "no-cors", credentials: "include", body }),
      ),
      socket: await socket,
    };
  }, stage.url);
  assert.equal(result.read, "blocked");
  assert.equal(result.socket, "closed");
  const users = await (await page.request.get("/users", { headers: { origin: stage.url } })).json();
  assert.ok(!users.some((user) => user.name === "mallory"));
  const frame = await other.evaluate(async (hub) => {
    const element = document.createElement("iframe");
    element.src = hub;
    const loaded = new Promise((resolve) => (element.onload = resolve));
    document.body.append(element);
    await loaded;
    return element.contentDocument === null;
  }, stage.url);
  assert.equal(frame, true);
  await page.context().close();
});

test("a share link reaches its run alone, and ends when it is revoked", async () => {
  const page = await stage.signedIn("olga");
  await startRun(page, "echo other-run-secret; exec sleep 1000");
  await onScreen(page, "other-run-secret");
  const id = await startRun(page, "echo shared-run; exec sleep 1000");
  await onScreen(page, "shared-run");
  await page.getByRole("button", { name: "Share" }).click();
  await page.getByRole("button", { name: "Create link" }).click();
  const url = await page.getByLabel("Share link").inputValue();
  assert.match(new URL(url).pathname, /^\/share\/[^/]+$/);

  const guest = await stage.page();
  await guest.goto(url);
  await onScreen(guest, "shared-run");
  for (const name of ["Stop", "Send", "Take over", "Share"])
    assert.equal(await guest.getByRole("button", { name }).count(), 0, name);
  const token = url.split("/").at(-1);
  for (const path of ["/runs", "/hosts", "/approvals", "/users", "/audit"]) {
    const response = await guest.request.get(path, {
      headers: { authorization: `Bearer ${token}`, accept: "application/json" },
    });
    assert.ok([401, 403, 404].includes(response.status()), `${path}: ${response.status()}`);
  }
  const own = await guest.request.get(`/runs/${id}`, {
    headers: { authorization: `Bearer ${token}`, accept: "application/json" },
  });
  assert.equal(own.status(), 200);

  const member = await stage.signedIn("vera");
  const known = () => member.evaluate(() => localStorage.getItem("last-known-state"));
  await until("the state of the member is saved", async () => (await known()) !== null);
  await member.goto(url);
  await onScreen(member, "shared-run");

  await page.getByRole("button", { name: "Revoke" }).click();
  await page.getByText("No link exists.").waitFor();
  await member
    .getByRole("alert")
    .getByText(/unknown, expired or revoked/)
    .waitFor();
  assert.notEqual(await known(), null, "the link is not the sign-in of the member");
  await guest
    .getByRole("alert")
    .getByText(/unknown, expired or revoked/)
    .waitFor();
  await guest.reload();
  await guest
    .getByRole("alert")
    .getByText(/unknown, expired or revoked/)
    .waitFor();
  assert.deepEqual([page.problems, guest.problems, member.problems], [[], [], []]);
  for (const one of [page, guest, member]) await one.context().close();
});

test("a viewer sees no button that it may not use, and the API refuses them too", async () => {
  const operator = await stage.signedIn("olga");
  const id = await startRun(operator, "echo visible; exec sleep 1000");
  await onScreen(operator, "visible");
  await operator.goto(`/runs/${id}/files`);
  await operator.getByText("Run a command here").click();
  await operator.getByRole("textbox", { name: "Command" }).fill("touch viewer-test");
  await operator.getByRole("button", { name: "Run", exact: true }).click();
  await operator.getByRole("article").waitFor();

  const page = await stage.signedIn("vera");
  const absent = async (names) => {
    for (const name of names)
      assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, name);
  };
  await page.getByRole("link", { name: "visible" }).waitFor();
  await page.getByRole("article").waitFor();
  await absent(["New run", "Approve", "Approve for this run", "Deny"]);
  await page.goto(`/runs/${id}`);
  await onScreen(page, "visible");
  await absent(["Stop", "Send", "Share", "Run again"]);
  await page.goto(`/runs/${id}/files`);
  await page.getByRole("treeitem").first().waitFor();
  await absent(["Edit", "Save", "Run"]);
  await page.goto("/settings");
  await page.getByText("Signed in as vera").waitFor();
  await absent(["Add user", "Add token", "Show log"]);
  const status = await page.evaluate(async (run) => {
    const post = (path, body) =>
      fetch(path, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      });
    const input = await post(`/runs/${run}/input`, { input_id: "1", text: "x\n" });
    const user = await post("/users", { name: "m", role: "admin" });
    return [input.status, user.status];
  }, id);
  assert.deepEqual(status, [403, 403]);
  assert.deepEqual(page.problems, []);
  for (const one of [page, operator]) await one.context().close();
});
