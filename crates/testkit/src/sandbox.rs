//! Sandbox: the directory of one test: a root to serve, a directory outside it, a home, a configuration.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::fs::inotify;

use crate::proc::wait_readable;

/// A directory that is removed on drop, after its detached processes and shared connections were ended.
#[derive(Debug)]
pub struct Sandbox {
    directory: tempfile::TempDir,
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        for entry in fs::read_dir(self.path("home/state/rexd/keepers")).into_iter().flatten().flatten() {
            end_keeper(&entry.path());
        }
        for entry in fs::read_dir(self.path("home/state/rexd/ssh")).into_iter().flatten().flatten() {
            end_shared_connection(&entry.path());
        }
    }
}

/// Closes the ssh connection that commands shared through this socket, if it is still open.
fn end_shared_connection(socket: &Path) {
    let mut ssh = Command::new("ssh");
    ssh.args(["-F", "/dev/null", "-O", "exit", "-S"]).arg(socket).arg("rex");
    // A socket whose ssh has ended is removed with the directory.
    let _closed = ssh.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// Ends the keeper of this directory, if it runs; its process ends with it.
fn end_keeper(directory: &Path) -> Option<()> {
    let record = fs::read_to_string(directory.join("record.json")).ok()?;
    let record: serde_json::Value = serde_json::from_str(&record).ok()?;
    let pid = i32::try_from(record["keeper_pid"].as_i64()?).ok()?;
    // The pid may belong to another process by now.
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    if name.starts_with("rexd-keeper") {
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid)?, rustix::process::Signal::TERM)
            .ok()?;
    }
    Some(())
}

impl Sandbox {
    /// Creates `root`, `outside` and `home`, and a configuration that serves `root` and audits to `audit.log`.
    pub fn new() -> Sandbox {
        Sandbox::with_config("")
    }

    /// The same with additional configuration. `$DIR` and `$ROOT` in it are the sandbox and its root. A text with
    /// `[[security.allowed_roots]]` or `[audit]` replaces those of the sandbox.
    pub fn with_config(more: &str) -> Sandbox {
        let directory =
            tempfile::Builder::new().prefix("rexd-test-").tempdir().expect("a temporary directory");
        let sandbox = Sandbox { directory };
        for name in ["root", "outside", "home"] {
            fs::create_dir(sandbox.path(name)).expect("a directory of the sandbox");
        }
        sandbox.write("outside/secret.txt", "not yours\n");
        sandbox.configure(more);
        sandbox
    }

    /// Replaces the configuration file.
    pub fn configure(&self, more: &str) {
        let mut text = more.to_owned();
        if !more.contains("allowed_roots") {
            text.push_str("\n[[security.allowed_roots]]\npath = \"$ROOT\"\n");
        }
        if !more.contains("[audit]") {
            text.push_str("\n[audit]\npath = \"$DIR/audit.log\"\n");
        }
        // A daemon may be reading it.
        let draft = self.write("config.toml.new", self.expand(&text));
        fs::rename(draft, self.config()).expect("the configuration takes its place");
    }

    /// A text with `$ROOT`, `$OUTSIDE` and `$DIR` filled in.
    pub fn expand(&self, text: &str) -> String {
        let name = |path: PathBuf| path.to_str().expect("a UTF-8 path").to_owned();
        let text = text.replace("$ROOT", &name(self.root())).replace("$OUTSIDE", &name(self.outside()));
        text.replace("$DIR", &name(self.directory.path().to_owned()))
    }

    /// The served root.
    pub fn root(&self) -> PathBuf {
        self.path("root")
    }

    /// A directory outside the root.
    pub fn outside(&self) -> PathBuf {
        self.path("outside")
    }

    /// The path of the audit log.
    pub fn audit(&self) -> PathBuf {
        self.path("audit.log")
    }

    /// The path of the configuration.
    pub fn config(&self) -> PathBuf {
        self.path("config.toml")
    }

    /// A path in the sandbox.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file in the sandbox and creates its directories.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(&path, content).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
        path
    }

    /// Reads a file in the sandbox.
    pub fn read(&self, name: &str) -> String {
        let path = self.path(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
    }

    /// Waits until this path exists, with inotify.
    pub fn appears(&self, name: &str, deadline: Instant) {
        self.becomes(name, "appear", deadline, Path::exists);
    }

    /// Waits until a file contains a text.
    pub fn gains(&self, name: &str, text: &str, deadline: Instant) {
        let contains = |path: &Path| fs::read_to_string(path).is_ok_and(|content| content.contains(text));
        self.becomes(name, &format!("gain {text:?}"), deadline, contains);
    }

    /// Waits until a file has so many bytes.
    pub fn grows(&self, name: &str, bytes: u64, deadline: Instant) {
        let has = |path: &Path| fs::metadata(path).is_ok_and(|found| found.len() >= bytes);
        self.becomes(name, &format!("grow to {bytes} bytes"), deadline, has);
    }

    fn becomes(&self, name: &str, what: &str, deadline: Instant, holds: impl Fn(&Path) -> bool) {
        let path = self.path(name);
        let directory = path.parent().expect("a parent");
        let news =
            inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).expect("inotify");
        let wanted =
            inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::MODIFY;
        inotify::add_watch(&news, directory, wanted).expect("a watch");
        let mut buffer = [0; 4096];
        // Checked after the watch is set, so that no change is missed.
        while !holds(&path) {
            assert!(wait_readable(&news, deadline), "{} does not {what}", path.display());
            rustix::io::read(&news, &mut buffer).expect("news");
        }
    }

    /// Creates a symbolic link in the sandbox.
    pub fn link(&self, name: &str, target: impl AsRef<Path>) {
        symlink(target, self.path(name)).expect("a link");
    }

    /// A command with a minimal environment.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.path("home"))
            .env("XDG_STATE_HOME", self.path("home/state"))
            .env("XDG_CONFIG_HOME", self.path("home/config"))
            .env("LANG", "C.UTF-8")
            .env("TMPDIR", std::env::temp_dir())
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox::new()
    }
}
