//! A private sshd on a free loopback port, with its own keys, and one master connection to it.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use tempfile::TempDir;

use crate::stats::within;
use crate::watchdog::{Server, tied};

/// Debian's path of the daemon; sshd requires an absolute path.
const SSHD: &str = "/usr/sbin/sshd";

/// sshd, a multiplexing master, and the directory with keys and sockets; dropping it ends all of them.
#[derive(Debug)]
pub(crate) struct Sshd {
    // Dropped in this order: the master, the daemon, the directory.
    master: Server,
    daemon: Server,
    directory: TempDir,
    port: u16,
}

impl Sshd {
    /// Starts both and waits for the control socket.
    pub(crate) fn start() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("rexd-bench-ssh").tempdir()?;
        let place = directory.path();
        ensure!(Path::new(SSHD).exists(), "no {SSHD}: run bench/setup.sh");
        for key in ["host_key", "user_key"] {
            keygen(&place.join(key))?;
        }
        fs::copy(place.join("user_key.pub"), place.join("authorized_keys"))?;
        fs::create_dir(place.join("home"))?;
        if fs::create_dir_all("/run/sshd").is_err() && !Path::new("/run/sshd").exists() {
            bail!("sshd needs /run/sshd, and it cannot be made");
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        fs::write(place.join("sshd_config"), config(place, port))?;
        let mut daemon = Server::start(
            tied(SSHD)
                .args(["-D", "-e", "-f"])
                .arg(place.join("sshd_config"))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(fs::File::create(place.join("sshd.log"))?),
        )?;
        let listening = within(Duration::from_secs(10), || TcpStream::connect(("127.0.0.1", port)).is_ok());
        if listening.is_none() || daemon.ended()? {
            bail!(
                "sshd did not start: {}",
                fs::read_to_string(place.join("sshd.log")).unwrap_or_default().trim()
            );
        }
        let master = start_master(place, port)?;
        Ok(Self { master, daemon, directory, port })
    }

    /// The control socket of the master.
    pub(crate) fn control(&self) -> PathBuf {
        self.directory.path().join("ctl")
    }

    /// `ssh` with its own connection; add a host and a command.
    pub(crate) fn cold_client(&self) -> Command {
        client(self.directory.path(), self.port)
    }

    /// The options with which ssh, scp and rsync reach this server.
    pub(crate) fn options(&self) -> Vec<String> {
        options(self.directory.path(), self.port)
    }

    /// Ids of the master, the daemon and every sshd process below it.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mut found = vec![self.daemon.id()];
        let mut next = 0;
        while let Some(pid) = found.get(next).copied() {
            next += 1;
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|id| id.parse().ok());
            found.extend(children.filter(|id| is_sshd(*id)));
        }
        found.push(self.master.id());
        found
    }
}

fn is_sshd(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("sshd"))
}

/// The line of `ssh -V`.
pub(crate) fn version() -> Result<String> {
    let output = Command::new("ssh").arg("-V").output()?;
    Ok(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

fn keygen(path: &Path) -> Result<()> {
    let status =
        Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status()?;
    ensure!(status.success(), "ssh-keygen failed");
    Ok(())
}

/// No PAM, no limit on sessions, and an empty home directory, so that no shell start-up files are measured.
fn config(place: &Path, port: u16) -> String {
    let place = place.display();
    format!(
        "ListenAddress 127.0.0.1\nPort {port}\nHostKey {place}/host_key\nPidFile none\nUsePAM no\nStrictModes no\n\
         AuthorizedKeysFile {place}/authorized_keys\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n\
         MaxSessions 2000\nMaxStartups 100:30:200\nPrintMotd no\nPrintLastLog no\nUseDNS no\n\
         SetEnv HOME={place}/home\nSubsystem sftp internal-sftp\n"
    )
}

/// Common options of ssh, scp and rsync.
fn options(place: &Path, port: u16) -> Vec<String> {
    let known = format!("UserKnownHostsFile={}", place.join("known_hosts").display());
    let key = place.join("user_key").display().to_string();
    let port = format!("Port={port}");
    let quiet =
        ["-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR"];
    let own = ["-o", &known, "-i", &key, "-o", &port];
    quiet.into_iter().chain(own).map(str::to_owned).collect()
}

fn client(place: &Path, port: u16) -> Command {
    let mut command = tied("ssh");
    command.arg("-T").args(options(place, port));
    command
}

fn start_master(place: &Path, port: u16) -> Result<Server> {
    let control = place.join("ctl");
    let mut master = Server::start(
        client(place, port)
            .args(["-M", "-N", "-S"])
            .arg(&control)
            .arg("127.0.0.1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(place.join("master.log"))?),
    )?;
    within(Duration::from_secs(20), || control.exists() || master.ended().unwrap_or(true));
    if !control.exists() {
        let log = |name| fs::read_to_string(place.join(name)).unwrap_or_default();
        bail!("no ssh master connection: {} {}", log("master.log").trim(), log("sshd.log").trim());
    }
    Ok(master)
}
