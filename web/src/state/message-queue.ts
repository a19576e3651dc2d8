// Messages that wait until the program of their run waits for input; kept when the page loads itself again. Pure.
import type { Prompt } from "../connection/protocol.ts";

/** Messages that wait for one run; one more replaces none and is refused. */
export const MAX_WAITING = 50;

/** Whether a prompt takes any text: a question for permission, a choice or a secret needs a person who has read it. */
export function takesMessage({ request_id, echo, options }: Partial<Prompt>): boolean {
  return !request_id && echo !== false && !options?.length;
}

/** Where the messages of a run are kept. */
export interface MessageStore {
  load(run: string): string[];
  save(run: string, messages: string[]): void;
}

export class MessageQueue {
  private readonly waiting = new Map<string, string[]>();

  constructor(
    private readonly send: (run: string, text: string) => void,
    private readonly changed: () => void,
    private readonly kept: MessageStore,
  ) {}

  of(run: string): string[] {
    return this.waiting.get(run) ?? this.kept.load(run);
  }

  /** False if the queue of the run is full. */
  add(run: string, text: string): boolean {
    const queued = this.of(run);
    if (queued.length >= MAX_WAITING) return false;
    this.set(run, [...queued, text]);
    return true;
  }

  remove(run: string, index: number): void {
    this.set(
      run,
      this.of(run).filter((_, position) => position !== index),
    );
  }

  /** The program waits: sends the oldest message. */
  waits(run: string): void {
    const [first, ...rest] = this.of(run);
    if (first === undefined) return;
    this.set(run, rest);
    this.send(run, first);
  }

  clear(run: string): void {
    if (this.of(run).length > 0) this.set(run, []);
  }

  /** Forgets the messages of all runs; kept ones are removed by their owner. */
  clearAll(): void {
    this.waiting.clear();
    this.changed();
  }

  private set(run: string, messages: string[]): void {
    this.waiting.set(run, messages);
    this.kept.save(run, messages);
    this.changed();
  }
}
