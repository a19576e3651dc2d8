//! One connection through the proxy: bytes in both directions, until it ends or is cut.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown, sockopt};

use crate::proxy::{CutKind, Direction, Rules, TICK, write_all};

/// Bytes read at once.
const PIECE: usize = 16 * 1024;

/// One direction.
struct Flow<'f> {
    from: &'f OwnedFd,
    to: &'f OwnedFd,
    toward: Direction,
    waiting: Vec<u8>,
    is_over: bool,
}

/// The next action after a step.
enum Next {
    GoOn,
    Cut(CutKind),
    Broken,
}

/// Forwards bytes by the rules until the connection ends.
pub(crate) fn forward(client: OwnedFd, daemon: OwnedFd, rules: &Rules) {
    let born = rules.cuts();
    for fd in [&client, &daemon] {
        let flags = fcntl_getfl(fd).expect("flags");
        fcntl_setfl(fd, flags | OFlags::NONBLOCK).expect("a socket that does not block");
    }
    let flow = |from, to, toward| Flow { from, to, toward, waiting: Vec::new(), is_over: false };
    let mut flows = [flow(&client, &daemon, Direction::Daemon), flow(&daemon, &client, Direction::Client)];
    loop {
        match rules.verdict(born) {
            Some(CutKind::Stalled) => {
                // The sockets stay open, and bytes are discarded until the proxy ends.
                while rules.verdict(usize::MAX).is_none() {
                    std::thread::sleep(TICK);
                }
                return;
            }
            Some(how) => return part(&client, &daemon, how),
            None => {}
        }
        if flows.iter().all(|flow| flow.is_over) {
            return;
        }
        wait(&flows, rules.is_throttled());
        if rules.verdict(born).is_some() {
            continue;
        }
        for flow in &mut flows {
            match flow.step(rules, born) {
                Next::GoOn => {}
                Next::Cut(how) => rules.cut(how),
                Next::Broken => return part(&client, &daemon, CutKind::Reset),
            }
        }
    }
}

/// Waits for readable data, or for one tick.
fn wait(flows: &[Flow<'_>; 2], is_throttled: bool) {
    let is_waiting = flows.iter().any(|flow| !flow.waiting.is_empty());
    if is_throttled && is_waiting {
        // This sleep is the rate limit.
        std::thread::sleep(TICK);
        return;
    }
    let mut open: Vec<PollFd<'_>> = flows
        .iter()
        .filter(|flow| !flow.is_over && flow.waiting.is_empty())
        .map(|flow| PollFd::new(flow.from, PollFlags::IN))
        .collect();
    let tick = Timespec { tv_sec: 0, tv_nsec: Duration::from_millis(5).subsec_nanos().into() };
    if !is_waiting {
        poll(&mut open, Some(&tick)).ok();
    }
}

impl Flow<'_> {
    fn step(&mut self, rules: &Rules, born: usize) -> Next {
        if self.waiting.is_empty() && !self.is_over {
            let mut piece = vec![0; PIECE];
            match rustix::io::read(self.from, &mut piece[..]) {
                Ok(0) => {
                    self.is_over = true;
                    shutdown(self.to, Shutdown::Write).ok();
                }
                Ok(read) => self.waiting.extend_from_slice(&piece[..read]),
                Err(Errno::AGAIN) => {}
                Err(_broken) => return Next::Broken,
            }
        }
        if self.waiting.is_empty() {
            return Next::GoOn;
        }
        let grant = rules.ask(self.toward, self.waiting.len());
        let rest = self.waiting.split_off(grant.bytes);
        let now = std::mem::replace(&mut self.waiting, rest);
        let is_written = write_all(self.to, &now, || rules.verdict(born).is_none());
        match grant.cut {
            Some(how) => Next::Cut(how),
            None if is_written || rules.verdict(born).is_some() => Next::GoOn,
            None => Next::Broken,
        }
    }
}

/// Closes both sides.
fn part(client: &OwnedFd, daemon: &OwnedFd, how: CutKind) {
    if how == CutKind::Reset {
        for fd in [client, daemon] {
            // A unix socket has no reset: closing it with unread data has the same effect.
            sockopt::set_socket_linger(fd, Some(Duration::ZERO)).ok();
        }
    }
}
