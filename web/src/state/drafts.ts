// Text that a person has typed and not sent, kept for this tab when the page loads itself again. Secrets are never kept here.

const PREFIX = "draft:";
/** The person whose drafts these are; those of another one are removed. */
const OWNER = "drafts-of";

export function loadDraft(name: string): string {
  try {
    return sessionStorage.getItem(PREFIX + name) ?? "";
  } catch {
    return "";
  }
}

export function saveDraft(name: string, text: string): void {
  try {
    if (text === "") sessionStorage.removeItem(PREFIX + name);
    else sessionStorage.setItem(PREFIX + name, text);
  } catch {
    // Storage is full or switched off: the text stays in the field.
  }
}

/** The changed text of a file, with the text that it replaces: the file may have changed meanwhile. */
export interface FileDraft {
  base: string;
  text: string;
}

export function loadFileDraft(name: string): FileDraft | null {
  try {
    const draft = JSON.parse(loadDraft(name)) as Partial<FileDraft>;
    const isWhole = typeof draft.base === "string" && typeof draft.text === "string";
    return isWhole ? (draft as FileDraft) : null;
  } catch {
    return null;
  }
}

export function saveFileDraft(name: string, draft: FileDraft | null): void {
  saveDraft(name, draft === null ? "" : JSON.stringify(draft));
}

/** The messages of a run that wait in its queue. */
export const queueDrafts = {
  load(run: string): string[] {
    try {
      const messages: unknown = JSON.parse(loadDraft(`queue ${run}`));
      return Array.isArray(messages) ? messages.map(String) : [];
    } catch {
      return [];
    }
  },
  save(run: string, messages: string[]): void {
    saveDraft(`queue ${run}`, messages.length === 0 ? "" : JSON.stringify(messages));
  },
};

/** Called after each sign-in: removes what another person has typed in this tab. Returns whether there was another one. */
export function claimDrafts(user: string): boolean {
  try {
    const owner = sessionStorage.getItem(OWNER);
    sessionStorage.setItem(OWNER, user);
    if (owner === null || owner === user) return false;
    clearDrafts();
    return true;
  } catch {
    // Storage is switched off: nothing was stored.
    return false;
  }
}

/** Removes everything that was typed in this tab. */
export function clearDrafts(): void {
  try {
    const keys = Array.from({ length: sessionStorage.length }, (_, index) => sessionStorage.key(index) ?? "");
    for (const key of keys) if (key.startsWith(PREFIX)) sessionStorage.removeItem(key);
  } catch {
    // Storage is switched off: nothing was stored.
  }
}
