//! System calls that a command does not need and that could lead out of its sandbox.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use super::setup::{SetupResult, doing};

/// Calls that reach keys of the caller's session, or parts of the kernel that no build needs. Rings
/// of `io_uring` make other calls without passing this filter.
const ALWAYS: [i64; 9] = [
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_keyctl,
    libc::SYS_perf_event_open,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
];
/// Calls that look into other processes, where no namespace keeps those apart. Where one does, a
/// command may trace what it started itself.
const TRACING: [i64; 5] = [
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
];
/// Families of sockets that a network namespace keeps to itself. Others go past it: by `AF_VSOCK` a command
/// in a virtual machine talks to its host.
const NAMESPACED: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// The instruction of a filter that loads a word; at 0 stands the call's number.
const LOAD: u16 = 0x20;
/// The instruction that jumps where the number is at least that one.
const IS_AT_LEAST: u16 = 0x35;
/// The instruction that ends a filter.
const RETURN: u16 = 0x06;
/// Set in each number of the x32 numbering.
const X32: u32 = 0x4000_0000;
/// Requests to a terminal that type into it, as if its user did: `TIOCSTI` and `TIOCLINUX`. Every
/// processor that a filter is known for has these numbers; in libc their type differs by C library.
const TYPING: [u64; 2] = [0x5412, 0x541c];

/// Refuses such calls to this process and all that it starts. `is_alone` says that namespaces keep it
/// apart from other processes and from the network. What makes calls of another processor's numbering
/// (32-bit programs on a 64-bit system) is ended.
///
/// # Errors
/// Where the kernel takes no filter.
pub fn filter(is_alone: bool, network: bool) -> SetupResult<()> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALWAYS.into_iter().map(|call| (call, Vec::new())).collect();
    let typing = TYPING.into_iter().map(is_request).collect::<Result<_, _>>();
    rules.insert(libc::SYS_ioctl, doing(typing, "cannot make a filter")?);
    if !is_alone {
        rules.extend(TRACING.map(|call| (call, Vec::new())));
    }
    if !network {
        let families = if is_alone { &NAMESPACED[..] } else { &[libc::AF_UNIX] };
        rules.insert(libc::SYS_socket, vec![doing(none_of(families), "cannot make a filter")?]);
    }
    let arch = doing(TargetArch::try_from(std::env::consts::ARCH), "no filter is known for this processor")?;
    let errno = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let made = SeccompFilter::new(rules, SeccompAction::Allow, errno, arch).and_then(BpfProgram::try_from);
    let mut program = doing(made, "cannot make a filter")?;
    if cfg!(target_arch = "x86_64") {
        program.splice(0..0, no_second_numbering());
    }
    doing(seccompiler::apply_filter(&program), "the kernel takes no filter")
}

/// An `ioctl` with that request.
fn is_request(request: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    // The kernel looks at the lower half alone.
    SeccompRule::new(vec![SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, request)?])
}

/// Refuses the numbering of x32, by which the same calls have other numbers.
fn no_second_numbering() -> [sock_filter; 3] {
    let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    [
        sock_filter { code: LOAD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: IS_AT_LEAST, jt: 0, jf: 1, k: X32 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: refusal },
    ]
}

/// A socket of any family but these.
fn none_of(families: &[i32]) -> Result<SeccompRule, seccompiler::BackendError> {
    let is_not = |family: &i32| {
        let family = u64::from(family.unsigned_abs());
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
    };
    SeccompRule::new(families.iter().map(is_not).collect::<Result<_, _>>()?)
}
