//! Every wire format as plain data, one module per version. No I/O.
//!
//! | protocol | version | module | spec directory |
//! |---|---|---|---|
//! | JSON-RPC | 2.0 | [`jsonrpc`] | – |
//! | REXD | 1 | [`rexd::v1`] | `spec/rexd-v1` |
//! | exec-server | 0, 1 and its relay | [`exec_server`] | `spec/exec-server-v0`, `spec/exec-server-v1` |
//! | hub | 1 | [`hub::v1`] | – |
//! | keeper socket | 1, 2 | [`keeper`] | – |
//! | stringd | 0.1 | [`stringd::v0_1`] | `spec/stringd-v0.1` |
//!
//! A face decodes these types and converts them into the engine's; no code here interprets a value. Bulk output has its
//! own encoders ([`text`], [`base64`], [`binary`]).

pub mod base64;
pub mod binary;
pub mod exec_server;
pub mod hub;
pub mod jsonrpc;
pub mod keeper;
pub mod limits;
pub mod rexd;
pub mod stringd;
pub mod text;
