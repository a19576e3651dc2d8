//! What the operator allows.
