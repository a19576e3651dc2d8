// xterm.js as the app uses it: text of the screen in the DOM, WebGL where it works, no answers to queries of programs.
import { SearchAddon } from "@xterm/addon-search";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { Terminal } from "@xterm/xterm";
import styles from "@xterm/xterm/css/xterm.css?inline";
import { inFrame } from "../state/frame.ts";
import { AccessibleText } from "./accessible-text.ts";
import { type OutputData, OutputQueue } from "./output-queue.ts";
import { DARK, LIGHT } from "./themes.ts";

const SCROLLBACK_LINES = 10_000;
/** In CSS pixels: a smaller font is not legible on a phone. A size that needs one is scrolled instead. */
const SMALLEST_FONT = 9;

export interface Size {
  cols: number;
  rows: number;
}

export function isSameSize(one: Size, other: Size): boolean {
  return one.cols === other.cols && one.rows === other.rows;
}

export class TerminalView {
  readonly xterm: Terminal;
  readonly search = new SearchAddon();
  private fontSize: number;
  private cell = { width: 8, height: 16 };
  private readonly text: AccessibleText;
  private readonly queue: OutputQueue;

  constructor(
    private readonly element: HTMLElement,
    options: {
      fontSize: number;
      isDark: boolean;
      isReadOnly: boolean;
      leave: () => void;
      /** The place for announcements to screen readers. */
      announcements: HTMLElement;
    },
  ) {
    this.fontSize = options.fontSize;
    this.xterm = new Terminal({
      screenReaderMode: true,
      scrollback: SCROLLBACK_LINES,
      fontSize: options.fontSize,
      fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"),
      theme: options.isDark ? DARK : LIGHT,
      disableStdin: options.isReadOnly,
      cursorBlink: false,
      minimumContrastRatio: 4.5,
      allowProposedApi: true,
    });
    this.xterm.loadAddon(this.search);
    this.xterm.loadAddon(new WebLinksAddon(openLink));
    this.ignoreQueries();
    this.xterm.attachCustomKeyEventHandler((event) => {
      // Tab belongs to the program; without this key, a keyboard could not leave the terminal.
      const leaves = event.key === "F6" && event.ctrlKey;
      if (leaves && event.type === "keydown") options.leave();
      return !leaves;
    });
    this.xterm.open(drawingIn(element));
    showCursor(this.xterm);
    this.text = new AccessibleText(this.xterm, element, options.announcements);
    this.queue = new OutputQueue({
      write: (data, done) => {
        this.text.written(data.length);
        this.xterm.write(data, done);
      },
      afterFrame,
      now: () => performance.now(),
    });
    this.measure();
    void this.useWebGl();
  }

  /** The size that fills the element in the chosen font size. */
  fitting(): Size {
    const { width, height } = this.available();
    return {
      cols: Math.min(500, Math.max(2, Math.floor(width / this.cell.width))),
      rows: Math.min(200, Math.max(1, Math.floor(height / this.cell.height))),
    };
  }

  /** Shows this many columns and rows; a size that does not fit is shown in a smaller font, and beyond that it scrolls. */
  setSize({ cols, rows }: Size): void {
    const { width, height } = this.available();
    const scale = Math.min(1, width / (cols * this.cell.width), height / (rows * this.cell.height));
    const fontSize = Math.max(SMALLEST_FONT, Math.floor(this.fontSize * scale * 4) / 4);
    if (this.xterm.options.fontSize !== fontSize) this.xterm.options.fontSize = fontSize;
    if (this.xterm.cols !== cols || this.xterm.rows !== rows) this.xterm.resize(cols, rows);
    const used = fontSize / this.fontSize;
    const isTooLarge =
      cols * this.cell.width * used > width + 1 || rows * this.cell.height * used > height + 1;
    this.element.classList.toggle("scrolls", isTooLarge);
  }

  /** What the person has selected, or else the text of the screen. */
  copyText(): string {
    const selected = this.xterm.getSelection();
    if (selected !== "") return selected;
    const { active } = this.xterm.buffer;
    const rows = Array.from(
      { length: this.xterm.rows },
      (_, row) => active.getLine(active.viewportY + row)?.translateToString(true) ?? "",
    );
    return rows.join("\n").trimEnd() + "\n";
  }

  get isAtTop(): boolean {
    return this.xterm.buffer.active.viewportY === 0;
  }

  /** Whether output may have left the screen: it is full, or belongs to a full-screen program. */
  get isFull(): boolean {
    const { active } = this.xterm.buffer;
    return active.type === "alternate" || active.baseY > 0 || active.cursorY >= this.xterm.rows - 1;
  }

  /** Runs a change that adds lines at the top; the lines that were shown stay where they are. */
  async keepingPlace(change: () => Promise<void>): Promise<void> {
    const fromEnd = this.xterm.buffer.active.baseY - this.xterm.buffer.active.viewportY;
    await change();
    this.xterm.scrollToLine(Math.max(0, this.xterm.buffer.active.baseY - fromEnd));
  }

  setFontSize(fontSize: number): void {
    this.fontSize = fontSize;
    this.xterm.options.fontSize = fontSize;
    this.measure();
  }

  /** A program that has ended has no cursor. */
  setLive(isLive: boolean): void {
    this.xterm.options.cursorInactiveStyle = isLive ? "outline" : "none";
  }

  setTheme(isDark: boolean): void {
    this.xterm.options.theme = isDark ? DARK : LIGHT;
  }

  /** The length of the output that was written and is not on the screen. */
  get backlog(): number {
    return this.queue.length;
  }

  /** Writes output; resolves when it is on the screen. */
  write(data: OutputData): Promise<void> {
    return this.queue.push(data);
  }

  /** Empties the screen, and forgets output that is not on it. */
  reset(): void {
    this.queue.clear();
    this.xterm.reset();
  }

  dispose(): void {
    this.queue.clear();
    this.text.dispose();
    this.xterm.dispose();
  }

  private available(): { width: number; height: number } {
    const style = getComputedStyle(this.element);
    const width = this.element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const height = this.element.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
    return { width: Math.max(0, width - SCROLLBAR), height: Math.max(0, height) };
  }

  /** The size of a character cell in the chosen font size. */
  private measure(): void {
    const screen = this.xterm.element?.querySelector<HTMLElement>(".xterm-screen");
    if (!screen || screen.offsetWidth === 0) return;
    const scale = this.fontSize / (this.xterm.options.fontSize ?? this.fontSize);
    this.cell = {
      width: (screen.offsetWidth / this.xterm.cols) * scale,
      height: (screen.offsetHeight / this.xterm.rows) * scale,
    };
  }

  private async useWebGl(): Promise<void> {
    if (!hasFastWebGl()) return;
    try {
      const { WebglAddon } = await import("@xterm/addon-webgl");
      const addon = new WebglAddon();
      // Without a context, xterm.js draws with elements.
      addon.onContextLoss(() => addon.dispose());
      this.xterm.loadAddon(addon);
    } catch {
      // No WebGL here: xterm.js draws with elements.
    }
  }

  /** Several people may watch one terminal, and old output is shown again: a browser that answered queries would type text. */
  private ignoreQueries(): void {
    const { parser } = this.xterm;
    const handled = () => true;
    for (const prefix of [undefined, "?", ">", "="]) {
      parser.registerCsiHandler({ prefix, final: "c" }, handled);
      parser.registerCsiHandler({ prefix, final: "n" }, handled);
    }
    for (const prefix of [undefined, "?"])
      parser.registerCsiHandler({ prefix, intermediates: "$", final: "p" }, handled);
    parser.registerDcsHandler({ intermediates: "$", final: "q" }, handled);
    for (const color of [4, 10, 11, 12]) parser.registerOscHandler(color, (data) => data.includes("?"));
    // Programs may not use the person's clipboard or window title.
    parser.registerOscHandler(52, handled);
  }
}

/** xterm.js draws no cursor until it is focused first, and has no option for it: a viewer who only watches would see none. */
function showCursor(xterm: Terminal): void {
  const { _core: core } = xterm as unknown as {
    _core?: { coreService?: { isCursorInitialized: boolean } };
  };
  if (core?.coreService) core.coreService.isCursorInitialized = true;
}

/**
 * The place for what is drawn, in a shadow tree: xterm.js draws with elements that repeat each line, so that the text of the
 * region would have it twice. The rows for screen readers are the children of the region, shown in the slot.
 */
function drawingIn(region: HTMLElement): HTMLElement {
  const shadow = region.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`${styles}\n.frame { position: relative; }`);
  shadow.adoptedStyleSheets = [sheet];
  const [frame, drawing] = [document.createElement("div"), document.createElement("div")];
  frame.className = "frame";
  frame.append(drawing, document.createElement("slot"));
  shadow.append(frame);
  return drawing;
}

/** The width that xterm.js needs for its scroll bar. */
const SCROLLBAR = 14;

/** Whether WebGL runs on a GPU. In software it is slower than the elements that xterm.js draws with otherwise. */
function hasFastWebGl(): boolean {
  const context = document
    .createElement("canvas")
    .getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  if (context === null) return false;
  const info = context.getExtension("WEBGL_debug_renderer_info");
  const renderer = String(context.getParameter(info?.UNMASKED_RENDERER_WEBGL ?? context.RENDERER));
  context.getExtension("WEBGL_lose_context")?.loseContext();
  return !/swiftshader|llvmpipe|softpipe|software|basic render/i.test(renderer);
}

/** The browser draws before the callback. */
function afterFrame(action: () => void): void {
  inFrame(() => setTimeout(action));
}

function openLink(_event: MouseEvent, address: string): void {
  if (/^https?:/.test(address)) window.open(address, "_blank", "noopener,noreferrer");
}
