//! `rpc.host.*`: the machine, its tools, what the host supports, and the end of its log.

use std::sync::Arc;

use serde_json::{Value, json};
use wire::hub::v1::{self, LogsTailResult, rpc};
use wire::jsonrpc::RpcError;

use super::{HostContext, HostPrepareResult};
use crate::core::effects::Effects;
use crate::core::session::Face as _;
use crate::core::table::Prepared;
use crate::faces::host::Host;
use crate::faces::host::log_tail::{LogTail, tail};
use crate::faces::host::tools::KNOWN;

/// Lines of the log without a number in the request, and at most.
const LOG_LINES: (u64, u64) = (200, 2_000);
/// Bytes of the log without a number in the request, and at most.
const LOG_BYTES: (u64, u64) = (200_000, 2_000_000);

/// `rpc.host.info`: the machine and its tools.
pub(crate) fn info(_: &Arc<v1::RpcHeader>, context: &HostContext<'_>) -> HostPrepareResult {
    describe(context, info_of)
}

/// `rpc.host.doctor`: the same with checks.
pub(crate) fn doctor(_: &Arc<v1::RpcHeader>, context: &HostContext<'_>) -> HostPrepareResult {
    describe(context, |host| {
        let mut found = info_of(host);
        found["deps"] = dependencies(host);
        found["bin_map"] = json!({ "path": "", "exists": false });
        found
    })
}

/// `rpc.host.capabilities`: what this host supports.
pub(crate) fn capabilities(_: &Arc<v1::RpcHeader>, context: &HostContext<'_>) -> HostPrepareResult {
    describe(context, |host| {
        let settings = &host.settings;
        let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let supported: Vec<&str> =
            rpc::ALL.into_iter().filter(|name| Host::table().iter().any(|row| row.name() == *name)).collect();
        let mut found = info_of(host);
        found["server_base_url"] = json!(settings.hubs.first().map(ToString::to_string));
        found["local_unix_socket"] = json!(path(&settings.socket));
        found["spool_db_path"] = json!(settings.journals.display().to_string());
        found["log_path"] = json!(path(&settings.log));
        found["supported_rpc"] = json!(supported);
        found["deps"] = dependencies(host);
        found
    })
}

/// Describes the host on a worker thread, because it looks for programs.
fn describe(context: &HostContext<'_>, describe: fn(&Host) -> Value) -> HostPrepareResult {
    let host = context.session.face.clone();
    Ok(Prepared::blocking(Effects::None, move || Ok(describe(&host))))
}

fn info_of(host: &Host) -> Value {
    let tool = |name: &&str| {
        let bin = host.settings.tools.expected(name);
        json!({ "tool": name, "bin": bin.display().to_string(), "ok": host.settings.tools.find(name).is_some() })
    };
    json!({
        "host_id": host.settings.identity.id,
        "pid": std::process::id(),
        "os": std::env::consts::OS,
        "arch": std::env::consts::ARCH,
        "version": env!("CARGO_PKG_VERSION"),
        "tools": KNOWN.iter().map(tool).collect::<Vec<Value>>(),
    })
}

/// Searches need no program; git does.
fn dependencies(host: &Host) -> Value {
    json!([{ "name": "rg", "ok": true }, { "name": "git", "ok": host.settings.tools.find("git").is_some() }])
}

/// `rpc.host.logs.tail`: the end of the log.
pub(crate) fn logs_tail(params: &Arc<v1::LogsTail>, context: &HostContext<'_>) -> HostPrepareResult {
    let at_most = |wanted: Option<u64>, (default, most): (u64, u64)| wanted.unwrap_or(default).clamp(1, most);
    let (lines, bytes) = (at_most(params.lines, LOG_LINES), at_most(params.max_bytes, LOG_BYTES));
    let Some(path) = context.session.face.settings.log.clone() else {
        return Err(RpcError::invalid_request("HOSTD_LOG_PATH is not set on this host"));
    };
    Ok(Prepared::blocking(Effects::None, move || {
        let shown = path.display().to_string();
        match tail(&path, lines, bytes) {
            Ok(LogTail { text, is_cut }) => Ok(LogsTailResult { path: shown, text, truncated: is_cut }),
            Err(_unreadable) => Err(RpcError::invalid_request(format!("failed to read log file: {shown}"))),
        }
    }))
}
