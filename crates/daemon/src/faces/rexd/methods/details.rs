//! What the audit keeps of each request. Contents, input and the values of variables never enter it.

use std::borrow::Cow;

use engine::audit::Detail;
use wire::rexd::v1;

use super::super::call::Call;

type Details = Vec<(Cow<'static, str>, Detail)>;

/// The details of a request, in the protocol's words.
pub(in super::super) fn details(call: &Call) -> Details {
    let one = |name: &'static str, value: &str| vec![(Cow::Borrowed(name), Detail::Text(value.to_owned()))];
    match call {
        Call::SessionOpen(params) => open(params),
        Call::SessionResume(params) => one("session_id", &params.session_id),
        Call::SessionClose(_) | Call::SessionInfo(_) | Call::ServerPing(_) | Call::ExecList(_) => Vec::new(),
        Call::SessionSetCwd(params) => one("path", &params.path),
        Call::ExecStart(params) => start(params),
        Call::ExecWait(params) => one("process_id", &params.process_id),
        Call::ExecKill(params) => kill(params),
        Call::ExecInput(params) => with_size(one("process_id", &params.process_id), "data", &params.data),
        Call::ExecAttach(params) => one("process_id", &params.process_id),
        Call::PtyOpen(params) => terminal(params),
        Call::PtyInput(params) => with_size(one("pty_id", &params.pty_id), "data", &params.data),
        Call::PtyResize(params) => one("pty_id", &params.pty_id),
        Call::PtyClose(params) => one("pty_id", &params.pty_id),
        Call::FsRead(params) => one("path", &params.path),
        Call::FsWrite(params) => with_size(one("path", &params.path), "content", &params.content),
        Call::FsList(params) => one("path", &params.path),
        Call::FsGlob(params) => one("pattern", &params.pattern),
        Call::FsStat(params) => one("path", &params.path),
        Call::FsEdit(params) => with_size(one("path", &params.path), "new_string", &params.new_string),
        Call::FsPatch(params) => with_size(Vec::new(), "patch_text", &params.patch_text),
        Call::FsGrep(params) => one("pattern", &params.pattern),
        Call::FsWatch(params) => one("path", &params.path),
        Call::FsUnwatch(params) => one("watch_id", &params.watch_id),
        Call::FsMkdir(params) => one("path", &params.path),
        Call::FsRemove(params) => one("path", &params.path),
        Call::FsRename(params) => two(&params.from, &params.to),
        Call::FsCopy(params) => two(&params.from, &params.to),
        Call::ApprovalList(_) => Vec::new(),
        Call::ApprovalAnswer(params) => one("approval_id", &params.approval_id),
    }
}

fn open(params: &v1::SessionOpen) -> Details {
    let mut details = Vec::new();
    push_text(&mut details, "client_name", params.client_name.as_deref());
    push_text(&mut details, "client_version", params.client_version.as_deref());
    if let Some(roots) = &params.workspace_roots {
        details.push(("workspace_roots".into(), Detail::List(roots.clone())));
    }
    details
}

fn start(params: &v1::ExecStart) -> Details {
    let mut details =
        command(&params.argv, params.command.as_deref(), params.cwd.as_deref(), params.env.keys());
    if let Some(stdin) = &params.stdin {
        details = with_size(details, "stdin", stdin);
    }
    details
}

fn terminal(params: &v1::PtyOpen) -> Details {
    command(&params.argv, params.command.as_deref(), params.cwd.as_deref(), params.env.keys())
}

fn command<'a>(
    argv: &[String],
    line: Option<&str>,
    cwd: Option<&str>,
    env: impl Iterator<Item = &'a String>,
) -> Details {
    let mut details: Details = Vec::new();
    if !argv.is_empty() {
        details.push(("argv".into(), Detail::Argv(argv.to_vec())));
    }
    if let Some(line) = line {
        details.push(("command".into(), Detail::Shell(line.to_owned())));
    }
    push_text(&mut details, "cwd", cwd);
    let names: Vec<String> = env.cloned().collect();
    if !names.is_empty() {
        details.push(("env".into(), Detail::List(names)));
    }
    details
}

fn kill(params: &v1::ExecKill) -> Details {
    let signal = params.signal.as_ref().map(|signal| match signal {
        v1::Signal::Name(name) => name.clone(),
        v1::Signal::Number(number) => number.to_string(),
    });
    let mut details = vec![("process_id".into(), Detail::Text(params.process_id.clone()))];
    push_text(&mut details, "signal", signal.as_deref());
    details
}

fn two(from: &str, to: &str) -> Details {
    vec![("from".into(), Detail::Text(from.to_owned())), ("to".into(), Detail::Text(to.to_owned()))]
}

fn with_size(mut details: Details, name: &'static str, value: &str) -> Details {
    details.push((name.into(), Detail::Hidden { bytes: value.len() as u64 }));
    details
}

fn push_text(details: &mut Details, name: &'static str, value: Option<&str>) {
    details.extend(value.map(|value| (Cow::Borrowed(name), Detail::Text(value.to_owned()))));
}
