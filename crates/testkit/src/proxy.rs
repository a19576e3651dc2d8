//! Proxy: an unreliable network. It forwards connections to a daemon's listeners and cuts, stalls or throttles them.
//!
//! Bytes are counted over all connections, so a plan also works for clients with several connections.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::forward::forward;
use crate::proc::{wait_for, wait_readable};
use crate::serve::Addresses;

/// The interval at which a connection checks the rules.
pub(crate) const TICK: Duration = Duration::from_millis(5);

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the daemon.
    Daemon,
    /// From the daemon to the client.
    Client,
}

/// The way in which a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutKind {
    /// Closed normally on both sides.
    Closed,
    /// Reset.
    Reset,
    /// Silent: the sockets stay open, and no more bytes pass.
    Stalled,
}

/// A planned cut.
#[derive(Debug, Clone, Copy)]
struct Plan {
    toward: Direction,
    left: usize,
    how: CutKind,
}

/// The rules for every connection of the proxy.
#[derive(Debug, Default)]
struct State {
    plan: Option<Plan>,
    /// The kind of each cut so far; a cut applies to connections accepted before it.
    cuts: Vec<CutKind>,
    /// Bytes that may pass per tick and direction.
    throttle: Option<usize>,
    passed: [u64; 2],
    is_over: bool,
}

/// The decision about the bytes of a connection.
#[derive(Debug)]
pub(crate) struct Grant {
    /// The number of bytes that may pass now.
    pub(crate) bytes: usize,
    /// The cut that follows.
    pub(crate) cut: Option<CutKind>,
}

/// The rules of one proxy, shared with its connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules(Arc<Mutex<State>>);

impl Rules {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().expect("the lock is not poisoned"))
    }

    /// The number of cuts so far.
    pub(crate) fn cuts(&self) -> usize {
        self.with(|state| state.cuts.len())
    }

    /// The cut that applies to a connection accepted after this many cuts, if any.
    pub(crate) fn verdict(&self, after: usize) -> Option<CutKind> {
        self.with(|state| state.cuts.get(after).copied().or(state.is_over.then_some(CutKind::Closed)))
    }

    /// Requests that this many bytes pass.
    pub(crate) fn ask(&self, toward: Direction, bytes: usize) -> Grant {
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

    /// Whether the rate is limited.
    pub(crate) fn is_throttled(&self) -> bool {
        self.with(|state| state.throttle.is_some())
    }

    /// Executes the planned cut.
    pub(crate) fn cut(&self, how: CutKind) {
        self.with(|state| {
            state.plan = None;
            state.cuts.push(how);
        });
    }
}

/// A running proxy. Dropping it ends its connections.
#[derive(Debug)]
pub struct Proxy {
    rules: Rules,
    /// The addresses for clients.
    pub addresses: Addresses,
    /// The addresses to which new connections are forwarded.
    before: Arc<Mutex<Addresses>>,
    accepting: Vec<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy to these addresses, with its unix socket in `directory`.
    pub fn start(before: &Addresses, directory: &Path) -> Proxy {
        let rules = Rules::default();
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let http = tcp.local_addr().expect("its address");
        let path = directory.join("proxy.sock");
        let unix = UnixListener::bind(&path).expect("a socket");
        tcp.set_nonblocking(true).expect("a listener that does not block");
        unix.set_nonblocking(true).expect("a listener that does not block");
        let token = before.token.clone();
        let before = Arc::new(Mutex::new(before.clone()));
        let (to_http, to_unix) = (before.clone(), before.clone());
        let from_tcp = move |tcp: &TcpListener| -> Option<(OwnedFd, OwnedFd)> {
            let client = tcp.accept().ok()?.0;
            let address = current(&to_http).http;
            let daemon = TcpStream::connect(address).ok()?;
            for stream in [&client, &daemon] {
                stream.set_nodelay(true).ok()?;
            }
            Some((client.into(), daemon.into()))
        };
        let from_unix = move |unix: &UnixListener| -> Option<(OwnedFd, OwnedFd)> {
            let client = unix.accept().ok()?.0;
            let path = current(&to_unix).unix;
            Some((client.into(), UnixStream::connect(path).ok()?.into()))
        };
        let accepting = vec![accept(tcp, from_tcp, rules.clone()), accept(unix, from_unix, rules.clone())];
        Proxy { rules, addresses: Addresses { unix: path, http, token }, before, accepting }
    }

    /// Forwards new connections to other addresses: those of a daemon that was started again.
    pub fn redirect(&self, before: &Addresses) {
        *self.before.lock().expect("the lock is not poisoned") = before.clone();
    }

    /// Cuts every connection after this many more bytes. Later connections are not affected.
    pub fn cut_after(&self, toward: Direction, bytes: usize, how: CutKind) {
        self.rules.with(|state| state.plan = Some(Plan { toward, left: bytes, how }));
    }

    /// The rules of its connections.
    pub(crate) fn rules(&self) -> Rules {
        self.rules.clone()
    }

    /// Cuts every connection now.
    pub fn cut(&self, how: CutKind) {
        self.rules.cut(how);
    }

    /// Cancels a planned cut; true if there was one.
    pub fn call_off(&self) -> bool {
        self.rules.with(|state| state.plan.take().is_some())
    }

    /// The number of cuts so far.
    pub fn cuts(&self) -> usize {
        self.rules.cuts()
    }

    /// The number of forwarded bytes.
    pub fn passed(&self, toward: Direction) -> u64 {
        self.rules.with(|state| state.passed[toward as usize])
    }

    /// Limits the bytes per tick of five milliseconds, per direction and connection; `None` for no limit.
    pub fn throttle(&self, bytes: Option<usize>) {
        self.rules.with(|state| state.throttle = bytes);
    }
}

fn current(addresses: &Mutex<Addresses>) -> Addresses {
    addresses.lock().expect("the lock is not poisoned").clone()
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.rules.with(|state| state.is_over = true);
        for thread in self.accepting.drain(..) {
            thread.join().ok();
        }
    }
}

/// Accepts connections until the proxy ends, each on its own thread.
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
                connections.push(std::thread::spawn(move || forward(client, daemon, &rules)));
            }
        }
        for connection in connections {
            connection.join().ok();
        }
    })
}

/// Writes as much as the other end accepts.
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

    /// A proxy to an echo server, and a client of it.
    fn echo() -> (tempfile::TempDir, Proxy, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let addresses = Addresses {
            unix: directory.path().join("none"),
            http: listener.local_addr().unwrap(),
            token: None,
        };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || std::io::copy(&mut stream.try_clone().unwrap(), &mut stream));
            }
        });
        let proxy = Proxy::start(&addresses, directory.path());
        let client = TcpStream::connect(proxy.addresses.http).unwrap();
        (directory, proxy, client)
    }

    #[test]
    fn a_cut_comes_after_exactly_so_many_bytes_in_its_direction() {
        for toward in [Direction::Daemon, Direction::Client] {
            let (_directory, proxy, mut client) = echo();
            client.write_all(b"before").unwrap();
            client.read_exact(&mut [0; 6]).unwrap();
            proxy.cut_after(toward, 3, CutKind::Closed);
            client.write_all(b"abcdef").unwrap();
            let mut received = String::new();
            // Unread bytes in the proxy turn the close into a reset.
            client.read_to_string(&mut received).ok();
            assert!("abc".starts_with(&received), "{toward:?}: {received:?}");
            assert_eq!((proxy.passed(toward), proxy.cuts()), (9, 1), "{toward:?}");
            let mut next = TcpStream::connect(proxy.addresses.http).unwrap();
            next.write_all(b"on").unwrap();
            next.read_exact(&mut [0; 2]).unwrap();
        }
    }

    #[test]
    fn a_stalled_connection_is_silent_and_a_reset_one_reports_an_error() {
        let (_directory, proxy, mut client) = echo();
        client.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
        proxy.cut(CutKind::Stalled);
        client.write_all(b"x").unwrap();
        client.set_read_timeout(Some(TICK * 4)).unwrap();
        let late = client.read(&mut [0]).unwrap_err();
        assert_eq!(late.kind(), std::io::ErrorKind::WouldBlock);
        let mut client = TcpStream::connect(proxy.addresses.http).unwrap();
        client.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
        proxy.cut(CutKind::Reset);
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn connections_after_a_redirect_reach_the_other_address() {
        let (directory, proxy, mut client) = echo();
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let http = other.local_addr().unwrap();
        // The proxy has accepted a connection once it has forwarded something.
        client.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
        proxy.redirect(&Addresses { unix: directory.path().join("none"), http, token: None });
        client.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
        let _client = TcpStream::connect(proxy.addresses.http).unwrap();
        assert!(wait_readable(&other, Instant::now() + crate::daemon::PATIENCE));
    }

    #[test]
    fn a_throttled_link_loses_nothing() {
        let (_directory, proxy, mut client) = echo();
        proxy.throttle(Some(100));
        client.write_all(&[7; 1_000]).unwrap();
        let mut received = [0; 1_000];
        client.read_exact(&mut received).unwrap();
        assert_eq!(received, [7; 1_000]);
    }
}
