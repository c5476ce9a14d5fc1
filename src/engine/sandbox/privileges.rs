//! What a confined process gives up before the command starts.

use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

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
