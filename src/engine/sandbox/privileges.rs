//! What a confined process gives up before the command starts.
//!
//! System calls that a command does not need and that could lead out of its sandbox.

use std::collections::BTreeMap;

use nix::libc;
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use super::plan::Limits;
use super::setup::{SetupResult, doing};

/// Capabilities there can be.
const CAPABILITIES_MAX: u32 = 63;
/// What root keeps, as far as it had it: to work with files of several owners in the workspace. All
/// else is read-only for it.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID);

/// Gives up every capability, or all but a few where this is root.
///
/// # Errors
/// The step that failed.
pub fn drop_capabilities() -> SetupResult<()> {
    let is_root = rustix::process::geteuid().is_root();
    let kept = if is_root { KEPT } else { CapabilitySet::empty() };
    let ours = doing(rustix::thread::capabilities(None), "cannot read the capabilities")?;
    for number in 0..=CAPABILITIES_MAX {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if !kept.contains(capability)
            && rustix::thread::capability_is_in_bounding_set(capability).unwrap_or(false)
        {
            let removed = rustix::thread::remove_capability_from_bounding_set(capability);
            doing(removed, format_args!("cannot drop capability {number}"))?;
        }
    }
    // Where the kernel has no ambient capabilities there are none.
    let _ = rustix::thread::clear_ambient_capability_set();
    let left = ours.permitted & kept;
    let sets = CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() };
    doing(rustix::thread::set_capabilities(None, sets), "cannot drop the capabilities")
}

/// Lets the capabilities that this process has in its own namespace pass to the program that it
/// starts next, whoever the user is.
///
/// # Errors
/// The step that failed.
pub fn hand_down() -> SetupResult<()> {
    let ours = doing(rustix::thread::capabilities(None), "cannot read the capabilities")?;
    let sets = CapabilitySets { inheritable: ours.permitted, ..ours };
    doing(rustix::thread::set_capabilities(None, sets), "cannot hand the capabilities down")?;
    for capability in ours.permitted.iter() {
        let added = rustix::thread::configure_capability_in_ambient_set(capability, true);
        doing(added, "cannot hand a capability down")?;
    }
    Ok(())
}

/// Gives up what an exec could bring, and lets nobody look into this process.
///
/// # Errors
/// The step that failed.
pub fn seal() -> SetupResult<()> {
    doing(rustix::thread::set_no_new_privs(true), "cannot give up new privileges")?;
    let closed = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    doing(closed, "cannot close this process to others")
}

/// Bounds what each process may use. Processes are counted only where they are those of the sandbox
/// alone: in a user namespace of its own.
///
/// # Errors
/// The limit that could not be set.
pub fn limit(limits: &Limits, counts_processes: bool) -> SetupResult<()> {
    set_limit(Resource::Core, Some(0))?;
    set_limit(Resource::Data, above_zero(limits.memory_bytes))?;
    set_limit(Resource::Fsize, above_zero(limits.file_bytes))?;
    if counts_processes {
        set_limit(Resource::Nproc, above_zero(limits.processes))?;
    }
    Ok(())
}

/// A limit, unless 0 lifts it.
fn above_zero(limit: u64) -> Option<u64> {
    Some(limit).filter(|limit| *limit > 0)
}

/// Lowers a limit; one that is lower already stays.
fn set_limit(resource: Resource, limit: Option<u64>) -> SetupResult<()> {
    let Some(limit) = limit else { return Ok(()) };
    let most = rustix::process::getrlimit(resource).maximum.map_or(limit, |most| most.min(limit));
    let lowered = Rlimit { current: Some(most), maximum: Some(most) };
    doing(rustix::process::setrlimit(resource, lowered), format_args!("cannot limit {resource:?}"))
}

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
