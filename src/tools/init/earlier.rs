//! What earlier calls of `init` did to a file, as far as the history tells. By that `--remove` brings back
//! the bytes from before, and takes out nothing that the user had there already.

use crate::engine::change::{Change, Current};
use crate::engine::journal::{self, FileEntry, Version};
use crate::error::Error;
use crate::sha256::Sha256;
use crate::tools::Tool as _;

/// The texts of a file before and after one call of `init`; empty where there was no file.
pub struct Put {
    /// Before.
    pub before: String,
    /// After.
    pub after: String,
}

/// What was there before `init` was called.
pub enum Original {
    /// No file.
    Missing,
    /// These bytes.
    Bytes(Vec<u8>),
}

/// What earlier calls did to one file.
#[derive(Default)]
pub struct Earlier {
    /// What was there before them, where nobody else has changed the file since.
    pub original: Option<Original>,
    /// The calls; none where the history does not tell.
    pub puts: Vec<Put>,
}

impl Earlier {
    /// Looks at what the history has of a file that is set up now; `is_set_up` tells whether a text is.
    ///
    /// # Errors
    /// What the system says.
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
        // From the bytes that stand there back to the first that are not set up.
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

    /// Whether an earlier call added what `stands` finds in a text.
    pub fn added(&self, stands: impl Fn(&str) -> bool) -> bool {
        self.puts.iter().any(|put| !stands(&put.before) && stands(&put.after))
    }

    /// Whether the file was there before `init` first changed it, as far as is known.
    pub fn was_there(&self) -> bool {
        self.puts.first().is_some_and(|put| !put.before.is_empty())
    }
}

/// What `init` did to a file, the oldest first.
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

/// The newest call that left the bytes `after`, found others, and was not looked at already.
fn call_that_left<'e>(entries: &'e [FileEntry], after: Sha256, visited: &[Sha256]) -> Option<&'e FileEntry> {
    entries.iter().rev().find(|entry| {
        entry.after.as_ref().is_some_and(|version| version.sha256 == after)
            && entry.before.as_ref().is_none_or(|version| !visited.contains(&version.sha256))
    })
}
