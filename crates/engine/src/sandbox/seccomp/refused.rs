//! The system calls that are always refused.

/// Not defined by libc on every architecture.
const OPEN_TREE_ATTR: i64 = 467;

/// Calls that affect other processes or the whole system, or that bypass the filter.
pub(super) fn refused() -> Vec<i64> {
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
