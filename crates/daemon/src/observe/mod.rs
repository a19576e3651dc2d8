//! Audit, metrics, traces and the log on stderr.

pub mod audit;
pub mod log;
pub mod metrics;
pub mod traces;
