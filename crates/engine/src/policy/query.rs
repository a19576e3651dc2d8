//! What is asked of a policy: who wants what, through which front end.

use std::path::Path;

/// One operation that somebody wants done.
#[derive(Debug, Clone, Copy)]
pub struct PolicyQuery<'a> {
    /// The front end it came through.
    pub face: &'a str,
    /// The name the client gave itself. Nobody checked it.
    pub client: &'a str,
    /// Who asks, by what they proved, such as `token:ci` or `uid:1000`.
    pub caller: &'a str,
    /// What they want.
    pub operation: PolicyOperation<'a>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy)]
pub enum PolicyOperation<'a> {
    /// A command is to run.
    Run {
        /// The command.
        line: CommandLine<'a>,
        /// The directory it starts in: absolute, links resolved.
        cwd: &'a Path,
    },
    /// Files are to be touched, all of them or none: a copy reads one and writes another, a move removes one and
    /// writes another.
    Files(&'a [PathAccess<'a>]),
}

/// A command as it was asked for.
#[derive(Debug, Clone, Copy)]
pub enum CommandLine<'a> {
    /// A program and its arguments.
    Argv(&'a [String]),
    /// Text for a shell.
    Shell {
        /// The text.
        line: &'a str,
        /// Whether the shell is a login shell.
        login: bool,
    },
}

/// One file or directory, and what is to happen to it.
#[derive(Debug, Clone, Copy)]
pub struct PathAccess<'a> {
    /// The file: absolute, links resolved as far as it exists. `.` and `..` left in it are removed by name only.
    pub path: &'a Path,
    /// What is to happen to it.
    pub access: Access,
    /// Whether the same is to happen to everything below it.
    pub is_recursive: bool,
}

/// What is to happen to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Its content, its entries or its attributes are looked at.
    Read,
    /// It is made or changed.
    Write,
    /// It is removed or moved away.
    Remove,
}

impl Access {
    /// Every access with the name operators write.
    pub const NAMES: [(&'static str, Self); 3] =
        [("read", Self::Read), ("write", Self::Write), ("remove", Self::Remove)];

    /// The name operators write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Remove => "remove",
        }
    }
}

impl<'a> PathAccess<'a> {
    /// A file that is read.
    pub fn read(path: &'a Path) -> Self {
        Self { path, access: Access::Read, is_recursive: false }
    }

    /// A file that is written.
    pub fn write(path: &'a Path) -> Self {
        Self { path, access: Access::Write, is_recursive: false }
    }

    /// A file that is removed.
    pub fn remove(path: &'a Path) -> Self {
        Self { path, access: Access::Remove, is_recursive: false }
    }

    /// The same for everything below it.
    pub fn recursive(self) -> Self {
        Self { is_recursive: true, ..self }
    }
}
