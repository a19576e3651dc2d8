//! The capabilities that a session announces.

use super::Rexd;

/// What this server can do beyond opening a session.
const CAPABILITIES: &[&str] = &[
    "exec",
    "fs",
    "events",
    "pty",
    "login",
    "exec.input",
    "exec.list",
    "exec.attach",
    "exec.attach.screen",
    "exec.attach.since",
    "exec.prune",
    "detach",
    "fs.edit",
    "fs.patch",
    "fs.grep",
    "fs.watch",
    "fs.mkdir",
    "fs.mkdir.permissions",
    "fs.symlink",
    "fs.remove",
    "fs.rename",
    "fs.copy",
    "fs.grep.multiline",
    "fs.read.hash",
    "fs.stat.hash",
    "fs.hash.xxh128",
    "fs.write.hash",
    "fs.write.permissions",
    "fs.write.durable",
    "fs.write.mtime",
    "names_only",
    "session.set_cwd",
    "session.last",
    "session.limits",
    "server.ping",
    "event_id",
    "cursor",
    "kill_report",
    "output_encoding",
    "frames",
    "stdin_encoding",
    "no_stdin",
    "merge_stderr",
    "name",
    "max_frame_bytes",
    "idempotency_key",
    "input_key",
    "cancel",
    "policy",
    "approvals",
    "sandbox",
];

/// Only a daemon that outlives its connections resumes sessions.
const RESUME: &[&str] = &["resume", "resume_key", "session.ack"];

/// Only WebSockets are compressed, so only a daemon with listeners offers it.
const COMPRESS: &str = "compress";

/// The capabilities of this daemon.
pub(super) fn capabilities(face: &Rexd) -> Vec<String> {
    let resume = if face.may_resume { RESUME } else { &[] };
    // A daemon on standard streams resumes through a socket of its own.
    let has_listeners = face.may_resume && face.resume.is_none();
    let compress = has_listeners.then_some(&COMPRESS);
    CAPABILITIES.iter().chain(resume).chain(compress).map(|name| (*name).to_owned()).collect()
}
