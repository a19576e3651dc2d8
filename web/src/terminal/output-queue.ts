// Output on its way into the terminal: in slices, and no more per frame than leaves time to draw. Pure.

/** Parsing a slice of this length takes about a millisecond. */
const SLICE = 8 * 1024;
/** Time for parsing in one frame. */
const FRAME_BUDGET_MS = 8;

export type OutputData = string | Uint8Array;

export interface OutputSink {
  /** Parses data; calls back when it is done. */
  write(data: OutputData, done: () => void): void;
  /** Calls back after the next frame, or soon if no frames are drawn. */
  afterFrame(action: () => void): void;
  now(): number;
}

interface Waiting {
  data: OutputData;
  offset: number;
  done: () => void;
}

export class OutputQueue {
  /** The length of the output that is not parsed. */
  length = 0;
  private waiting: Waiting[] = [];
  private isWriting = false;
  private frameStart = 0;

  constructor(private readonly sink: OutputSink) {}

  /** Appends output; resolves when it is parsed or dropped. */
  push(data: OutputData): Promise<void> {
    if (data.length === 0) return Promise.resolve();
    return new Promise((done) => {
      this.waiting.push({ data, offset: 0, done });
      this.length += data.length;
      if (this.isWriting) return;
      this.isWriting = true;
      this.frameStart = this.sink.now();
      this.writeNext();
    });
  }

  /** Forgets what is not parsed. */
  clear(): void {
    const dropped = this.waiting;
    this.waiting = [];
    this.length = 0;
    for (const { done } of dropped) done();
  }

  private writeNext(): void {
    const { slice, done } = this.nextSlice();
    if (slice === null) {
      this.isWriting = false;
      return;
    }
    this.sink.write(slice, () => {
      for (const one of done) one();
      if (this.sink.now() - this.frameStart < FRAME_BUDGET_MS) return this.writeNext();
      this.sink.afterFrame(() => {
        this.frameStart = this.sink.now();
        this.writeNext();
      });
    });
  }

  /** The next slice, and what is complete with it. Short texts become one slice. */
  private nextSlice(): { slice: OutputData | null; done: (() => void)[] } {
    const done: (() => void)[] = [];
    let slice: OutputData | null = null;
    for (let first = this.waiting[0]; first !== undefined; first = this.waiting[0]) {
      const used = slice?.length ?? 0;
      if (used >= SLICE || (slice !== null && typeof first.data !== typeof "")) break;
      if (slice !== null && typeof slice !== "string") break;
      const end: number = Math.min(first.data.length, first.offset + SLICE - used);
      const part = typeof first.data === "string" ? first.data.slice(first.offset, end) : undefined;
      if (part !== undefined) slice = typeof slice === "string" ? slice + part : part;
      else slice = (first.data as Uint8Array).subarray(first.offset, end);
      this.length -= end - first.offset;
      first.offset = end;
      if (end < first.data.length) break;
      this.waiting.shift();
      done.push(first.done);
    }
    return { slice, done };
  }
}
