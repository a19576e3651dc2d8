//! Approvals on disk, and the diffs that approvers see.
//!
//! Each approval and each lasting grant is one small file, so that all daemons of one user can share a directory. The
//! stored form is redacted; the form that the approver sees exists only in memory.

pub mod describe;
pub mod diff;
mod dir;
mod record;
mod store;

pub use store::FileApprovalStore;
