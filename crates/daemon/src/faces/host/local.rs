//! The local API: HTTP on a unix socket of this user, for programs on the host and inside its runs.
//!
//! | request | response |
//! |---|---|
//! | `GET /runs` | the runs that have not ended |
//! | `POST /runs` `{tool?, cmd, cwd?}` | `{run_id}` |
//! | `GET /runs/ID` | the run, its process and its exit code |
//! | `POST /runs/ID/input`, `/stdin`, `/resize`, `/stop` | 204 |
//! | `GET /runs/ID/fs/read`, `/fs/list`, `/fs/search`, `/git/status`, `/git/diff` | the result |
//! | `POST /runs/ID/fs/write`, `/bash` | the result, after approval |

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use link::listen::{
    ConnectionLimiter, HttpConnection, HttpPeer, HttpServer, HttpService, PhaseDeadlines, WhenFull, accept,
};
use serde_json::{Map, Value, json};
use wire::hub::v1::{kind, rpc};
use wire::jsonrpc::RpcError;

use super::Host;
use super::calls::{Answer, HostRequest, begin, call, result_of};
use super::errors::unknown_run;
use super::identity::uuid;
use crate::core::request::ConnectionContext;
use crate::core::session::Face as _;
use crate::net::auth::Caller;
use crate::net::listen::{UnixSocket, peer_caller};
use crate::observe::metrics::Transport;

/// Connections at the same time; one more is closed.
const MAX_CONNECTIONS: usize = 256;
/// The body of a request: a file to write in JSON.
const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// Serves the local API until the daemon ends.
pub(super) async fn serve(host: Arc<Host>, socket: UnixSocket) {
    let limiter = ConnectionLimiter::new(MAX_CONNECTIONS);
    let (stop, tasks) = (host.core().stop.clone(), host.core().tasks.clone());
    loop {
        let accepted = accept(|| socket.listener.accept(), || limiter.evict_oldest());
        let Some((stream, _unnamed)) = stop.run_until_cancelled(accepted).await else { return };
        let (Ok(caller), Some(slot)) = (peer_caller(&stream), limiter.try_acquire()) else { continue };
        slot.authenticate();
        let server = HttpServer {
            service: Arc::new(LocalApi { host: host.clone(), caller: Arc::new(caller) }),
            limiter: limiter.clone(),
            when_full: WhenFull::Reject,
            deadlines: PhaseDeadlines::default(),
            tls: None,
            stop: stop.clone(),
            tasks: tasks.clone(),
        };
        tasks.spawn(
            async move { server.serve(Box::new(stream), Box::new(()), HttpPeer::default(), slot).await },
        );
    }
}

/// The routes for one connection.
struct LocalApi {
    host: Arc<Host>,
    caller: Arc<Caller>,
}

/// What a request asks for.
enum Route {
    /// A request with a result.
    Call { kind: &'static str, run_id: Option<String> },
    /// A command without one.
    Command { kind: &'static str, run_id: String },
    /// The description of a run.
    Describe(String),
}

fn route(method: &Method, path: &str) -> Option<Route> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let call = |kind, run: &str| Some(Route::Call { kind, run_id: Some(run.to_owned()) });
    let command = |kind, run: &str| Some(Route::Command { kind, run_id: run.to_owned() });
    match (method, parts.as_slice()) {
        (&Method::GET, ["runs"]) => Some(Route::Call { kind: rpc::RUNS_LIST, run_id: None }),
        (&Method::POST, ["runs"]) => Some(Route::Call { kind: rpc::RUN_START, run_id: None }),
        (&Method::GET, ["runs", run]) => Some(Route::Describe((*run).to_owned())),
        (&Method::POST, ["runs", run, "input"]) => command(kind::RUN_SEND_INPUT, run),
        (&Method::POST, ["runs", run, "stdin"]) => command(kind::RUN_SEND_STDIN, run),
        (&Method::POST, ["runs", run, "resize"]) => command(kind::RUN_RESIZE, run),
        (&Method::POST, ["runs", run, "stop"]) => command(kind::RUN_STOP, run),
        (&Method::GET, ["runs", run, "fs", "read"]) => call(rpc::FS_READ, run),
        (&Method::GET, ["runs", run, "fs", "list"]) => call(rpc::FS_LIST, run),
        (&Method::GET, ["runs", run, "fs", "search"]) => call(rpc::FS_SEARCH, run),
        (&Method::GET, ["runs", run, "git", "status"]) => call(rpc::GIT_STATUS, run),
        (&Method::GET, ["runs", run, "git", "diff"]) => call(rpc::GIT_DIFF, run),
        (&Method::POST, ["runs", run, "fs", "write"]) => call(rpc::FS_WRITE, run),
        (&Method::POST, ["runs", run, "bash"]) => call(rpc::BASH, run),
        _ => None,
    }
}

impl HttpService for LocalApi {
    type ResponseBody = Full<Bytes>;

    async fn respond(
        self: Arc<Self>,
        _: Arc<HttpConnection>,
        request: Request<Incoming>,
    ) -> Response<Full<Bytes>> {
        let Some(route) = route(request.method(), request.uri().path()) else {
            return plain(StatusCode::NOT_FOUND, "no such route");
        };
        let data = match data(request).await {
            Ok(data) => data,
            Err(problem) => return plain(StatusCode::BAD_REQUEST, &problem),
        };
        match route {
            Route::Call { kind, run_id } => {
                match &*call(&self.host, self.request(kind, run_id, data)).await {
                    Ok(result) => json_response(StatusCode::OK, result.get().to_owned()),
                    answer @ Err(error) => match result_of(answer) {
                        // A command that failed: its output is the answer.
                        Some(result) => json_response(StatusCode::OK, result.to_string()),
                        None => refused(error),
                    },
                }
            }
            Route::Command { kind, run_id } => match self.command(kind, run_id, data).await {
                Ok(_done) => plain(StatusCode::NO_CONTENT, ""),
                Err(error) => refused(&error),
            },
            Route::Describe(run_id) => self.describe(&run_id),
        }
    }
}

impl LocalApi {
    fn request(&self, kind: &str, run_id: Option<String>, mut data: Map<String, Value>) -> HostRequest {
        // A request without an id is a new one.
        let new_id = || uuid().map(Value::from).unwrap_or_default();
        data.entry("request_id").or_insert_with(new_id);
        data.entry("input_id").or_insert_with(new_id);
        data.insert("actor".to_owned(), json!("local"));
        let caller = Caller::clone(&self.caller);
        HostRequest {
            kind: kind.to_owned(),
            run_id,
            data: Value::Object(data).to_string().into(),
            context: ConnectionContext::new(caller, Transport::Unix),
        }
    }

    async fn command(&self, kind: &str, run_id: String, data: Map<String, Value>) -> Answer {
        begin(&self.host, self.request(kind, Some(run_id), data)).await?.answer().await
    }

    fn describe(&self, run_id: &str) -> Response<Full<Bytes>> {
        let Some(run) = self.host.runs.get(run_id) else { return refused(&unknown_run()) };
        let exit_code = run.journal().ended();
        let found = json!({
            "run_id": run_id, "tool": run.record.tool, "cwd": run.record.cwd, "command": run.record.command,
            "process_id": run.record.process, "exit_code": exit_code,
        });
        json_response(StatusCode::OK, found.to_string())
    }
}

/// The data of a request: the members of its body, and of its query.
async fn data(request: Request<Incoming>) -> Result<Map<String, Value>, String> {
    let mut data = Map::new();
    for (name, value) in
        request.uri().query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='))
    {
        data.insert(name.to_owned(), json!(decoded(value)?));
    }
    let body = Limited::new(request.into_body(), MAX_BODY_BYTES).collect().await;
    let body = body.map_err(|error| format!("cannot read the body: {error}"))?.to_bytes();
    if !body.is_empty() {
        let body: Map<String, Value> =
            serde_json::from_slice(&body).map_err(|error| format!("bad JSON: {error}"))?;
        data.extend(body);
    }
    Ok(data)
}

/// A value of a query, decoded.
fn decoded(value: &str) -> Result<String, String> {
    let (mut bytes, mut rest) = (Vec::new(), value.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'%' => {
                let (digits, after) = rest.split_at_checked(2).ok_or("bad escape in the query")?;
                bytes.extend(hex::decode(digits).map_err(|_| "bad escape in the query")?);
                rest = after;
            }
            b'+' => bytes.push(b' '),
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| "the query is not UTF-8".to_owned())
}

fn refused(error: &RpcError) -> Response<Full<Bytes>> {
    let status = match error.message.as_str() {
        "denied" => StatusCode::FORBIDDEN,
        "timeout" => StatusCode::REQUEST_TIMEOUT,
        "unknown run_id" => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_REQUEST,
    };
    plain(status, &error.message)
}

fn plain(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", text.to_owned())
}

fn json_response(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    response(status, "application/json", body)
}

fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let content_type = header::HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded_and_unknown_routes_are_none() {
        assert_eq!(decoded("a%2Fb+c%C3%A9").unwrap(), "a/b cé");
        assert!(decoded("%4").is_err() && decoded("%ff").is_err());
        assert!(matches!(route(&Method::POST, "/runs/r/bash"), Some(Route::Call { kind: rpc::BASH, .. })));
        assert!(route(&Method::GET, "/runs/r/bash").is_none());
        assert!(route(&Method::GET, "/").is_none());
    }
}
