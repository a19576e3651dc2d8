// Unified diffs as rows, for one column or two. Pure.

export interface DiffLine {
  kind: "file" | "hunk" | "context" | "added" | "removed";
  text: string;
  oldLine: number | null;
  newLine: number | null;
}

export interface DiffPair {
  left: DiffLine | null;
  right: DiffLine | null;
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;

export function parseDiff(text: string): DiffLine[] {
  const lines: DiffLine[] = [];
  let [oldLine, newLine, isInHunk] = [0, 0, false];
  const source = text.endsWith("\n") ? text.slice(0, -1) : text;
  for (const line of source.split("\n")) {
    const hunk = HUNK.exec(line);
    if (hunk) {
      [oldLine, newLine, isInHunk] = [Number(hunk[1]), Number(hunk[2]), true];
      lines.push({ kind: "hunk", text: line, oldLine: null, newLine: null });
    } else if (!isInHunk || line.startsWith("diff --git ")) {
      isInHunk = false;
      lines.push({ kind: "file", text: line, oldLine: null, newLine: null });
    } else if (line.startsWith("+")) {
      lines.push({ kind: "added", text: line, oldLine: null, newLine: newLine++ });
    } else if (line.startsWith("-")) {
      lines.push({ kind: "removed", text: line, oldLine: oldLine++, newLine: null });
    } else if (line.startsWith("\\")) {
      lines.push({ kind: "context", text: line, oldLine: null, newLine: null });
    } else {
      lines.push({ kind: "context", text: line, oldLine: oldLine++, newLine: newLine++ });
    }
  }
  return lines;
}

/** Removed lines beside the added lines that replace them. */
export function pairLines(lines: DiffLine[]): DiffPair[] {
  const pairs: DiffPair[] = [];
  let removed: DiffLine[] = [];
  let added: DiffLine[] = [];
  const flush = () => {
    for (let row = 0; row < Math.max(removed.length, added.length); row += 1) {
      pairs.push({ left: removed[row] ?? null, right: added[row] ?? null });
    }
    [removed, added] = [[], []];
  };
  for (const line of lines) {
    if (line.kind === "removed") {
      if (added.length > 0) flush();
      removed.push(line);
    } else if (line.kind === "added") {
      added.push(line);
    } else {
      flush();
      pairs.push({ left: line, right: line });
    }
  }
  flush();
  return pairs;
}
