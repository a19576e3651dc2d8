//! Hubs: the sign-ins to them, and the hub that a command uses.

pub mod logins;
pub mod selection;
mod sign_in;
