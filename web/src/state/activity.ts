// The events of a run as entries of a conversation; a tool's call and its result are one entry. Pure.

export interface EventRow {
  seq: number;
  ts: string;
  kind: string;
  actor: string | null;
  text: string;
  data?: Record<string, unknown>;
}

export interface ActivityEntry {
  seq: number;
  ts: string;
  kind: "started" | "input" | "tool" | "requested" | "decided" | "exited" | "lost";
  row: EventRow;
  result?: EventRow;
}

const KINDS: Record<string, ActivityEntry["kind"]> = {
  "run.started": "started",
  "run.input": "input",
  "tool.call": "tool",
  "run.permission_requested": "requested",
  "run.permission_decided": "decided",
  "run.exited": "exited",
  "run.lost": "lost",
};

/** Operations of viewers that only look; they are no part of the conversation. */
const VIEWING = new Set([
  "rpc.run.screen",
  "rpc.approval.show",
  "rpc.fs.list",
  "rpc.fs.read",
  "rpc.fs.search",
  "rpc.git.status",
  "rpc.git.diff",
  "rpc.runs.list",
]);

/** Entries in the order of events, each event once. */
export function conversation(rows: EventRow[]): ActivityEntry[] {
  const calls = new Map<string, ActivityEntry>();
  const seen = new Set<number>();
  const entries: ActivityEntry[] = [];
  for (const row of [...rows].sort((a, b) => a.seq - b.seq)) {
    if (seen.has(row.seq)) continue;
    seen.add(row.seq);
    if (VIEWING.has(String(row.data?.tool ?? ""))) continue;
    const request = String(row.data?.request_id ?? "");
    const call = row.kind === "tool.result" ? calls.get(request) : undefined;
    if (call) {
      call.result = row;
      continue;
    }
    const kind = row.kind === "tool.result" ? "tool" : KINDS[row.kind];
    if (kind === undefined) continue;
    const entry: ActivityEntry = { seq: row.seq, ts: row.ts, kind, row };
    if (row.kind === "tool.result") entry.result = row;
    if (row.kind === "tool.call") calls.set(request, entry);
    entries.push(entry);
  }
  return entries;
}

/** A value of an agent as text: strings as they are, everything else as JSON. */
export function valueText(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}
