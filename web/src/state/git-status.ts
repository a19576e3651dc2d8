// The output of `git status --porcelain=v1 --branch` as rows. Pure.

export interface GitFile {
  path: string;
  /** Letters of git for the index and the work tree; a space is no change. */
  staged: string;
  unstaged: string;
}

export interface GitStatus {
  branch: string;
  files: GitFile[];
}

export function parseStatus(text: string): GitStatus {
  const lines = text.split("\n").filter((line) => line !== "");
  const branch = lines.find((line) => line.startsWith("## "))?.slice(3) ?? "";
  const files = lines
    .filter((line) => !line.startsWith("## "))
    .map((line): GitFile => {
      const [staged = " ", unstaged = " "] = line;
      const path = line.slice(3);
      // A rename is `old -> new`; the diff names the new path.
      return { path: path.slice(path.indexOf(" -> ") < 0 ? 0 : path.indexOf(" -> ") + 4), staged, unstaged };
    });
  return { branch, files };
}

/** The change in words: what is staged, and what is not. */
export function changeText(
  { staged, unstaged }: GitFile,
  words: { changes: Record<string, string>; staged: string },
): string {
  if (staged === "?" || unstaged === "?") return words.changes["?"] ?? "?";
  const word = (letter: string) => words.changes[letter] ?? letter;
  const parts = [staged !== " " && `${word(staged)}, ${words.staged}`, unstaged !== " " && word(unstaged)];
  return parts.filter(Boolean).join("; ");
}

/** The path of a file in the line `diff --git a/PATH b/PATH`. */
export function diffPath(line: string): string | null {
  const half = /^diff --git a\/(.*)$/.exec(line)?.[1];
  if (half === undefined) return null;
  // Both halves are the same path, except for a rename, whose new path is after the last ` b/`.
  return half.slice(half.lastIndexOf(" b/") + 3);
}
