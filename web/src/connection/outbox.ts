// Answers of a person on their way: each is sent once, waits while there is no connection, and shows how far it is.
// Answers that wait are kept by `keep`, so that they survive a page that is closed; secrets are not.
// Pure: requests go through `post`, so that it is tested without a browser.
import { texts } from "../texts.ts";
import type { Envelope } from "./protocol.ts";

/** How far an answer is. "sent" left this device, "received" reached the hub, "done" was confirmed by the host. */
export type Stage = "waiting" | "sent" | "received" | "done" | "failed";

export interface Answer {
  /** The `input_id` of a message; run and request of a decision. */
  id: string;
  run: string;
  path: string;
  body: Record<string, unknown>;
  stage: Stage;
  error?: string;
  /** Never written to the device. */
  isSecret?: boolean;
}

/** The response of the hub; rejects without a connection. */
export type Post = (path: string, body: Record<string, unknown>) => Promise<{ status: number; text: string }>;

/** What became of a decision. */
export type Lookup = (path: string) => Promise<{ decided_by: string | null; decision: string | null }>;

/** Answers that are kept; one more is refused. */
const MAX_ANSWERS = 200;

export class Outbox {
  private readonly answers = new Map<string, Answer>();
  private isConnected = false;
  private user = "";
  private sending: Promise<void> = Promise.resolve();

  constructor(
    private readonly post: Post,
    private readonly lookup: Lookup,
    private readonly changed: () => void,
    private readonly keep: (answers: ReadonlyMap<string, Answer>) => void = () => {},
  ) {}

  /** Adds the answers that an earlier page could not send. */
  restore(answers: Answer[]): void {
    for (const { id, run, path, body } of answers) this.add({ id, run, path, body });
  }

  /** Resolves when everything that can be sent now has been. */
  settled(): Promise<void> {
    return this.sending;
  }

  /** Forgets everything: another person may be next. */
  clear(): void {
    this.isConnected = false;
    this.answers.clear();
    this.changed();
  }

  /** A copy, so that what renders it sees a change. */
  get(id: string): Answer | undefined {
    const answer = this.answers.get(id);
    return answer && { ...answer };
  }

  /** The answers to a run that are not done, oldest first. */
  ofRun(run: string): Answer[] {
    return [...this.answers.values()]
      .filter((answer) => answer.run === run && answer.stage !== "done")
      .map((answer) => ({ ...answer }));
  }

  input(run: string, id: string, text: string, isSecret = false): void {
    this.add({
      id,
      run,
      path: `/runs/${encodeURIComponent(run)}/input`,
      body: { input_id: id, text, actor: "web" },
      isSecret,
    });
  }

  decide(
    run: string,
    request: string,
    decision: string,
    extra: { reason?: string; text?: string } = {},
  ): void {
    const path = approvalPath(run, request);
    this.add({ id: decisionId(run, request), run, path, body: { decision, actor: "web", ...extra } });
  }

  /** Removes an answer that is not needed any more, or that failed. */
  forget(id: string): void {
    if (this.answers.delete(id)) this.changed();
  }

  connected(user: string): void {
    this.user = user;
    this.isConnected = true;
    for (const answer of this.answers.values()) {
      if (answer.stage === "waiting" || answer.stage === "sent") this.enqueue(answer);
    }
  }

  disconnected(): void {
    this.isConnected = false;
  }

  /** Confirms answers by the events of hosts. */
  event(envelope: Envelope): void {
    const { type, run_id: run, data } = envelope;
    if (type === "run.input") {
      const answer = this.answers.get(String(data?.input_id));
      if (answer) this.finish(answer);
    }
    if (type === "run.permission_decided" && run !== undefined) {
      const answer = this.answers.get(decisionId(run, String(data?.request_id)));
      if (answer && answer.stage !== "failed") this.finish(answer);
    }
  }

  private add(answer: Omit<Answer, "stage">): void {
    const known = this.answers.get(answer.id);
    if (known && known.stage !== "failed") return;
    if (this.answers.size >= MAX_ANSWERS) this.removeDone();
    const full = this.answers.size >= MAX_ANSWERS;
    const added: Answer = full
      ? { ...answer, stage: "failed", error: texts.errors.tooManyAnswers(MAX_ANSWERS) }
      : { ...answer, stage: "waiting" };
    this.answers.set(answer.id, added);
    this.notify();
    if (this.isConnected && !full) this.enqueue(added);
  }

  private removeDone(): void {
    for (const [id, answer] of this.answers) if (answer.stage === "done") this.answers.delete(id);
  }

  private enqueue(answer: Answer): void {
    this.sending = this.sending.then(() => this.send(answer));
  }

  private async send(answer: Answer): Promise<void> {
    if (!this.isConnected || this.answers.get(answer.id) !== answer) return;
    if (answer.stage !== "waiting" && answer.stage !== "sent") return;
    this.setStage(answer, "sent");
    try {
      const { status, text } = await this.post(answer.path, answer.body);
      if (status < 300) this.setStage(answer, "received");
      else if (status === 409) await this.conflict(answer, text);
      // The sign-in has ended: it is sent again after the next one.
      else if (status === 401) this.setStage(answer, "waiting");
      else this.fail(answer, text);
    } catch {
      // It may have arrived: it is repeated under the same id, which counts once.
      this.setStage(answer, "waiting");
    }
  }

  /** A decision exists already: this one, if an earlier attempt arrived, or that of another person. */
  private async conflict(answer: Answer, text: string): Promise<void> {
    const found = await this.lookup(answer.path).catch(() => null);
    const isOurs = found?.decided_by === this.user && found.decision === answer.body.decision;
    if (isOurs) this.setStage(answer, "received");
    else this.fail(answer, found?.decided_by ? outcomeText(found.decision, found.decided_by) : text);
  }

  private finish(answer: Answer): void {
    // Text of a person is not kept longer than needed.
    answer.body = {};
    this.setStage(answer, "done");
  }

  private fail(answer: Answer, error: string): void {
    answer.error = error;
    answer.body = {};
    this.setStage(answer, "failed");
  }

  private setStage(answer: Answer, stage: Stage): void {
    if (answer.stage === "done" && stage !== "done") return;
    answer.stage = stage;
    this.answers.set(answer.id, answer);
    this.notify();
  }

  private notify(): void {
    this.keep(this.answers);
    this.changed();
  }
}

/** How a request was decided, and by whom. */
export function outcomeText(decision: string | null, who: string): string {
  return texts.approvals.by(texts.approvals.decisions[decision ?? ""] ?? decision ?? "", who);
}

export function decisionId(run: string, request: string): string {
  return `${run} ${request}`;
}

export function approvalPath(run: string, request: string): string {
  return `/approvals/${encodeURIComponent(run)}/${encodeURIComponent(request)}`;
}
