//! Changes that earlier calls of `init` made to a file, as far as the history has them. With these, `--remove` restores
//! the old bytes, and removes nothing that the user already had.

use crate::engine::change::{Change, Current};
use crate::engine::journal::{self, FileEntry, Version};
use crate::error::Error;
use crate::sha256::Sha256;
use crate::tools::Tool as _;

/// Text of a file before and after one call of `init`; empty if there was no file.
pub struct Put {
    /// Text before.
    pub before: String,
    /// Text after.
    pub after: String,
}

/// State of a file before `init` was called.
pub enum Original {
    /// The file did not exist.
    Missing,
    /// Bytes of the file.
    Bytes(Vec<u8>),
}

/// Changes of earlier calls to one file.
#[derive(Default)]
pub struct Earlier {
    /// State before them, if nobody else has changed the file since.
    pub original: Option<Original>,
    /// Calls; empty if the history has none.
    pub puts: Vec<Put>,
}

impl Earlier {
    /// Reads the history of a file that is set up now; `is_set_up` tests a text.
    ///
    /// # Errors
    /// Returns the OS error.
    pub fn of(
        change: &Change<'_>,
        current: &Current,
        is_set_up: impl Fn(&str) -> bool,
    ) -> Result<Self, Error> {
        let entries = entries(change, current)?;
        let text = |version: Option<&Version>| match version {
            None => Some(String::new()),
            Some(version) => {
                let bytes = change.bytes_seen(current.place().path(), version.sha256)?;
                String::from_utf8(bytes).ok()
            }
        };
        let mut earlier = Self::default();
        for entry in &entries {
            if let (Some(before), Some(after)) = (text(entry.before.as_ref()), text(entry.after.as_ref()))
                && is_set_up(&after)
            {
                earlier.puts.push(Put { before, after });
            }
        }
        // Goes back from the current bytes to the first ones that are not set up.
        let mut sha256 = current.sha256();
        let mut visited = vec![sha256];
        while let Some(call) = call_that_left(&entries, sha256, &visited) {
            let Some(version) = &call.before else {
                earlier.original = Some(Original::Missing);
                break;
            };
            let Some(text) = text(Some(version)) else { break };
            if !is_set_up(&text) {
                earlier.original = Some(Original::Bytes(text.into_bytes()));
                break;
            }
            sha256 = version.sha256;
            visited.push(sha256);
        }
        Ok(earlier)
    }

    /// Returns true if an earlier call added the piece that the closure finds in a text.
    pub fn added(&self, stands: impl Fn(&str) -> bool) -> bool {
        self.puts.iter().any(|put| !stands(&put.before) && stands(&put.after))
    }

    /// Returns true if the file existed before `init` first changed it, as far as known.
    pub fn was_there(&self) -> bool {
        self.puts.first().is_some_and(|put| !put.before.is_empty())
    }
}

/// Returns the changes of `init` to a file, oldest first.
fn entries(change: &Change<'_>, current: &Current) -> Result<Vec<FileEntry>, Error> {
    let Some(state) = change.state() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for session in journal::sessions(state)? {
        for seq in journal::history(state, &session)? {
            change.engine_ref().control.check()?;
            let entry = journal::done_entry(state, &session, seq)?;
            let Some(entry) = entry.filter(|entry| entry.tool == super::Init::NAME) else { continue };
            let files = entry.files.into_iter().filter(|file| file.path == *current.place().path());
            found.extend(files.map(|file| (entry.time, file)));
        }
    }
    found.sort_by_key(|(time, _)| *time);
    Ok(found.into_iter().map(|(_, file)| file).collect())
}

/// Returns the newest call that wrote the bytes `after`, changed the file, and was not visited yet.
fn call_that_left<'e>(entries: &'e [FileEntry], after: Sha256, visited: &[Sha256]) -> Option<&'e FileEntry> {
    entries.iter().rev().find(|entry| {
        entry.after.as_ref().is_some_and(|version| version.sha256 == after)
            && entry.before.as_ref().is_none_or(|version| !visited.contains(&version.sha256))
    })
}
