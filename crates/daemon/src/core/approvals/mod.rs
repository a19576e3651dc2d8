//! Approvals on disk: what was asked and how it was settled outlives the daemon, without its secrets.
//!
//! One small file per question and per lasting grant, so that any number of daemons of one user share a folder. What
//! the approver sees is the truth and stays in memory; what lies here is redacted.

pub mod diff;
mod folder;
mod ledger;
mod record;

pub use ledger::FileLedger;
