// Answers that wait to be sent, on this device: a page that is closed meanwhile sends them when it is opened again.
import type { Answer } from "../connection/outbox.ts";

const KEY = "waiting-answers";

interface Kept {
  user: string;
  answers: Record<string, Answer>;
}

export function loadAnswers(user: string): Answer[] {
  return Object.values(read(user));
}

/** Stores those that wait and removes those that do not; answers of other tabs stay. */
export function saveAnswers(user: string, answers: ReadonlyMap<string, Answer>): void {
  const kept = read(user);
  for (const [id, answer] of answers) {
    const waits = answer.stage === "waiting" || answer.stage === "sent";
    if (waits && !answer.isSecret) kept[id] = answer;
    else delete kept[id];
  }
  try {
    if (Object.keys(kept).length === 0) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, JSON.stringify({ user, answers: kept } satisfies Kept));
  } catch {
    // Storage is full or switched off: the answers wait as long as the page is open.
  }
}

export function clearAnswers(): void {
  try {
    localStorage.removeItem(KEY);
  } catch {
    // Storage is switched off: nothing was stored.
  }
}

function read(user: string): Record<string, Answer> {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "null") as Kept | null;
    return kept?.user === user ? kept.answers : {};
  } catch {
    return {};
  }
}
