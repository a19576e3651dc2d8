//! Version 1: envelopes over WebSockets, `/ws/host` for hosts and `/ws/app` for apps.
//!
//! | direction | messages |
//! |---|---|
//! | host → hub → app | events of a run, with a `seq`; `rpc.response` |
//! | app → hub → host | commands and `rpc.*` requests |
//! | hub → host | `run.ack`, `hub.ready` |
//! | hub → app | `app.*`, `host.online`, `host.offline` |

mod commands;
mod envelope;
mod events;
mod hosts;
mod requests;

pub use commands::*;
pub use envelope::*;
pub use events::*;
pub use hosts::*;
pub use requests::*;
