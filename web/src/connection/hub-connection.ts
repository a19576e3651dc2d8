// The one connection to the hub: reconnects, continues runs by `after_seq`, drops repeats, and repeats requests that were cut.
// Pure: sockets, time and randomness come in as arguments, so that it is tested without a browser.
import { texts } from "../texts.ts";
import type { Envelope } from "./protocol.ts";

/** What this module needs of a WebSocket. */
export interface Socket {
  onopen: (() => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: ((event: { code: number }) => void) | null;
  send(text: string): void;
  close(): void;
}

export interface Environment {
  open(): Socket;
  setTimer(action: () => void, ms: number): unknown;
  clearTimer(timer: unknown): void;
  random(): number;
  newId(): string;
  /** The token of a share link; the browser's cookie is used without it. */
  token?: string;
}

export interface Handlers {
  /** Every new message, except responses and events that were received before. */
  message(envelope: Envelope): void;
  state(state: ConnectionState): void;
  /** The hub has ended the sign-in, or may have: the sign-in has to be checked. */
  rejected(): void;
}

export type ConnectionState = "connected" | "reconnecting" | "offline";

/** A request that failed, with the host's or the hub's reason. */
export class RequestError extends Error {}

interface PendingRequest {
  frame: string;
  resolve(result: unknown): void;
  reject(error: RequestError): void;
  timer: unknown;
}

interface Subscription {
  /** Every event up to here was received. */
  seq: number;
  /** Events that were received beyond a gap: some come to every app, before the hub has read the subscription. */
  beyond: Set<number>;
  output: boolean;
}

const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 15_000;
/** Failed attempts after which the state is "offline" instead of "reconnecting". */
const ATTEMPTS_BEFORE_OFFLINE = 4;
/** Silence after which the hub is asked for a sign of life, and how long it has to answer. */
const QUIET_MS = 20_000;
const ANSWER_MS = 8_000;
const REQUEST_MS = 30_000;
/** Requests that wait for a response; further ones fail. */
const MAX_REQUESTS = 256;
/** Events of a run that are remembered beyond a gap. */
const MAX_BEYOND = 1_000;
/** Close code of the hub: the sign-in has ended. */
const REVOKED = 1008;
/** Failed attempts after which each one is a reason to check the sign-in: a browser does not see why a socket was refused. */
const FAILURES_BEFORE_CHECK = 2;

export class HubConnection {
  state: ConnectionState = "reconnecting";
  private socket: Socket | null = null;
  private isReady = false;
  private isStopped = true;
  private failures = 0;
  private retry: unknown = null;
  private quiet: unknown = null;
  private readonly requests = new Map<string, PendingRequest>();
  private readonly subscriptions = new Map<string, Subscription>();
  private readonly seen = new Map<string, number>();

  constructor(
    private readonly environment: Environment,
    private readonly handlers: Handlers,
  ) {}

  start(): void {
    this.isStopped = false;
    if (!this.socket) this.connect();
  }

  stop(): void {
    this.isStopped = true;
    this.drop();
    this.environment.clearTimer(this.retry);
    for (const id of [...this.requests.keys()]) this.settle(id, undefined, texts.errors.notSignedIn);
    this.subscriptions.clear();
    this.seen.clear();
  }

  /** Called when the network or the page comes back: tries at once, or checks that the connection still works. */
  wake(): void {
    if (this.isStopped) return;
    if (this.isReady) return this.probe();
    if (this.socket) return;
    this.environment.clearTimer(this.retry);
    this.connect();
  }

  /** Called when the browser reports that there is no network. */
  networkLost(): void {
    if (this.isStopped || !this.isReady) return;
    this.probe();
  }

  /** Receives the events of a run after `seq`; with or without its output. */
  subscribe(run: string, seq: number, output: boolean): void {
    this.subscriptions.set(run, { seq, beyond: new Set(), output });
    if (this.isReady) this.sendSubscription(run, seq, output);
  }

  isSubscribed(run: string): boolean {
    return this.subscriptions.has(run);
  }

  unsubscribe(run: string): void {
    if (this.subscriptions.delete(run) && this.isReady) this.write("run.unsubscribe", {}, run);
  }

  /** Sends a message that is not repeated, such as a key. False if there is no connection. */
  send(type: string, data: Record<string, unknown>, run?: string): boolean {
    return this.isReady && this.write(type, data, run);
  }

  /** Sends a request and returns its result. After a cut it is repeated under the same id, which the host runs once. */
  request<T>(type: string, data: Record<string, unknown>, run?: string, timeoutMs = REQUEST_MS): Promise<T> {
    if (this.requests.size >= MAX_REQUESTS)
      return Promise.reject(new RequestError(texts.errors.tooManyRequests(MAX_REQUESTS)));
    const id = this.environment.newId();
    const frame = encode(type, { request_id: id, actor: "web", ...data }, run);
    return new Promise<T>((resolve, reject) => {
      const timer = this.environment.setTimer(
        () => this.settle(id, undefined, texts.errors.noResponse),
        timeoutMs,
      );
      const settled = resolve as (result: unknown) => void;
      this.requests.set(id, { frame, resolve: settled, reject, timer });
      if (this.isReady) this.socket?.send(frame);
    });
  }

  private connect(): void {
    const socket = this.environment.open();
    this.socket = socket;
    socket.onopen = () => {
      const { token } = this.environment;
      if (token) socket.send(encode("app.auth", { token }));
    };
    socket.onmessage = (event) => this.received(socket, event.data);
    socket.onclose = (event) => this.closed(socket, event.code);
    this.restartQuietTimer();
  }

  private closed(socket: Socket, code: number): void {
    if (socket !== this.socket) return;
    this.drop();
    if (this.isStopped) return;
    this.failures += 1;
    this.setState(this.failures > ATTEMPTS_BEFORE_OFFLINE ? "offline" : "reconnecting");
    if (code === REVOKED || this.failures >= FAILURES_BEFORE_CHECK) this.handlers.rejected();
    if (this.isStopped) return;
    const delay = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (this.failures - 1));
    const jittered = delay * (0.5 + this.environment.random() / 2);
    this.retry = this.environment.setTimer(() => this.connect(), jittered);
  }

  /** Forgets the socket; it may be half open, so that its close event may never come. */
  private drop(): void {
    const socket = this.socket;
    this.socket = null;
    this.isReady = false;
    this.environment.clearTimer(this.quiet);
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  private received(socket: Socket, data: unknown): void {
    if (socket !== this.socket || typeof data !== "string") return;
    this.restartQuietTimer();
    const envelope = parse(data);
    if (!envelope) return;
    if (envelope.type === "rpc.response") return this.responded(envelope);
    if (envelope.type === "app.pong" || envelope.data?.rejected_type === "app.ping") return;
    if (envelope.type === "app.ready") this.ready();
    if (this.isRepeat(envelope)) return;
    this.handlers.message(envelope);
  }

  private ready(): void {
    this.isReady = true;
    this.failures = 0;
    // From the first (un)subscription on, the hub sends output of subscribed runs only.
    this.write("run.unsubscribe", {}, "-");
    for (const [run, { seq, output }] of this.subscriptions) this.sendSubscription(run, seq, output);
    for (const { frame } of this.requests.values()) this.socket?.send(frame);
    this.setState("connected");
  }

  private isRepeat(envelope: Envelope): boolean {
    const { run_id: run, seq } = envelope;
    if (run === undefined || seq === undefined) return false;
    const subscription = this.subscriptions.get(run);
    if (subscription) {
      return isReceived(subscription, seq, envelope);
    }
    if (seq <= (this.seen.get(run) ?? 0)) return true;
    this.seen.set(run, seq);
    return false;
  }

  private responded(envelope: Envelope): void {
    const { request_id: id, ok, result, error } = envelope.data ?? {};
    if (typeof id !== "string") return;
    this.settle(id, result, ok === true ? undefined : String(error ?? texts.errors.requestFailed));
  }

  private settle(id: string, result: unknown, error?: string): void {
    const request = this.requests.get(id);
    if (!request) return;
    this.requests.delete(id);
    this.environment.clearTimer(request.timer);
    if (error === undefined) request.resolve(result);
    else request.reject(new RequestError(error));
  }

  private sendSubscription(run: string, seq: number, output: boolean): void {
    this.write("run.subscribe", { after_seq: seq, include_output: output }, run);
  }

  private restartQuietTimer(): void {
    this.environment.clearTimer(this.quiet);
    this.quiet = this.environment.setTimer(() => this.probe(), QUIET_MS);
  }

  /** Asks for a sign of life; without one, connects again. */
  private probe(): void {
    if (this.isReady) this.write("app.ping", {});
    const asked = this.socket;
    this.environment.clearTimer(this.quiet);
    this.quiet = this.environment.setTimer(() => {
      if (asked) this.closed(asked, 1006);
    }, ANSWER_MS);
  }

  private write(type: string, data: Record<string, unknown>, run?: string): boolean {
    if (!this.socket) return false;
    this.socket.send(encode(type, data, run));
    return true;
  }

  private setState(state: ConnectionState): void {
    if (state === this.state) return;
    this.state = state;
    this.handlers.state(state);
  }
}

/** Whether an event of a subscribed run was received before; records it otherwise. */
function isReceived(subscription: Subscription, seq: number, { type, data }: Envelope): boolean {
  const { beyond } = subscription;
  if (seq <= subscription.seq || beyond.has(seq)) return true;
  beyond.add(seq);
  // Takes the place of all events from `first_seq` on.
  const first = type === "run.lost" ? Number(data?.first_seq ?? seq) : seq;
  if (first <= subscription.seq + 1) subscription.seq = seq;
  // Without output, the numbers have gaps that are never filled.
  if (beyond.size > MAX_BEYOND)
    subscription.seq = Math.min(...[...beyond].filter((one) => one > subscription.seq));
  for (const one of beyond) if (one <= subscription.seq) beyond.delete(one);
  while (beyond.delete(subscription.seq + 1)) subscription.seq += 1;
  return false;
}

function encode(type: string, data: Record<string, unknown>, run?: string): string {
  return JSON.stringify({ type, ts: new Date().toISOString(), run_id: run, data });
}

function parse(text: string): Envelope | null {
  try {
    const value: unknown = JSON.parse(text);
    const isMessage = typeof value === "object" && value !== null && "type" in value;
    return isMessage && typeof value.type === "string" ? (value as Envelope) : null;
  } catch {
    return null;
  }
}
