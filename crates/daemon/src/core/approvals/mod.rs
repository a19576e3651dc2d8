//! Approvals on disk: what was asked and how it was settled outlives the daemon, without its secrets.
//!
//! One small file per question and per lasting grant, so that any number of daemons of one user share a directory. What
//! the approver sees is the truth and stays in memory; what lies here is redacted.

pub mod diff;
mod dir;
mod record;
mod store;

pub use store::FileApprovalStore;
