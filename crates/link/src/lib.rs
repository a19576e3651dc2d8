//! Moving messages: stdio, memory, the JSON-RPC peer.
