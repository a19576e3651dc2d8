//! `rexd`: one engine, the core that every face uses, the faces, and the network they are reached on.

pub mod cli;
pub mod config;
pub mod core;
pub mod faces;
pub mod keeper;
pub mod net;
pub mod observe;
pub mod serve;
