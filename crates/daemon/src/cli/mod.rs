//! The command line of `rexd`: arguments, `doctor`, `policy` and `run`.

pub mod args;
pub mod doctor;
pub mod policy;
pub mod run;
