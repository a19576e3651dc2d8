//! Assembles the seccomp filter: a BPF program that refuses some system calls.
//!
//! It finds the call number by bisection: when a child installs the filter, the kernel runs it once for every number, so a
//! linear list of comparisons would dominate the cost of a start.

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
const OPEN_TREE_ATTR: i64 = 467;

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
            },
        }
    }
}

/// The filter; `None` if a jump would be too long.
pub(super) fn filter(sockets: SocketRules) -> Option<Vec<Instruction>> {
    let mut program = vec![
        plain(LOAD, ARCHITECTURE_AT),
        Instruction { code: IF_EQUAL, jt: 1, jf: 0, k: ARCHITECTURE },
        plain(RETURN, libc::SECCOMP_RET_KILL_PROCESS),
        plain(LOAD, NUMBER),
    ];
    let mut results = Vec::new();
    bisect(&ranges(calls(sockets)), &mut program, &mut results)?;
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
fn calls(sockets: SocketRules) -> Vec<(u32, Vec<Instruction>)> {
    let mut calls: Vec<(u32, Vec<Instruction>)> =
        refused().into_iter().map(|number| (number as u32, vec![refuse(libc::EPERM)])).collect();
    // Its flags are in memory, which a filter cannot read; libraries fall back to `clone`.
    calls.push((libc::SYS_clone3 as u32, vec![refuse(libc::ENOSYS)]));
    calls.push((libc::SYS_clone as u32, without_bits(0, NEW_NAMESPACES)));
    calls.push((libc::SYS_unshare as u32, without_bits(0, NEW_NAMESPACES | NEW_TIME)));
    let typing = [libc::TIOCSTI as u32, libc::TIOCLINUX as u32];
    calls.push((libc::SYS_ioctl as u32, none_of(1, &typing)));
    calls.push((libc::SYS_prlimit64 as u32, own_limits()));
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
    }
    calls
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

/// Calls that affect other processes or the whole system, or that bypass the filter.
fn refused() -> Vec<i64> {
    let mut numbers = vec![
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_kcmp,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_setns,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_fsopen,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fspick,
        libc::SYS_mount_setattr,
        OPEN_TREE_ATTR,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_kexec_load,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_keyctl,
        libc::SYS_open_by_handle_at,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_acct,
        libc::SYS_quotactl,
        libc::SYS_quotactl_fd,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_adjtimex,
        libc::SYS_clock_adjtime,
        libc::SYS_sethostname,
        libc::SYS_setdomainname,
        libc::SYS_vhangup,
        libc::SYS_syslog,
        libc::SYS_fanotify_init,
        libc::SYS_lookup_dcookie,
        libc::SYS_nfsservctl,
    ];
    numbers.extend(refused_here());
    numbers
}

#[cfg(target_arch = "x86_64")]
fn refused_here() -> Vec<i64> {
    // Obsolete calls on modules: including them merges ranges of numbers.
    const GONE: [i64; 3] = [174, 177, 178];
    let here = [
        libc::SYS_iopl,
        libc::SYS_ioperm,
        libc::SYS_kexec_file_load,
        libc::SYS_uselib,
        libc::SYS__sysctl,
        libc::SYS_modify_ldt,
    ];
    here.into_iter().chain(GONE).collect()
}

#[cfg(target_arch = "aarch64")]
fn refused_here() -> Vec<i64> {
    // Not defined by libc on every architecture.
    const KEXEC_FILE_LOAD: i64 = 294;
    vec![KEXEC_FILE_LOAD]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_SOCKETS: SocketRules =
        SocketRules { all: false, internet: InternetAccess::No, routes: false, unix: false };

    /// The result that the kernel would return.
    fn run(program: &[Instruction], number: u32, arguments: [u32; 6]) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let Instruction { code, jt, jf, k } = program[at];
            let branch = |is_so: bool| usize::from(if is_so { jt } else { jf });
            at += 1;
            match code {
                LOAD if k == NUMBER => value = number,
                LOAD if k == ARCHITECTURE_AT => value = ARCHITECTURE,
                LOAD => value = arguments[((k - ARGUMENTS) / 8) as usize],
                AND => value &= k,
                IF_EQUAL => at += branch(value == k),
                IF_NOT_BELOW => at += branch(value >= k),
                IF_ANY_BIT => at += branch(value & k != 0),
                RETURN => return k,
                other => panic!("{other:x}"),
            }
        }
    }

    fn errno(number: i32) -> u32 {
        libc::SECCOMP_RET_ERRNO | number as u32
    }

    #[test]
    fn exactly_the_listed_calls_are_refused() {
        let program = filter(NO_SOCKETS).unwrap();
        let refused = refused();
        for number in 0..1024 {
            let expected = match i64::from(number) {
                libc::SYS_clone3 => errno(libc::ENOSYS),
                libc::SYS_socket | libc::SYS_socketpair => errno(libc::EPERM),
                listed if refused.contains(&listed) => errno(libc::EPERM),
                _ => libc::SECCOMP_RET_ALLOW,
            };
            assert_eq!(run(&program, number, [0; 6]), expected, "call {number}");
            assert_eq!(run(&program, number | FOREIGN_NUMBERS, [0; 6]), errno(libc::ENOSYS));
        }
        assert!(program.len() < 120, "{} instructions cost every start", program.len());
    }

    #[test]
    fn arguments_decide_where_they_have_to() {
        let ask = |sockets: SocketRules, number: i64, arguments: &[i32]| {
            let mut all = [0; 6];
            all.iter_mut().zip(arguments).for_each(|(to, from)| *to = *from as u32);
            run(&filter(sockets).unwrap(), number as u32, all) == libc::SECCOMP_RET_ALLOW
        };
        assert!(ask(NO_SOCKETS, libc::SYS_clone, &[libc::CLONE_VM | libc::SIGCHLD]));
        assert!(!ask(NO_SOCKETS, libc::SYS_clone, &[libc::CLONE_NEWUSER | libc::SIGCHLD]));
        assert!(ask(NO_SOCKETS, libc::SYS_unshare, &[libc::CLONE_FILES]));
        assert!(!ask(NO_SOCKETS, libc::SYS_unshare, &[libc::CLONE_NEWNS]));
        assert!(ask(NO_SOCKETS, libc::SYS_ioctl, &[0, libc::TCGETS as i32]));
        assert!(!ask(NO_SOCKETS, libc::SYS_ioctl, &[0, libc::TIOCSTI as i32]));
        assert!(ask(
            NO_SOCKETS,
            libc::SYS_socketpair,
            &[libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC]
        ));
        assert!(!ask(NO_SOCKETS, libc::SYS_socketpair, &[libc::AF_UNIX, libc::SOCK_DGRAM]));
        let tcp = SocketRules { internet: InternetAccess::Tcp, ..NO_SOCKETS };
        assert!(ask(tcp, libc::SYS_socket, &[libc::AF_INET6, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 6]));
        assert!(!ask(tcp, libc::SYS_socket, &[libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP]));
        assert!(!ask(tcp, libc::SYS_socket, &[libc::AF_INET, libc::SOCK_DGRAM]));
        assert!(!ask(tcp, libc::SYS_socket, &[libc::AF_UNIX, libc::SOCK_STREAM]));
        assert!(!ask(tcp, libc::SYS_sendto, &[0, 0, 0, libc::MSG_FASTOPEN]));
        let own = SocketRules { internet: InternetAccess::Yes, routes: true, ..NO_SOCKETS };
        assert!(ask(own, libc::SYS_socket, &[libc::AF_INET, libc::SOCK_DGRAM]));
        assert!(ask(own, libc::SYS_socket, &[libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE]));
        assert!(!ask(own, libc::SYS_socket, &[libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_AUDIT]));
        let every = SocketRules { all: true, ..NO_SOCKETS };
        assert!(ask(every, libc::SYS_socket, &[libc::AF_UNIX, libc::SOCK_DGRAM]));
        assert_eq!(every.both(tcp), tcp);
        assert_eq!(own.both(tcp), tcp);
    }
}
