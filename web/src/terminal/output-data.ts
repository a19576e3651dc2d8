// The output of events as a terminal takes it: text, or bytes where it is no text. Pure.

/** The output of an event; a stored one has its text beside its data. */
export function outputData(data: Record<string, unknown> | undefined, text?: string): string | Uint8Array {
  if (typeof data?.base64 === "string")
    return Uint8Array.from(atob(data.base64), (character) => character.charCodeAt(0));
  return text ?? (typeof data?.text === "string" ? data.text : "");
}
