//! The definitions of the tools: name, description, schema and hints. They do not depend on the target.

use serde_json::{Value, json};

/// The definition of one tool.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    /// The name of the tool.
    pub name: &'static str,
    /// The title for people.
    pub title: &'static str,
    /// The description for models.
    pub description: &'static str,
    /// The effects of the tool.
    pub hints: ToolHints,
    properties: fn() -> Value,
    required: &'static [&'static str],
}

/// The effects of a tool, as MCP's annotations describe them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolHints {
    /// The tool changes nothing.
    pub read_only: bool,
    /// The tool may destroy data.
    pub destructive: bool,
    /// Repeating a call has no further effect.
    pub idempotent: bool,
    /// The tool may affect other machines.
    pub open_world: bool,
}

const READ_ONLY: ToolHints =
    ToolHints { read_only: true, destructive: false, idempotent: true, open_world: false };
const DESTRUCTIVE: ToolHints =
    ToolHints { read_only: false, destructive: true, idempotent: false, open_world: false };

impl Tool {
    /// The JSON Schema of the arguments, the same for every target.
    pub fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": (self.properties)(),
            "required": self.required,
            "additionalProperties": false,
        })
    }

    /// The MCP annotations of a tool.
    pub fn annotations(&self) -> Value {
        json!({
            "title": self.title,
            "readOnlyHint": self.hints.read_only,
            "destructiveHint": self.hints.destructive,
            "idempotentHint": self.hints.idempotent,
            "openWorldHint": self.hints.open_world,
        })
    }
}

/// Finds a tool by its name.
pub fn find(name: &str) -> Option<&'static Tool> {
    ALL.iter().find(|tool| tool.name == name)
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn number(description: &str, minimum: u64) -> Value {
    json!({ "type": "integer", "minimum": minimum, "description": description })
}

fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "default": false, "description": description })
}

/// All tools, in the order of `tools/list`.
pub const ALL: &[Tool] = &[
    Tool {
        name: "bash",
        title: "Run a command",
        description: "Runs a shell command on the target machine and returns its exit code, then its output (stdout and stderr in the order in which they were written). \
The shell is bash, or sh if the target has no bash, as the result then says. \
Each call starts a new shell: `cd` and variables do not persist between calls, so pass `cwd` or write `cd dir && …`. stdin is empty. \
A command that takes longer than 45 s continues in the background: the result contains its process_id, and bash_output returns \
further output. For servers, watchers and programs that need input, set background: true; stdin then stays open for bash_input. \
Background processes end when this server stops; with detach: true a process outlives it. The first line of the result has the exit \
code and the process_id. Of long output, only the start and the end are shown; bash_output reads and grep searches all of it, as the \
last line explains. Progress that overwrites a line and repeated lines are shown once, with their number.",
        hints: ToolHints { open_world: true, ..DESTRUCTIVE },
        properties: || {
            json!({
                "command": text("The shell command."),
                "cwd": text("Working directory of the command; a relative path starts in the current working directory."),
                "timeout_ms": number("Kill the command and everything it started after this many milliseconds. Default: the limit of the machine.", 1),
                "background": flag("Return immediately with the process_id instead of waiting for the command."),
                "detach": flag("Start a job that outlives this server and its session, and return immediately with the process_id."),
            })
        },
        required: &["command"],
    },
    Tool {
        name: "bash_output",
        title: "Read the output of a process",
        description: "Waits until a process that bash started has ended, until matches its new output, or wait_ms has passed, \
whichever is first. Returns its status and the output that was not shown yet; of long output, the start and the end. With cursor, \
returns one page of the output instead, at once. A cursor is a byte offset in the output: 0 is the start, and each page contains \
the next one.",
        hints: READ_ONLY,
        properties: || {
            json!({
                "process_id": text("The process_id that bash returned."),
                "cursor": number("Byte offset in the output to start at.", 0),
                "wait_ms": number("Longest wait, at most 45000. Default: 5000; 45000 with until; 0 with cursor.", 0),
                "until": text("Regular expression; the call returns as soon as it matches new output. Output already shown matches too, unless a match was reported before."),
            })
        },
        required: &["process_id"],
    },
    Tool {
        name: "bash_input",
        title: "Write to a process",
        description: "Writes text to the stdin of a process that bash started with background: true. End a line with \\n, as \
the Enter key does. Read the resulting output with bash_output.",
        hints: ToolHints { destructive: false, open_world: true, ..DESTRUCTIVE },
        properties: || {
            json!({
                "process_id": text("The process_id that bash returned."),
                "data": text("The text to write."),
                "eof": flag("Close stdin afterwards."),
            })
        },
        required: &["process_id", "data"],
    },
    Tool {
        name: "kill",
        title: "Kill a process",
        description: "Kills a process that bash started, with everything it started, and lists the killed processes: TERM first, KILL shortly \
after. With a signal other than TERM and KILL, only sends that signal, for example INT or HUP.",
        hints: ToolHints { idempotent: true, ..DESTRUCTIVE },
        properties: || {
            json!({
                "process_id": text("The process_id that bash returned."),
                "signal": text("Signal name or number, with or without SIG."),
            })
        },
        required: &["process_id"],
    },
    Tool {
        name: "read",
        title: "Read a file",
        description: "Returns the lines of a file with line numbers (from 1), at most 1800 lines; use offset and limit to page through a \
longer file, as the result explains. The number and the tab after it are not part of the file. Images (PNG, JPEG, \
GIF, WebP) are returned as images.",
        hints: READ_ONLY,
        properties: || {
            json!({
                "path": text("The file; absolute, or relative to the working directory."),
                "offset": number("First line to return, from 1.", 1),
                "limit": number("Number of lines to return.", 1),
            })
        },
        required: &["path"],
    },
    Tool {
        name: "write",
        title: "Write a file",
        description: "Creates a file or replaces its whole content atomically; missing directories are created. To change a \
part of a file use edit or patch.",
        hints: ToolHints { idempotent: true, ..DESTRUCTIVE },
        properties: || {
            json!({
                "path": text("The file; absolute, or relative to the working directory."),
                "content": text("The complete content of the file."),
            })
        },
        required: &["path", "content"],
    },
    Tool {
        name: "edit",
        title: "Edit a file",
        description: "Replaces text in a file. old_string must match the file exactly, including whitespace and line breaks, \
and only once unless replace_all is set: add context lines until it is unique. If it is not, the result has the lines of all \
occurrences. Line endings and the rest of the file are unchanged.",
        hints: DESTRUCTIVE,
        properties: || {
            json!({
                "path": text("The file; absolute, or relative to the working directory."),
                "old_string": text("The text to replace, without the line numbers that read adds."),
                "new_string": text("The replacement."),
                "replace_all": flag("Replace every occurrence."),
            })
        },
        required: &["path", "old_string", "new_string"],
    },
    Tool {
        name: "patch",
        title: "Apply a patch",
        description: "Changes several places or files in one step: completely or not at all. The format is\n*** Begin Patch\n*** Update File: \
src/a.rs\n@@ fn main() {\n context line\n-old line\n+new line\n*** Add File: new.txt\n+its lines\n*** Delete File: \
old.txt\n*** End Patch\nAfter `*** Update File` may follow `*** Move to: path`. Lines of context begin with a space; `@@` \
names a line above the place. Context that fits several places is refused. A unified diff (`--- a/x`, `+++ b/x`, `@@ -1,2 +1,2 @@`) is \
also accepted.",
        hints: DESTRUCTIVE,
        properties: || json!({ "patch_text": text("The patch, from *** Begin Patch to *** End Patch, or a unified diff.") }),
        required: &["patch_text"],
    },
    Tool {
        name: "list",
        title: "List a directory",
        description: "Lists the entries of a directory; names of directories end with /. Use glob to find files at any depth.",
        hints: READ_ONLY,
        properties: || json!({ "path": text("The directory. Default: the working directory.") }),
        required: &[],
    },
    Tool {
        name: "glob",
        title: "Find files by name",
        description: "Returns the paths that match a pattern such as **/*.rs or src/{a,b}/*.ts, sorted. * matches within one \
directory, ** matches any number of directories.",
        hints: READ_ONLY,
        properties: || {
            json!({
                "pattern": text("The pattern."),
                "path": text("Directory to search. Default: the working directory."),
            })
        },
        required: &["pattern"],
    },
    Tool {
        name: "grep",
        title: "Search in files",
        description: "Searches file contents with a regular expression (ripgrep syntax) and returns path, line number and \
line; paths are relative to the working directory. Files excluded by .gitignore are skipped. A pattern without capital letters ignores case. With path \
process:PROCESS_ID it searches the output of a process.",
        hints: READ_ONLY,
        properties: || {
            json!({
                "pattern": text("The regular expression."),
                "path": text("File or directory to search, or process:PROCESS_ID. Default: the working directory."),
                "include": text("Search only files that match this glob, such as *.py."),
                "context": number("Lines to show before and after each match.", 0),
                "output_mode": json!({
                    "type": "string", "enum": ["content", "files", "count"], "default": "content",
                    "description": "Return the matching lines, only the paths of the files, or the number of matching lines per file.",
                }),
                "multiline": flag("Match across line ends; `.` then also matches a line end."),
            })
        },
        required: &["pattern"],
    },
    Tool {
        name: "stat",
        title: "Show file metadata",
        description: "Returns whether a path exists, and its type, size, mode, owner and modification time.",
        hints: READ_ONLY,
        properties: || json!({ "path": text("The path; absolute, or relative to the working directory.") }),
        required: &["path"],
    },
];
