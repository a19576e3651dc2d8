// Requests whose responses may be overtaken by a later request or change. Pure.

export class StaleResponses {
  private changes = 0;

  /** Makes the responses to all requests so far stale. */
  changed(): void {
    this.changes += 1;
  }

  /** The response, or null if it was overtaken. A later request overtakes the earlier ones. */
  async drop<T>(request: () => Promise<T>): Promise<T | null> {
    const change = (this.changes += 1);
    const response = await request();
    return change === this.changes ? response : null;
  }
}
