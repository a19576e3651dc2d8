//! Putting rexd on a machine that ssh reaches: one connection, the right program, a config that allows little.

pub(crate) mod config;
pub(crate) mod machine;
pub(crate) mod program;
pub(crate) mod remote;

#[cfg(test)]
mod tests;
