// Fills a terminal with a run's output: the screen first, then events in their order, older output on demand.
import { api } from "../connection/api.ts";
import type { HubConnection } from "../connection/hub-connection.ts";
import type { Envelope, MessageRow } from "../connection/protocol.ts";
import { texts } from "../texts.ts";
import { outputData } from "./output-data.ts";
import type { Size, TerminalView } from "./terminal-view.ts";

/** Events in one page of stored output. */
const PAGE = 500;
/** Pages that are loaded at most; more lines than the terminal keeps are of no use. */
const MAX_PAGES = 40;
/** Output that waits to be shown; beyond it, the screen of the host replaces it. */
const MAX_BACKLOG = 8 * 1024 * 1024;
/** A screen that takes longer is replaced by stored output. */
const SCREEN_MS = 15_000;

interface Screen extends Size {
  seq: number;
  text: string;
}

export class RunOutput {
  /** Whether stored output may exist before what is shown. */
  hasOlder = false;
  private seq = 0;
  private pages = 1;
  private isWaiting: Envelope[] | null = [];
  private isClosed = false;

  constructor(
    private readonly run: string,
    private readonly connection: HubConnection,
    private readonly view: TerminalView,
    private readonly sized: (size: Size) => void,
  ) {}

  /** Shows the screen, or the stored output of a host that is away or knows no screens. */
  async load(isLive: boolean): Promise<void> {
    // Events that arrive meanwhile may be on the screen already: they are shown after it, each once.
    this.isWaiting ??= [];
    const screen = isLive ? await this.screen().catch(() => null) : null;
    if (this.isClosed) return;
    if (screen) {
      this.sized(screen);
      await this.show(screen);
      this.hasOlder = screen.seq > 1 && this.view.isFull;
    } else {
      await this.replay().catch((failure: unknown) => {
        this.release();
        throw failure;
      });
    }
  }

  /** Handles an event of the run. */
  event(envelope: Envelope): void {
    const { seq, type } = envelope;
    // Others may arrive before output with smaller numbers.
    if (seq === undefined || this.isClosed || (type !== "run.output" && type !== "run.lost")) return;
    if (this.isWaiting) {
      this.isWaiting.push(envelope);
      return;
    }
    if (seq <= this.seq) return;
    this.seq = seq;
    this.print(envelope);
    if (this.view.backlog > MAX_BACKLOG) void this.catchUp();
  }

  /** Replaces output that cannot be shown fast enough by the screen after it; older output is still stored. */
  private async catchUp(): Promise<void> {
    // Events after the screen are among those that arrive from now on.
    this.isWaiting = [];
    const screen = await this.screen().catch(() => null);
    if (this.isClosed) return;
    if (screen && screen.seq >= this.seq) {
      this.hasOlder = true;
      this.view.reset();
      this.seq = screen.seq;
      await this.view.write(screen.text);
    }
    this.release();
  }

  private async show(screen: Screen): Promise<void> {
    this.view.reset();
    await this.view.write(screen.text);
    if (!this.isClosed) this.follow(screen.seq);
  }

  screen(): Promise<Screen> {
    return this.connection.request<Screen>("rpc.run.screen", {}, this.run, SCREEN_MS);
  }

  /** Loads one more page of older output and shows everything again. */
  async loadOlder(): Promise<void> {
    this.pages += 1;
    this.isWaiting = [];
    await this.replay();
  }

  close(): void {
    this.isClosed = true;
  }

  private async replay(): Promise<void> {
    const rows = await this.stored();
    if (this.isClosed) return;
    this.view.reset();
    const written = rows.map((row) =>
      this.view.write(
        row.kind === "run.output" ? outputData(row.data, row.text) : lostText(row.kind, row.data),
      ),
    );
    await Promise.all(written);
    this.follow(rows.at(-1)?.seq ?? 0);
  }

  private async stored(): Promise<MessageRow[]> {
    let rows: MessageRow[] = [];
    this.hasOlder = false;
    for (let page = 0; page < Math.min(this.pages, MAX_PAGES); page += 1) {
      const before = rows[0] ? `&before_id=${rows[0].id}` : "";
      const path = `/runs/${encodeURIComponent(this.run)}/messages?limit=${PAGE}&include_output=true${before}`;
      const older = await api.get<MessageRow[]>(path);
      rows = [...older, ...rows];
      this.hasOlder = older.length === PAGE && this.pages < MAX_PAGES;
      if (older.length < PAGE) break;
    }
    return rows;
  }

  private follow(seq: number): void {
    this.seq = seq;
    this.connection.subscribe(this.run, seq, true);
    this.release();
  }

  /** Shows the events that have arrived meanwhile. */
  private release(): void {
    const waiting = this.isWaiting ?? [];
    this.isWaiting = null;
    for (const envelope of waiting) this.event(envelope);
  }

  private print({ type, data }: Envelope): void {
    if (type === "run.output") void this.view.write(outputData(data));
    const lost = lostText(type, data);
    if (lost) void this.view.write(lost);
  }
}

function lostText(type: string, data: Record<string, unknown> | undefined): string {
  return type === "run.lost"
    ? `\r\n\x1b[2m[${texts.terminal.lost(Number(data?.bytes ?? 0))}]\x1b[0m\r\n`
    : "";
}
