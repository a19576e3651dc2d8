// What the app knows about hosts, runs and approvals: lists of the hub, changed by its events. Pure.
import type {
  ApprovalRow,
  Envelope,
  HostRow,
  PermissionRequest,
  Prompt,
  RunRow,
} from "../connection/protocol.ts";

/** Decided approvals that stay visible, so that a card can show who decided. */
const MAX_DECIDED = 100;

export interface Lists {
  hosts: HostRow[];
  runs: RunRow[];
  approvals: ApprovalRow[];
}

export class HubState {
  readonly hosts = new Map<string, HostRow>();
  readonly runs = new Map<string, RunRow>();
  readonly approvals = new Map<string, ApprovalRow>();
  readonly prompts = new Map<string, Prompt>();
  /** Events since the lists were requested, which may be newer than the lists. */
  private recent: Envelope[] | null = null;

  /** To be called before the lists are requested. */
  beginRefresh(): void {
    this.recent = [];
  }

  /**
   * Replaces everything by the lists of the hub, then applies the events that came meanwhile.
   * Returns the requests that were decided without this app seeing how.
   */
  refresh(lists: Lists): ApprovalRow[] {
    const recent = this.recent ?? [];
    this.recent = null;
    replace(this.hosts, lists.hosts, (host) => host.id);
    replace(this.runs, lists.runs, (run) => run.id);
    const listed = new Map(lists.approvals.map((row) => [approvalKey(row.run_id, row.request_id), row]));
    for (const [key, approval] of this.approvals) {
      if (approval.status !== "decided" && !listed.has(key))
        this.approvals.set(key, { ...approval, status: "decided" });
    }
    for (const [key, approval] of listed) this.approvals.set(key, approval);
    for (const run of this.prompts.keys()) {
      if (this.runs.get(run)?.status !== "awaiting_input") this.prompts.delete(run);
    }
    for (const envelope of recent) this.apply(envelope);
    return [...this.approvals.values()].filter(
      ({ status, decision }) => status === "decided" && decision === null,
    );
  }

  /** Adds how a request was decided. */
  setDecision(row: ApprovalRow): void {
    const key = approvalKey(row.run_id, row.request_id);
    const known = this.approvals.get(key);
    if (!known || row.decision === null) return;
    const { decision, decided_by, decided_reason } = row;
    this.approvals.set(key, { ...known, decision, decided_by, decided_reason });
  }

  /** Forgets everything. */
  clear(): void {
    for (const map of [this.hosts, this.runs, this.approvals, this.prompts]) map.clear();
    this.recent = null;
  }

  /** Adds older runs, which the lists did not have. */
  addRuns(runs: RunRow[]): void {
    for (const run of runs) if (!this.runs.has(run.id)) this.runs.set(run.id, run);
  }

  apply(envelope: Envelope): void {
    this.recent?.push(envelope);
    const { type, host_id: host, run_id: run } = envelope;
    if (host !== undefined && (type === "host.online" || type === "host.offline"))
      this.applyHost(host, envelope);
    if (run === undefined) return;
    if (type === "approval.decision") return this.decided(run, envelope.data ?? {}, "sent");
    if (envelope.seq !== undefined) this.applyEvent(run, envelope.seq, envelope);
  }

  private applyHost(id: string, { type, ts, data }: Envelope): void {
    const known = this.hosts.get(id);
    this.hosts.set(id, {
      is_older: typeof data?.is_older === "boolean" ? data.is_older : known?.is_older,
      id,
      name: text(data?.name) ?? known?.name ?? null,
      version: text(data?.version) ?? known?.version ?? null,
      last_seen_at: ts ?? new Date().toISOString(),
      online: type === "host.online",
    });
  }

  private applyEvent(id: string, seq: number, envelope: Envelope): void {
    const data = envelope.data ?? {};
    const run = this.runs.get(id) ?? newRun(id, envelope);
    const isNewer = seq > run.last_seq;
    const next: RunRow = { ...run, last_seq: Math.max(seq, run.last_seq) };
    if (isNewer) next.last_active_at = envelope.ts ?? run.last_active_at;
    if (envelope.type === "run.started") {
      Object.assign(next, { tool: text(data.tool), cwd: text(data.cwd), command: text(data.command) });
    }
    if (envelope.type === "run.permission_requested") this.requested(id, envelope, isNewer);
    if (envelope.type === "run.permission_decided") this.decided(id, data, "decided");
    if (isNewer && run.status !== "exited") this.applyStatus(next, envelope);
    // A prompt that is repeated on connection has the number of the run's last event or an earlier one.
    else if (envelope.type === "run.awaiting_input" && run.status === "awaiting_input") {
      this.prompts.set(id, data as unknown as Prompt);
    }
    this.runs.set(id, next);
  }

  private applyStatus(run: RunRow, envelope: Envelope): void {
    const data = envelope.data ?? {};
    switch (envelope.type) {
      case "run.awaiting_input":
        if (run.status === "awaiting_approval") break;
        run.status = "awaiting_input";
        run.pending_prompt = text(data.prompt);
        this.prompts.set(run.id, data as unknown as Prompt);
        break;
      case "run.permission_requested":
        run.status = "awaiting_approval";
        run.pending_request_id = text(data.request_id);
        run.pending_prompt = text(data.prompt);
        break;
      case "run.input":
      case "run.permission_decided":
        if (envelope.type === "run.input" && run.status === "awaiting_approval") break;
        this.running(run);
        break;
      case "run.continued":
        if (run.status === "awaiting_input") this.running(run);
        break;
      case "run.exited":
        run.status = "exited";
        run.ended_at = envelope.ts ?? null;
        run.exit_code = typeof data.exit_code === "number" ? data.exit_code : null;
        this.prompts.delete(run.id);
        this.withdraw(run.id);
        break;
    }
  }

  private running(run: RunRow): void {
    const other = [...this.approvals.values()].find(
      (approval) => approval.run_id === run.id && approval.status === "pending",
    );
    run.status = other ? "awaiting_approval" : "running";
    run.pending_request_id = other?.request_id ?? null;
    run.pending_prompt = other?.request?.prompt ?? null;
    this.prompts.delete(run.id);
  }

  private requested(run: string, envelope: Envelope, isNewer: boolean): void {
    const request = envelope.data as unknown as PermissionRequest;
    const key = approvalKey(run, request.request_id);
    // An event that the lists already contain never opens a request again: it is in the list, or decided.
    if (this.approvals.has(key) || !isNewer) return;
    this.approvals.set(key, {
      run_id: run,
      request_id: request.request_id,
      host_id: envelope.host_id ?? "",
      status: "pending",
      requested_at: envelope.ts ?? "",
      expires_at: request.expires_at ?? null,
      decision: null,
      decided_by: null,
      decided_reason: null,
      request,
    });
  }

  private decided(run: string, data: Record<string, unknown>, status: "sent" | "decided"): void {
    const key = approvalKey(run, String(data.request_id));
    const known = this.approvals.get(key);
    if (!known || known.status === "decided") return;
    this.approvals.set(key, {
      ...known,
      status,
      decision: text(data.decision) ?? known.decision,
      decided_by: text(data.user) ?? known.decided_by,
      decided_reason: text(data.reason) ?? known.decided_reason,
    });
    const decided = [...this.approvals].filter(([, approval]) => approval.status === "decided");
    for (const [old] of decided.slice(0, Math.max(0, decided.length - MAX_DECIDED)))
      this.approvals.delete(old);
  }

  private withdraw(run: string): void {
    for (const [key, approval] of this.approvals) {
      if (approval.run_id === run && approval.status !== "decided") {
        this.approvals.set(key, { ...approval, status: "decided", decision: "withdrawn" });
      }
    }
  }
}

export function approvalKey(run: string, request: string): string {
  return `${run} ${request}`;
}

function newRun(id: string, envelope: Envelope): RunRow {
  const now = envelope.ts ?? new Date().toISOString();
  return {
    id,
    host_id: envelope.host_id ?? "",
    tool: null,
    cwd: null,
    command: null,
    status: "running",
    started_at: now,
    last_active_at: now,
    pending_request_id: null,
    pending_prompt: null,
    ended_at: null,
    exit_code: null,
    last_seq: 0,
  };
}

function replace<T>(map: Map<string, T>, rows: T[], key: (row: T) => string): void {
  map.clear();
  for (const row of rows) map.set(key(row), row);
}

function text(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
