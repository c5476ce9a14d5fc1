//! Several files in one answer, which share its bound.

use std::path::{Path, PathBuf};

use super::Request;
use super::answer::{FileOrRefusal, Response};
use super::file::read;
use super::wanted::Selection;
use crate::engine::Engine;
use crate::engine::workspace::fs;
use crate::envelope::Refusal;
use crate::error::Error;
use crate::search::page::json_bytes;
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::counted::counted;
use crate::tools::places;

/// Bytes that an answer says of each of several files, beside its content and its path.
const SAID_BYTES: usize = 320;
/// Bytes by which refusals, which say more than files, may pass the bound.
const OVERDRAFT_BYTES: usize = 1024;
/// Paths in one request.
const PATHS_MAX: usize = 10_000;

/// Reads several files. Together they are bound as one would be, with what is said of each: small files are
/// shown whole, and the large ones share what is left. The last ones of a long list, of which nothing more
/// can be said, are not read.
///
/// # Errors
/// What the first path met, where none could be read; `invalid_request` for too many.
pub fn read_several(
    engine: &mut Engine,
    paths: &[&PathBuf],
    request: &Request,
    selection: &Selection,
    room: AnswerRoom,
) -> Result<Response, Error> {
    if paths.len() > PATHS_MAX {
        return Err(Error::invalid(format!("{}; the limit is {PATHS_MAX}", counted(paths.len(), "path")))
            .detail("field", "paths"));
    }
    let mut room = Room::new(engine, paths, room);
    let (mut files, mut first_error) = (Vec::new(), None);
    for (number, path) in paths.iter().enumerate().take(room.sizes.len()) {
        engine.control.check()?;
        if room.is_full() {
            break;
        }
        match read(engine, path, request, selection, room.share_of(number)) {
            Ok(read) => {
                room.take(read.payload_size());
                files.push(FileOrRefusal::Read(Box::new(read)));
            }
            Err(error) => {
                let error = places::or_moved(engine, error);
                let item = refused(path, &error);
                let bytes = usize::try_from(json_bytes(&item)).unwrap_or(usize::MAX);
                room.take(TextSize::plain(bytes.saturating_sub(said(path))));
                files.push(item);
                first_error.get_or_insert(error);
            }
        }
    }
    let not_read = paths.len() - files.len();
    match first_error {
        Some(error) if files.iter().all(|file| matches!(file, FileOrRefusal::Refused { .. })) => {
            Err(none_read(error, files, not_read))
        }
        first_error => {
            let first_refused = first_error.map(|error| error.kind());
            Ok(Response::Several { files, not_read, first_refused })
        }
    }
}

/// Bytes that an answer says of a file beside its content.
#[must_use]
pub fn said(path: &Path) -> usize {
    SAID_BYTES + path.as_os_str().len()
}

/// A file that could not be read.
fn refused(path: &Path, error: &Error) -> FileOrRefusal {
    let error = serde_json::to_value(Refusal::from(error)).unwrap_or_default();
    FileOrRefusal::Refused { path: path.display().to_string(), error }
}

/// The refusal of a request of which no file could be read.
fn none_read(first: Error, files: Vec<FileOrRefusal>, not_read: usize) -> Error {
    if files.len() + not_read == 1 {
        return first;
    }
    let message = format!(
        "none of {} could be read; the first: {}",
        counted(files.len() + not_read, "file"),
        first.message()
    );
    let error = Error::new(first.kind(), message).suggest(first.suggested_action().to_owned());
    let error = error.detail("files", serde_json::to_value(files).unwrap_or_default());
    let error = match first.details().get(places::MOVED_TO) {
        Some(to) => error.detail(places::MOVED_TO, to.clone()),
        None => error,
    };
    match first.path() {
        Some(path) => error.at(path),
        None => error,
    }
}

/// What is left of an answer's bound.
struct Room {
    /// Room left for content.
    left: AnswerRoom,
    /// Bytes that were taken beyond the bound.
    overdrawn: usize,
    /// Bytes of each file of which anything can be said.
    sizes: Vec<usize>,
}

impl Room {
    /// All of the bound, less what is said of each file.
    fn new(engine: &Engine, paths: &[&PathBuf], room: AnswerRoom) -> Self {
        let (mut left, mut sizes) = (room, Vec::new());
        for (number, path) in paths.iter().enumerate() {
            // One file may say all that it says beside a whole payload; so may the first of several.
            let said = TextSize::plain(if number == 0 { 0 } else { said(path) });
            if !left.holds(said) {
                break;
            }
            left = left.beside(said);
            let place = engine.workspace.resolve(path).ok();
            let size = place.and_then(|place| place.stat().map(fs::size_of)).unwrap_or(0);
            sizes.push(usize::try_from(size).unwrap_or(usize::MAX));
        }
        Self { left, overdrawn: 0, sizes }
    }

    /// Room for the content of one file.
    fn share_of(&self, number: usize) -> AnswerRoom {
        let mut sizes = self.sizes.get(number..).unwrap_or_default().to_vec();
        sizes.sort_unstable();
        let (mut room, mut left) = (self.left.bytes(), sizes.len());
        for size in sizes {
            if size > room / left {
                break;
            }
            room -= size;
            left -= 1;
        }
        // What small files leave over is for those that are larger than they look in an answer.
        self.left.part(room / left.max(1)).or_a_byte()
    }

    /// Takes the room of what was read.
    fn take(&mut self, size: TextSize) {
        if !self.left.holds(size) {
            self.overdrawn += size.beyond(self.left);
        }
        self.left = self.left.beside(size);
    }

    /// Whether nothing more can be said.
    fn is_full(&self) -> bool {
        self.overdrawn > OVERDRAFT_BYTES
    }
}
