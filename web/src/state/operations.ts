// Operations as text for a person. Pure.
import type { Operation, PermissionRequest } from "../connection/protocol.ts";
import { texts } from "../texts.ts";

/** The whole command, or what happens to which files; nothing if a diff shows that. */
export function commandText(operation: Operation): string {
  if (operation.command !== undefined) return operation.command;
  const argv = operation.argv;
  if (argv !== undefined) {
    const script = shellScript(argv);
    return script ?? argv.map(quote).join(" ");
  }
  const paths = operation.paths ?? [];
  const isShown =
    operation.diff !== undefined && paths.length === 1 && operation.diff.includes(paths[0] ?? "");
  return isShown ? "" : `${operation.kind} ${paths.join(" → ")}`;
}

/** The script of `bash -lc SCRIPT`, the form in which hosts run commands of people. */
function shellScript(argv: string[]): string | null {
  const isShell = argv.length === 3 && /(^|\/)(ba|z|da)?sh$/.test(argv[0] ?? "");
  return isShell && /^-[a-z]*c$/.test(argv[1] ?? "") ? (argv[2] ?? null) : null;
}

function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Who asks: the name of a person without the hub's prefix. */
export function requesterName(requester: string): string {
  return requester.replace(/^user:/, "");
}

/** A rule of the operator's policy; the built-in ones are those of the hub's requests and say nothing new. */
export function ruleName(rule: string | undefined): string | null {
  return rule === undefined || rule.startsWith("rpc.") ? null : rule;
}

/** What an operation is, in a few words; the prompt of a program is shown as it is. */
export function titleOf(request: PermissionRequest | null): string | null {
  const path = request?.op_args?.path;
  if (request?.op_tool === "rpc.fs.write" && typeof path === "string")
    return texts.approvals.writes(path.slice(path.lastIndexOf("/") + 1) || path);
  if (request?.op_tool === "bash") return texts.approvals.runs;
  return request?.prompt ?? null;
}
