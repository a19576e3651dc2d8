//! The table of requests: the routes of the protocol, and what commands do to files, programs and web servers.

use std::sync::Arc;

use engine::audit::RecordPriority;
use link::rpc::Params;
use wire::jsonrpc::RpcError;

use super::Stringd;
use super::methods::params::{self, name};
use super::methods::{command, files, http};
use super::routes::name as route;
use crate::core::prepare::PrepareContext;
use crate::core::request::Details;
use crate::core::table::{Admission, Decoded, Method, Prepared, Row, Schedule, detail, with_size};
use crate::net::auth::Scope;

/// One row per kind of request. A topic runs one command at a time, so its requests need no order among themselves.
pub static TABLE: &[&dyn Method<Stringd>] = &[
    &row(name::FILE_READ, Scope::Read, path_details, files::read),
    &row(name::FILE_STAT, Scope::Read, path_details, files::stat),
    &row(name::FILE_LIST, Scope::Read, path_details, files::list),
    &row(name::FILE_WRITE, Scope::Exec, write_details, files::write),
    &row(name::FILE_REMOVE, Scope::Exec, remove_details, files::remove),
    &row(name::COMMAND_RUN, Scope::Exec, command::details, command::run),
    &row(name::SHELL_INPUT, Scope::Exec, command::details, command::decide),
    &row(name::HTTP_REQUEST, Scope::Exec, http_details, http::request),
    &RouteRow(route::USERS_LIST, Scope::Read),
    &RouteRow(route::USERS_REGISTER, Scope::Exec),
    &RouteRow(route::USERS_DELETE, Scope::Exec),
    &RouteRow(route::SESSIONS_LIST, Scope::Read),
    &RouteRow(route::SESSIONS_CREATE, Scope::Exec),
    &RouteRow(route::SESSIONS_DELETE, Scope::Exec),
    &RouteRow(route::EXEC, Scope::Exec),
    &RouteRow(route::HEALTH, Scope::Read),
    &RouteRow(route::SHUTDOWN, Scope::Exec),
];

/// A route of the protocol, which is decoded and answered as HTTP.
struct RouteRow(&'static str, Scope);

impl Method<Stringd> for RouteRow {
    fn name(&self) -> &'static str {
        self.0
    }

    fn scope(&self) -> Scope {
        self.1
    }

    fn decode(&'static self, _params: &Params) -> Result<Decoded<Stringd>, RpcError> {
        Err(RpcError::method_not_found(self.0))
    }
}

type PrepareFn<P> = fn(&Arc<P>, &PrepareContext<'_, Stringd>) -> Result<Prepared<Stringd>, RpcError>;

const fn row<P>(
    name: &'static str,
    scope: Scope,
    audit: fn(&P) -> Details,
    prepare: PrepareFn<P>,
) -> Row<Stringd, P> {
    let (schedule, admission) = (Schedule::Immediate, Admission::Unlimited);
    let record_priority = RecordPriority::Normal;
    Row {
        name,
        scope,
        schedule,
        admission,
        record_priority,
        session: |_| None,
        audit,
        key: None,
        payload: None,
        prepare,
    }
}

fn path_details(params: &params::FilePath) -> Details {
    detail("path", &params.path.to_string_lossy())
}

fn write_details(params: &params::FileWrite) -> Details {
    with_size(detail("path", &params.path.to_string_lossy()), "content", params.content.len() / 4 * 3)
}

fn remove_details(params: &params::FileRemove) -> Details {
    detail("path", &params.path.to_string_lossy())
}

fn http_details(params: &params::HttpCall) -> Details {
    [detail("method", &params.method), detail("url", &params.url)].concat()
}
