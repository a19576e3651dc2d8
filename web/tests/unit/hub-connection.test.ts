// The connection without a browser: sockets are in memory, time is advanced by the test.
import assert from "node:assert/strict";
import { test } from "node:test";
import { HubConnection, type Socket } from "../../src/connection/hub-connection.ts";
import type { Envelope } from "../../src/connection/protocol.ts";

class FakeSocket implements Socket {
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  sent: Envelope[] = [];
  isClosed = false;
  send(text: string) {
    this.sent.push(JSON.parse(text) as Envelope);
  }
  close() {
    this.isClosed = true;
  }
  receive(envelope: unknown) {
    this.onmessage?.({ data: JSON.stringify(envelope) });
  }
  ready() {
    this.onopen?.();
    this.receive({ type: "app.ready", data: { user: "ann", role: "admin" } });
  }
  of(type: string): Envelope[] {
    return this.sent.filter((envelope) => envelope.type === type);
  }
}

function setUp(token?: string) {
  const sockets: FakeSocket[] = [];
  const timers = new Map<number, { at: number; action: () => void }>();
  const messages: Envelope[] = [];
  const states: string[] = [];
  let [now, nextTimer, nextId, rejections] = [0, 1, 1, 0];
  const connection = new HubConnection(
    {
      open: () => {
        const socket = new FakeSocket();
        sockets.push(socket);
        return socket;
      },
      setTimer: (action, ms) => {
        timers.set(nextTimer, { at: now + ms, action });
        return nextTimer++;
      },
      clearTimer: (timer) => void timers.delete(timer as number),
      random: () => 1,
      newId: () => `id-${nextId++}`,
      token,
    },
    {
      message: (envelope) => messages.push(envelope),
      state: (state) => states.push(state),
      rejected: () => (rejections += 1),
    },
  );
  const advance = (ms: number) => {
    const end = now + ms;
    for (;;) {
      const due = [...timers].filter(([, timer]) => timer.at <= end).sort((a, b) => a[1].at - b[1].at)[0];
      if (!due) break;
      timers.delete(due[0]);
      now = due[1].at;
      due[1].action();
    }
    now = end;
  };
  const last = () => sockets.at(-1) ?? assert.fail("no socket");
  return { connection, sockets, messages, states, advance, last, rejections: () => rejections };
}

const event = (seq: number, run = "r") => ({
  type: "run.output",
  run_id: run,
  seq,
  data: { text: String(seq) },
});

test("a subscription continues after the last event, and repeats are dropped", () => {
  const { connection, messages, last, advance } = setUp();
  connection.start();
  last().ready();
  connection.subscribe("r", 5, true);
  assert.deepEqual(last().of("run.subscribe")[0]?.data, { after_seq: 5, include_output: true });
  for (const seq of [5, 6, 7, 7]) last().receive(event(seq));
  last().onclose?.({ code: 1006 });
  advance(300);
  last().ready();
  assert.deepEqual(last().of("run.subscribe")[0]?.data, { after_seq: 7, include_output: true });
  for (const seq of [6, 7, 8]) last().receive(event(seq));
  const seen = messages.filter((message) => message.type === "run.output").map((message) => message.seq);
  assert.deepEqual(seen, [6, 7, 8]);
});

test("an event that comes before the subscription takes effect does not hide those before it", () => {
  const { connection, messages, last, advance } = setUp();
  connection.start();
  last().ready();
  connection.subscribe("r", 5, true);
  last().receive({ ...event(7), type: "run.awaiting_input" });
  for (const seq of [6, 7, 8]) last().receive(event(seq));
  const seen = () => messages.filter((message) => message.run_id === "r").map((message) => message.seq);
  assert.deepEqual(seen(), [7, 6, 8]);
  last().receive({ type: "run.lost", run_id: "r", seq: 12, data: { first_seq: 9, last_seq: 12 } });
  last().receive(event(14));
  last().onclose?.({ code: 1006 });
  advance(300);
  last().ready();
  assert.equal(last().of("run.subscribe")[0]?.data?.after_seq, 12);
  for (const seq of [13, 14, 15]) last().receive(event(seq));
  assert.deepEqual(seen(), [7, 6, 8, 12, 14, 13, 15]);
});

test("a request that was cut is sent again under the same id, and its answer counts once", async () => {
  const { connection, last, advance } = setUp();
  connection.start();
  last().ready();
  const result = connection.request<{ run_id: string }>("rpc.run.start", { host_id: "h" });
  last().onclose?.({ code: 1006 });
  advance(300);
  last().ready();
  const [sent] = last().of("rpc.run.start");
  assert.equal(sent?.data?.request_id, "id-1");
  last().receive({ type: "rpc.response", data: { request_id: "id-1", ok: true, result: { run_id: "r" } } });
  last().receive({
    type: "rpc.response",
    data: { request_id: "id-1", ok: true, result: { run_id: "other" } },
  });
  assert.deepEqual(await result, { run_id: "r" });
});

test("a request made without a connection waits for one, and fails after its time", async () => {
  const { connection, last, advance } = setUp();
  connection.start();
  const waiting = connection.request("rpc.fs.read", {}, "r");
  last().ready();
  assert.equal(last().of("rpc.fs.read").length, 1);
  const failed = assert.rejects(waiting, /No response in time/);
  advance(30_000);
  await failed;
});

test("attempts are spaced out, and the state says when the hub is away", () => {
  const { connection, sockets, states, advance, last } = setUp();
  connection.start();
  for (let attempt = 0; attempt < 8; attempt += 1) {
    last().onclose?.({ code: 1006 });
    advance(15_000);
  }
  assert.equal(sockets.length, 9);
  assert.equal(connection.state, "offline");
  last().ready();
  assert.deepEqual(states, ["offline", "connected"]);
});

test("a silent connection is asked for a sign of life and then replaced", () => {
  const { connection, sockets, last, advance } = setUp();
  connection.start();
  last().ready();
  advance(20_000);
  assert.equal(last().of("app.ping").length, 1);
  last().receive({ type: "app.error", data: { code: "unknown_type", rejected_type: "app.ping" } });
  advance(19_000);
  assert.equal(sockets.length, 1);
  advance(1_000 + 8_000 + 250);
  assert.equal(sockets.length, 2);
  assert.equal(sockets[0]?.isClosed, true);
});

test("waking up connects at once", () => {
  const { connection, sockets, last, advance } = setUp();
  connection.start();
  for (let attempt = 0; attempt < 6; attempt += 1) {
    last().onclose?.({ code: 1006 });
    advance(15_000);
  }
  last().onclose?.({ code: 1006 });
  const before = sockets.length;
  connection.wake();
  assert.equal(sockets.length, before + 1);
  connection.wake();
  assert.equal(sockets.length, before + 1, "an attempt in progress is not doubled");
});

test("a sign-in that the hub has ended is checked at once", () => {
  const { connection, last, rejections } = setUp();
  connection.start();
  last().ready();
  last().onclose?.({ code: 1008 });
  assert.equal(rejections(), 1);
});

test("a refused sign-in is checked at every failure from the second on: the first checks may find no network", () => {
  const { connection, last, advance, rejections } = setUp();
  connection.start();
  last().ready();
  last().onclose?.({ code: 1006 });
  assert.equal(rejections(), 0, "one cut is no reason");
  for (let failure = 2; failure <= 5; failure += 1) {
    advance(15_000);
    last().onclose?.({ code: 1006 });
    assert.equal(rejections(), failure - 1);
  }
});

test("a share link sends its token in the first message", () => {
  const { connection, last } = setUp("secret");
  connection.start();
  last().ready();
  assert.deepEqual([last().sent[0]?.type, last().sent[0]?.data], ["app.auth", { token: "secret" }]);
});

test("messages that are no JSON or have no type are ignored", () => {
  const { connection, messages, last } = setUp();
  connection.start();
  last().ready();
  for (const data of ["{", "[]", '{"type":5}', "null", 7]) last().onmessage?.({ data });
  assert.deepEqual(
    messages.map((message) => message.type),
    ["app.ready"],
  );
});
