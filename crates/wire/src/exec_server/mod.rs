//! Codex's exec-server: its envelope, its two vocabularies, and the relay that carries it through a rendezvous.

pub mod bytes;
pub mod envelope;
pub mod http;
pub mod relay;
pub mod uri;
pub mod v0;
pub mod v1;

pub use bytes::ByteChunk;
pub use envelope::{ErrorObject, Message, code};
