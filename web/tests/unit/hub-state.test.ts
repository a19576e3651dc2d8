// The state of hosts, runs and approvals under events, repeats and refreshes.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Envelope, RunRow } from "../../src/connection/protocol.ts";
import { HubState, approvalKey } from "../../src/state/hub-state.ts";

const event = (type: string, seq: number, data: Record<string, unknown> = {}): Envelope => ({
  type,
  ts: `2026-01-01T00:00:${String(seq).padStart(2, "0")}Z`,
  host_id: "h",
  run_id: "r",
  seq,
  data,
});
const request = { request_id: "q", reason: "permission", prompt: "Approve bash: ls" };

function statusAfter(...events: Envelope[]) {
  const state = new HubState();
  for (const one of events) state.apply(one);
  return { state, run: state.runs.get("r") as RunRow };
}

test("a run follows its events", () => {
  const { run } = statusAfter(
    event("run.started", 1, { tool: "shell", cwd: "/w", command: "make" }),
    event("run.awaiting_input", 2, { reason: "prompt", prompt: "Name?" }),
  );
  assert.deepEqual([run.command, run.status, run.pending_prompt], ["make", "awaiting_input", "Name?"]);
  const { run: ended, state } = statusAfter(
    event("run.awaiting_input", 2, { reason: "prompt" }),
    event("run.input", 3, { input_id: "i" }),
    event("run.exited", 4, { exit_code: 3 }),
  );
  assert.deepEqual([ended.status, ended.exit_code, state.prompts.size], ["exited", 3, 0]);
});

test("repeated and late events change nothing", () => {
  const { state, run } = statusAfter(
    event("run.permission_requested", 2, request),
    event("run.permission_decided", 3, { request_id: "q", decision: "deny", user: "bob" }),
    event("run.permission_requested", 2, request),
    event("run.exited", 5, { exit_code: 0 }),
    event("run.awaiting_input", 4, { prompt: "late" }),
    event("run.started", 1, { command: "late start", cwd: "/", tool: "t" }),
  );
  assert.equal(run.status, "exited");
  assert.equal(run.command, "late start");
  const approval = state.approvals.get(approvalKey("r", "q"));
  assert.deepEqual([approval?.status, approval?.decision, approval?.decided_by], ["decided", "deny", "bob"]);
});

test("a prompt that the program ends itself is gone, and a request for permission is not", () => {
  const { state, run } = statusAfter(
    event("run.awaiting_input", 2, { reason: "prompt", prompt: "Password:", echo: false }),
    event("run.continued", 3),
  );
  assert.deepEqual([run.status, run.pending_prompt, state.prompts.size], ["running", null, 0]);
  const waiting = statusAfter(event("run.permission_requested", 2, request), event("run.continued", 3));
  assert.equal(waiting.run.status, "awaiting_approval");
});

test("typing does not answer an operation that waits in the host", () => {
  const { run } = statusAfter(
    event("run.permission_requested", 2, request),
    event("run.input", 3, { input_id: "i" }),
  );
  assert.equal(run.status, "awaiting_approval");
});

test("events that arrive while the lists are read are kept", () => {
  const state = new HubState();
  state.beginRefresh();
  state.apply(event("run.exited", 9, { exit_code: 1 }));
  const listed = { ...statusAfter(event("run.started", 8, { command: "c" })).run };
  state.refresh({ hosts: [], runs: [listed], approvals: [] });
  assert.deepEqual([state.runs.get("r")?.status, state.runs.get("r")?.command], ["exited", "c"]);
});

test("the hub's record of a decision shows who was first, before the host confirms it", () => {
  const { state } = statusAfter(event("run.permission_requested", 2, request));
  state.apply({
    type: "approval.decision",
    run_id: "r",
    host_id: "h",
    data: { request_id: "q", decision: "approve", user: "ann" },
  });
  const approval = state.approvals.get(approvalKey("r", "q"));
  assert.deepEqual([approval?.status, approval?.decided_by], ["sent", "ann"]);
});

test("a run that ends withdraws its requests", () => {
  const { state } = statusAfter(
    event("run.permission_requested", 2, request),
    event("run.exited", 3, { exit_code: 0 }),
  );
  assert.equal(state.approvals.get(approvalKey("r", "q"))?.decision, "withdrawn");
});

test("hosts come and go", () => {
  const state = new HubState();
  state.apply({ type: "host.online", host_id: "h", data: { name: "box", version: "1" } });
  state.apply({ type: "host.offline", host_id: "h", ts: "2026-01-01T00:00:00Z" });
  assert.deepEqual([state.hosts.get("h")?.name, state.hosts.get("h")?.online], ["box", false]);
  state.apply({ type: "host.online", host_id: "h", data: { version: "0.1", is_older: true } });
  state.apply({ type: "host.online", host_id: "h", data: {} });
  assert.equal(state.hosts.get("h")?.is_older, true, "kept where the event does not say");
  state.apply({ type: "host.online", host_id: "h", data: { version: "2", is_older: false } });
  assert.equal(state.hosts.get("h")?.is_older, false, "upgraded");
});

test("a request that was decided while there was no connection stays, and shows how", () => {
  const { state } = statusAfter(event("run.permission_requested", 2, request));
  const [missed] = state.refresh({ hosts: [], runs: [], approvals: [] });
  assert.equal(missed?.request_id, "q");
  state.setDecision({ ...(missed ?? assert.fail()), decision: "deny", decided_by: "bob" });
  const approval = state.approvals.get(approvalKey("r", "q"));
  assert.deepEqual([approval?.status, approval?.decision, approval?.decided_by], ["decided", "deny", "bob"]);
  assert.deepEqual(state.refresh({ hosts: [], runs: [], approvals: [] }), []);
});
