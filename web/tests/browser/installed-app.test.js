// The installed app: manifest and icons, the offline shell, notifications, and the change to a newer bundle.
import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync } from "node:fs";
import http from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { standardStage, startRun, until } from "./support.js";

let stage;
before(async () => {
  stage = await standardStage();
});
after(() => stage.close());

async function workerReady(page) {
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => null));
  await until("the worker controls the page", () =>
    page.evaluate(() => navigator.serviceWorker.controller !== null),
  );
}

/** The worker, which the browser may have stopped: a request starts it again. */
async function runningWorker(page) {
  await page.evaluate(() => fetch("/version.json").then((response) => response.text()));
  await until("the worker runs", async () => page.context().serviceWorkers().length > 0);
  return page.context().serviceWorkers().at(-1);
}

test("the criteria for an installation are met", async () => {
  const page = await stage.signedIn("olga");
  await workerReady(page);
  const manifest = await (await page.request.get("/manifest.webmanifest")).json();
  assert.deepEqual([manifest.display, manifest.start_url, manifest.name], ["standalone", "/", "rexhub"]);
  const sizes = [];
  for (const icon of manifest.icons.filter(({ type }) => type === "image/png")) {
    const size = await page.evaluate(async (src) => {
      const image = new Image();
      image.src = src;
      await image.decode();
      return `${image.naturalWidth}x${image.naturalHeight}`;
    }, icon.src);
    assert.equal(size, icon.sizes);
    sizes.push(`${icon.sizes} ${icon.purpose}`);
  }
  assert.deepEqual(sizes, ["192x192 any", "512x512 any", "512x512 maskable"]);
  const devtools = await page.context().newCDPSession(page);
  const { installabilityErrors } = await devtools.send("Page.getInstallabilityErrors");
  const errors = installabilityErrors.map(({ errorId }) => errorId).filter((id) => id !== "in-incognito");
  assert.deepEqual(errors, []);
  await page.context().close();
});

test("without the hub, the app starts with the last known state and says so", async () => {
  const page = await stage.signedIn("olga");
  await workerReady(page);
  await startRun(page, "echo known-offline; exec sleep 1000");
  await page.goto("/");
  await page.getByRole("link", { name: "known-offline" }).waitFor();
  await until("the state is saved", () =>
    page.evaluate(() => (localStorage.getItem("last-known-state") ?? "").includes("known-offline")),
  );
  // The screens are stored in the background, also those that were never opened.
  await until("the screens are stored", () =>
    page.evaluate(async () => {
      const stored = await Promise.all(
        (await caches.keys()).map(async (name) => (await caches.open(name)).keys()),
      );
      const names = stored.flat().map(({ url }) => new URL(url).pathname);
      return ["Audit", "Hosts", "Settings", "Terminal", "Git", "Share"].every((screen) =>
        names.some((name) => name.startsWith(`/assets/${screen}-`) && name.endsWith(".js")),
      );
    }),
  );
  const stored = await page.evaluate(async () =>
    (await Promise.all((await caches.keys()).map(async (name) => (await caches.open(name)).keys())))
      .flat()
      .map(({ url }) => url),
  );
  assert.ok(!stored.some((url) => /editor|webgl/.test(url)), "but not the editor");
  await stage.end(stage.hub);
  await page.reload();
  await page.getByRole("link", { name: "Hosts", exact: true }).click();
  await page.getByRole("heading", { name: "Hosts" }).waitFor();
  await page.getByRole("link", { name: "Home", exact: true }).click();
  await page.getByRole("link", { name: "known-offline" }).click();
  await page.getByRole("tab", { name: "Files" }).click();
  await page.getByRole("alert").first().waitFor();
  await page.getByRole("link", { name: "Home", exact: true }).click();
  await page.getByRole("link", { name: "known-offline" }).waitFor();
  await page.getByText(/This is the last known state/).waitFor();
  await page
    .getByRole("status")
    .getByText(/Reconnecting|Offline/)
    .waitFor();
  await stage.startHub();
  await page.getByRole("status").getByText("Connected").waitFor();
  await page.getByText(/This is the last known state/).waitFor({ state: "detached" });
  await page.goto("/settings");
  await page.getByRole("button", { name: "Sign out", exact: true }).click();
  await page.getByRole("button", { name: "Sign in" }).waitFor();
  assert.equal(await page.evaluate(() => localStorage.getItem("last-known-state")), null);
  await page.context().close();
});

test("a push is shown as text, is withdrawn when it is answered, and opens its approval", async () => {
  const page = await stage.signedIn("olga");
  const context = page.context();
  await context.grantPermissions(["notifications"], { origin: stage.url });
  await workerReady(page);
  const session = await context.newCDPSession(page);
  const registration = new Promise((resolve) => {
    session.on(
      "ServiceWorker.workerRegistrationUpdated",
      ({ registrations }) => registrations[0] && resolve(registrations[0].registrationId),
    );
  });
  await session.send("ServiceWorker.enable");
  const registrationId = await registration;
  const deliver = (notice) =>
    session.send("ServiceWorker.deliverPushMessage", {
      origin: stage.url,
      registrationId,
      data: JSON.stringify(notice),
    });
  const shown = () =>
    page.evaluate(async () => {
      const worker = await navigator.serviceWorker.ready;
      return (await worker.getNotifications()).map(({ title, body, tag, actions }) => ({
        title,
        body,
        tag,
        actions: actions.map(({ action }) => action),
      }));
    });
  // The debugging protocol does not say whether a message arrived; one with the same tag changes nothing.
  const deliverUntil = async (what, message, count) => {
    let next = 0;
    await until(what, async () => {
      if ((await shown()).length === count) return true;
      if (Date.now() < next) return false;
      next = Date.now() + 5_000;
      await deliver(message);
      return false;
    });
  };
  const notice = {
    kind: "approval",
    tag: "approval:r:q",
    title: "<b>box</b> asks",
    body: "rm -rf build",
    url: "/approvals?run=r&request=q",
    run_id: "r",
    request_id: "q",
    actions: true,
  };
  await deliverUntil("it is shown", notice, 1);
  assert.deepEqual(await shown(), [
    { title: notice.title, body: notice.body, tag: notice.tag, actions: ["approve", "deny"] },
  ]);
  await deliverUntil("it is withdrawn", { kind: "close", tag: notice.tag }, 0);
  await deliverUntil("it is shown again", notice, 1);
  const worker = await runningWorker(page);
  // The debugging protocol cannot tap a notification; the event is the one of a tap.
  await worker.evaluate(async () => {
    const [notification] = await self.registration.getNotifications();
    self.dispatchEvent(new NotificationEvent("notificationclick", { notification, action: "" }));
  });
  await page.waitForURL(/\/approvals\?run=r&request=q$/);
  await until("it is closed", async () => (await shown()).length === 0);
  await context.close();
});

test("a question is answered from its notification", async () => {
  const page = await stage.signedIn("olga");
  const context = page.context();
  await context.grantPermissions(["notifications"], { origin: stage.url });
  await workerReady(page);
  const id = await startRun(page, "exec sleep 1000");
  for (const [action, command] of [
    ["approve", "touch by-notification"],
    ["deny", "touch never-made"],
  ]) {
    await page.goto(`/runs/${id}/files`);
    await page.getByText("Run a command here").click();
    await page.getByRole("textbox", { name: "Command" }).fill(command);
    await page.getByRole("button", { name: "Run", exact: true }).click();
    const card = page.getByRole("article").filter({ hasText: command });
    await card.getByRole("button", { name: "Approve", exact: true }).waitFor();
    const pending = await (await page.request.get("/approvals?status=pending")).json();
    const { run_id, request_id } = pending.find((row) => row.run_id === id);
    const worker = await runningWorker(page);
    await worker.evaluate(
      async ([notice, chosen]) => {
        await self.registration.showNotification("box asks", { tag: notice.tag, data: notice });
        const [notification] = await self.registration.getNotifications({ tag: notice.tag });
        self.dispatchEvent(new NotificationEvent("notificationclick", { notification, action: chosen }));
      },
      [{ kind: "approval", tag: request_id, url: "/approvals", run_id, request_id }, action],
    );
    await card.getByText(action === "approve" ? "Approved by olga" : "Denied by olga").waitFor();
  }
  await until("the command ran", async () => existsSync(join(stage.host.directory, "by-notification")));
  assert.equal(existsSync(join(stage.host.directory, "never-made")), false);
  assert.deepEqual(page.problems, []);
  await context.close();
});

test("a page of an older bundle loads itself again once and keeps typed text", async () => {
  const older = await olderHub();
  const page = await stage.signedIn("olga", { url: older.url });
  await startRun(page, "exec sleep 1000");
  const message = page.getByRole("textbox", { name: "Message" });
  await message.fill("queued before");
  await page.getByRole("button", { name: "Queue" }).click();
  await message.fill("half a senten");
  let loads = 0;
  page.on("load", () => (loads += 1));
  older.upgrade();
  await until("it loads again", async () => loads >= 1);
  await page.getByRole("status").getByText("Connected").waitFor();
  assert.equal(await message.inputValue(), "half a senten");
  await page.getByText("queued before").waitFor();
  await page.getByRole("link", { name: "Settings" }).click();
  await page.getByText(older.version).waitFor();
  assert.equal(loads, 1, "only once");
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

/** The hub as if it had an older bundle, with other names and another version, until it is upgraded. */
async function olderHub() {
  const { version } = await (await fetch(`${stage.url}/version.json`)).json();
  // Names of an older bundle differ, since they contain hashes; here the directory does.
  const names = [
    [version, "0".repeat(version.length)],
    ["assets/", "olders/"],
  ];
  let isOlder = true;
  const sockets = new Set();
  const age = (text) => names.reduce((aged, [now, then]) => aged.replaceAll(now, then), text);
  const renew = (text) => names.reduce((renewed, [now, then]) => renewed.replaceAll(then, now), text);
  const request = (incoming) => {
    const headers = { ...incoming.headers, "accept-encoding": "identity" };
    return http.request(stage.url + renew(incoming.url), { method: incoming.method, headers });
  };
  const server = http.createServer((incoming, outgoing) => {
    const forwarded = request(incoming);
    forwarded.on("error", () => outgoing.destroy());
    forwarded.on("response", async (response) => {
      const chunks = await response.toArray().catch(() => []);
      const isText = /javascript|html|json/.test(response.headers["content-type"] ?? "");
      const body = Buffer.concat(chunks);
      const headers = { ...response.headers };
      for (const name of ["content-length", "transfer-encoding", "etag"]) delete headers[name];
      outgoing.writeHead(response.statusCode, headers).end(isOlder && isText ? age(body.toString()) : body);
    });
    incoming.pipe(forwarded);
  });
  server.on("upgrade", (incoming, client) => {
    const forwarded = request(incoming).end();
    forwarded.on("upgrade", (response, upstream, head) => {
      sockets.add(client);
      client.on("error", () => upstream.destroy()).on("close", () => upstream.destroy());
      upstream.on("error", () => client.destroy()).on("close", () => client.destroy());
      const headers = Object.entries(response.headers).map(([name, value]) => `${name}: ${value}\r\n`);
      client.write(`HTTP/1.1 101 Switching Protocols\r\n${headers.join("")}\r\n`);
      const forward = (data) =>
        client.write(isOlder ? Buffer.from(age(data.toString("latin1")), "latin1") : data);
      forward(head);
      upstream.on("data", forward);
      client.pipe(upstream);
    });
    forwarded.on("response", () => client.destroy());
    forwarded.on("error", () => client.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stage.closers.push(() => {
    sockets.forEach((socket) => socket.destroy());
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    version,
    upgrade: () => {
      isOlder = false;
      sockets.forEach((socket) => socket.destroy());
    },
  };
}
