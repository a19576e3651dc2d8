//! The tools as models see them: name, description, schema and hints, each written once. No tool names a host.

use serde_json::{Value, json};

/// One tool.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    /// What it is called by.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// What a model has to know to use it well.
    pub description: &'static str,
    /// What it may do to the world.
    pub hints: ToolHints,
    properties: fn() -> Value,
    required: &'static [&'static str],
}

/// What a tool may do to the world, as MCP's annotations say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolHints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may destroy something.
    pub destructive: bool,
    /// Doing it twice is doing it once.
    pub idempotent: bool,
    /// It may reach beyond the machine.
    pub open_world: bool,
}

const READ_ONLY: ToolHints =
    ToolHints { read_only: true, destructive: false, idempotent: true, open_world: false };
const DESTRUCTIVE: ToolHints =
    ToolHints { read_only: false, destructive: true, idempotent: false, open_world: false };

impl Tool {
    /// Its arguments as a JSON Schema. The same bytes each time, whatever targets there are.
    pub fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": (self.properties)(),
            "required": self.required,
            "additionalProperties": false,
        })
    }

    /// Its hints as MCP writes them.
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

/// A tool by its name.
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

/// Every tool, in the order models are told of them.
pub const ALL: &[Tool] = &[
    Tool {
        name: "bash",
        title: "Run a command",
        description: "Runs a shell command on the machine where the work is, and returns what it wrote to stdout and stderr, \
as it came, and its exit code. The shell is `sh`; for features of bash write `bash -c '…'`. Each call is a \
new shell: a `cd` or a variable does not last until the next one, so give `cwd` or write `cd dir && …`. Its stdin is empty. \
A command that takes longer than 45 s goes on in the background: the answer then has its process_id, and bash_output reads \
on. For servers, watchers and programs that need input set background: true; stdin then stays open for bash_input. \
Background processes end when this server does. Long output is shown as its beginning and its end; all of it can be read \
with bash_output and searched with grep, as the answer says.",
        hints: ToolHints { open_world: true, ..DESTRUCTIVE },
        properties: || {
            json!({
                "command": text("The command, as one would type it into a shell."),
                "cwd": text("Directory to run it in; relative to the working directory, which is the default."),
                "timeout_ms": number("End the command with everything it started after this many milliseconds. Without it, it may run as long as the machine allows.", 1),
                "background": flag("Do not wait: answer as soon as it runs, with its process_id."),
            })
        },
        required: &["command"],
    },
    Tool {
        name: "bash_output",
        title: "Read the output of a process",
        description: "Returns output of a process that bash started, while it runs and after it has ended, one page at a time, \
and how the process is. Without cursor it goes on after what was shown last; if there is nothing new yet and the process \
runs, it waits a few seconds for something. A cursor is a number of bytes from the beginning of the output: 0 is the \
beginning, and each answer says where to go on.",
        hints: READ_ONLY,
        properties: || {
            json!({
                "process_id": text("The process, as bash returned it."),
                "cursor": number("Where in the output to start, in bytes.", 0),
            })
        },
        required: &["process_id"],
    },
    Tool {
        name: "bash_input",
        title: "Write to a process",
        description: "Writes text to the stdin of a process that bash started with background: true. End a line with \\n, as \
the Enter key would. Read what comes of it with bash_output.",
        hints: ToolHints { destructive: false, open_world: true, ..DESTRUCTIVE },
        properties: || {
            json!({
                "process_id": text("The process, as bash returned it."),
                "data": text("What to write, exactly."),
                "eof": flag("Close its stdin afterwards."),
            })
        },
        required: &["process_id", "data"],
    },
    Tool {
        name: "kill",
        title: "End a process",
        description: "Ends a process that bash started, with everything it started, and says who died: TERM first, KILL shortly \
after. With a signal other than TERM and KILL, sends only that, for instance INT or HUP.",
        hints: ToolHints { idempotent: true, ..DESTRUCTIVE },
        properties: || {
            json!({
                "process_id": text("The process, as bash returned it."),
                "signal": text("A signal's name or number, with or without SIG."),
            })
        },
        required: &["process_id"],
    },
    Tool {
        name: "read",
        title: "Read a file",
        description: "Returns a file's lines with their numbers (from 1), at limit 2000 of them; offset and limit page through a \
longer file, and the answer says where to go on. The number and the tab after it are not part of the file. Images (PNG, JPEG, \
GIF, WebP) are returned as images.",
        hints: READ_ONLY,
        properties: || {
            json!({
                "path": text("The file; relative to the working directory, or absolute."),
                "offset": number("First line to return, from 1.", 1),
                "limit": number("How many lines to return.", 1),
            })
        },
        required: &["path"],
    },
    Tool {
        name: "write",
        title: "Write a file",
        description: "Creates a file or replaces its whole content, in one step, with the directories it needs. To change a \
part of a file use edit or patch.",
        hints: ToolHints { idempotent: true, ..DESTRUCTIVE },
        properties: || {
            json!({
                "path": text("The file; relative to the working directory, or absolute."),
                "content": text("What it shall hold, exactly."),
            })
        },
        required: &["path", "content"],
    },
    Tool {
        name: "edit",
        title: "Edit a file",
        description: "Replaces text in a file. old_string must be in the file exactly as given, with its spaces and line breaks, \
and only once, unless replace_all is set: add lines around it until it is unique. Line endings and everything else stay as \
they are.",
        hints: DESTRUCTIVE,
        properties: || {
            json!({
                "path": text("The file; relative to the working directory, or absolute."),
                "old_string": text("What to replace, without the line numbers that read shows."),
                "new_string": text("What to put there instead."),
                "replace_all": flag("Replace every occurrence."),
            })
        },
        required: &["path", "old_string", "new_string"],
    },
    Tool {
        name: "patch",
        title: "Apply a patch",
        description: "Changes several paths or files at once, all or nothing. The text is\n*** Begin Patch\n*** Update File: \
src/a.rs\n@@ fn main() {\n context line\n-old line\n+new line\n*** Add File: new.txt\n+its lines\n*** Delete File: \
old.txt\n*** End Patch\nAfter `*** Update File` may follow `*** Move to: path`. LineWindow of context begin with a space; `@@` \
names a line above the place, where the context alone is not unique.",
        hints: DESTRUCTIVE,
        properties: || json!({ "patch_text": text("The patch, from *** Begin Patch to *** End Patch.") }),
        required: &["patch_text"],
    },
    Tool {
        name: "list",
        title: "List a directory",
        description: "Lists what is in a directory, directories with a / behind their name. To look for files at any depth use glob.",
        hints: READ_ONLY,
        properties: || json!({ "path": text("The directory; the working directory by default.") }),
        required: &[],
    },
    Tool {
        name: "glob",
        title: "Find files by name",
        description: "Returns the paths that match a pattern such as **/*.rs or src/{a,b}/*.ts, sorted. * stays within a \
directory, ** goes through all below it.",
        hints: READ_ONLY,
        properties: || {
            json!({
                "pattern": text("The pattern."),
                "path": text("Directory to start in; the working directory by default."),
            })
        },
        required: &["pattern"],
    },
    Tool {
        name: "grep",
        title: "Search in files",
        description: "Searches the contents of files with a regular expression (ripgrep's) and returns path, line number and \
line. Files that .gitignore names are left out. A pattern without capital letters ignores case. With path \
process:PROCESS_ID it searches the output of a process instead.",
        hints: READ_ONLY,
        properties: || {
            json!({
                "pattern": text("The regular expression."),
                "path": text("File or directory; the working directory by default. Or process:PROCESS_ID."),
                "include": text("Only files that match this glob, such as *.py."),
            })
        },
        required: &["pattern"],
    },
    Tool {
        name: "stat",
        title: "Look at a path",
        description: "RuleFn whether a path exists, what it is, its size, its mode and when it was changed.",
        hints: READ_ONLY,
        properties: || json!({ "path": text("The path; relative to the working directory, or absolute.") }),
        required: &["path"],
    },
];
