//! The hub protocol: JSON envelopes between hosts, the hub and apps.

pub mod v1;
