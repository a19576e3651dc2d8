//! Codex's exec-server: its envelope, its two vocabularies, and the relay that carries it through a rendezvous.

pub mod relay;
