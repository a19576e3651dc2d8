//! Tools inside a run of a host: commands and writes go through the host, which asks a person first and records them.
//!
//! The host sets `RELAY_RUN_ID`, `RELAY_HOSTD_SOCK` and `RELAY_CWD` in a run. They count only for the target `local`: another
//! target has its own policy and approvals.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::arguments::Arguments;
use super::outcome::ToolOutcome;
use super::toolbox::{ToolCall, Toolbox};

/// The length of a response; the host cuts what a command prints long before.
const MAX_RESPONSE_BYTES: u64 = 8 * 1024 * 1024;
/// Requests that wait for a person; one more is refused.
const MAX_WAITING: usize = 64;

/// The run of a host that this process belongs to.
#[derive(Debug)]
pub(super) struct HostRun {
    socket: PathBuf,
    run_id: String,
    cwd: PathBuf,
    /// Requests without an answer, by what they ask for: the same call again waits for the same answer.
    waiting: Mutex<HashMap<String, WaitingRequest>>,
}

#[derive(Debug, Clone)]
struct WaitingRequest {
    answer: watch::Receiver<Option<HostAnswer>>,
    cancel: CancellationToken,
}

/// The body of a response, or the reason of the host.
type HostAnswer = Result<String, String>;

#[derive(Deserialize)]
struct BashResult {
    stdout: String,
    stderr: String,
    exit_code: i64,
    #[serde(default)]
    truncated: bool,
}

impl HostRun {
    /// The run in the environment.
    pub(super) fn from_environment() -> Option<HostRun> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (run_id, socket) = (variable("RELAY_RUN_ID")?, variable("RELAY_HOSTD_SOCK")?);
        let cwd = variable("RELAY_CWD").map(PathBuf::from).or_else(|| std::env::current_dir().ok())?;
        Some(HostRun { socket: socket.into(), run_id, cwd, waiting: Mutex::default() })
    }

    /// Runs a tool that changes something through the host; `None` for one that does not.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: &Arguments<'_>,
        (toolbox, call): (&Toolbox, &ToolCall),
    ) -> Option<Result<ToolOutcome, ToolOutcome>> {
        let context = (toolbox, call);
        Some(match name {
            "bash" => self.bash(arguments, context).await,
            "write" => self.write(arguments, context).await,
            "edit" => self.edit(arguments, context).await,
            "patch" | "bash_input" | "kill" => Err(ToolOutcome::failed(format!(
                "{name} is not available inside a run of a host\nhint: use bash, write or edit, which a person approves"
            ))),
            _ => return None,
        })
    }

    async fn bash(
        &self,
        arguments: &Arguments<'_>,
        context: (&Toolbox, &ToolCall),
    ) -> Result<ToolOutcome, ToolOutcome> {
        if arguments.flag("background")? || arguments.flag("detach")? {
            let text = "background commands are not available inside a run of a host\nhint: run the command without `background` and `detach`";
            return Err(ToolOutcome::failed(text));
        }
        let quote = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
        let mut line = arguments.text("command")?.to_owned();
        if let Some(ms) = arguments.maybe_number("timeout_ms", 1)? {
            line = format!("timeout {}.{:03} bash -c {}", ms / 1000, ms % 1000, quote(&line));
        }
        if let Some(cwd) = arguments.maybe_text("cwd")? {
            line = format!("cd {} && {line}", quote(cwd));
        }
        let body = self.approved("bash", json!({ "cmd": line }), context).await?;
        let done: BashResult = serde_json::from_str(&body)
            .map_err(|error| ToolOutcome::failed(format!("unexpected response of the host: {error}")))?;
        let cut = if done.truncated { ", the beginning of the output is omitted" } else { "" };
        let text = format!("[exit code {}{cut}]\n{}{}", done.exit_code, done.stdout, done.stderr);
        Ok(ToolOutcome::text(text).with(serde_json::from_str(&body).unwrap_or_default()))
    }

    async fn write(
        &self,
        arguments: &Arguments<'_>,
        context: (&Toolbox, &ToolCall),
    ) -> Result<ToolOutcome, ToolOutcome> {
        let (path, content) = (self.relative(arguments.text("path")?)?, arguments.text("content")?);
        self.write_file(&path, content, context).await
    }

    async fn write_file(
        &self,
        path: &str,
        content: &str,
        context: (&Toolbox, &ToolCall),
    ) -> Result<ToolOutcome, ToolOutcome> {
        self.approved("fs/write", json!({ "path": path, "content": content }), context).await?;
        Ok(ToolOutcome::text(format!("wrote {} ({} bytes)", self.cwd.join(path).display(), content.len())))
    }

    /// Reads the file, and writes it with the text replaced: the approver sees the difference.
    async fn edit(
        &self,
        arguments: &Arguments<'_>,
        context: (&Toolbox, &ToolCall),
    ) -> Result<ToolOutcome, ToolOutcome> {
        #[derive(Deserialize)]
        struct FileContent {
            content: String,
            truncated: bool,
        }
        let path = self.relative(arguments.text("path")?)?;
        let (old, new) = (arguments.text("old_string")?, arguments.text("new_string")?);
        let failed = |why: &str| ToolOutcome::failed(format!("cannot edit {path}: {why}"));
        let query: String = path.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let body = self.request("GET", &format!("fs/read?path={query}"), "").await;
        let body = body.map_err(|reason| failed(&reason))?;
        let file: FileContent = serde_json::from_str(&body).map_err(|error| failed(&error.to_string()))?;
        if file.truncated {
            return Err(failed("it is larger than 1 MiB\nhint: use bash with sed"));
        }
        let count = if old.is_empty() { 0 } else { file.content.matches(old).count() };
        match (count, arguments.flag("replace_all")?) {
            (0, _) => return Err(failed("old_string does not occur\nhint: read the file first")),
            (1, _) | (_, true) => {}
            (count, false) => {
                return Err(failed(&format!(
                    "old_string occurs {count} times\nhint: add surrounding lines, or set replace_all"
                )));
            }
        }
        self.write_file(&path, &file.content.replace(old, new), context).await
    }

    /// A path below the directory of the run: the host accepts no other.
    fn relative(&self, path: &str) -> Result<String, ToolOutcome> {
        let outside = || {
            let cwd = self.cwd.display();
            ToolOutcome::failed(format!("{path} is outside the run\nhint: use a path below {cwd}"))
        };
        let below = Path::new(path).strip_prefix(&self.cwd).unwrap_or(Path::new(path));
        match below.to_str().filter(|_| below.is_relative()) {
            Some(below) => Ok(below.to_owned()),
            None => Err(outside()),
        }
    }

    /// Makes a request that a person approves, and waits for the answer as long as a call may take.
    async fn approved(
        &self,
        what: &str,
        body: Value,
        (toolbox, call): (&Toolbox, &ToolCall),
    ) -> Result<String, ToolOutcome> {
        let key = format!("{what} {body}");
        let mut request = self.waiting_request(&key, what, &body, toolbox)?;
        let wait: Duration = toolbox.options.foreground_wait;
        let answered = tokio::select! {
            answered = timeout(wait, request.answer.wait_for(Option::is_some)) => answered,
            () = call.cancelled.cancelled() => {
                request.cancel.cancel();
                self.forget(&key);
                return Err(ToolOutcome::failed("call cancelled; the request to approve it is withdrawn"));
            }
        };
        match answered {
            Ok(answered) => {
                let answer = answered.ok().and_then(|answer| answer.clone());
                self.forget(&key);
                let answer = answer.unwrap_or_else(|| Err("no answer".to_owned()));
                answer.map_err(|reason| ToolOutcome::failed(format!("the host refused: {reason}")))
            }
            Err(_late) => Err(ToolOutcome::failed(
                "waiting for a person to approve this\nhint: make the same call again to wait for the answer",
            )),
        }
    }

    fn waiting_request(
        &self,
        key: &str,
        what: &str,
        body: &Value,
        toolbox: &Toolbox,
    ) -> Result<WaitingRequest, ToolOutcome> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(request) = waiting.get(key) {
            return Ok(request.clone());
        }
        if waiting.len() >= MAX_WAITING {
            let text = format!("too many requests wait for a person (limit {MAX_WAITING})");
            return Err(ToolOutcome::failed(text));
        }
        let ((sender, answer), cancel) = (watch::channel(None), CancellationToken::new());
        let request = WaitingRequest { answer, cancel: cancel.clone() };
        waiting.insert(key.to_owned(), request.clone());
        let (socket, text) = (self.socket.clone(), body.to_string());
        let path = format!("/runs/{}/{what}", self.run_id);
        toolbox.spawn(async move {
            // The host withdraws its question when the connection ends.
            if let Some(answer) = cancel.run_until_cancelled(request_to(&socket, "POST", &path, &text)).await
            {
                sender.send_replace(Some(answer));
            }
        });
        Ok(request)
    }

    fn forget(&self, key: &str) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    async fn request(&self, method: &str, path: &str, body: &str) -> HostAnswer {
        request_to(&self.socket, method, &format!("/runs/{}/{path}", self.run_id), body).await
    }
}

/// One request to the local API of the host, on a connection of its own.
async fn request_to(socket: &Path, method: &str, path: &str, body: &str) -> HostAnswer {
    let exchange = async {
        let mut stream = UnixStream::connect(socket).await?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: host\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        let mut response = String::new();
        stream.take(MAX_RESPONSE_BYTES).read_to_string(&mut response).await?;
        Ok::<String, std::io::Error>(response)
    };
    let response = exchange.await.map_err(|error| format!("no response at {}: {error}", socket.display()))?;
    let (head, body) = response.split_once("\r\n\r\n").ok_or("incomplete response")?;
    match head.split(' ').nth(1) {
        Some("200" | "204") => Ok(body.to_owned()),
        _ => Err(body.to_owned()),
    }
}
