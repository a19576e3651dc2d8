//! The method table of exec-server, v0 and v1.

use super::ExecServer;
use super::methods::{environment, files, handles, http, input, metadata, missing, processes, reads, walk};
use crate::core::request::Details;
use crate::core::table::{Admission, ConnectionRow, Method, Row, Schedule, detail, no_details, with_size};
use crate::net::auth::Scope;
use engine::audit::{Detail, RecordPriority};
use serde_json::Value;
use wire::exec_server::http::{HTTP_REQUEST, HttpRequest};
use wire::exec_server::{v0, v1};

/// One row per method: name, parameters, scope, schedule, admission, audit details, and the function that checks and
/// converts the parameters. The audit details are the named parameters, or what a function makes of them. A method that
/// `releases` only ends or releases something, so that it runs while the audit file cannot be written.
macro_rules! rows {
    ($($name:expr, $params:ty, $scope:ident $schedule:ident $admission:ident $audit:tt $($kind:ident)? => $prepare:path;)*) => {
        &[
            &ConnectionRow::<ExecServer, v1::InitializeParams> {
                name: v1::INITIALIZE,
                scope: Scope::Read,
                // Nothing else resumes a session.
                record_priority: RecordPriority::Reserved,
                audit: no_details,
                call: std::convert::identity,
            },
            $(&Row::<ExecServer, $params> {
                name: $name,
                scope: Scope::$scope,
                schedule: Schedule::$schedule,
                admission: Admission::$admission,
                record_priority: rows!(@record $($kind)?),
                session: |_params| None,
                audit: rows!(@audit $audit),
                key: None,
                payload: None,
                prepare: $prepare,
            }),*
        ]
    };
    (@audit [$($param:ident),*]) => { |params| [$(detail(stringify!($param), &params.$param)),*].concat() };
    (@audit ($details:expr)) => { $details };
    (@record releases) => { RecordPriority::Reserved };
    (@record) => { RecordPriority::Normal };
}

/// Every method of exec-server.
pub static TABLE: &[&dyn Method<ExecServer>] = rows! {
    v1::PROCESS_START, v1::ExecParams, Exec Immediate Slot (|params| {
        started(&params.process_id, &params.argv, &params.cwd, (params.env.keys(), params.tty))
    }) => processes::start;
    v1::PROCESS_READ, v1::ReadParams, Read Immediate ProcessMemory [process_id] => reads::read;
    v1::PROCESS_WRITE, v1::WriteParams, Exec Immediate ProcessMemory (|params| {
        with_size(detail("process_id", &params.process_id), "chunk", params.chunk.0.len())
    }) => input::write;
    v1::PROCESS_TERMINATE, v1::TerminateParams, Exec Immediate Unlimited [process_id] releases => processes::terminate;
    v1::PROCESS_SIGNAL, v1::SignalParams, Exec Immediate Unlimited [process_id] releases => processes::signal;
    v0::method::EXEC, v0::ExecParams, Exec Immediate Slot (|params| {
        started(&params.process_id, &params.argv, &params.cwd, (params.env.keys(), params.tty))
    }) => processes::start_v0;
    v0::method::WRITE, v0::WriteParams, Exec Immediate ProcessMemory (|params| {
        with_size(detail("process_id", &params.process_id), "chunk", params.chunk.0.len())
    }) => input::write_v0;
    v0::method::TERMINATE, v0::TerminateParams, Exec Immediate Unlimited [process_id] releases => processes::terminate_v0;
    v1::FS_READ_FILE, v1::FsReadFileParams, Read Read Slot [path] => files::read_file;
    v1::FS_WRITE_FILE, v1::FsWriteFileParams, Exec Exclusive Slot (|params| {
        with_size(detail("path", &params.path), "data_base64", params.data_base64.len())
    }) => files::write_file;
    v1::FS_CREATE_DIRECTORY, v1::FsCreateDirectoryParams, Exec Exclusive Slot [path] => files::mkdir;
    v1::FS_GET_METADATA, v1::FsGetMetadataParams, Read Read Slot [path] => metadata::get;
    v1::FS_READ_DIRECTORY, v1::FsReadDirectoryParams, Read Read Slot [path] => metadata::list;
    v1::FS_REMOVE, v1::FsRemoveParams, Exec Exclusive Slot [path] => files::remove;
    v1::FS_COPY, v1::FsCopyParams, Exec Exclusive Slot [source_path, destination_path] => files::copy;
    v1::FS_CANONICALIZE, v1::FsCanonicalizeParams, Read Read Slot [path] => metadata::canonicalize;
    v1::FS_WALK, v1::FsWalkParams, Read Read Slot [path] => walk::walk;
    v1::FS_OPEN, v1::FsOpenParams, Exec Read Slot [path, handle_id] => handles::open;
    v1::FS_READ_BLOCK, v1::FsReadBlockParams, Read Read Slot [handle_id] => handles::read_block;
    v1::FS_WRITE_BLOCK, v1::FsWriteBlockParams, Exec Exclusive Slot (|params| {
        with_size(detail("handle_id", &params.handle_id), "chunk", params.chunk.0.len())
    }) => handles::write_block;
    v1::FS_CLOSE, v1::FsHandle, Exec Exclusive Unlimited [handle_id] releases => handles::close;
    v1::FS_WATCH_MISSING, v1::FsWatchMissingParams, Read Read Slot (|params| {
        vec![("missing".into(), Detail::List(params.missing.clone()))]
    }) => missing::watch;
    HTTP_REQUEST, HttpRequest, Exec Immediate Slot (|params| {
        let details = [detail("method", &params.method), detail("url", public_part(&params.url))].concat();
        with_size(details, "body_base64", params.body_base64.as_ref().map_or(0, |body| body.0.len()))
    }) => http::prepare;
    v1::ENVIRONMENT_INFO, Value, Read Immediate Unlimited (no_details) => environment::info_request;
    v1::ENVIRONMENT_STATUS, Value, Read Immediate Unlimited (no_details) => environment::status_request;
};

fn started<'a>(
    id: &str,
    argv: &[String],
    cwd: &str,
    (env, tty): (impl Iterator<Item = &'a String>, bool),
) -> Details {
    let mut details = detail("process_id", id);
    details.push(("argv".into(), Detail::Argv(argv.to_vec())));
    details.extend(detail("cwd", cwd));
    details.push(("env".into(), Detail::List(env.cloned().collect())));
    details.push(("tty".into(), Detail::Flag(tty)));
    details
}

/// A URL without user, query and fragment, which may contain secrets.
fn public_part(url: &str) -> &str {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let url = &url[..end];
    let host = url.find("://").map_or(0, |scheme| scheme + 3);
    let authority = &url[host..url[host..].find('/').map_or(url.len(), |slash| host + slash)];
    match authority.rfind('@') {
        Some(at) => &url[host + at + 1..],
        None => url,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audit_records_a_url_without_its_secrets() {
        for (url, kept) in [
            ("https://h.example/a/b", "https://h.example/a/b"),
            ("https://h.example/a?token=x#y", "https://h.example/a"),
            ("https://me:secret@h.example/a", "h.example/a"),
            ("http://h.example/@a", "http://h.example/@a"),
            ("https://h.example#secret", "https://h.example"),
            ("me:secret@h", "h"),
            ("", ""),
        ] {
            assert_eq!(public_part(url), kept, "{url}");
        }
    }
}
