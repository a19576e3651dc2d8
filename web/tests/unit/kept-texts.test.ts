// What is kept on the device: drafts and waiting answers of one person, and never a secret.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import type { Answer } from "../../src/connection/outbox.ts";
import {
  claimDrafts,
  clearDrafts,
  loadDraft,
  loadFileDraft,
  queueDrafts,
  saveDraft,
  saveFileDraft,
} from "../../src/state/drafts.ts";
import { loadAnswers, saveAnswers } from "../../src/state/kept-answers.ts";

class MemoryStorage {
  private readonly values = new Map<string, string>();
  get length() {
    return this.values.size;
  }
  key = (index: number) => [...this.values.keys()][index] ?? null;
  getItem = (key: string) => this.values.get(key) ?? null;
  setItem = (key: string, value: string) => void this.values.set(key, value);
  removeItem = (key: string) => void this.values.delete(key);
}

beforeEach(() => {
  for (const name of ["sessionStorage", "localStorage"])
    Object.defineProperty(globalThis, name, { value: new MemoryStorage(), configurable: true });
});

test("a draft of a file knows the text that it replaces", () => {
  saveFileDraft("f", { base: "before", text: "after" });
  assert.deepEqual(loadFileDraft("f"), { base: "before", text: "after" });
  saveDraft("f", "the text alone, from an older version");
  assert.equal(loadFileDraft("f"), null);
  saveFileDraft("f", null);
  assert.equal(sessionStorage.length, 0);
});

test("drafts end with a sign-out, and with the sign-in of another person", () => {
  assert.equal(claimDrafts("ann"), false);
  saveDraft("message r", "half a sentence");
  queueDrafts.save("r", ["queued"]);
  assert.equal(claimDrafts("ann"), false);
  assert.deepEqual([loadDraft("message r"), queueDrafts.load("r")], ["half a sentence", ["queued"]]);
  assert.equal(claimDrafts("bob"), true);
  assert.deepEqual([loadDraft("message r"), queueDrafts.load("r")], ["", []]);
  saveDraft("a", "1");
  saveDraft("b", "2");
  clearDrafts();
  assert.deepEqual([loadDraft("a"), loadDraft("b")], ["", ""]);
});

test("answers that wait are kept for their person; secrets and those that have arrived are not", () => {
  const answer = (id: string, stage: Answer["stage"], isSecret = false): [string, Answer] => [
    id,
    { id, run: "r", path: "/p", body: { text: `text ${id}` }, stage, isSecret },
  ];
  saveAnswers(
    "ann",
    new Map([answer("1", "waiting"), answer("2", "waiting", true), answer("3", "received")]),
  );
  assert.deepEqual(
    loadAnswers("ann").map(({ id }) => id),
    ["1"],
  );
  assert.ok(!localStorage.getItem("waiting-answers")?.includes("text 2"));
  assert.deepEqual(loadAnswers("bob"), []);
  saveAnswers("ann", new Map([answer("4", "sent")]));
  assert.equal(loadAnswers("ann").length, 2, "those of another tab stay");
  saveAnswers("ann", new Map([answer("1", "done"), answer("4", "received")]));
  assert.equal(localStorage.length, 0);
});
