//! Installs rexd on a machine over one ssh connection.

pub(crate) mod binary;
pub(crate) mod config;
pub(crate) mod machine;
pub(crate) mod remote_shell;

#[cfg(test)]
mod tests;
