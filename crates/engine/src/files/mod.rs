//! Files within roots.
