//! What the tests share: a running daemon, transcripts, sandboxes.
