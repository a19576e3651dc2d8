// The text of the screen in the DOM: xterm.js's rows for screen readers, with the place, the timing and the layout that this
// app needs.
import type { Terminal } from "@xterm/xterm";

/** How often the text follows the screen. xterm.js has a second, which is late for those who read it, and no option. */
const TEXT_MS = 15;
/** The same under a flood of output, when each update costs time that drawing needs. */
const FLOOD_TEXT_MS = 1_000;
/** Output in a second that counts as a flood. */
const FLOOD_LENGTH = 60_000;
/** Text for announcements that is kept; without line ends, xterm.js would collect it without a limit. */
const MAX_ANNOUNCED = 4_000;

/** The parts of xterm.js's accessibility manager that are used here; all are internal, so each may be absent. */
interface AccessibilityManager {
  _accessibilityContainer?: HTMLElement;
  _liveRegionDebouncer?: { _debounceThresholdMS: number };
  _liveRegion?: HTMLElement;
  _charsToAnnounce?: string;
  _rowColumns?: WeakMap<HTMLElement, number[]>;
  _renderService?: { dimensions: { css: { cell: { width: number } } } };
  _alignRowWidth?: (row: HTMLElement) => void;
}

export class AccessibleText {
  private readonly manager: AccessibilityManager;
  private readonly unaligned = new Set<HTMLElement>();
  /** The output of about the last second. */
  private second = { start: 0, length: 0 };

  /** The rows become the text of `region`, and what is announced goes into `announcements`. */
  constructor(xterm: Terminal, region: HTMLElement, announcements: HTMLElement) {
    const { _core: core } = xterm as unknown as {
      _core?: { _accessibilityManager?: { value?: AccessibilityManager } };
    };
    this.manager = core?._accessibilityManager?.value ?? {};
    this.setInterval(TEXT_MS);
    // Announcements repeat output: they are no text of the screen.
    if (this.manager._liveRegion) announcements.append(this.manager._liveRegion);
    if (this.manager._accessibilityContainer) region.append(this.manager._accessibilityContainer);
    if (this.manager._alignRowWidth) this.manager._alignRowWidth = (row) => this.alignLater(row);
  }

  dispose(): void {
    this.manager._liveRegion?.remove();
    this.manager._accessibilityContainer?.remove();
  }

  /** Called with the length of output before it is written. */
  written(length: number): void {
    const now = performance.now();
    if (now - this.second.start > 1000) {
      this.second = { start: now, length: 0 };
      this.limitAnnouncement();
    }
    this.second.length += length;
    this.setInterval(this.second.length > FLOOD_LENGTH ? FLOOD_TEXT_MS : TEXT_MS);
  }

  private setInterval(ms: number): void {
    const debouncer = this.manager._liveRegionDebouncer;
    if (debouncer) debouncer._debounceThresholdMS = ms;
  }

  private limitAnnouncement(): void {
    const { _liveRegion: region } = this.manager;
    if (region && (region.textContent?.length ?? 0) > MAX_ANNOUNCED) region.textContent = "";
    if ((this.manager._charsToAnnounce?.length ?? 0) > MAX_ANNOUNCED) this.manager._charsToAnnounce = "";
  }

  /** Rows are aligned with what is drawn, all with one layout; xterm.js needs one layout per row. */
  private alignLater(row: HTMLElement): void {
    if (this.unaligned.size === 0) requestAnimationFrame(() => this.align());
    this.unaligned.add(row);
  }

  private align(): void {
    const rows = [...this.unaligned].filter((row) => row.isConnected);
    this.unaligned.clear();
    const cell = this.manager._renderService?.dimensions.css.cell.width ?? 0;
    // A transform changes no layout: the width is that of the text.
    const widths = rows.map((row) => row.offsetWidth);
    rows.forEach((row, index) => {
      const columns = this.manager._rowColumns?.get(row)?.at(-1) ?? 0;
      const width = widths[index] ?? 0;
      row.style.transform = columns > 0 && width > 0 ? `scaleX(${(columns * cell) / width})` : "";
    });
  }
}
