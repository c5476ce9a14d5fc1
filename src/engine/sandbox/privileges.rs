//! Privileges that a confined process gives up before the command starts, and the filter for system calls that a
//! command does not need and that could lead out of its sandbox.

use std::collections::BTreeMap;

use nix::libc;
use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use super::backend::{SetupResult, with_context};

/// Largest number of a capability.
const CAPABILITIES_MAX: u32 = 63;
/// Capabilities that root keeps if it has them: to work with files of several owners in the workspace. All other files
/// are read-only for it.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID);

/// Gives up every capability; root keeps a few.
///
/// # Errors
/// Returns the step that failed.
pub fn drop_capabilities() -> SetupResult<()> {
    keep_capabilities(KEPT)
}

/// Gives up every capability, as [`drop_capabilities`] does, but root can still make user namespaces with its own ids:
/// lbx confines commands in them.
///
/// # Errors
/// Returns the step that failed.
pub fn drop_for_program() -> SetupResult<()> {
    keep_capabilities(KEPT | CapabilitySet::SETFCAP)
}

/// Gives up every capability; root keeps these.
fn keep_capabilities(kept: CapabilitySet) -> SetupResult<()> {
    let is_root = rustix::process::geteuid().is_root();
    let kept = if is_root { kept } else { CapabilitySet::empty() };
    let ours = with_context(rustix::thread::capabilities(None), "cannot read the capabilities")?;
    for number in 0..=CAPABILITIES_MAX {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if !kept.contains(capability)
            && rustix::thread::capability_is_in_bounding_set(capability).unwrap_or(false)
        {
            let removed = rustix::thread::remove_capability_from_bounding_set(capability);
            with_context(removed, format_args!("cannot drop capability {number}"))?;
        }
    }
    // A kernel without ambient capabilities has nothing to clear.
    let _ = rustix::thread::clear_ambient_capability_set();
    let left = ours.permitted & kept;
    let sets = CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() };
    with_context(rustix::thread::set_capabilities(None, sets), "cannot drop the capabilities")
}

/// Gives up privileges that an exec could gain, and forbids other processes to inspect this one.
///
/// # Errors
/// Returns the step that failed.
pub fn seal() -> SetupResult<()> {
    with_context(rustix::thread::set_no_new_privs(true), "cannot give up new privileges")?;
    let closed = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    with_context(closed, "cannot close this process to others")
}

/// Calls that reach keys of the caller's session, or parts of the kernel that no build needs. Rings of `io_uring` make
/// other calls past this filter.
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
/// Calls that inspect other processes, or reach their shared memory, semaphores and queues, if no namespace separates
/// them. If one does, a command may trace its own processes.
const OF_OTHERS: [i64; 17] = [
    libc::SYS_kcmp,
    libc::SYS_mq_open,
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmget,
];
/// Socket families that a network namespace contains. Others bypass it: through `AF_VSOCK` a command in a virtual
/// machine talks to its host.
const NAMESPACED: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// Filter instruction that loads a word; the call's number is at offset 0.
const LOAD: u16 = 0x20;
/// Filter instruction that jumps if the number is at least the operand.
const IS_AT_LEAST: u16 = 0x35;
/// Filter instruction that ends the filter.
const RETURN: u16 = 0x06;
/// Bit that is set in each call number of x32.
const X32: u32 = 0x4000_0000;
/// Terminal requests that type into it as its user would: `TIOCSTI` and `TIOCLINUX`. They have these numbers on every
/// processor that the filter supports; in libc their type differs by C library.
const TYPING: [u64; 2] = [0x5412, 0x541c];

/// Forbids such calls to this process and its descendants. `is_alone` means that namespaces separate it from other
/// processes and from the network. Calls in the numbering of another processor (32-bit programs on a 64-bit system)
/// kill the process.
///
/// # Errors
/// Fails if the kernel rejects the filter.
pub fn filter(is_alone: bool, network: bool) -> SetupResult<()> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALWAYS.into_iter().map(|call| (call, Vec::new())).collect();
    let typing = TYPING.into_iter().map(is_request).collect::<Result<_, _>>();
    rules.insert(libc::SYS_ioctl, with_context(typing, "cannot make a filter")?);
    if !is_alone {
        rules.extend(OF_OTHERS.map(|call| (call, Vec::new())));
        rules.insert(
            libc::SYS_prlimit64,
            vec![with_context(sets_limit_of_another(), "cannot make a filter")?],
        );
    }
    if !network {
        let families = if is_alone { &NAMESPACED[..] } else { &[libc::AF_UNIX] };
        rules.insert(libc::SYS_socket, vec![with_context(none_of(families), "cannot make a filter")?]);
    }
    let arch =
        with_context(TargetArch::try_from(std::env::consts::ARCH), "no filter is known for this processor")?;
    let errno = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let made = SeccompFilter::new(rules, SeccompAction::Allow, errno, arch).and_then(BpfProgram::try_from);
    let mut program = with_context(made, "cannot make a filter")?;
    if cfg!(target_arch = "x86_64") {
        program.splice(0..0, x32_filter());
    }
    with_context(seccompiler::apply_filter(&program), "the kernel takes no filter")
}

/// Returns a rule for a `prlimit64` that sets a limit of a process by its number: at its limit, the kernel ends it.
fn sets_limit_of_another() -> Result<SeccompRule, seccompiler::BackendError> {
    let is_not_zero = |argument, length| SeccompCondition::new(argument, length, SeccompCmpOp::Ne, 0);
    SeccompRule::new(vec![is_not_zero(0, SeccompCmpArgLen::Dword)?, is_not_zero(2, SeccompCmpArgLen::Qword)?])
}

/// Returns a rule for an `ioctl` with that request.
fn is_request(request: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    // The kernel only reads the lower half.
    SeccompRule::new(vec![SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, request)?])
}

/// Returns a filter that forbids x32, in which the calls have other numbers.
fn x32_filter() -> [sock_filter; 3] {
    let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    [
        sock_filter { code: LOAD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: IS_AT_LEAST, jt: 0, jf: 1, k: X32 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: refusal },
    ]
}

/// Returns a rule for a socket of any family except these.
fn none_of(families: &[i32]) -> Result<SeccompRule, seccompiler::BackendError> {
    let is_not = |family: &i32| {
        let family = u64::from(family.unsigned_abs());
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
    };
    SeccompRule::new(families.iter().map(is_not).collect::<Result<_, _>>()?)
}
