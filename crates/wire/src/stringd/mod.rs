//! The stringd protocol: HTTP resources and the event triple of a command.

pub mod v0_1;
