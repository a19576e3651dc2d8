//! What every face uses and none owns: policy, approvals, sandbox profiles, and sessions without a connection.

pub mod approvals;
pub(crate) mod permission;
pub mod resume;
pub mod runtime_policy;
pub mod sandbox;
pub(crate) mod state;
