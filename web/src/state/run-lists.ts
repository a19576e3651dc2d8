// The runs of the home screen: found, sorted into lists, and grouped by host. Pure.
import type { RunRow } from "../connection/protocol.ts";

export type StateFilter = "all" | "waiting" | "running" | "finished";

export interface RunFilter {
  text: string;
  host: string;
}

export interface RunLists {
  waiting: RunRow[];
  running: RunRow[];
  finished: RunRow[];
}

/** The runs that match, the most recently active first, by what they do. */
export function runLists(
  runs: Iterable<RunRow>,
  { text, host }: RunFilter,
  hostName: (id: string) => string,
): RunLists {
  const wanted = text.trim().toLowerCase();
  const lists: RunLists = { waiting: [], running: [], finished: [] };
  for (const run of runs) {
    if (host !== "" && run.host_id !== host) continue;
    if (wanted === "" || runContains(run, wanted, hostName)) lists[listOf(run)].push(run);
  }
  for (const list of Object.values(lists) as RunRow[][])
    list.sort((a, b) => (a.last_active_at < b.last_active_at ? 1 : -1));
  return lists;
}

function listOf({ status }: RunRow): keyof RunLists {
  if (status === "running") return "running";
  return status === "exited" ? "finished" : "waiting";
}

/** Whether a run contains a text in lower case. */
export function runContains(run: RunRow, wanted: string, hostName: (id: string) => string): boolean {
  const fields = [run.command, run.tool, run.cwd, hostName(run.host_id), run.id];
  return fields.some((field) => field?.toLowerCase().includes(wanted));
}

/** The runs of each host, in the order of their first run. */
export function byHost(runs: RunRow[]): [host: string, runs: RunRow[]][] {
  const groups = new Map<string, RunRow[]>();
  for (const run of runs) groups.set(run.host_id, [...(groups.get(run.host_id) ?? []), run]);
  return [...groups];
}

/** The runs in parts of equal length, which are rendered one by one. */
export function parts(runs: RunRow[], length: number): RunRow[][] {
  const starts = Array.from({ length: Math.ceil(runs.length / length) }, (_, index) => index * length);
  return starts.map((start) => runs.slice(start, start + length));
}

/** The parameters by which the hub finds the same runs. */
export function runQuery({ text, host }: RunFilter, more: Record<string, string> = {}): string {
  const params = new URLSearchParams(more);
  if (text.trim() !== "") params.set("q", text.trim());
  if (host !== "") params.set("host_id", host);
  return params.toString();
}
