//! What an internal request does: its checked parameters, its effects and its action.

pub(super) mod command;
pub(super) mod files;
pub(super) mod http;
pub(super) mod params;

use wire::jsonrpc::RpcError;

use super::Stringd;
use crate::core::prepare::PrepareContext;
use crate::core::table::Prepared;

/// What a request is prepared with.
pub(super) type StringdContext<'a> = PrepareContext<'a, Stringd>;
/// A checked and converted request.
pub(super) type StringdPrepareResult = Result<Prepared<Stringd>, RpcError>;
