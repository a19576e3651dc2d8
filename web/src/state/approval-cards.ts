// The cards of requests on a screen: those that wait, then those that were decided while the screen showed them. Pure.
import type { ApprovalRow, RunRow } from "../connection/protocol.ts";
import { approvalKey } from "./hub-state.ts";
import { runContains } from "./run-lists.ts";

/** Remembers what a screen has shown, so that a card stays and shows who decided until the person leaves. */
export class ShownCards {
  private readonly shown = new Set<string>();

  constructor(private readonly limit = Infinity) {}

  /** At most `limit` cards that wait, and the latest of the decided ones that were shown. */
  of(approvals: ApprovalRow[]): ApprovalRow[] {
    const open = approvals.filter(({ status }) => status !== "decided").slice(0, this.limit);
    const decided = approvals.filter(
      ({ status, run_id, request_id }) =>
        status === "decided" && this.shown.has(approvalKey(run_id, request_id)),
    );
    for (const { run_id, request_id } of open) this.shown.add(approvalKey(run_id, request_id));
    return [...open, ...decided.slice(-this.limit)];
  }
}

/** Whether a request or its run contains a text. */
export function cardContains(
  { host_id, request }: ApprovalRow,
  run: RunRow | undefined,
  text: string,
  hostName: (id: string) => string,
): boolean {
  const wanted = text.trim().toLowerCase();
  if (wanted === "" || (run && runContains(run, wanted, hostName))) return true;
  const args = Object.values(request?.op_args ?? {}).filter((value) => typeof value === "string");
  const fields = [request?.prompt, request?.op_args_summary, request?.cwd, request?.requester, ...args];
  return [...fields, hostName(host_id)].some((field) => field?.toLowerCase().includes(wanted));
}
