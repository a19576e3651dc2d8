// The last known state on this device, for the time without a connection. Removed on sign-out.
import type { Me } from "../connection/protocol.ts";
import type { Lists } from "./hub-state.ts";

const KEY = "last-known-state";

export interface Snapshot {
  at: string;
  me: Me;
  lists: Lists;
}

export function saveSnapshot(snapshot: Snapshot): void {
  // Arguments of operations may be confidential and are not needed offline.
  const approvals = snapshot.lists.approvals.map((approval) => ({
    ...approval,
    request: approval.request && { ...approval.request, op_args: undefined },
  }));
  const slim = { ...snapshot, lists: { ...snapshot.lists, approvals } };
  try {
    localStorage.setItem(KEY, JSON.stringify(slim));
  } catch {
    clearSnapshot();
  }
}

export function loadSnapshot(): Snapshot | null {
  try {
    const text = localStorage.getItem(KEY);
    return text === null ? null : (JSON.parse(text) as Snapshot);
  } catch {
    return null;
  }
}

export function clearSnapshot(): void {
  try {
    localStorage.removeItem(KEY);
  } catch {
    // Storage is switched off: nothing was stored.
  }
}
