// The tree of files of a run: directories are read when they are opened. Pure.

export interface DirEntry {
  name: string;
  is_dir: boolean;
  size_bytes: number | null;
}

export interface TreeNode {
  path: string;
  name: string;
  level: number;
  isDirectory: boolean;
  isOpen: boolean;
  /** A row that says that a directory is empty or longer than shown. */
  note?: string;
}

export interface Listing {
  entries: DirEntry[];
  truncated: boolean;
}

export function join(directory: string, name: string): string {
  return directory === "" ? name : `${directory}/${name}`;
}

/** The directory of git is rarely what a person looks for. */
const isGit = ({ name }: DirEntry) => Number(name === ".git");

/** The rows that are visible, directories first and that of git last among them. */
export function visibleNodes(
  listings: ReadonlyMap<string, Listing>,
  open: ReadonlySet<string>,
  notes: { empty: string; more: string },
  directory = "",
  level = 1,
): TreeNode[] {
  const listing = listings.get(directory);
  if (!listing) return [];
  const sorted = [...listing.entries].sort(
    (a, b) => Number(b.is_dir) - Number(a.is_dir) || isGit(a) - isGit(b) || (a.name < b.name ? -1 : 1),
  );
  const nodes = sorted.flatMap((entry): TreeNode[] => {
    const path = join(directory, entry.name);
    const isOpen = entry.is_dir && open.has(path);
    const node = { path, name: entry.name, level, isDirectory: entry.is_dir, isOpen };
    return isOpen ? [node, ...visibleNodes(listings, open, notes, path, level + 1)] : [node];
  });
  const note = listing.truncated ? notes.more : nodes.length === 0 ? notes.empty : null;
  if (note !== null)
    nodes.push({ path: `${directory}/`, name: note, level, isDirectory: false, isOpen: false, note });
  return nodes;
}
