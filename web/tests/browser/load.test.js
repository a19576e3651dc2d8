// Much of everything: an hour of streaming, simulated, and a home screen with 200 hosts and 2,000 runs. Times are printed only.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { onScreen, standardStage, startRun, until, write } from "./support.js";

/** An hour of a talkative program is simulated by its output alone. */
const PARTS = 24;
const FIRST_PARTS = 12;
const LINES = 1_000;
/** The scrollback of the terminal is full after the first parts; from then on, the page may grow by this much. */
const GROWTH_LIMIT_MIB = 16;
const RUNS = 2_000;
const HOSTS = 199;
/** Rows near a desktop's window; the others are not rendered. */
const MAX_RENDERED = 100;

/** A run that is still going on, although nearly all others were active after it. */
const QUIET = `run-${RUNS - 2}`;

const COMMAND = "echo a command that is long enough to be cut on a phone, with some arguments --release";

let stage;
const rows = [];
before(async () => {
  stage = await standardStage({
    prepare: (made) => {
      made.addPast(
        Array.from({ length: HOSTS }, (_, index) => ({ id: `host-${index}`, name: `machine ${index}` })),
        Array.from({ length: RUNS }, (_, index) => ({
          id: `run-${index}`,
          host: `host-${index % HOSTS}`,
          cwd: `/srv/project-${index % 7}`,
          command: `${COMMAND} ${index}`,
        })),
      );
      made.changeData([["UPDATE runs SET status = 'running', ended_ms = NULL WHERE id = ?", [[QUIET]]]]);
    },
  });
});
after(async () => {
  await stage.close();
  console.log(
    "| work | measured |\n|---|---|\n" + rows.map(([work, value]) => `| ${work} | ${value} |`).join("\n"),
  );
});

/** The page's heap in MiB, without garbage. */
async function heap(devtools) {
  await devtools.send("HeapProfiler.collectGarbage");
  const { usedSize } = await devtools.send("Runtime.getHeapUsage");
  return usedSize / 1024 / 1024;
}

test("an hour of streaming, simulated: the memory of the page stays flat", async () => {
  const page = await stage.signedIn("olga");
  const line = 'printf "part %02d line %04d %s\\n" $m $i "some output with a few words in it"';
  const part = `for ((i = 0; i < ${LINES}; i++)); do ${line}; done`;
  const wait = "while [ ! -e go-$m ]; do sleep 0.05; done";
  await startRun(
    page,
    `for ((m = 1; m <= ${PARTS}; m++)); do ${wait}; ${part}; echo "end-$m-"; done; exec sleep 1000`,
  );
  const devtools = await page.context().newCDPSession(page);
  let first = 0;
  for (let count = 1; count <= PARTS; count += 1) {
    write(stage.host.directory, `go-${count}`, "");
    await onScreen(page, `end-${count}-`);
    if (count === FIRST_PARTS) first = await heap(devtools);
  }
  const last = await heap(devtools);
  rows.push([
    `memory of the page after ${FIRST_PARTS * LINES} and ${PARTS * LINES} lines of streaming`,
    `${first.toFixed(1)} and ${last.toFixed(1)} MiB`,
  ]);
  assert.ok(last - first < GROWTH_LIMIT_MIB, `${first} MiB, then ${last} MiB`);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("home shows a quiet run that is still going on, and finds a run that it has not loaded", async () => {
  const page = await stage.signedIn("olga");
  const running = page
    .locator("section")
    .filter({ has: page.getByRole("heading", { name: "Running", exact: true }) });
  await running.locator(`a[href="/runs/${QUIET}/terminal"]`).waitFor();
  const found = page.locator(`a[href="/runs/run-${RUNS - 1}/terminal"]`);
  assert.equal(await found.count(), 0, "not among those that are loaded at first");
  await page.getByRole("searchbox", { name: "Search runs" }).fill(`release ${RUNS - 1}`);
  await found.waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("home with 200 hosts and 2,000 runs scrolls to its end", async () => {
  const page = await stage.signedIn("olga");
  await page.locator('a[href="/runs/run-0/terminal"]').waitFor();
  const last = page.locator(`a[href="/runs/run-${RUNS - 1}/terminal"]`);
  await page.evaluate(() => {
    window.frames_ = [];
    let before = performance.now();
    const frame = (now) => {
      window.frames_.push(now - before);
      before = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  await until("the last run is in the list", async () => {
    await page.evaluate(() => document.scrollingElement.scrollBy(0, 1500));
    return (await last.count()) === 1;
  });
  const frames = (await page.evaluate(() => window.frames_)).sort((a, b) => a - b);
  const late = frames.filter((ms) => ms > 50).length;
  rows.push([
    "home with 200 hosts and 2,000 runs, scrolled to the end",
    `${frames.length} frames, p50 ${frames[Math.floor(frames.length / 2)].toFixed(0)} ms, longest ${frames.at(-1).toFixed(0)} ms, ${late} over 50 ms`,
  ]);
  const rendered = await page.locator(".list a").count();
  assert.ok(rendered < MAX_RENDERED, `${rendered} rows are rendered`);
  // Back at the top, its rows are rendered again.
  await page.evaluate(() => document.scrollingElement.scrollTo(0, 0));
  await page.locator('a[href="/runs/run-0/terminal"]').waitFor();
  assert.equal(await page.getByRole("combobox", { name: "Host filter" }).locator("option").count(), 201);
  await page.getByRole("searchbox", { name: "Search runs" }).fill(`release ${RUNS - 1}`);
  await until("one row is left", async () => (await page.locator(".list a").count()) === 1);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
