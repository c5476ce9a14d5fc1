//! How many files may be open at once.

use std::sync::{Mutex, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Changes at work that need a raised limit, and the limits before the first of them.
static RAISED: Mutex<(usize, Option<Rlimit>)> = Mutex::new((0, None));

/// The limit raised to what the system allows, until the last of these is dropped: a change of thousands
/// of files holds several descriptors for each, and a server makes several changes at once. Programs
/// that are run later get the limit that was set.
#[derive(Debug)]
pub struct OpenFiles(());

impl OpenFiles {
    /// Raises the limit. Where that fails it stays, and a change too large fails whole.
    #[must_use]
    pub fn as_many_as_allowed() -> Self {
        let mut raised = RAISED.lock().unwrap_or_else(PoisonError::into_inner);
        if raised.0 == 0 {
            let before = getrlimit(Resource::Nofile);
            let limits = Rlimit { current: before.maximum, ..before };
            let is_lower = before.current != before.maximum;
            raised.1 = (is_lower && setrlimit(Resource::Nofile, limits).is_ok()).then_some(before);
        }
        raised.0 += 1;
        Self(())
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        let mut raised = RAISED.lock().unwrap_or_else(PoisonError::into_inner);
        raised.0 = raised.0.saturating_sub(1);
        if raised.0 == 0
            && let Some(before) = raised.1.take()
        {
            // What is open stays open; a limit that cannot be lowered again does no harm.
            let _ = setrlimit(Resource::Nofile, before);
        }
    }
}

/// Gives a program that was just started the limit that was set, where it got a raised one: a change may
/// be at work in another thread.
#[cfg(target_os = "linux")]
pub fn lower_for(program: &std::process::Child) {
    let before = RAISED.lock().unwrap_or_else(PoisonError::into_inner).1;
    let id = i32::try_from(program.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let (Some(before), Some(id)) = (before, id) {
        // One that has ended needs none.
        let _ = rustix::process::prlimit(Some(id), Resource::Nofile, before);
    }
}

/// Elsewhere no limit but one's own can be set.
#[cfg(not(target_os = "linux"))]
pub fn lower_for(_: &std::process::Child) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_falls_with_the_last_that_needs_it() {
        let before = getrlimit(Resource::Nofile);
        let (one, other) = (OpenFiles::as_many_as_allowed(), OpenFiles::as_many_as_allowed());
        drop(one);
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
        // A program that is started meanwhile gets the limit that was set.
        let (shell, limit) = (std::process::Command::new("sh"), ["-c", "read line; ulimit -n"]);
        let piped = std::process::Stdio::piped;
        let mut program = { shell }.args(limit).stdin(piped()).stdout(piped()).spawn().unwrap();
        lower_for(&program);
        drop(program.stdin.take());
        let output = program.wait_with_output().unwrap();
        let wanted = before.current.map_or("unlimited".to_owned(), |limit| limit.to_string());
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), wanted);
        drop(other);
        assert_eq!(getrlimit(Resource::Nofile), before);
    }
}
