// The time of the hub as reactive state: by the second for countdowns, coarse for the ages in long lists.

const COARSE_MS = 15_000;
/** A difference that is worth a message; smaller ones are only corrected. */
const NOTABLE_MS = 2 * 60_000;

class Now {
  ms = $state(Date.now());
  coarse = $state(Date.now());
  /** What the hub's clock shows more than that of this device, if the difference is notable. */
  difference = $state(0);
  private offset = 0;

  constructor() {
    setInterval(() => {
      if (!document.hidden) this.tick();
    }, 1000);
  }

  /** Called with the hub's time when it has just arrived. */
  set(time: string | undefined): void {
    const hub = Date.parse(time ?? "");
    if (Number.isNaN(hub)) return;
    this.offset = hub - Date.now();
    this.difference = Math.abs(this.offset) >= NOTABLE_MS ? this.offset : 0;
    this.tick();
    this.coarse = this.ms;
  }

  private tick(): void {
    this.ms = Date.now() + this.offset;
    if (Math.abs(this.ms - this.coarse) >= COARSE_MS) this.coarse = this.ms;
  }
}

export const now = new Now();
