//! The server side of JSON-RPC over a link: requests from messages, and replies that are sent exactly once.
//!
//! ```
//! # async fn serve(link: link::Link) {
//! use link::rpc::{Requests, RpcLimits};
//!
//! let mut requests = Requests::new(link.incoming, link.outgoing, RpcLimits::default());
//! while let Some(request) = requests.next().await {
//!     let answer = match request.method.as_str() {
//!         "server.ping" => Ok("pong"),
//!         other => Err(wire::jsonrpc::RpcError::method_not_found(other)),
//!     };
//!     request.reply.send(answer).await;
//! }
//! # }
//! ```

mod in_flight;
mod reply;
mod requests;

pub use in_flight::InFlight;
pub use reply::Reply;
pub use requests::{Params, Request, Requests, RpcLimits};
