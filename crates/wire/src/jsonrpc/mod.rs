//! The JSON-RPC 2.0 envelope: parsing and encoding of messages.

mod encode;
mod error;
mod id;
mod parse;

pub use encode::{array, error_response, notification, request, response};
pub use error::{RpcError, code};
pub use id::Id;
pub(crate) use id::push_u64;
pub use parse::{Call, InvalidMessage, Item, Message, Response, parse};
