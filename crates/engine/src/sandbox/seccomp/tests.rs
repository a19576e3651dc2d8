//! Runs the filter as the kernel would.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use super::*;

const SET_IDS: u32 = libc::S_ISUID | libc::S_ISGID;
const NO_SOCKETS: SocketRules =
    SocketRules { all: false, internet: InternetAccess::No, routes: false, unix: false, listens: false };

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
    let program = filter(NO_SOCKETS, SET_IDS).unwrap();
    let refused = refused();
    for number in 0..1024 {
        let expected = match i64::from(number) {
            libc::SYS_clone3 | libc::SYS_openat2 => errno(libc::ENOSYS),
            libc::SYS_socket | libc::SYS_socketpair => errno(libc::EPERM),
            listed if refused.contains(&listed) => errno(libc::EPERM),
            _ => libc::SECCOMP_RET_ALLOW,
        };
        assert_eq!(run(&program, number, [0; 6]), expected, "call {number}");
        assert_eq!(run(&program, number | FOREIGN_NUMBERS, [0; 6]), errno(libc::ENOSYS));
    }
    assert!(program.len() < 160, "{} instructions cost every start", program.len());
}

#[test]
fn arguments_decide_where_they_have_to() {
    let ask = |sockets: SocketRules, number: i64, arguments: &[i32]| {
        let mut all = [0; 6];
        all.iter_mut().zip(arguments).for_each(|(to, from)| *to = *from as u32);
        run(&filter(sockets, SET_IDS).unwrap(), number as u32, all) == libc::SECCOMP_RET_ALLOW
    };
    assert!(ask(NO_SOCKETS, libc::SYS_clone, &[libc::CLONE_VM | libc::SIGCHLD]));
    assert!(!ask(NO_SOCKETS, libc::SYS_clone, &[libc::CLONE_NEWUSER | libc::SIGCHLD]));
    assert!(ask(NO_SOCKETS, libc::SYS_unshare, &[libc::CLONE_FILES]));
    assert!(!ask(NO_SOCKETS, libc::SYS_unshare, &[libc::CLONE_NEWNS]));
    assert!(ask(NO_SOCKETS, libc::SYS_ioctl, &[0, libc::TCGETS as i32]));
    assert!(!ask(NO_SOCKETS, libc::SYS_ioctl, &[0, libc::TIOCSTI as i32]));
    assert!(ask(NO_SOCKETS, libc::SYS_socketpair, &[libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC]));
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

#[test]
fn a_mode_with_a_set_id_bit_is_refused_where_it_counts() {
    let ask = |number: i64, arguments: &[i32]| {
        let mut all = [0; 6];
        all.iter_mut().zip(arguments).for_each(|(to, from)| *to = *from as u32);
        run(&filter(NO_SOCKETS, SET_IDS).unwrap(), number as u32, all)
    };
    let (create, unnamed) = (libc::O_WRONLY | libc::O_CREAT, libc::O_RDWR | libc::O_TMPFILE);
    for bit in [0o4000, 0o2000, 0o6000] {
        let mode = bit | 0o755;
        for (number, arguments) in [
            (libc::SYS_fchmod, &[3, mode][..]),
            (libc::SYS_fchmodat, &[3, 0, mode]),
            (FCHMODAT2, &[3, 0, mode]),
            (libc::SYS_mknodat, &[3, 0, mode]),
            (libc::SYS_openat, &[3, 0, create, mode]),
            (libc::SYS_openat, &[3, 0, unnamed, mode]),
        ] {
            assert_eq!(ask(number, arguments), errno(libc::EPERM), "{number} {arguments:?}");
        }
    }
    for (number, arguments) in [
        (libc::SYS_fchmod, &[3, 0o1777][..]),
        (libc::SYS_fchmodat, &[3, 0, 0o755]),
        (libc::SYS_openat, &[3, 0, create, 0o644]),
        // Without a file to create, the argument can be anything.
        (libc::SYS_openat, &[3, 0, libc::O_RDONLY | libc::O_DIRECTORY, -1]),
    ] {
        assert_eq!(ask(number, arguments), libc::SECCOMP_RET_ALLOW, "{number} {arguments:?}");
    }
}

#[test]
fn sockets_of_listed_ports_listen_only_if_one_may_be_bound() {
    let tcp = SocketRules { internet: InternetAccess::Tcp, ..NO_SOCKETS };
    let listens =
        |rules| run(&filter(rules, 0).unwrap(), libc::SYS_listen as u32, [0; 6]) == libc::SECCOMP_RET_ALLOW;
    assert!(!listens(tcp));
    assert!(listens(SocketRules { listens: true, ..tcp }));
    assert!(listens(SocketRules { unix: true, ..tcp }));
    // A layer that lists ports and one that allows unix sockets allow neither together.
    let both = SocketRules { listens: true, ..tcp }.both(SocketRules { unix: true, ..tcp });
    assert!(!listens(both));
}
