// Answers of a person: sent once, whatever happens to the connection.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Answer, Outbox, decisionId } from "../../src/connection/outbox.ts";

interface Sent {
  path: string;
  body: Record<string, unknown>;
}

function setUp(responses: (number | "cut")[], found = { decided_by: "ann", decision: "approve" }) {
  const sent: Sent[] = [];
  let kept: Answer[] = [];
  const outbox = new Outbox(
    (path, body) => {
      sent.push({ path, body: { ...body } });
      const status = responses.shift() ?? 204;
      return status === "cut"
        ? Promise.reject(new Error("cut"))
        : Promise.resolve({ status, text: "already decided" });
    },
    () => Promise.resolve(found),
    () => {},
    (answers) => {
      const waiting = [...answers.values()].filter(({ stage }) => stage === "waiting" || stage === "sent");
      kept = waiting.map((answer) => ({ ...answer }));
    },
  );
  return { outbox, sent, kept: () => kept };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));
const id = decisionId("r", "q");

test("an answer without a connection waits, is sent once, and is confirmed by the host", async () => {
  const { outbox, sent } = setUp([]);
  outbox.decide("r", "q", "approve");
  outbox.decide("r", "q", "approve");
  await settled();
  assert.equal(outbox.get(id)?.stage, "waiting");
  assert.equal(sent.length, 0);
  outbox.connected("ann");
  await settled();
  assert.equal(outbox.get(id)?.stage, "received");
  outbox.event({
    type: "run.permission_decided",
    run_id: "r",
    data: { request_id: "q", decision: "approve" },
  });
  assert.equal(outbox.get(id)?.stage, "done");
  outbox.connected("ann");
  await settled();
  assert.equal(sent.length, 1);
  assert.deepEqual(sent[0], { path: "/approvals/r/q", body: { decision: "approve", actor: "web" } });
});

test("an answer whose response was cut is repeated, and its own earlier arrival is no conflict", async () => {
  const { outbox, sent } = setUp(["cut", 409]);
  outbox.connected("ann");
  outbox.decide("r", "q", "approve");
  await settled();
  outbox.disconnected();
  outbox.connected("ann");
  await settled();
  assert.equal(sent.length, 2);
  assert.equal(outbox.get(id)?.stage, "received");
});

test("if another person was faster, the answer says who and what", async () => {
  const { outbox } = setUp([409], { decided_by: "bob", decision: "deny" });
  outbox.connected("ann");
  outbox.decide("r", "q", "approve");
  await settled();
  assert.deepEqual([outbox.get(id)?.stage, outbox.get(id)?.error], ["failed", "Denied by bob"]);
});

test("messages keep their order and their id", async () => {
  const { outbox, sent } = setUp(["cut", 204, 204]);
  outbox.connected("ann");
  outbox.input("r", "1", "a\n");
  await settled();
  outbox.disconnected();
  outbox.input("r", "2", "b\n");
  outbox.connected("ann");
  await settled();
  assert.deepEqual(
    sent.map(({ body }) => body.input_id),
    ["1", "1", "2"],
  );
  outbox.event({ type: "run.input", run_id: "r", data: { input_id: "1" } });
  assert.deepEqual(outbox.get("1")?.body, {}, "the text is not kept");
  assert.deepEqual(
    outbox.ofRun("r").map((answer) => answer.id),
    ["2"],
  );
});

test("answers of a page that was closed are sent by the next one, under the same id", async () => {
  const closed = setUp([]);
  closed.outbox.decide("r", "q", "deny", { reason: "no" });
  closed.outbox.input("r", "1", "a\n");
  const { outbox, sent, kept } = setUp([]);
  outbox.restore(closed.kept());
  outbox.connected("ann");
  await outbox.settled();
  assert.deepEqual(
    sent.map(({ path, body }) => [path, body.input_id ?? body.reason]),
    [
      ["/approvals/r/q", "no"],
      ["/runs/r/input", "1"],
    ],
  );
  assert.deepEqual(kept(), [], "received ones are not kept");
});

test("what another person left is forgotten", async () => {
  const { outbox, sent } = setUp([]);
  outbox.decide("r", "q", "approve");
  outbox.clear();
  outbox.connected("bob");
  await outbox.settled();
  assert.deepEqual([sent.length, outbox.get(id)], [0, undefined]);
});

test("a refusal is final, an ended sign-in is not", async () => {
  const { outbox, sent } = setUp([401, 502]);
  outbox.connected("ann");
  outbox.input("r", "1", "a\n");
  await settled();
  assert.equal(outbox.get("1")?.stage, "waiting");
  outbox.connected("ann");
  await settled();
  assert.equal(outbox.get("1")?.stage, "failed");
  outbox.connected("ann");
  await settled();
  assert.equal(sent.length, 2);
});
