//! The command line of `rexd`: arguments, `doctor` and `policy`.

pub mod args;
pub mod doctor;
pub mod policy;
