// Environment variables as a person types them. Pure.

/** The variables, or the first line that is none. */
export function parseEnvironment(text: string): Record<string, string> | string {
  const variables: Record<string, string> = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const match = /^\s*([A-Za-z_][A-Za-z0-9_]*)=(.*)$/.exec(line);
    if (!match?.[1]) return line;
    variables[match[1]] = match[2] ?? "";
  }
  return variables;
}
