//! What the gate lets in, and what it does not.
