// Runs that this tab has started: their terminal has the size of this window from the beginning.

const started = new Set<string>();

export function markStarted(run: string): void {
  started.add(run);
}

export function startedHere(run: string): boolean {
  return started.has(run);
}
