//! The faces of the daemon over one engine.
