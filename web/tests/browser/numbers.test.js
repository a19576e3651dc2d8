// The numbers of docs/benchmarks-web.md, measured in the browser and printed as a table. Only sizes are asserted: times depend on load.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { onScreen, screenText, standardStage, startRun, terminal, until } from "./support.js";

const FIRST_LOAD_LIMIT = 350 * 1024;

let stage;
const rows = [];
before(async () => {
  stage = await standardStage();
});
after(async () => {
  await stage.close();
  console.log(
    "| work | measured |\n|---|---|\n" + rows.map(([work, value]) => `| ${work} | ${value} |`).join("\n"),
  );
});

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
const ms = (value) => `${value.toFixed(value < 10 ? 1 : 0)} ms`;

test("first load and first view of home", async () => {
  const page = await stage.signedIn("olga");
  const context = page.context();
  const cold = await context.newPage();
  const session = await context.newCDPSession(cold);
  await session.send("Network.enable");
  await session.send("Network.setCacheDisabled", { cacheDisabled: true });
  await session.send("Network.setBypassServiceWorker", { bypass: true });
  let bytes = 0;
  session.on("Network.loadingFinished", (event) => (bytes += event.encodedDataLength));
  await cold.goto("/");
  await cold.getByRole("button", { name: "New run" }).waitFor();
  await cold.getByRole("status").getByText("Connected").waitFor();
  rows.push(["first load, compressed, up to the usable home screen", `${Math.round(bytes / 1024)} KB`]);
  assert.ok(bytes < FIRST_LOAD_LIMIT, `${bytes} bytes`);
  const firstPaint = () =>
    cold.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  await until("the first paint is recorded", async () => (await firstPaint()) !== undefined);
  const shown = await firstPaint();
  rows.push(["first view of home", ms(shown)]);
  await context.close();
});

test("first view of a run with 1,000 lines", async () => {
  const page = await stage.signedIn("olga");
  const id = await startRun(
    page,
    'for i in $(seq 1 1000); do echo "line $i"; done; echo all-lines; exec sleep 1000',
  );
  await onScreen(page, "all-lines");
  const start = performance.now();
  await page.goto(`/runs/${id}`);
  await onScreen(page, "all-lines");
  rows.push(["first view of a run with 1,000 lines", ms(performance.now() - start)]);
  await page.context().close();
});

test("a key to its echo", async () => {
  const page = await stage.signedIn("olga");
  await startRun(page, "echo begin; cat");
  await onScreen(page, "begin");
  await terminal(page).locator("textarea").focus();
  const times = [];
  for (let index = 0; index < 20; index += 1) {
    await page.evaluate(() => {
      const tree = document.querySelector(".xterm-accessibility-tree");
      const count = () => (tree.textContent.match(/z/g) ?? []).length;
      const before = count();
      window.echoed = new Promise((resolve, reject) => {
        let pressed = 0;
        setTimeout(() => reject(new Error("no echo within 2 min")), 120_000);
        document.addEventListener("keydown", () => (pressed = performance.now()), {
          capture: true,
          once: true,
        });
        new MutationObserver((_changes, observer) => {
          if (count() === before) return;
          observer.disconnect();
          resolve(performance.now() - pressed);
        }).observe(tree, { subtree: true, childList: true, characterData: true });
      });
    });
    await page.keyboard.press("z");
    times.push(await page.evaluate(() => window.echoed));
  }
  rows.push(["key to echo in the terminal, p50", ms(median(times))]);
  await page.context().close();
});

test("10 MB of output into an open terminal", async () => {
  const page = await stage.signedIn("olga");
  await startRun(page, "read go; head -c 7500000 /dev/zero | base64; echo output-ended; exec sleep 1000");
  await page.evaluate(() => {
    window.longest = 0;
    let last = performance.now();
    const frame = (now) => {
      window.longest = Math.max(window.longest, now - last);
      last = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  await page.getByRole("textbox", { name: "Message" }).fill("go");
  await page.evaluate(() => (window.longest = 0));
  const start = performance.now();
  await page.getByRole("button", { name: "Send" }).click();
  await until("the end", async () => (await screenText(page)).includes("output-ended"));
  rows.push([
    "10 MB of output into an open terminal",
    `${ms(performance.now() - start)}, longest frame ${ms(await page.evaluate(() => window.longest))}`,
  ]);
  await page.context().close();
});

test("a tap on approve to the host's decision", async () => {
  const page = await stage.signedIn("olga");
  const id = await startRun(page, "exec sleep 1000");
  await page.goto(`/runs/${id}/files`);
  await page.getByText("Run a command here").click();
  const times = [];
  for (let index = 0; index < 5; index += 1) {
    await page.getByRole("textbox", { name: "Command" }).fill(`true ${index}`);
    await page.getByRole("button", { name: "Run", exact: true }).click();
    const card = page.getByRole("article").filter({ hasText: `true ${index}` });
    await until("the exact text is shown", () =>
      card.getByRole("button", { name: "Approve", exact: true }).isEnabled(),
    );
    times.push(
      await page.evaluate(async () => {
        const [button] = [...document.querySelectorAll("article button")].filter(
          (one) => one.textContent === "Approve",
        );
        const article = button.closest("article");
        const start = performance.now();
        button.click();
        while (!article.classList.contains("decided")) {
          if (performance.now() - start > 120_000) throw new Error("no decision within 2 min");
          await new Promise((done) => setTimeout(done, 0));
        }
        return performance.now() - start;
      }),
    );
  }
  rows.push(["tap on approve to the host's decision, p50", ms(median(times))]);
  await page.context().close();
});
