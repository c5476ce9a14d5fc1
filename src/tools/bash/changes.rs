//! What a command changed: two scans, one before and one after it, and the snapshot between them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Bash;
use super::answer::{Action, Changed};
use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::snapshot::{BASELINE, EXTERNAL, PathChange, Reason, Recorded};
use crate::engine::store::audit::AuditFile;
use crate::engine::store::session;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;
use crate::sha256::Sha256;
use crate::tools::Tool as _;

/// Files that an answer lists.
pub const LISTED_MAX: usize = 200;
/// Files that are counted.
const COUNTED_MAX: usize = 100_000;
/// Largest file whose bytes are hashed for the answer.
const HASHED_BYTES_MAX: u64 = 64 << 20;
/// How the subject of a snapshot begins that only follows HEAD.
const HEAD_MOVED: &str = "external: HEAD moved";
/// Characters of the command in the subject of its snapshot.
const SUBJECT_CHARACTERS_MAX: usize = 100;

/// The work tree as it was before a command.
pub struct Before {
    /// What is known of it; `None` where it could not be scanned.
    known: Option<Known>,
}

/// A work tree that was scanned.
struct Known {
    /// Repositories within it.
    nested: BTreeSet<String>,
    /// The newest snapshot.
    tip: Option<String>,
}

/// What is different after a command.
#[derive(Default)]
pub struct Difference {
    /// The files, as many as are listed; `None` where nobody knows.
    pub list: Option<Vec<Changed>>,
    /// How many there are.
    pub total: Option<usize>,
}

impl Difference {
    /// How many are listed.
    pub fn listed(&self) -> usize {
        self.list.as_ref().map_or(0, Vec::len)
    }
}

impl Before {
    /// Records what others had changed, so that what the command changes stands apart.
    ///
    /// # Errors
    /// `lock_timeout`, or `snapshot_failed` where the caller requires a snapshot: nothing has run then.
    pub fn look(engine: &mut Engine) -> Result<Self, Error> {
        let locked = engine.lock()?;
        if !engine.policy().has_snapshots() && !engine.require_snapshot {
            return Ok(Self { known: None });
        }
        let (session, warning) = session::load(&locked.state, engine.session())?;
        engine.warn_if(warning);
        let scanned = record::scan_others(engine, session.seq == 0);
        drop(locked);
        match scanned {
            Ok(recorded) => {
                let tip = tip(engine)?;
                Ok(Self { known: Some(Known { nested: nested_in(&recorded), tip }) })
            }
            Err(error) if engine.require_snapshot => Err(error),
            Err(error) => {
                engine.warn(format!("{}; what this command changed is not recorded", error.message()));
                Ok(Self { known: None })
            }
        }
    }

    /// Records what is different now, as the command's.
    ///
    /// # Errors
    /// `snapshot_failed` (applied) where the caller requires a snapshot.
    pub fn compare(
        &self,
        engine: &mut Engine,
        command: &str,
        why: Option<&str>,
    ) -> Result<Difference, Error> {
        let Some(Known { nested, tip: before }) = &self.known else {
            return Ok(Difference::default());
        };
        let locked = engine.lock()?;
        // The command has run: whoever cancelled it does not want this to be lost.
        let control = std::mem::take(&mut engine.control);
        let scanned = record::scan(engine, Some(subject(command)), body(command, why).as_deref(), Bash::NAME);
        engine.control = control;
        drop(locked);
        let recorded = match scanned {
            Ok(recorded) => recorded,
            Err(error) => {
                engine.snapshot_failed(error.message())?;
                return Ok(Difference::default());
            }
        };
        recorded.warnings.iter().for_each(|warning| engine.warn(warning.clone()));
        for path in nested_in(&recorded).difference(nested) {
            engine.warn(format!(
                "the command made a repository in {path}: look at its configuration and hooks before git is run there"
            ));
        }
        if let Some(id) = recorded.id {
            engine.set_snapshot(id);
        }
        difference(engine, before.as_deref())
    }
}

/// The newest snapshot.
fn tip(engine: &Engine) -> Result<Option<String>, Error> {
    let store = record::find(engine)?;
    let tip = store.map(|store| store.tip()).transpose();
    Ok(tip.map_err(|error| record::unreadable(&error))?.flatten())
}

/// The files that changed since the snapshot `before` and that no call of lbx changed, noted for the
/// audit log too.
fn difference(engine: &mut Engine, before: Option<&str>) -> Result<Difference, Error> {
    let unreadable = |error| record::unreadable(&error);
    let Some(store) = record::find(engine)? else { return Ok(Difference::default()) };
    let mut paths: BTreeMap<Vec<u8>, PathChange> = BTreeMap::new();
    let mut next = store.tip().map_err(unreadable)?;
    while let Some(id) = next.filter(|id| Some(id.as_str()) != before) {
        let Some(snapshot) = store.one(&id).map_err(unreadable)? else { break };
        // Another session may have recorded what the command had done so far: as its baseline, or as
        // what it met in a file that it changed.
        let is_found = [BASELINE, EXTERNAL].contains(&snapshot.tool.as_str());
        let is_own = snapshot.tool == Bash::NAME && snapshot.session == engine.session().as_str();
        if is_own || (is_found && !snapshot.subject.starts_with(HEAD_MOVED)) {
            let parent = snapshot.parent.as_deref();
            for change in store.changes(parent, &id, COUNTED_MAX).map_err(unreadable)?.paths {
                match paths.get_mut(&change.path) {
                    Some(later) => later.before = change.before,
                    None => drop(paths.insert(change.path.clone(), change)),
                }
            }
        }
        next = snapshot.parent;
    }
    let changes: Vec<PathChange> = paths.into_values().filter(|it| it.before != it.after).collect();
    let listed: Vec<Changed> =
        changes.iter().take(LISTED_MAX).filter_map(|change| changed(engine, change)).collect();
    let old = |change: &PathChange| {
        let bytes = store.content(change.before?).ok()?;
        Some(Sha256::of(&bytes))
    };
    let files: Vec<AuditFile> = changes
        .iter()
        .zip(&listed)
        .map(|(change, shown)| AuditFile {
            path: String::from_utf8_lossy(&change.path).into_owned(),
            old_sha256: old(change),
            new_sha256: shown.sha256,
        })
        .collect();
    if !files.is_empty() {
        engine.note_changed(files, None);
        let shown = before.map_or_else(String::new, |id| format!(": `diff --from {id}` shows it"));
        engine.warn(format!("undo does not take back what a command changed{shown}"));
    }
    Ok(Difference { list: Some(listed), total: Some(changes.len()) })
}

/// A file that changed, as answers show it.
fn changed(engine: &Engine, change: &PathChange) -> Option<Changed> {
    use std::os::unix::ffi::OsStrExt as _;
    let path = WorkspacePath::new(Path::new(std::ffi::OsStr::from_bytes(&change.path)))?;
    let action = match (change.before, change.after) {
        (None, _) => Action::Create,
        (Some(_), None) => Action::Delete,
        (Some(_), Some(_)) => Action::Modify,
    };
    let shown = engine.workspace.shown(&path);
    let sha256 = if action == Action::Delete { None } else { hash(engine, &path, &shown) };
    Some(Changed { path: shown, action, sha256 })
}

/// The SHA-256 of a regular file that is not too large.
fn hash(engine: &Engine, path: &WorkspacePath, shown: &str) -> Option<Sha256> {
    let (file, stat) = engine.workspace.open_regular(path, shown).ok()?;
    let size = crate::engine::workspace::fs::size_of(&stat);
    let bytes = crate::engine::workspace::fs::read_to_end(file, size, HASHED_BYTES_MAX).ok()?;
    Some(Sha256::of(&bytes))
}

/// The repositories within the work tree that a scan met.
fn nested_in(recorded: &Recorded) -> BTreeSet<String> {
    let nested = recorded.left_out.iter().filter_map(|left| match &left.reason {
        Reason::NestedRepository(path) => Some(path.clone()),
        _ => None,
    });
    nested.collect()
}

/// The first line of the snapshot's message.
pub fn subject(command: &str) -> String {
    let first = command.trim().lines().next().unwrap_or_default();
    let mut shown: String = first.chars().take(SUBJECT_CHARACTERS_MAX).collect();
    if shown.len() < command.trim().len() {
        shown.push_str(" ...");
    }
    format!("bash: {shown}")
}

/// The rest of it: the reason, and the command where the first line does not hold it.
pub fn body(command: &str, why: Option<&str>) -> Option<String> {
    let command = command.trim();
    let is_whole = subject(command).len() == "bash: ".len() + command.len();
    let parts: Vec<&str> = why.into_iter().chain((!is_whole).then_some(command)).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_holds_the_whole_command() {
        assert_eq!((subject("make -j2"), body("make -j2", None)), ("bash: make -j2".to_owned(), None));
        assert_eq!(body("make", Some("to build")).as_deref(), Some("to build"));
        assert_eq!(subject("a\nb"), "bash: a ...");
        assert_eq!(body("a\nb", Some("why")).as_deref(), Some("why\n\na\nb"));
        let long = "x".repeat(200);
        assert_eq!(subject(&long).len(), "bash: ".len() + 100 + " ...".len());
        assert_eq!(body(&long, None).as_deref(), Some(long.as_str()));
    }
}
