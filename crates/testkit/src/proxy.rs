//! Proxy: a bad link. Forwards connections to a daemon's listeners and cuts, stalls or throttles them on demand.
//!
//! Bytes are counted over all connections together, so a plan holds for clients that use several.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::pass::pass;
use crate::proc::{wait_for, wait_readable};
use crate::serve::Doors;

/// How soon a connection notices that something was decided about it.
pub(crate) const TICK: Duration = Duration::from_millis(5);

/// Where bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toward {
    /// From the client to the daemon.
    Daemon,
    /// From the daemon to the client.
    Client,
}

/// How a connection is cut, as both ends see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Closed in order.
    Closed,
    /// Reset.
    Reset,
    /// Not at all: nothing comes through any more, and nobody is told.
    Stalled,
}

/// A cut that is to come.
#[derive(Debug, Clone, Copy)]
struct Plan {
    toward: Toward,
    left: usize,
    how: How,
}

/// What every connection through the proxy obeys.
#[derive(Debug, Default)]
struct State {
    plan: Option<Plan>,
    /// How each cut so far was made; a connection is concerned by those made after it came.
    cuts: Vec<How>,
    /// Bytes that may pass per tick and direction.
    throttle: Option<usize>,
    passed: [u64; 2],
    is_over: bool,
}

/// What is decided about the bytes a connection has to pass on.
#[derive(Debug)]
pub(crate) struct Grant {
    /// So many may pass now.
    pub(crate) bytes: usize,
    /// What happens to the connection after that.
    pub(crate) cut: Option<How>,
}

/// The rules of one proxy, shared with its connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules(Arc<Mutex<State>>);

impl Rules {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().expect("nothing panics while it holds this"))
    }

    /// How many cuts there were.
    pub(crate) fn cuts(&self) -> usize {
        self.with(|state| state.cuts.len())
    }

    /// What was decided about a connection that came after so many cuts; nothing if it may go on.
    pub(crate) fn verdict(&self, after: usize) -> Option<How> {
        self.with(|state| state.cuts.get(after).copied().or(state.is_over.then_some(How::Closed)))
    }

    /// Asks for so many bytes to pass.
    pub(crate) fn ask(&self, toward: Toward, bytes: usize) -> Grant {
        self.with(|state| {
            let mut grant = Grant { bytes: state.throttle.map_or(bytes, |most| bytes.min(most)), cut: None };
            if let Some(plan) = state.plan.as_mut().filter(|plan| plan.toward == toward) {
                grant.bytes = grant.bytes.min(plan.left);
                plan.left -= grant.bytes;
                if plan.left == 0 {
                    grant.cut = Some(plan.how);
                }
            }
            state.passed[toward as usize] += grant.bytes as u64;
            grant
        })
    }

    /// Whether bytes are let through bit by bit.
    pub(crate) fn is_throttled(&self) -> bool {
        self.with(|state| state.throttle.is_some())
    }

    /// Carries out what was planned.
    pub(crate) fn cut(&self, how: How) {
        self.with(|state| {
            state.plan = None;
            state.cuts.push(how);
        });
    }
}

/// A running proxy. Its connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    rules: Rules,
    /// Where clients come to instead.
    pub doors: Doors,
    accepting: Vec<JoinHandle<()>>,
}

impl Proxy {
    /// A proxy before these doors; its unix socket is put into `folder`.
    pub fn start(before: &Doors, folder: &Path) -> Proxy {
        let rules = Rules::default();
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let http = tcp.local_addr().expect("its address");
        let path = folder.join("proxy.sock");
        let unix = UnixListener::bind(&path).expect("a socket");
        tcp.set_nonblocking(true).expect("a listener that does not block");
        unix.set_nonblocking(true).expect("a listener that does not block");
        let (to_http, to_unix) = (before.http, before.unix.clone());
        let from_tcp = move |tcp: &TcpListener| -> Option<(OwnedFd, OwnedFd)> {
            let client = tcp.accept().ok()?.0;
            let daemon = TcpStream::connect(to_http).ok()?;
            for stream in [&client, &daemon] {
                stream.set_nodelay(true).ok()?;
            }
            Some((client.into(), daemon.into()))
        };
        let from_unix = move |unix: &UnixListener| -> Option<(OwnedFd, OwnedFd)> {
            let client = unix.accept().ok()?.0;
            Some((client.into(), UnixStream::connect(&to_unix).ok()?.into()))
        };
        let accepting = vec![accept(tcp, from_tcp, rules.clone()), accept(unix, from_unix, rules.clone())];
        Proxy { rules, doors: Doors { unix: path, http, token: before.token.clone() }, accepting }
    }

    /// Cuts every connection when so many more bytes have passed. Connections that come later are not concerned.
    pub fn cut_after(&self, toward: Toward, bytes: usize, how: How) {
        self.rules.with(|state| state.plan = Some(Plan { toward, left: bytes, how }));
    }

    /// What its connections obey.
    pub(crate) fn rules(&self) -> Rules {
        self.rules.clone()
    }

    /// Cuts every connection now.
    pub fn cut(&self, how: How) {
        self.rules.cut(how);
    }

    /// Forgets a plan that was not carried out; whether there was one.
    pub fn call_off(&self) -> bool {
        self.rules.with(|state| state.plan.take().is_some())
    }

    /// How many cuts there were.
    pub fn cuts(&self) -> usize {
        self.rules.cuts()
    }

    /// How many bytes have passed.
    pub fn passed(&self, toward: Toward) -> u64 {
        self.rules.with(|state| state.passed[toward as usize])
    }

    /// Lets so many bytes pass per tick of five milliseconds, each way and connection; nothing for no limit.
    pub fn throttle(&self, bytes: Option<usize>) {
        self.rules.with(|state| state.throttle = bytes);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.rules.with(|state| state.is_over = true);
        for thread in self.accepting.drain(..) {
            thread.join().ok();
        }
    }
}

/// Accepts until the proxy ends, each connection on a thread of its own.
fn accept<L: AsFd + Send + 'static>(
    listener: L,
    take: impl Fn(&L) -> Option<(OwnedFd, OwnedFd)> + Send + 'static,
    rules: Rules,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut connections = Vec::new();
        while !rules.with(|state| state.is_over) {
            if wait_readable(&listener, Instant::now() + TICK)
                && let Some((client, daemon)) = take(&listener)
            {
                let rules = rules.clone();
                connections.push(std::thread::spawn(move || pass(client, daemon, &rules)));
            }
        }
        for connection in connections {
            connection.join().ok();
        }
    })
}

/// Writes all of it, or as much as the other end takes.
pub(crate) fn write_all(fd: &OwnedFd, mut bytes: &[u8], may_go_on: impl Fn() -> bool) -> bool {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::AGAIN) => {
                if !may_go_on() {
                    return false;
                }
                wait_for(fd, PollFlags::OUT, Instant::now() + TICK);
            }
            Err(_broken) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    /// A proxy before a listener that sends back what it is sent, and a client of it.
    fn echo() -> (tempfile::TempDir, Proxy, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let doors =
            Doors { unix: folder.path().join("none"), http: listener.local_addr().unwrap(), token: None };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || std::io::copy(&mut stream.try_clone().unwrap(), &mut stream));
            }
        });
        let proxy = Proxy::start(&doors, folder.path());
        let client = TcpStream::connect(proxy.doors.http).unwrap();
        (folder, proxy, client)
    }

    #[test]
    fn a_cut_comes_after_exactly_so_many_bytes_in_its_direction() {
        for toward in [Toward::Daemon, Toward::Client] {
            let (_folder, proxy, mut client) = echo();
            client.write_all(b"before").unwrap();
            client.read_exact(&mut [0; 6]).unwrap();
            proxy.cut_after(toward, 3, How::Closed);
            client.write_all(b"abcdef").unwrap();
            let mut heard = String::new();
            // What was left behind in the proxy turns its end into a reset.
            client.read_to_string(&mut heard).ok();
            assert!("abc".starts_with(&heard), "{toward:?}: {heard:?}");
            assert_eq!((proxy.passed(toward), proxy.cuts()), (9, 1), "{toward:?}");
            let mut next = TcpStream::connect(proxy.doors.http).unwrap();
            next.write_all(b"on").unwrap();
            next.read_exact(&mut [0; 2]).unwrap();
        }
    }

    #[test]
    fn a_stalled_connection_says_nothing_and_a_reset_one_says_so() {
        let (_folder, proxy, mut client) = echo();
        client.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
        proxy.cut(How::Stalled);
        client.write_all(b"x").unwrap();
        client.set_read_timeout(Some(TICK * 4)).unwrap();
        let late = client.read(&mut [0]).unwrap_err();
        assert_eq!(late.kind(), std::io::ErrorKind::WouldBlock);
        let mut client = TcpStream::connect(proxy.doors.http).unwrap();
        client.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
        proxy.cut(How::Reset);
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn a_throttled_link_loses_nothing() {
        let (_folder, proxy, mut client) = echo();
        proxy.throttle(Some(100));
        client.write_all(&[7; 1_000]).unwrap();
        let mut heard = [0; 1_000];
        client.read_exact(&mut heard).unwrap();
        assert_eq!(heard, [7; 1_000]);
    }
}
