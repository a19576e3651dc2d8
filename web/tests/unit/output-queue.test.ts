// Output into the terminal: in order, in slices, and with a pause per frame.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type OutputData, OutputQueue } from "../../src/terminal/output-queue.ts";

/** A sink in which each write takes some time, and frames come when the test says so. */
function sink(msPerWrite: number) {
  const written: OutputData[] = [];
  const frames: (() => void)[] = [];
  let time = 0;
  const queue = new OutputQueue({
    write: (data, done) => {
      written.push(data);
      time += msPerWrite;
      done();
    },
    afterFrame: (action) => frames.push(action),
    now: () => time,
  });
  return { queue, written, frame: () => frames.shift()?.(), waits: () => frames.length > 0 };
}

test("long output is cut into slices, and parsing pauses once per frame", async () => {
  const { queue, written, frame, waits } = sink(4);
  const text = Array.from({ length: 20_000 }, (_, line) => `line ${line}\n`).join("");
  let isShown = false;
  void queue.push(text).then(() => (isShown = true));
  assert.equal(written.length, 2, "two writes of 4 ms fill the 8 ms of a frame");
  assert.ok(written.every((slice) => slice.length <= 8 * 1024));
  assert.equal(queue.length, text.length - 2 * 8 * 1024);
  let frames = 0;
  while (waits()) {
    frame();
    frames += 1;
  }
  await Promise.resolve();
  assert.ok(frames > 5 && isShown);
  assert.equal(written.join(""), text);
  assert.equal(queue.length, 0);
});

test("short texts become one slice; bytes stay apart, and the order is kept", async () => {
  const { queue, written, frame, waits } = sink(10);
  const shown: number[] = [];
  void queue.push("first").then(() => shown.push(0));
  [..."abc"].forEach((text, index) => void queue.push(text).then(() => shown.push(index + 1)));
  void queue.push(new Uint8Array([1, 2, 3]));
  const last = queue.push("end");
  while (waits()) frame();
  await last;
  assert.deepEqual(written, ["first", "abc", new Uint8Array([1, 2, 3]), "end"]);
  assert.deepEqual(shown, [0, 1, 2, 3]);
});

test("what was cleared is not written, and its writers go on", async () => {
  const { queue, written, frame, waits } = sink(10);
  void queue.push("shown");
  const dropped = queue.push("x".repeat(100_000));
  queue.clear();
  await dropped;
  assert.equal(queue.length, 0);
  const last = queue.push("next");
  while (waits()) frame();
  await last;
  assert.deepEqual(written, ["shown", "next"]);
});
