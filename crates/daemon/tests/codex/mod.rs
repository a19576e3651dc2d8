//! Shared by the tests of `rexd exec-server`: the released Codex programs, servers of either kind, a client's conversation.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod cases;
pub(crate) mod outcome;
pub(crate) mod script;
pub(crate) mod wired;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::log::Log;
use testkit::model::{LAST_WORDS, Model, Turn};
use testkit::proc::{marked, survivors, watch, watch_marked};

/// The program under test.
pub(crate) const REXD: &str = env!("CARGO_BIN_EXE_rexd");
/// How long a client's whole conversation may take.
const CONVERSATION: Duration = Duration::from_secs(180);
/// How long a server may take to end, and what it started.
const ENDING: Duration = Duration::from_secs(30);
/// In the environment of every server, and so of what it runs.
const MARK: &str = "REXD_TEST_PLACE";

/// A release of Codex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    /// The first with the protocol of the document for v1.
    V0_131,
    /// The current one.
    V0_166,
}

impl Release {
    /// Its number.
    pub(crate) fn number(self) -> &'static str {
        match self {
            Release::V0_131 => "0.131.0",
            Release::V0_166 => "0.166.0",
        }
    }

    /// Its program; `make setup` puts it there.
    pub(crate) fn program(self) -> PathBuf {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
        let program = target.join("codex-clients").join(format!("codex-{}", self.number()));
        assert!(
            program.exists(),
            "the released codex is missing: run `make setup` (it calls crates/daemon/tests/codex/setup.sh)"
        );
        program
    }
}

/// Who serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// `rexd exec-server`.
    Ours,
    /// `codex exec-server` of a release.
    Released(Release),
}

impl Server {
    /// Ours, unless `REXD_TEST_ORIGINAL` is set: then the client's own release, to see that a test holds there too.
    pub(crate) fn under_test(client: Release) -> Server {
        if is_original() { Server::Released(client) } else { Server::Ours }
    }

    /// Its program.
    pub(crate) fn program(self) -> PathBuf {
        match self {
            Server::Ours => REXD.into(),
            Server::Released(release) => release.program(),
        }
    }
}

/// Whether the tests are to be held against the released servers.
pub(crate) fn is_original() -> bool {
    std::env::var_os("REXD_TEST_ORIGINAL").is_some()
}

/// A directory for one test: a home for the client, one for the server, and `work`, where the client stands.
///
/// It is not below the directory for temporary files: Codex does less in a home there.
#[derive(Debug)]
pub(crate) struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        let builder = tempfile::Builder::new().prefix("codex-").tempdir_in(env!("CARGO_TARGET_TMPDIR"));
        let place = Place { directory: builder.expect("a directory") };
        for name in ["client", "server", "work", "outside"] {
            fs::create_dir(place.path(name)).expect("a directory of the place");
        }
        place
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn text(&self, name: impl AsRef<Path>) -> String {
        self.path(name).into_os_string().into_string().expect("a UTF-8 path")
    }

    /// The directory itself.
    pub(crate) fn root(&self) -> String {
        self.directory.path().display().to_string()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap_or_else(|error| panic!("write {name}: {error}"));
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("read {name}: {error}"))
    }

    /// What every process of this place that the server started has in its environment, and nothing else has.
    fn mark(&self) -> String {
        format!("{MARK}={}", self.directory.path().display())
    }

    /// A program with an environment of its own; `whose` is its home.
    pub(crate) fn command(&self, program: impl AsRef<Path>, whose: &str) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C.UTF-8");
        command.env("HOME", self.path(whose)).env("CODEX_HOME", self.path(whose)).env("SHELL", "/bin/bash");
        command.env("XDG_STATE_HOME", self.path(whose)).env("XDG_CONFIG_HOME", self.path(whose));
        command.stdin(Stdio::null()).current_dir(self.path("work"));
        command
    }

    /// A server's program; what it runs can be told by its environment.
    pub(crate) fn server_command(&self, server: Server) -> Command {
        let mut command = self.command(server.program(), "server");
        command.env(MARK, self.directory.path()).arg("exec-server");
        command
    }

    /// Waits until nothing is left of what the server started.
    pub(crate) fn nothing_is_left(&self) {
        if is_original() {
            return;
        }
        let left = survivors(&watch_marked(&self.mark()), ENDING);
        assert!(left.is_empty(), "still running: {left:?}");
    }
}

impl Drop for Place {
    #[expect(clippy::print_stderr, reason = "it belongs to what the failed test says")]
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(asked) = fs::read_to_string(self.path("server/rexd/audit.log"))
        {
            eprintln!("what our server was asked:\n{asked}");
        }
        // What a failed test, or a released server, leaves.
        for pid in marked(&self.mark()) {
            Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
    }
}

/// A server on a WebSocket.
#[derive(Debug)]
pub(crate) struct Serving {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    pub(crate) log: Log,
    pub(crate) url: String,
}

impl Serving {
    pub(crate) fn start(place: &Place, server: Server) -> Serving {
        let mut command = place.server_command(server);
        command.args(["--listen", "ws://127.0.0.1:0"]);
        Serving::spawn(command)
    }

    /// Any command that prints its URL on a line.
    pub(crate) fn spawn(mut command: Command) -> Serving {
        let log = Log::new();
        command.stdout(Stdio::piped()).stderr(log.stdio());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("its standard output");
        let url = line.trim().to_owned();
        assert!(url.starts_with("ws://"), "not a URL: {line:?}; the log: {}", log.text());
        Serving { child, _stdout: stdout, log, url }
    }

    /// Host and port.
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.url.trim_start_matches("ws://").trim_end_matches('/').parse().expect("an address")
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process number")
    }

    /// Asks it to end and waits until it has.
    pub(crate) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        let pid = Pid::from_raw(self.pid()).expect("a process number");
        kill_process(pid, Signal::TERM).ok();
        if !watch(self.pid()).ends_before(Instant::now() + ENDING) {
            self.child.kill().ok();
        }
        self.child.wait().ok();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end();
    }
}

/// How a client reaches its server.
#[derive(Debug, Clone)]
pub(crate) enum CarrierKind {
    /// At this URL.
    Url(String),
    /// As a child on its standard streams.
    Stdio(Server),
}

/// A real client with a scripted model.
#[derive(Debug)]
pub(crate) struct Conversation<'a> {
    pub(crate) place: &'a Place,
    pub(crate) client: Release,
    pub(crate) way: CarrierKind,
    /// The client's word for how its commands are shut in.
    pub(crate) sandbox: &'a str,
}

impl Conversation<'_> {
    /// Plays the script to its end.
    pub(crate) fn hold(&self, script: Vec<Turn>) -> Model {
        let model = Model::start(script);
        let (place, log) = (self.place, Log::new());
        place.write("client/config.toml", config(&model));
        let mut command = place.command(self.client.program(), "client");
        match &self.way {
            CarrierKind::Url(url) => {
                command.env("CODEX_EXEC_SERVER_URL", url);
            }
            CarrierKind::Stdio(server) => {
                place.write("client/environments.toml", environments(place, *server))
            }
        }
        command.args(["exec", "--skip-git-repo-check", "-s", self.sandbox, "play the script"]);
        command.stdout(log.stdio()).stderr(log.stdio());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let pid = i32::try_from(child.id()).expect("a process number");
        let has_ended = watch(pid).ends_before(Instant::now() + CONVERSATION);
        if !has_ended {
            child.kill().ok();
        }
        let status = child.wait().expect("its status");
        let said = log.text();
        assert!(
            has_ended && status.success() && said.contains(LAST_WORDS),
            "codex {} ends with {status}:\n{said}\n{:#?}",
            self.client.number(),
            model.outputs()
        );
        model
    }
}

/// A client's configuration: its model is ours, and it calls nobody else.
fn config(model: &Model) -> String {
    format!(
        "model = \"fake-model\"\nmodel_provider = \"fake\"\ncheck_for_update_on_startup = false\n\
         [analytics]\nenabled = false\n\
         [model_providers.fake]\nname = \"fake\"\nbase_url = \"{}\"\nwire_api = \"responses\"\n",
        model.url()
    )
}

/// The server as a program that the client starts.
fn environments(place: &Place, server: Server) -> String {
    format!(
        "default = \"box\"\n[[environments]]\nid = \"box\"\nprogram = {:?}\n\
         args = [\"exec-server\", \"--listen\", \"stdio\"]\n\
         [environments.env]\n{MARK} = {:?}\nCODEX_HOME = {:?}\n",
        server.program(),
        place.directory.path(),
        place.path("server"),
    )
}
