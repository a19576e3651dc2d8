// Addresses, keys, diffs, conversations, trees and other small pure modules.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ApprovalRow, RunRow } from "../../src/connection/protocol.ts";
import { localAddress, parseAddress, runAddress } from "../../src/routing/address.ts";
import { conversation } from "../../src/state/activity.ts";
import { ShownCards, cardContains } from "../../src/state/approval-cards.ts";
import { pairLines, parseDiff } from "../../src/state/diff.ts";
import { parseEnvironment } from "../../src/state/environment.ts";
import { changeText, diffPath, parseStatus } from "../../src/state/git-status.ts";
import { visibleNodes } from "../../src/state/file-tree.ts";
import { MessageQueue, takesMessage } from "../../src/state/message-queue.ts";
import { commandText, requesterName, ruleName } from "../../src/state/operations.ts";
import { byHost, parts, runLists, runQuery } from "../../src/state/run-lists.ts";
import { keyText, withModifiers } from "../../src/terminal/keys.ts";
import { outputData } from "../../src/terminal/output-data.ts";
import { clock, duration, left, took } from "../../src/times.ts";

test("every address of the contract has its screen", () => {
  assert.deepEqual(parseAddress("/"), { screen: "home" });
  assert.deepEqual(parseAddress("/runs/a%2Fb"), { screen: "run", id: "a/b", tab: "terminal" });
  for (const tab of ["terminal", "activity", "files", "git"])
    assert.deepEqual(parseAddress(`/runs/r/${tab}`), { screen: "run", id: "r", tab });
  for (const screen of ["login", "hosts", "audit", "settings"])
    assert.deepEqual(parseAddress(`/${screen}`), { screen });
  assert.deepEqual(parseAddress("/hosts/h"), { screen: "host", id: "h" });
  assert.deepEqual(parseAddress("/share/t"), { screen: "share", token: "t" });
  assert.deepEqual(parseAddress("/approvals", "?run=r&request=q"), {
    screen: "approvals",
    run: "r",
    request: "q",
  });
  for (const path of ["/x", "/runs", "/runs/r/x", "/runs/r/git/x", "/hosts/h/x"])
    assert.deepEqual(parseAddress(path), { screen: "unknown" });
  assert.equal(parseAddress(runAddress("a/b?c")).screen, "run");
});

test("a place to return to is inside the app", () => {
  assert.equal(localAddress("/runs/r/git"), "/runs/r/git");
  for (const value of [
    "//evil.example",
    "https://evil.example",
    "/\\evil.example",
    "javascript:alert(1)",
    null,
  ])
    assert.equal(localAddress(value), "/");
});

test("keys and sticky modifiers become the bytes that programs expect", () => {
  const [none, ctrl] = [new Set<"ctrl" | "alt">(), new Set<"ctrl" | "alt">(["ctrl"])];
  assert.equal(keyText("up", none, false), "\x1b[A");
  assert.equal(keyText("up", none, true), "\x1bOA");
  assert.equal(keyText("left", ctrl, false), "\x1b[1;5D");
  assert.equal(withModifiers("c", ctrl), "\x03");
  assert.equal(withModifiers("x", new Set(["alt"])), "\x1bx");
  assert.equal(withModifiers("😀a", ctrl), "😀a");
});

test("a diff has line numbers on both sides, and pairs what replaces what", () => {
  const lines = parseDiff("--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n-c\n+B\n d\n");
  assert.deepEqual(
    lines.map(({ kind, oldLine, newLine }) => [kind, oldLine, newLine]),
    [
      ["file", null, null],
      ["file", null, null],
      ["hunk", null, null],
      ["context", 1, 1],
      ["removed", 2, null],
      ["removed", 3, null],
      ["added", null, 2],
      ["context", 4, 3],
    ],
  );
  const changed = pairLines(lines).filter(({ left, right }) => left !== right);
  assert.deepEqual(
    changed.map(({ left, right }) => [left?.text, right?.text]),
    [
      ["-b", "+B"],
      ["-c", undefined],
    ],
  );
  assert.equal(
    lines.map((line) => line.text).join("\n") + "\n",
    "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n-c\n+B\n d\n",
  );
});

test("a conversation joins calls and results, in order and once", () => {
  const row = (seq: number, kind: string, data = {}) => ({ seq, ts: "", kind, actor: null, text: "", data });
  const entries = conversation([
    row(3, "tool.result", { request_id: "q", ok: true }),
    row(1, "run.started"),
    row(2, "tool.call", { request_id: "q", tool: "rpc.bash" }),
    row(2, "tool.call", { request_id: "q", tool: "rpc.bash" }),
    row(5, "tool.call", { request_id: "w", tool: "rpc.fs.read" }),
    row(4, "run.exited"),
  ]);
  assert.deepEqual(
    entries.map(({ kind, result }) => [kind, result?.seq]),
    [
      ["started", undefined],
      ["tool", 3],
      ["exited", undefined],
    ],
  );
});

test("a tree shows open directories, and says where it is cut", () => {
  const entry = (name: string, is_dir = false) => ({ name, is_dir, size_bytes: null });
  const listings = new Map([
    ["", { entries: [entry("b"), entry("a", true)], truncated: true }],
    ["a", { entries: [], truncated: false }],
  ]);
  const nodes = visibleNodes(listings, new Set(["a"]), { empty: "empty", more: "more" });
  assert.deepEqual(
    nodes.map(({ name, level }) => [name, level]),
    [
      ["a", 1],
      ["empty", 2],
      ["b", 1],
      ["more", 1],
    ],
  );
});

test("queued messages are sent one per prompt", () => {
  const sent: string[] = [];
  const kept = new Map<string, string[]>();
  const queue = new MessageQueue(
    (run, text) => sent.push(`${run} ${text}`),
    () => {},
    { load: (run) => kept.get(run) ?? [], save: (run, messages) => void kept.set(run, messages) },
  );
  queue.add("r", "one");
  queue.add("r", "two");
  queue.add("r", "three");
  queue.remove("r", 1);
  queue.waits("r");
  assert.deepEqual([sent, queue.of("r")], [["r one"], ["three"]]);
  assert.deepEqual(kept.get("r"), ["three"], "the rest is kept for the next page");
  queue.clear("r");
  queue.waits("r");
  assert.equal(sent.length, 1);
  kept.set("s", ["from the page before"]);
  queue.waits("s");
  assert.deepEqual([sent.at(-1), kept.get("s")], ["s from the page before", []]);
});

test("a queued message answers neither a question for permission, nor a choice, nor a secret", () => {
  assert.equal(takesMessage({ reason: "prompt", prompt: "Next?", echo: true, options: [] }), true);
  assert.equal(takesMessage({}), true);
  assert.equal(takesMessage({ reason: "permission", request_id: "q" }), false);
  assert.equal(takesMessage({ reason: "prompt", prompt: "Password:", echo: false }), false);
  assert.equal(takesMessage({ reason: "choice", options: [{ label: "Yes", text: "y" }] }), false);
});

test("operations are shown whole", () => {
  assert.equal(commandText({ kind: "run", argv: ["bash", "-lc", "rm -rf 'a b'"] }), "rm -rf 'a b'");
  assert.equal(
    commandText({ kind: "run", argv: ["git", "commit", "-m", "it's"] }),
    "git commit -m 'it'\\''s'",
  );
  assert.equal(commandText({ kind: "write", paths: ["/w/f"] }), "write /w/f");
});

test("environments and times", () => {
  assert.deepEqual(parseEnvironment("A=1\n\nB=x=y"), { A: "1", B: "x=y" });
  assert.equal(parseEnvironment("A=1\n2B=3"), "2B=3");
  assert.equal(duration(3 * 3600 + 5), "3 h");
  assert.equal(left("2026-01-01T00:01:00Z", Date.parse("2026-01-01T00:00:00Z")), "1 min left");
  assert.equal(left("2026-01-01T00:00:00Z", Date.parse("2026-01-01T00:00:00Z")), "");
  assert.equal(left("nonsense", 0), null);
});

test("output that is no text is shown as bytes, live and stored", () => {
  const bytes = Uint8Array.from([255, 254]);
  assert.deepEqual(outputData({ base64: "//4=" }), bytes);
  assert.deepEqual(outputData({ base64: "//4=" }, ""), bytes);
  assert.equal(outputData({ text: "live" }), "live");
  assert.equal(outputData(undefined, "stored"), "stored");
});

test("times are short: how long something took, and when it was", () => {
  assert.deepEqual([took(12.4), took(16_585), took(125_000)], ["12 ms", "16.6 s", "2 min"]);
  const noon = new Date(2026, 0, 31, 12, 5, 9);
  assert.equal(clock(noon.toISOString(), noon.getTime()), "12:05:09");
  assert.equal(clock(noon.toISOString(), noon.getTime() + 86_400_000), "31 Jan 12:05");
  assert.equal(clock("nonsense", 0), "nonsense");
});

test("the status of git is a list of files and what happened to them", () => {
  const { branch, files } = parseStatus(
    "## main...origin/main\n M a b.txt\nMM both\nA  new\n?? other\nR  old -> renamed\n",
  );
  assert.equal(branch, "main...origin/main");
  const words = { changes: { M: "changed", A: "added", R: "renamed", "?": "untracked" }, staged: "staged" };
  assert.deepEqual(
    files.map((file) => [file.path, changeText(file, words)]),
    [
      ["a b.txt", "changed"],
      ["both", "changed, staged; changed"],
      ["new", "added, staged"],
      ["other", "untracked"],
      ["renamed", "renamed, staged"],
    ],
  );
  assert.deepEqual(
    ["diff --git a/x y b/x y", "diff --git a/old b/renamed", "+diff --git a/x b/x"].map(diffPath),
    ["x y", "renamed", null],
  );
});

test("runs are found, listed by what they do, and grouped by host", () => {
  const run = (id: string, host_id: string, status: string, minute: number) =>
    ({
      id,
      host_id,
      status,
      command: `make ${id}`,
      last_active_at: `2026-01-01T00:0${minute}:00Z`,
    }) as RunRow;
  const runs = [
    run("a", "h1", "exited", 1),
    run("b", "h2", "exited", 2),
    run("c", "h1", "running", 3),
    run("d", "h2", "awaiting_input", 4),
    run("e", "h1", "exited", 5),
  ];
  const ids = (rows: RunRow[]) => rows.map(({ id }) => id);
  const all = runLists(runs, { text: "", host: "" }, (id) => id);
  assert.deepEqual([ids(all.waiting), ids(all.running), ids(all.finished)], [["d"], ["c"], ["e", "b", "a"]]);
  assert.deepEqual(ids(runLists(runs, { text: " MAKE a", host: "" }, (id) => id).finished), ["a"]);
  assert.deepEqual(ids(runLists(runs, { text: "h2", host: "h1" }, (id) => id).finished), []);
  assert.deepEqual(
    byHost(all.finished).map(([host, rows]) => [host, ids(rows)]),
    [
      ["h1", ["e", "a"]],
      ["h2", ["b"]],
    ],
  );
  assert.deepEqual(parts(all.finished, 2).map(ids), [["e", "b"], ["a"]]);
  assert.deepEqual(parts([], 2), []);
  assert.equal(runQuery({ text: " a&b ", host: "h" }, { limit: "5" }), "limit=5&q=a%26b&host_id=h");
});

test("cards that wait come first; those that were decided stay if they were shown", () => {
  const card = (request_id: string, status: string) => ({ run_id: "r", request_id, status }) as ApprovalRow;
  const ids = (rows: ApprovalRow[]) => rows.map(({ request_id }) => request_id);
  const cards = new ShownCards(2);
  const [a, b, c, old] = [
    card("a", "pending"),
    card("b", "pending"),
    card("c", "pending"),
    card("old", "decided"),
  ];
  assert.deepEqual(ids(cards.of([old, a, b, c])), ["a", "b"]);
  assert.deepEqual(ids(cards.of([old, card("a", "sent"), b, c])), ["a", "b"]);
  assert.deepEqual(ids(cards.of([old, card("a", "decided"), b, c])), ["b", "c", "a"]);
  const all = ["a", "b", "c"].map((id) => card(id, "decided"));
  assert.deepEqual(ids(cards.of([old, ...all])), ["b", "c"], "the latest ones");
});

test("cards are found by their request, their run and their host", () => {
  const request = {
    request_id: "q",
    reason: "permission",
    prompt: "Approve bash",
    op_args: { cmd: "rm -rf build" },
  };
  const approval = { run_id: "r", request_id: "q", host_id: "h", request } as unknown as ApprovalRow;
  const run = { id: "r", host_id: "h", command: "codex", cwd: "/w" } as RunRow;
  const finds = (text: string) => cardContains(approval, run, text, (id) => `machine (${id})`);
  for (const text of ["", " RM -rf", "codex", "approve", "machine (h)"]) assert.ok(finds(text), text);
  assert.equal(finds("make"), false);
  assert.equal(
    cardContains(approval, undefined, "codex", (id) => id),
    false,
  );
});

test("people and rules are named without the words of the program", () => {
  assert.deepEqual([requesterName("user:admin"), requesterName("codex")], ["admin", "codex"]);
  assert.deepEqual(
    [ruleName("rpc.fs.write"), ruleName("no-sudo"), ruleName(undefined)],
    [null, "no-sudo", null],
  );
  const diff = "--- /w/f\n+++ /w/f\n@@ -1 +1 @@\n-a\n+b\n";
  assert.equal(commandText({ kind: "write", paths: ["/w/f"], diff }), "", "the diff names the file");
  assert.equal(commandText({ kind: "move", paths: ["/w/f", "/w/g"], diff }), "move /w/f → /w/g");
});
