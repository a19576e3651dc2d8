// The state that every screen renders: the person, the connection, hosts, runs and approvals.
import { api, ApiError, onSignedOut, send, useBearer } from "../connection/api.ts";
import { browserEnvironment, newId } from "../connection/browser-socket.ts";
import { type ConnectionState, HubConnection } from "../connection/hub-connection.ts";
import { Outbox, approvalPath } from "../connection/outbox.ts";
import type { ApprovalRow, Envelope, HostRow, Me, Role, RunRow } from "../connection/protocol.ts";
import { claimDrafts, clearDrafts, queueDrafts } from "./drafts.ts";
import { inFrame } from "./frame.ts";
import { HubState, type Lists } from "./hub-state.ts";
import { clearAnswers, loadAnswers, saveAnswers } from "./kept-answers.ts";
import { now } from "./now.svelte.ts";
import { MessageQueue, takesMessage } from "./message-queue.ts";
import { unsubscribe } from "./push.ts";
import { clearSnapshot, loadSnapshot, saveSnapshot } from "./snapshot.ts";
import { checkForUpdate } from "./update.ts";

type RunListener = (envelope: Envelope) => void;

const ROLES: Role[] = ["viewer", "operator", "admin"];
/** The most recently active runs; those that have not ended are read besides. */
const RUNS_AT_START = 200;
const MAX_UNFINISHED = 2_000;
const SNAPSHOT_EVERY_MS = 5_000;
const RELOAD_AGAIN_MS = 2_000;
/** Decisions that were made without a connection and are read one by one. */
const MAX_DECISIONS_READ = 20;

class Store {
  me: Me | null = $state(null);
  /** "unknown" until the hub or the last known state says who is signed in. */
  signIn: "unknown" | "out" | "in" = $state("unknown");
  /** Whether the sign-in of this device ended by itself, and not by the person. */
  hasExpired = $state(false);
  connectionState: ConnectionState = $state("reconnecting");
  /** When the shown state was saved, if it does not come from the hub. */
  staleSince: string | null = $state(null);
  isLoaded = $state(false);
  private version = $state(0);
  private answersVersion = $state(0);

  private readonly hub = new HubState();
  private readonly listeners = new Map<string, Set<RunListener>>();
  private snapshotTimer = 0;
  private changeScheduled = false;
  private isSigningOut = false;
  /** Sign-ins of this page so far. A late response to a request of an earlier one does not end the present one. */
  private signIns = 0;
  connection = this.newConnection();
  private readonly box = new Outbox(
    async (path, body) => {
      const response = await send("POST", path, body);
      return { status: response.status, text: (await response.text()).trim() };
    },
    (path) => api.get<ApprovalRow>(path),
    () => (this.answersVersion += 1),
    (answers) => saveAnswers(this.me?.user ?? "", answers),
  );
  private readonly queue = new MessageQueue(
    (run, text) => this.box.input(run, newId(), text),
    () => (this.answersVersion += 1),
    queueDrafts,
  );

  get hosts(): Map<string, HostRow> {
    void this.version;
    return this.hub.hosts;
  }
  get runs(): Map<string, RunRow> {
    void this.version;
    return this.hub.runs;
  }
  get approvals(): Map<string, ApprovalRow> {
    void this.version;
    return this.hub.approvals;
  }
  get prompts() {
    void this.version;
    return this.hub.prompts;
  }
  get outbox(): Outbox {
    void this.answersVersion;
    return this.box;
  }
  get messages(): MessageQueue {
    void this.answersVersion;
    return this.queue;
  }
  get isOnline(): boolean {
    return this.connectionState === "connected";
  }

  may(role: Role): boolean {
    return this.me !== null && this.me.kind !== "share" && ROLES.indexOf(this.me.role) >= ROLES.indexOf(role);
  }

  hostName(id: string): string {
    return this.hosts.get(id)?.name || id;
  }

  /** The name and, if it differs, the id, for decisions that concern exactly one machine. */
  hostLabel(id: string): string {
    const name = this.hostName(id);
    return name === id ? id : `${name} (${id})`;
  }

  /** Finds out who is signed in; without the hub, shows the last known state. */
  async begin(): Promise<void> {
    try {
      const me = await api.get<Me>("/auth/me");
      if (this.me === null) this.signedIn(me);
    } catch (error) {
      // The person has signed in meanwhile.
      if (this.me !== null) return;
      const saved = loadSnapshot();
      // A saved state belongs to a sign-in of this device.
      if (error instanceof ApiError && error.status === 401) return this.ended(saved !== null);
      if (!saved) {
        this.connectionState = "offline";
        return;
      }
      this.hub.refresh(saved.lists);
      this.staleSince = saved.at;
      this.isLoaded = true;
      this.signedIn(saved.me);
    }
  }

  signedIn(me: Me): void {
    const signIn = (this.signIns += 1);
    this.me = me;
    this.signIn = "in";
    this.hasExpired = false;
    if (me.kind !== "share") {
      onSignedOut(() => {
        if (signIn === this.signIns) this.ended(true);
      });
      if (claimDrafts(me.user)) this.forgetAnswers();
      this.box.restore(loadAnswers(me.user));
    }
    this.changed();
    this.connection.start();
  }

  /** Watches one run by the token of a share link. */
  async beginShare(token: string): Promise<Me> {
    useBearer(token);
    const me = await api.get<Me>("/auth/me");
    const run = await api.get<RunRow>(`/runs/${encodeURIComponent(me.run_id ?? "")}`);
    this.connection = this.newConnection(token);
    this.hub.addRuns([run]);
    this.signedIn(me);
    this.isLoaded = true;
    return me;
  }

  async signOut(everywhere: boolean): Promise<void> {
    // The hub closes the connection before it responds; that is no ended sign-in.
    this.isSigningOut = true;
    try {
      // The next person on this device gets no notices of this one. What fails here is removed when the next one cannot be sent.
      await unsubscribe().catch(() => undefined);
      await api.post("/auth/logout", { everywhere });
      this.ended(false);
    } finally {
      this.isSigningOut = false;
    }
    clearDrafts();
    clearAnswers();
    this.forgetAnswers();
  }

  /** Passes every event of a run to a screen. Returns what ends it. */
  listen(run: string, listener: RunListener): () => void {
    const listeners = this.listeners.get(run) ?? new Set();
    this.listeners.set(run, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.listeners.get(run) === listeners) {
        this.listeners.delete(run);
        this.connection.unsubscribe(run);
      }
    };
  }

  addRuns(runs: RunRow[]): void {
    this.hub.addRuns(runs);
    this.changed();
  }

  removeHost(id: string): void {
    this.hub.hosts.delete(id);
    this.changed();
  }

  /** What waits was typed by another person. */
  private forgetAnswers(): void {
    this.box.clear();
    this.queue.clearAll();
  }

  private ended(hasExpired: boolean): void {
    if (hasExpired && !this.isSigningOut && this.signIn !== "out") this.hasExpired = true;
    this.connection.stop();
    this.hub.clear();
    // A share link that ends says nothing about the person who has signed in on this device.
    if (this.me?.kind !== "share") clearSnapshot();
    this.me = null;
    this.signIn = "out";
    this.isLoaded = false;
    this.changed();
  }

  private newConnection(token?: string): HubConnection {
    return new HubConnection(browserEnvironment(token), {
      message: (envelope) => this.received(envelope),
      state: (state) => this.stateChanged(state),
      rejected: () => void this.checkSignIn(),
    });
  }

  private async checkSignIn(): Promise<void> {
    const signIn = this.signIns;
    try {
      await api.get<Me>("/auth/me");
    } catch (error) {
      const isSignedOut = error instanceof ApiError && error.status === 401;
      if (isSignedOut && signIn === this.signIns) this.ended(true);
    }
  }

  private stateChanged(state: ConnectionState): void {
    this.connectionState = state;
    if (state === "connected") this.box.connected(this.me?.user ?? "");
    else this.box.disconnected();
    if (state !== "connected" && this.isLoaded) this.staleSince ??= new Date().toISOString();
  }

  private received(envelope: Envelope): void {
    if (envelope.type === "app.ready") {
      now.set(envelope.ts);
      if (this.me && this.me.kind !== "share") this.me = { ...this.me, ...readyFields(envelope) };
      void this.reload();
      void checkForUpdate(envelope.data?.bundle_version, this.box.settled());
    }
    if (envelope.type === "app.resync") void this.reload();
    this.hub.apply(envelope);
    this.box.event(envelope);
    if (envelope.run_id !== undefined) {
      for (const listener of this.listeners.get(envelope.run_id) ?? []) listener(envelope);
      if (envelope.type === "run.awaiting_input" && takesMessage(envelope.data ?? {}))
        this.queue.waits(envelope.run_id);
      if (envelope.type === "run.exited") this.queue.clear(envelope.run_id);
    }
    if (envelope.type !== "run.output") this.changed();
  }

  /** Reads the lists again: after each connection, and when the hub had to drop messages. */
  private async reload(): Promise<void> {
    if (this.me?.kind === "share") return this.reloaded();
    this.hub.beginRefresh();
    try {
      const [hosts, recent, running, waiting, approvals] = await Promise.all([
        api.get<HostRow[]>("/hosts"),
        api.get<RunRow[]>(`/runs?limit=${RUNS_AT_START}`),
        api.get<RunRow[]>(`/runs?status=running&limit=${MAX_UNFINISHED}`),
        api.get<RunRow[]>(`/runs?status=waiting&limit=${MAX_UNFINISHED}`),
        api.get<ApprovalRow[]>("/approvals?status=pending"),
      ]);
      const missed = this.hub.refresh({ hosts, runs: [...recent, ...running, ...waiting], approvals });
      this.reloaded();
      if (this.may("operator")) void this.readDecisions(missed.slice(-MAX_DECISIONS_READ));
    } catch {
      // Without a connection, the next one reads the lists.
      if (this.isOnline) window.setTimeout(() => void this.reload(), RELOAD_AGAIN_MS);
    }
  }

  private async readDecisions(missed: ApprovalRow[]): Promise<void> {
    for (const { run_id, request_id } of missed) {
      const row = await api.get<ApprovalRow>(approvalPath(run_id, request_id)).catch(() => null);
      if (row) this.hub.setDecision(row);
    }
    this.changed();
  }

  private reloaded(): void {
    this.isLoaded = true;
    this.staleSince = null;
    this.changed();
  }

  /** Redraws once per frame, however many events arrive. */
  private changed(): void {
    if (this.changeScheduled) return;
    this.changeScheduled = true;
    inFrame(() => {
      this.changeScheduled = false;
      this.version += 1;
    });
    this.snapshotTimer ||= window.setTimeout(() => this.saveState(), SNAPSHOT_EVERY_MS);
  }

  private saveState(): void {
    this.snapshotTimer = 0;
    if (!this.me || this.me.kind === "share" || !this.isOnline) return;
    const lists: Lists = {
      hosts: [...this.hub.hosts.values()],
      runs: [...this.hub.runs.values()].slice(0, RUNS_AT_START),
      approvals: [...this.hub.approvals.values()].filter((approval) => approval.status === "pending"),
    };
    saveSnapshot({ at: new Date().toISOString(), me: this.me, lists });
  }
}

function readyFields({ data }: Envelope): Partial<Me> {
  return { user: String(data?.user), role: data?.role as Role, hub_version: String(data?.version) };
}

export const store = new Store();
