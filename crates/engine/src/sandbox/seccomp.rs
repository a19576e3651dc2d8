//! Assembles the seccomp filter: a BPF program that refuses some system calls.
//!
//! It finds the call number by bisection: when a child installs the filter, the kernel runs it once for every number, so a
//! linear list of comparisons would dominate the cost of a start.

mod refused;

use refused::refused;

/// One BPF instruction in the layout of the kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instruction {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS: u32 = 16;
/// Numbers from here on belong to the x32 ABI.
const FOREIGN_NUMBERS: u32 = 0x4000_0000;
const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_NOT_BELOW: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const IF_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Flags of `clone` and `unshare` that create a namespace.
const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;
/// `CLONE_NEWTIME` of `unshare`; to `clone` these bits are the exit signal.
const NEW_TIME: u32 = 0x80;
const TYPE_OF_SOCKET: u32 = 0xf;
/// Not defined by libc on every architecture.
const FCHMODAT2: i64 = 452;

/// Sockets that may be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SocketRules {
    /// All sockets; the other fields are ignored.
    pub(super) all: bool,
    /// IPv4 and IPv6 sockets.
    pub(super) internet: InternetAccess,
    /// Netlink sockets that query the network of the kernel.
    pub(super) routes: bool,
    /// Unix sockets.
    pub(super) unix: bool,
    /// Whether TCP sockets may listen on some port.
    pub(super) listens: bool,
}

/// IPv4 and IPv6 sockets that may be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum InternetAccess {
    No,
    /// TCP only, whose ports Landlock restricts.
    Tcp,
    Yes,
}

impl SocketRules {
    /// Sockets that both allow.
    pub(super) fn both(self, other: SocketRules) -> SocketRules {
        match (self.all, other.all) {
            (true, _) => other,
            (_, true) => self,
            (false, false) => SocketRules {
                all: false,
                internet: self.internet.min(other.internet),
                routes: self.routes && other.routes,
                unix: self.unix && other.unix,
                listens: self.listens && other.listens,
            },
        }
    }
}

/// The filter; `None` if a jump would be too long. No file can be given a bit of `refused_mode`.
pub(super) fn filter(sockets: SocketRules, refused_mode: u32) -> Option<Vec<Instruction>> {
    let mut program = vec![
        plain(LOAD, ARCHITECTURE_AT),
        Instruction { code: IF_EQUAL, jt: 1, jf: 0, k: ARCHITECTURE },
        plain(RETURN, libc::SECCOMP_RET_KILL_PROCESS),
        plain(LOAD, NUMBER),
    ];
    let mut results = Vec::new();
    bisect(&ranges(calls(sockets, refused_mode)), &mut program, &mut results)?;
    // Each result is stored once, at the end.
    for result in [allow(), refuse(libc::EPERM)] {
        for (at, is_high, _) in results.iter().filter(|(_, _, wanted)| *wanted == result) {
            let distance = distance(*at, program.len())?;
            let jump = program.get_mut(*at)?;
            *if *is_high { &mut jump.jt } else { &mut jump.jf } = distance;
        }
        program.push(result);
    }
    Some(program)
}

/// First number of each range of calls with the same result, and the instructions for that range.
fn ranges(mut calls: Vec<(u32, Vec<Instruction>)>) -> Vec<(u32, Vec<Instruction>)> {
    calls.sort_by_key(|(number, _)| *number);
    calls.dedup_by_key(|(number, _)| *number);
    let mut ranges: Vec<(u32, Vec<Instruction>)> = vec![(0, vec![allow()])];
    for (number, then) in calls {
        match ranges.last_mut() {
            Some(last) if last.0 == number => last.1 = then,
            _ => ranges.push((number, then)),
        }
        ranges.push((number + 1, vec![allow()]));
    }
    ranges.push((FOREIGN_NUMBERS, vec![refuse(libc::ENOSYS)]));
    ranges.dedup_by(|later, earlier| later.1 == earlier.1);
    ranges
}

/// Emits a binary search for the range. A branch that is one of the two common results is recorded in `results`: the
/// instruction that jumps, whether its true branch jumps, and the result.
fn bisect(
    ranges: &[(u32, Vec<Instruction>)],
    program: &mut Vec<Instruction>,
    results: &mut Vec<(usize, bool, Instruction)>,
) -> Option<()> {
    if let [(_, then)] = ranges {
        program.extend(then);
        return Some(());
    }
    let (low, high) = ranges.split_at(ranges.len() / 2);
    let at = program.len();
    program.push(Instruction { code: IF_NOT_BELOW, jt: 0, jf: 0, k: high.first()?.0 });
    for (side, is_high) in [(low, false), (high, true)] {
        match side {
            [(_, then)] if **then == [allow()] || **then == [refuse(libc::EPERM)] => {
                results.push((at, is_high, *then.first()?));
            }
            _ => {
                let distance = distance(at, program.len())?;
                let jump = program.get_mut(at)?;
                *if is_high { &mut jump.jt } else { &mut jump.jf } = distance;
                bisect(side, program, results)?;
            }
        }
    }
    Some(())
}

/// Number of instructions that a jump skips.
fn distance(from: usize, to: usize) -> Option<u8> {
    u8::try_from(to - from - 1).ok()
}

/// Instructions for all calls that are not always allowed.
fn calls(sockets: SocketRules, refused_mode: u32) -> Vec<(u32, Vec<Instruction>)> {
    let mut calls: Vec<(u32, Vec<Instruction>)> =
        refused().into_iter().map(|number| (number as u32, vec![refuse(libc::EPERM)])).collect();
    // Its flags are in memory, which a filter cannot read; libraries fall back to `clone`.
    calls.push((libc::SYS_clone3 as u32, vec![refuse(libc::ENOSYS)]));
    calls.push((libc::SYS_clone as u32, without_bits(0, NEW_NAMESPACES)));
    calls.push((libc::SYS_unshare as u32, without_bits(0, NEW_NAMESPACES | NEW_TIME)));
    let typing = [libc::TIOCSTI as u32, libc::TIOCLINUX as u32];
    calls.push((libc::SYS_ioctl as u32, none_of(1, &typing)));
    calls.push((libc::SYS_prlimit64 as u32, own_limits()));
    calls.extend(modes(refused_mode));
    if !sockets.all {
        calls.push((libc::SYS_socket as u32, socket(sockets)));
        if !sockets.unix {
            // A pair of datagram sockets can be connected to another address.
            let mut pair = vec![argument(1), plain(AND, TYPE_OF_SOCKET)];
            for kind in [libc::SOCK_STREAM, libc::SOCK_SEQPACKET] {
                pair.extend(when_equal(kind as u32, vec![allow()]));
            }
            pair.push(refuse(libc::EPERM));
            calls.push((libc::SYS_socketpair as u32, pair));
        }
    }
    if !sockets.all && sockets.internet == InternetAccess::Tcp {
        // It connects while it sends, without a check of the port.
        let fast_open = libc::MSG_FASTOPEN as u32;
        calls.push((libc::SYS_sendto as u32, without_bits(3, fast_open)));
        calls.push((libc::SYS_sendmsg as u32, without_bits(2, fast_open)));
        calls.push((libc::SYS_sendmmsg as u32, without_bits(3, fast_open)));
        // Without `bind`, it chooses a port that Landlock does not check. A filter cannot see the kind of a socket.
        if !sockets.listens && !sockets.unix {
            calls.push((libc::SYS_listen as u32, vec![refuse(libc::EPERM)]));
        }
    }
    calls
}

/// Calls that set the mode of a file. The mode of `openat2` is in memory, which a filter cannot read; libraries fall back
/// to `openat`.
fn modes(refused: u32) -> Vec<(u32, Vec<Instruction>)> {
    let mut calls = vec![(libc::SYS_openat2 as u32, vec![refuse(libc::ENOSYS)])];
    let at = |number: i64, index: u32| (number as u32, without_bits(index, refused));
    calls.extend([at(libc::SYS_fchmod, 1), at(libc::SYS_fchmodat, 2), at(FCHMODAT2, 2)]);
    calls.extend([at(libc::SYS_mknodat, 2), (libc::SYS_openat as u32, creation(2, refused))]);
    #[cfg(target_arch = "x86_64")]
    {
        calls.extend([at(libc::SYS_chmod, 1), at(libc::SYS_creat, 1), at(libc::SYS_mknod, 1)]);
        calls.push((libc::SYS_open as u32, creation(1, refused)));
    }
    calls
}

/// An `open` with the flags at `index`. The mode, which follows them, has a meaning only if a file is created.
fn creation(index: u32, refused: u32) -> Vec<Instruction> {
    let creates = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u32;
    let mut program =
        vec![argument(index), Instruction { code: IF_ANY_BIT, jt: 1, jf: 0, k: creates }, allow()];
    program.extend(without_bits(index + 1, refused));
    program
}

fn socket(sockets: SocketRules) -> Vec<Instruction> {
    let mut program = vec![argument(0)];
    if sockets.unix {
        program.extend(when_equal(libc::AF_UNIX as u32, vec![allow()]));
    }
    let internet = match sockets.internet {
        InternetAccess::No => None,
        InternetAccess::Yes => Some(vec![allow()]),
        InternetAccess::Tcp => {
            let mut tcp = vec![argument(1), plain(AND, TYPE_OF_SOCKET)];
            let mut protocol = vec![argument(2)];
            protocol.extend(when_equal(0, vec![allow()]));
            protocol.extend(when_equal(libc::IPPROTO_TCP as u32, vec![allow()]));
            protocol.push(refuse(libc::EPERM));
            tcp.extend(when_equal(libc::SOCK_STREAM as u32, protocol));
            tcp.push(refuse(libc::EPERM));
            Some(tcp)
        }
    };
    for family in [libc::AF_INET, libc::AF_INET6] {
        if let Some(internet) = &internet {
            program.extend(when_equal(family as u32, internet.clone()));
        }
    }
    if sockets.routes {
        let mut routes = vec![argument(2)];
        routes.extend(when_equal(libc::NETLINK_ROUTE as u32, vec![allow()]));
        routes.push(refuse(libc::EPERM));
        program.extend(when_equal(libc::AF_NETLINK as u32, routes));
    }
    program.push(refuse(libc::EPERM));
    program
}

/// Loads the low half of an argument: the kernel uses only this half of the arguments that are checked.
fn argument(index: u32) -> Instruction {
    plain(LOAD, ARGUMENTS + 8 * index)
}

fn without_bits(index: u32, bits: u32) -> Vec<Instruction> {
    let test = Instruction { code: IF_ANY_BIT, jt: 0, jf: 1, k: bits };
    vec![argument(index), test, refuse(libc::EPERM), allow()]
}

fn none_of(index: u32, values: &[u32]) -> Vec<Instruction> {
    let mut program = vec![argument(index)];
    for value in values {
        program.extend(when_equal(*value, vec![refuse(libc::EPERM)]));
    }
    program.push(allow());
    program
}

/// `prlimit` on the caller itself, or without new limits: setting limits could starve other processes of the user. Both
/// halves of the pointer to the new limits are checked.
fn own_limits() -> Vec<Instruction> {
    let mut program = vec![argument(0)];
    program.extend(when_equal(0, vec![allow()]));
    let mut high = vec![plain(LOAD, ARGUMENTS + 8 * 2 + 4)];
    high.extend(when_equal(0, vec![allow()]));
    high.push(refuse(libc::EPERM));
    program.push(argument(2));
    program.extend(when_equal(0, high));
    program.push(refuse(libc::EPERM));
    program
}

/// `then` must end with a result.
fn when_equal(value: u32, then: Vec<Instruction>) -> Vec<Instruction> {
    let skipped = u8::try_from(then.len()).unwrap_or(u8::MAX);
    let mut program = vec![Instruction { code: IF_EQUAL, jt: 0, jf: skipped, k: value }];
    program.extend(then);
    program
}

fn plain(code: u16, k: u32) -> Instruction {
    Instruction { code, jt: 0, jf: 0, k }
}

fn allow() -> Instruction {
    plain(RETURN, libc::SECCOMP_RET_ALLOW)
}

fn refuse(errno: i32) -> Instruction {
    plain(RETURN, libc::SECCOMP_RET_ERRNO | errno as u32)
}

#[cfg(test)]
mod tests;
