//! The exec-server protocol of Codex: envelope, versions 0 and 1, and the relay through a rendezvous.

pub mod bytes;
pub mod envelope;
pub mod http;
pub mod relay;
pub mod uri;
pub mod v0;
pub mod v1;

pub use bytes::ByteChunk;
pub use envelope::{ErrorObject, Message, code};
