// The messages and rows of the hub that the app uses. Unknown members are ignored.

export type Role = "viewer" | "operator" | "admin";

/** One message of /ws/app. */
export interface Envelope {
  type: string;
  ts?: string;
  host_id?: string;
  run_id?: string;
  seq?: number;
  data?: Record<string, unknown>;
}

export interface HostRow {
  id: string;
  name: string | null;
  version: string | null;
  last_seen_at: string;
  online: boolean;
  is_older?: boolean;
}

export type RunStatus = "running" | "awaiting_input" | "awaiting_approval" | "exited";

export interface RunRow {
  id: string;
  host_id: string;
  tool: string | null;
  cwd: string | null;
  command: string | null;
  status: RunStatus;
  started_at: string;
  last_active_at: string;
  pending_request_id: string | null;
  pending_prompt: string | null;
  ended_at: string | null;
  exit_code: number | null;
  last_seq: number;
}

export interface ChoiceOption {
  label: string;
  text: string;
}

/** The data of `run.awaiting_input`. */
export interface Prompt {
  reason: "permission" | "choice" | "prompt" | "unknown";
  prompt?: string;
  request_id?: string;
  echo?: boolean;
  options?: ChoiceOption[];
}

/** The data of `run.permission_requested`, without secrets. */
export interface PermissionRequest {
  request_id: string;
  reason: string;
  prompt: string;
  op_tool?: string;
  op_args?: Record<string, unknown>;
  op_args_summary?: string;
  approve_text?: string;
  deny_text?: string;
  risk?: string;
  cwd?: string;
  requester?: string;
  expires_at?: string;
  options?: ChoiceOption[];
}

export interface ApprovalRow {
  run_id: string;
  request_id: string;
  host_id: string;
  status: "pending" | "sent" | "decided";
  requested_at: string;
  expires_at: string | null;
  decision: string | null;
  decided_by: string | null;
  decided_reason: string | null;
  request: PermissionRequest | null;
  shown?: ShownOperation;
  shown_error?: string;
}

/** The true text of a request, from the host. */
export interface ShownOperation {
  summary?: string;
  cwd?: string;
  risk?: string;
  rule?: string;
  reason?: string;
  requester?: string;
  expires_at?: string;
  operation?: Operation;
}

export interface Operation {
  kind: string;
  argv?: string[];
  command?: string;
  cwd?: string;
  env?: Record<string, string>;
  stdin?: string;
  stdin_cut_bytes?: number;
  paths?: string[];
  diff?: string;
  diff_cut_bytes?: number;
}

export interface MessageRow {
  id: number;
  seq: number;
  ts: string;
  kind: string;
  actor: string | null;
  request_id: string | null;
  text: string;
  data?: Record<string, unknown>;
}

export interface Me {
  user: string;
  role: Role;
  kind: "user" | "token" | "share";
  hub_version?: string;
  bundle_version?: string;
  run_id?: string;
}
