//! Who may do what: callers, what proves them, and what they may reach.

mod caller;

pub use caller::{Caller, Scope, Scopes};
