//! A PostgreSQL server of Debian's package, in a temporary directory, as another user than root.

use std::fs::File;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The user that Debian's package creates.
const USER: &str = "postgres";
/// The name of a server's socket in its directory.
pub const SOCKET: &str = ".s.PGSQL.5432";
/// The name of a server's log in its directory.
const LOG: &str = "log";

/// A running server; it ends with this value, and with its test.
#[derive(Debug)]
pub struct Postgres {
    server: Child,
    directory: tempfile::TempDir,
    programs: PathBuf,
    databases: AtomicU32,
}

impl Postgres {
    /// Initialises a cluster and starts its server.
    pub fn start() -> Postgres {
        let directory = tempfile::tempdir().unwrap();
        if let Some((user, group)) = other_user() {
            chown(directory.path(), Some(user), Some(group)).unwrap();
        }
        let programs = programs();
        let data = directory.path().join("data");
        let made = as_user(&programs.join("initdb"))
            .args(["--auth=trust", "--username", USER, "--no-sync", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut postgres = Postgres::run(directory, programs, &data);
        postgres.wait();
        postgres
    }

    fn run(directory: tempfile::TempDir, programs: PathBuf, data: &Path) -> Postgres {
        let server = as_user(&programs.join("postgres"))
            .arg("-D")
            .arg(data)
            .args(["-c", "listen_addresses=", "-c", "max_connections=200"])
            .arg("-c")
            .arg(format!("unix_socket_directories={}", directory.path().display()))
            // A pipe that is not read would block the server.
            .stderr(File::create(directory.path().join(LOG)).unwrap())
            .spawn()
            .unwrap();
        Postgres { server, directory, programs, databases: AtomicU32::new(0) }
    }

    /// Waits until the server accepts connections.
    fn wait(&mut self) {
        while !self.program("pg_isready").output().unwrap().status.success() {
            if let Some(status) = self.server.try_wait().unwrap() {
                let why = std::fs::read_to_string(self.directory.path().join(LOG)).unwrap();
                panic!("PostgreSQL ended ({status}): {why}");
            }
            std::thread::yield_now();
        }
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.arg("-h").arg(self.directory.path()).args(["-U", USER]);
        command
    }

    /// Runs a statement in a database, and returns its rows as text.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        let ran =
            self.program("psql").args(["-X", "-A", "-t", "-d", database, "-c", statement]).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim_end().to_owned()
    }

    /// The name of a new database.
    pub fn database(&self) -> String {
        let name = format!("hub{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        name
    }

    /// The URL of a database.
    pub fn url(&self, database: &str) -> String {
        url_at(database, self.directory.path())
    }

    /// The socket of the server.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join(SOCKET)
    }

    /// Ends every connection to a database. Returns how many.
    pub fn cut(&self, database: &str) -> usize {
        let cut = self.sql(
            "postgres",
            &format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"),
        );
        cut.lines().count()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.server.kill().ok();
        self.server.wait().ok();
    }
}

/// The URL of a database of a server whose socket, or that of a proxy to it, is in this directory as [`SOCKET`].
pub fn url_at(database: &str, directory: &Path) -> String {
    format!("postgres://{USER}@localhost/{database}?host={}", directory.display())
}

/// The directory of the newest installed server.
fn programs() -> PathBuf {
    let versions =
        std::fs::read_dir("/usr/lib/postgresql").expect("install the package postgresql: `make setup`");
    let newest = versions.map(|version| version.unwrap().path()).max().expect("a version of PostgreSQL");
    newest.join("bin")
}

/// The user and group of the server, if the test runs as root.
fn other_user() -> Option<(u32, u32)> {
    if !rustix::process::getuid().is_root() {
        return None;
    }
    let number = |flag: &str| {
        let id = Command::new("id").args([flag, USER]).output().unwrap();
        String::from_utf8(id.stdout).unwrap().trim().parse().expect("the user postgres exists")
    };
    Some((number("-u"), number("-g")))
}

/// A program as the server's user. The kernel ends it with the thread of the test.
fn as_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if other_user().is_some() {
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
    }
    command.arg(program).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
    command
}
