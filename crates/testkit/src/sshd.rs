//! Sshd: a real OpenSSH server on loopback, with its own keys and configuration.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::sandbox::Sandbox;

/// Attempts with another port, if the free port is taken meanwhile.
const ATTEMPTS: usize = 8;
const SERVER: &str = "/usr/sbin/sshd";

/// A running server; stopped on drop.
#[derive(Debug)]
pub struct Sshd {
    child: Child,
    port: u16,
    key: PathBuf,
    known_hosts: PathBuf,
    user: String,
}

impl Sshd {
    /// Starts a server in the sandbox. The failure without OpenSSH's server names the package to install.
    pub fn start(sandbox: &Sandbox) -> Sshd {
        Sshd::start_with(sandbox, "")
    }

    /// The same, with additional lines of configuration.
    pub fn start_with(sandbox: &Sandbox, more: &str) -> Sshd {
        assert!(Path::new(SERVER).exists(), "no {SERVER}: apt-get install openssh-server");
        // The server requires this directory as root, and only a service manager creates it.
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all("/run/sshd").expect("/run/sshd");
        }
        let host_key = make_key(sandbox, "ssh/host_key");
        let key = make_key(sandbox, "ssh/user_key");
        let public = sandbox.read("ssh/user_key.pub");
        sandbox.write("ssh/authorized_keys", &public);
        let mut refusals = Vec::new();
        for _ in 0..ATTEMPTS {
            let port = free_port();
            match serve(sandbox, port, &host_key, more) {
                Ok(child) => {
                    let host = sandbox.read("ssh/host_key.pub");
                    let known_hosts = sandbox.write("ssh/known_hosts", format!("[127.0.0.1]:{port} {host}"));
                    return Sshd { child, port, key, known_hosts, user: user() };
                }
                Err(refusal) => refusals.push(refusal),
            }
        }
        panic!("sshd does not start:\n{}", refusals.join("\n"));
    }

    /// The server's port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// An ssh configuration that maps any host name to the server, for programs that run ssh.
    pub fn client_config(&self, sandbox: &Sandbox) -> PathBuf {
        let text = format!(
            "Host *\nHostName 127.0.0.1\nPort {}\nUser {}\nIdentityFile {}\nIdentitiesOnly yes\n\
             UserKnownHostsFile {}\nHostKeyAlias [127.0.0.1]:{0}\nLogLevel ERROR\n",
            self.port,
            self.user,
            self.key.display(),
            self.known_hosts.display(),
        );
        sandbox.write("ssh/config", text)
    }

    /// An ssh command without a terminal.
    pub fn client(&self, sandbox: &Sandbox, remote: &str) -> Command {
        let mut command = sandbox.command("/usr/bin/ssh");
        let option = |name: &str, value: &Path| format!("{name}={}", value.display());
        command
            .args(["-F", "/dev/null", "-T", "-p", &self.port.to_string()])
            .args(["-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=yes"])
            .args(["-o", "ConnectTimeout=60", "-o", "ControlMaster=no", "-o", "LogLevel=ERROR"])
            .args(["-o", &option("UserKnownHostsFile", &self.known_hosts)])
            .args(["-o", &option("IdentityFile", &self.key)])
            .arg(format!("{}@127.0.0.1", self.user))
            .arg(remote);
        command
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// Starts the server and waits until it listens; returns its log if it fails.
fn serve(sandbox: &Sandbox, port: u16, host_key: &Path, more: &str) -> Result<Child, String> {
    let config = format!(
        "ListenAddress 127.0.0.1\nPort {port}\nHostKey {host}\nPidFile none\nUsePAM no\nStrictModes no\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\nPubkeyAuthentication yes\n\
         PermitRootLogin prohibit-password\nAuthorizedKeysFile {keys}\nPermitUserRC no\nPrintMotd no\n\
         PrintLastLog no\nLogLevel INFO\nMaxStartups 100\n{more}\n",
        host = host_key.display(),
        keys = sandbox.path("ssh/authorized_keys").display(),
    );
    let file = sandbox.write("ssh/sshd_config", config);
    let mut command = sandbox.command(SERVER);
    command.args(["-D", "-e", "-f"]).arg(file).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let mut log = BufReader::new(child.stderr.take().expect("stderr"));
    let mut output = String::new();
    // The server logs that it listens; if it fails, its log ends.
    while log.read_line(&mut output).map_err(|error| error.to_string())? > 0 {
        if output.contains("Server listening on") {
            // Keep reading, or the server blocks on a full pipe.
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            return Ok(child);
        }
    }
    let _gone = child.wait();
    Err(output)
}

fn make_key(sandbox: &Sandbox, name: &str) -> PathBuf {
    let path = sandbox.path(name);
    if path.exists() {
        // A restarted server keeps its host key.
        return path;
    }
    fs::create_dir_all(path.parent().expect("a parent")).expect("a directory for keys");
    let mut command = sandbox.command("/usr/bin/ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-C", "rexd-test", "-f"]).arg(&path);
    let status = command.status().expect("ssh-keygen: apt-get install openssh-client");
    assert!(status.success(), "ssh-keygen: {status}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a private key");
    path
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    listener.local_addr().expect("its address").port()
}

/// The current user's name: the only user that a server without root can log in.
fn user() -> String {
    let uid = rustix::process::getuid().as_raw().to_string();
    let passwd = fs::read_to_string("/etc/passwd").expect("/etc/passwd");
    let line = passwd.lines().find(|line| line.split(':').nth(2) == Some(uid.as_str()));
    line.and_then(|line| line.split(':').next()).expect("a user with this number").to_owned()
}
