//! System calls that a command does not need and that could lead out of its sandbox.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use super::mounts::{SetupResult, doing};

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
/// Calls that look into other processes, where no namespace keeps those apart.
const TRACING: [i64; 3] = [libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_ptrace];

/// Refuses such calls to this process and all that it starts. `is_alone` says that namespaces keep it
/// apart from other processes and from the network.
///
/// # Errors
/// Where the kernel takes no filter.
pub fn filter(is_alone: bool, network: bool) -> SetupResult<()> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALWAYS.into_iter().map(|call| (call, Vec::new())).collect();
    if !is_alone {
        rules.extend(TRACING.map(|call| (call, Vec::new())));
        if !network {
            rules.insert(libc::SYS_socket, vec![doing(not_unix(), "cannot make a filter")?]);
        }
    }
    let arch = doing(TargetArch::try_from(std::env::consts::ARCH), "no filter is known for this processor")?;
    let errno = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let made = SeccompFilter::new(rules, SeccompAction::Allow, errno, arch).and_then(BpfProgram::try_from);
    let program = doing(made, "cannot make a filter")?;
    doing(seccompiler::apply_filter(&program), "the kernel takes no filter")
}

/// A socket of any family but that of this machine's own processes.
fn not_unix() -> Result<SeccompRule, seccompiler::BackendError> {
    let family = u64::from(libc::AF_UNIX.unsigned_abs());
    SeccompRule::new(vec![SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)?])
}
