// The output of a run in its terminal: each event once, also while its screen is loaded again.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { HubConnection } from "../../src/connection/hub-connection.ts";
import type { Envelope } from "../../src/connection/protocol.ts";
import { RunOutput } from "../../src/terminal/run-output.ts";
import type { TerminalView } from "../../src/terminal/terminal-view.ts";

const output = (seq: number, text: string): Envelope => ({ type: "run.output", seq, data: { text } });

test("an event that arrives while its screen is loaded again is not shown twice", async () => {
  const shown: unknown[] = [];
  const parsed: (() => void)[] = [];
  const view = {
    backlog: 0,
    isFull: false,
    reset: () => (shown.length = 0),
    write: (text: unknown) => {
      shown.push(text);
      return new Promise<void>((done) => parsed.push(done));
    },
  } as unknown as TerminalView;
  const screens = [5, 8].map((seq) => ({ seq, text: `screen ${seq}`, cols: 80, rows: 24 }));
  const connection = {
    request: async () => screens.shift(),
    subscribe: () => undefined,
  } as unknown as HubConnection;
  const run = new RunOutput("r", connection, view, () => undefined);
  const load = async (events: Envelope[]) => {
    const loading = run.load(true);
    // The screen is written, and not parsed yet.
    while (parsed.length === 0) await new Promise((done) => setImmediate(done));
    for (const event of events) run.event(event);
    for (const done of parsed.splice(0)) done();
    await loading;
  };
  await load([]);
  await load([output(7, "on the screen"), output(9, "after it")]);
  assert.deepEqual(shown, ["screen 8", "after it"]);
});
