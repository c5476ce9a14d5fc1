//! What a miss may be due to, outside the file as it stands: another file of the same name, or
//! another state of this one.

use std::io::Read;
use std::time::Duration;

use crate::engine::Engine;
use crate::engine::change::{Change, Current};
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;
use crate::search::selection::{Kinds, Selection};
use crate::search::walk::{Root, Walk};
use crate::text::content::View;
use crate::text::replace;

use super::miss::Miss;

/// Time for the search.
const TIME: Duration = Duration::from_millis(150);
/// Files of the same name that are looked into.
const FILES_MAX: usize = 20;
/// The largest file that is looked into, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The refusal of edits that miss, with what is known beyond the file's present text.
pub fn explained(change: &mut Change<'_>, current: &Current, miss: &Miss<'_>) -> Error {
    let error = miss.error(current.place().shown());
    let Some(old) = miss.missing_text() else { return error };
    let error = with_older_state(change, current, old, error);
    let path = current.place().path().clone();
    let elsewhere = of_the_same_name(change.engine(), &path, old);
    match elsewhere.first() {
        None => error,
        Some(first) => {
            let suggestion =
                format!("{first} has just this text: is it the file you mean? {}", error.suggested_action());
            error.suggest(suggestion).detail("elsewhere", elsewhere)
        }
    }
}

/// Says so where the text stood in the file when this session last saw it.
fn with_older_state(change: &Change<'_>, current: &Current, old: &[u8], error: Error) -> Error {
    let path = current.place().path();
    let stale = change.mark(path).map(|mark| mark.sha256).filter(|seen| *seen != current.sha256());
    let Some(seen) = stale else { return error };
    let stood = change.bytes_seen(path, seen).is_some_and(|bytes| has(&bytes, old));
    let what = if stood { ", and then had this text" } else { "" };
    let suggestion =
        format!("The file was another when this session last saw it{what}. {}", error.suggested_action());
    error.suggest(suggestion).detail("changed_since_read", true)
}

/// Whether a file's bytes have a text in them.
fn has(bytes: &[u8], old: &[u8]) -> bool {
    View::of(bytes).is_ok_and(|view| !replace::places(&view.body, old, false).is_empty())
}

/// Other files of that name which have the text; ignored and hidden ones are not looked at.
fn of_the_same_name(engine: &Engine, path: &WorkspacePath, old: &[u8]) -> Vec<String> {
    let Some(name) = path.name() else { return Vec::new() };
    let selection = Selection { tracked: true, ..Selection::of(Kinds::FILES) };
    let root = Root { path: WorkspacePath::default(), is_folder: true };
    let control = engine.control.clone().within(TIME);
    Walk::new(&engine.workspace, vec![root], selection, control)
        .filter(|found| found.name() == name)
        .map(|found| found.path())
        .filter(|found| found != path)
        .take(FILES_MAX)
        .filter(|found| bytes_of(engine, found).is_some_and(|bytes| has(&bytes, old)))
        .map(|found| engine.workspace.shown(&found))
        .take(3)
        .collect()
}

/// The bytes of a file that is not too large.
fn bytes_of(engine: &Engine, path: &WorkspacePath) -> Option<Vec<u8>> {
    let (file, _) = engine.workspace.open_regular(path, "").ok()?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= FILE_BYTES_MAX).then_some(bytes)
}
