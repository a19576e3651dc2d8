// The size that the terminal of a new run will have in this window, so that programs start with it.
import { preferences } from "../state/preferences.svelte.ts";

/** Height of header, tabs, key bar and message field around the terminal. */
const AROUND = { narrow: { width: 34, height: 365 }, wide: { width: 260, height: 230 } };

export function expectedSize(): { cols: number; rows: number } {
  const probe = document.createElement("span");
  probe.style.cssText = `position:absolute;visibility:hidden;font:${preferences.fontSize}px var(--mono);white-space:pre`;
  probe.textContent = "W".repeat(50);
  document.body.append(probe);
  const width = probe.offsetWidth / 50;
  const height = probe.offsetHeight;
  probe.remove();
  const around = window.innerWidth < 900 ? AROUND.narrow : AROUND.wide;
  return {
    cols: clamp(Math.floor((window.innerWidth - around.width) / width), 20, 500),
    rows: clamp(Math.floor((window.innerHeight - around.height) / height), 5, 200),
  };
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, Number.isFinite(value) ? value : least));
}
