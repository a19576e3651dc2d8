// Responses that arrive after what they were to show has changed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError, api, onSignedOut } from "../../src/connection/api.ts";
import { StaleResponses } from "../../src/state/stale-responses.ts";

test("a response that a later request or change has overtaken is dropped", async () => {
  const responses = new StaleResponses();
  const pending: ((text: string) => void)[] = [];
  const request = () => responses.drop(() => new Promise<string>((done) => pending.push(done)));
  const [slow, fast] = [request(), request()];
  pending[1]?.("new");
  assert.equal(await fast, "new");
  pending[0]?.("old");
  assert.equal(await slow, null);
  const before = request();
  responses.changed();
  pending[2]?.("from before the change");
  assert.equal(await before, null);
  await assert.rejects(responses.drop(() => Promise.reject(new Error("refused"))));
});

test("a late 401 concerns the sign-in of its request, not a newer one", async (context) => {
  let respond: (response: Response) => void = () => undefined;
  context.mock.method(globalThis, "fetch", () => new Promise<Response>((done) => (respond = done)));
  const ended: string[] = [];
  onSignedOut(() => ended.push("first"));
  const late = api.get("/hosts");
  onSignedOut(() => ended.push("second"));
  respond(new Response("no sign-in", { status: 401 }));
  await assert.rejects(late, (error: ApiError) => error.status === 401);
  assert.deepEqual(ended, ["first"]);
  onSignedOut(() => undefined);
});
