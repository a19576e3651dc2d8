//! Policy queries: an operation, its caller and its front end.

use std::path::Path;

/// An operation to decide on.
#[derive(Debug, Clone, Copy)]
pub struct PolicyQuery<'a> {
    /// Front end that received the request.
    pub face: &'a str,
    /// Name that the client reports for itself; not verified.
    pub client: &'a str,
    /// Authenticated name of the caller, such as `token:ci` or `uid:1000`.
    pub caller: &'a str,
    /// The operation to decide on.
    pub operation: PolicyOperation<'a>,
}

/// A command or a file operation.
#[derive(Debug, Clone, Copy)]
pub enum PolicyOperation<'a> {
    /// Starts a command.
    Run {
        /// The command line.
        line: CommandLine<'a>,
        /// Directory that it starts in: absolute, with links resolved.
        cwd: &'a Path,
        /// Variables that the request sets or, with `None`, removes. Each counts like shell text that sets it.
        env: &'a [(String, Option<String>)],
    },
    /// Accesses files, allowed or refused together: a copy reads one and writes another, a move removes one and writes
    /// another.
    Files(&'a [PathAccess<'a>]),
}

/// A command as requested.
#[derive(Debug, Clone, Copy)]
pub enum CommandLine<'a> {
    /// A program and its arguments.
    Argv(&'a [String]),
    /// Text that a shell interprets.
    Shell {
        /// The shell text.
        line: &'a str,
        /// Whether the shell is a login shell.
        login: bool,
    },
}

/// Access to a file or directory.
#[derive(Debug, Clone, Copy)]
pub struct PathAccess<'a> {
    /// Absolute path, with links resolved as far as it exists. Remaining `.` and `..` are removed by name only.
    pub path: &'a Path,
    /// Kind of the access.
    pub access: Access,
    /// Whether everything below the path is accessed too.
    pub is_recursive: bool,
}

/// Kind of an access to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads its content, entries or attributes.
    Read,
    /// Creates or changes it.
    Write,
    /// Removes it or moves it away.
    Remove,
}

impl Access {
    /// All kinds with their names in the configuration.
    pub const NAMES: [(&'static str, Self); 3] =
        [("read", Self::Read), ("write", Self::Write), ("remove", Self::Remove)];

    /// The name in the configuration and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Remove => "remove",
        }
    }
}

impl<'a> PathAccess<'a> {
    /// Read access to one path.
    pub fn read(path: &'a Path) -> Self {
        Self { path, access: Access::Read, is_recursive: false }
    }

    /// Write access to one path.
    pub fn write(path: &'a Path) -> Self {
        Self { path, access: Access::Write, is_recursive: false }
    }

    /// Removal of one path.
    pub fn remove(path: &'a Path) -> Self {
        Self { path, access: Access::Remove, is_recursive: false }
    }

    /// The same access, including everything below the path.
    pub fn recursive(self) -> Self {
        Self { is_recursive: true, ..self }
    }
}
