//! Relay frames: what harness and executor exchange through a rendezvous, one per WebSocket message.
