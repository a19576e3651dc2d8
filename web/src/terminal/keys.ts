// Bytes for the keys that a phone lacks, and sticky modifiers. Pure.

export type Modifier = "ctrl" | "alt";
export type NamedKey = "esc" | "tab" | "up" | "down" | "left" | "right" | "enter" | "interrupt";

const ARROWS = { up: "A", down: "B", right: "C", left: "D" };

/** What a named key sends; arrows depend on the mode that the program has chosen. */
export function keyText(key: NamedKey, modifiers: ReadonlySet<Modifier>, isApplicationMode: boolean): string {
  const number = 1 + (modifiers.has("alt") ? 2 : 0) + (modifiers.has("ctrl") ? 4 : 0);
  switch (key) {
    case "esc":
      return "\x1b";
    case "tab":
      return "\t";
    case "enter":
      return "\r";
    case "interrupt":
      return "\x03";
    default: {
      const letter = ARROWS[key];
      if (number > 1) return `\x1b[1;${number}${letter}`;
      return isApplicationMode ? `\x1bO${letter}` : `\x1b[${letter}`;
    }
  }
}

/** What a typed text becomes under the modifiers, which hold for its first character. */
export function withModifiers(text: string, modifiers: ReadonlySet<Modifier>): string {
  const [first = "", ...rest] = Array.from(text);
  let typed = first;
  if (modifiers.has("ctrl")) typed = control(first);
  if (modifiers.has("alt")) typed = "\x1b" + typed;
  return typed + rest.join("");
}

function control(character: string): string {
  if (character === " " || character === "@") return "\0";
  if (character === "?") return "\x7f";
  const code = character.toUpperCase().charCodeAt(0);
  return code >= 0x41 && code <= 0x5f ? String.fromCharCode(code - 0x40) : character;
}
