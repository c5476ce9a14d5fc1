//! The gate: nobody changes bytes that they have not seen.
//!
//! It also recognizes a repeated request of the session.

use serde_json::{Value, json};

use super::Change;
use super::executor::Executor;
use super::open::{CheckedFile, LockedFile};
use crate::engine::journal::ChangeNumbers;
use crate::engine::journal::progress::ObservedKind;
use crate::engine::journal::{self, FileEntry, JournalEntry};
use crate::engine::policy::Gate;
use crate::engine::policy::settings::Key;
use crate::engine::store::session::LineSet;
use crate::engine::store::state::State;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::{Error, ErrorKind, Message};
use crate::sha256::Sha256;
use crate::text::content::body_of;
use crate::text::escaped;
use crate::text::lines::{self, LineSpan};

/// Size limit of the diff in a `stale_file`, in bytes.
const STALE_DIFF_BYTES: usize = 2000;
/// Most ranges of lines that an error names.
const RANGES_LISTED: usize = 20;

/// Lines that a caller must have seen before it may change a file.
#[derive(Clone, Copy)]
pub enum Needs<'a> {
    /// Any line: the request names the bytes that it replaces, or replaces none.
    Any,
    /// Any line; if the file was not read at all, an error suggests these lines, or all.
    AnySuchAs(&'a dyn Fn() -> Option<(u64, u64)>),
    /// These lines, which the change removes without naming them.
    Lines(&'a [(u64, u64)]),
    /// All lines, since all are removed.
    All,
    /// The lines of these needs, for a file that is removed.
    Removed(&'a Needs<'a>),
}

impl Needs<'_> {
    /// Returns the verb in `refusing to … PATH: Read it first`.
    const fn verb(self) -> &'static str {
        match self {
            Self::Any | Self::AnySuchAs(_) | Self::Lines(_) => "edit",
            Self::All => "overwrite",
            Self::Removed(_) => "delete",
        }
    }

    /// Returns the first and last line to read if nothing was read; `None` for all.
    fn smallest(self, current: &LockedFile) -> Option<(u64, u64)> {
        match self {
            Self::AnySuchAs(lines) => lines(),
            Self::Lines(_) => {
                let lines = self.unseen_lines(&LineSet::default(), current);
                lines.first().zip(lines.last()).map(|(first, last)| (first.0, last.1))
            }
            Self::Removed(needs) => needs.smallest(current),
            Self::Any | Self::All => None,
        }
    }

    /// Returns the needed lines that are not among those `shown`.
    fn unseen_lines(self, shown: &LineSet, current: &LockedFile) -> Vec<(u64, u64)> {
        match self {
            Self::Any | Self::AnySuchAs(_) => Vec::new(),
            Self::Lines(lines) => {
                lines.iter().flat_map(|&(first, last)| shown.missing(first, last)).collect()
            }
            Self::All => shown.missing(1, lines::count(&body_of(&current.bytes))),
            Self::Removed(needs) => needs.unseen_lines(shown, current),
        }
    }
}

/// Smallest read that is enough.
struct SmallestRead {
    /// Lines to read, as text.
    what: String,
    /// Command.
    command: String,
    /// Flag that the read needs, as text, if any.
    how: Option<Message>,
    /// Alternative to overwriting the file, for a caller that cannot make this read.
    instead: Option<&'static str>,
}

/// Advice for replacing a file that cannot be read.
const MOVE: &str = "To replace all of it, move it out of the way first.";
/// Advice for changing a file with unreadable lines.
const EDIT_OR_MOVE: &str = "`edit` changes a part of it. To replace all of it, move it out of the way first.";

/// Proof that a caller lacks before it may change a file.
enum MissingProof {
    /// It has not read the file: these lines would be enough, or all.
    Read(Option<(u64, u64)>),
    /// It has read other bytes, with this SHA-256.
    Fresh(Sha256),
    /// It was not shown these lines.
    Lines(Vec<(u64, u64)>),
}

impl Change<'_> {
    /// Checks the SHA-256 that the caller gave for a file to move.
    ///
    /// # Errors
    /// Returns `stale_file`, or `invalid_request` for anything but a file.
    pub fn must_have_sha256(&self, place: &ResolvedPath, expected: Option<Sha256>) -> Result<(), Error> {
        let Some(expected) = expected else {
            return Ok(());
        };
        match self.sha256_at(place)? {
            Some(actual) if actual == expected => Ok(()),
            Some(actual) => Err(Error::new(ErrorKind::StaleFile, self.stale_message(place, expected))
                .at(place.display())
                .detail("expected_sha256", expected.to_hex())
                .detail("actual_sha256", actual.to_hex())),
            None => Err(Error::invalid(format!(
                "expected_sha256 is for files, and {} is not a file",
                place.display()
            ))
            .at(place.display())
            .detail("field", "expected_sha256")),
        }
    }

    /// Checks that the caller has seen the present bytes.
    ///
    /// `needs` names the lines that it must have seen. The policy may allow a change without proof; a SHA-256 in the
    /// request is checked anyway.
    ///
    /// # Errors
    /// Returns `not_read` or `stale_file`.
    pub fn prove(
        &mut self,
        current: LockedFile,
        expected: Option<Sha256>,
        needs: Needs<'_>,
    ) -> Result<CheckedFile, Error> {
        if let Some(expected) = expected {
            if current.exists() && current.sha256 == expected {
                return Ok(CheckedFile { current, proved: true });
            }
            return Err(self.stale(&current, expected));
        }
        if !current.exists() {
            return Ok(CheckedFile { current, proved: true });
        }
        let Some(missing) = self.missing(&current, needs) else {
            return Ok(CheckedFile { current, proved: true });
        };
        if self.gate() != Gate::Strict {
            self.warn_of_gate(current.place.display(), &missing, needs);
            return Ok(current.without_proof());
        }
        Err(self.unproved(&current, &missing, needs))
    }

    /// Returns the error that the gate has for a change of an existing file, whatever the policy says; `None` if the
    /// caller has seen the present bytes.
    pub fn refusal(&self, current: &LockedFile, needs: Needs<'_>) -> Option<Error> {
        let missing = self.missing(current, needs).filter(|_| current.exists())?;
        Some(self.unproved(current, &missing, needs))
    }

    /// Returns the proof that the caller lacks; `None` if it has seen the present bytes.
    fn missing(&self, current: &LockedFile, needs: Needs<'_>) -> Option<MissingProof> {
        match self.session.mark(current.place.path()) {
            Some(mark) if mark.sha256 == current.sha256 => {
                let unseen = needs.unseen_lines(&mark.lines, current);
                (!unseen.is_empty()).then_some(MissingProof::Lines(unseen))
            }
            Some(mark) => Some(MissingProof::Fresh(mark.sha256)),
            None => Some(MissingProof::Read(needs.smallest(current))),
        }
    }

    /// Returns the error for a missing proof.
    fn unproved(&self, current: &LockedFile, missing: &MissingProof, needs: Needs<'_>) -> Error {
        match missing {
            MissingProof::Fresh(seen) => self.stale(current, *seen),
            MissingProof::Read(range) => self.not_read(current, needs, *range, &[]),
            MissingProof::Lines(lines) => {
                let range = lines.first().zip(lines.last()).map(|(first, last)| (first.0, last.1));
                self.not_read(current, needs, range, lines)
            }
        }
    }

    /// Checks a file again that passed the gate, now that the lines to remove are known.
    ///
    /// # Errors
    /// As [`Self::prove`].
    pub fn prove_more(
        &mut self,
        seen: CheckedFile,
        expected: Option<Sha256>,
        needs: Needs<'_>,
    ) -> Result<CheckedFile, Error> {
        let proved = self.prove(seen.current, expected, needs)?;
        Ok(CheckedFile { proved: proved.proved && seen.proved, ..proved })
    }

    /// Returns the error for a file of which too little was read: the lines of `range`, or all; `lines` are the missing
    /// ones, if the others were shown.
    fn not_read(
        &self,
        current: &LockedFile,
        needs: Needs<'_>,
        range: Option<(u64, u64)>,
        lines: &[(u64, u64)],
    ) -> Error {
        let shown = current.place.display();
        let which = if lines.is_empty() {
            String::new()
        } else {
            format!(" ({} not shown in this session)", lines_text(lines))
        };
        let message = format!("refusing to {} {shown}: Read it first{which}", needs.verb());
        let error = Error::new(ErrorKind::NotRead, message).at(shown);
        let error = self.suggest_read(error, current, range, needs);
        if lines.is_empty() {
            return error;
        }
        let listed: Vec<Value> =
            lines.iter().take(RANGES_LISTED).map(|&(first, last)| json!([first, last])).collect();
        error.detail("unseen_lines", listed).detail("total_lines", lines::count(&body_of(&current.bytes)))
    }

    /// Adds to an error the smallest read that is enough: the lines of `range`, or all.
    pub fn suggest_read(
        &self,
        error: Error,
        current: &LockedFile,
        range: Option<(u64, u64)>,
        needs: Needs<'_>,
    ) -> Error {
        let read = self.smallest_read(current, range);
        let then = read.how.map_or_else(
            || ", then repeat the call.".into(),
            |how| Message::from(", then repeat the call: ").followed_by(how),
        );
        let instead = read.instead.filter(|_| matches!(needs, Needs::All)).map(Message::from);
        let advice = Message::sentences([then].into_iter().chain(instead));
        error.suggest_running(format!("Read {}", read.what), read.command, advice)
    }

    /// Returns the policy for a change without proof.
    pub fn gate(&self) -> Gate {
        self.engine.policy().gate()
    }

    /// Warns, if the policy says so, about a change that the gate would have refused.
    fn warn_of_gate(&mut self, shown: &str, missing: &MissingProof, needs: Needs<'_>) {
        self.entry.gate = Some(self.engine.policy().gate().name().to_owned());
        if self.gate() == Gate::Warn {
            let what = match missing {
                MissingProof::Fresh(_) => "has changed since it was read",
                MissingProof::Read(_) => "was not read in this session",
                MissingProof::Lines(_) => "was not completely read in this session",
            };
            let source = self.engine.policy().source_of(Key::Gate);
            let verb = needs.verb();
            self.engine.warn(format!(
                "{shown} {what}; the policy lets you {verb} it anyway (gate = \"warn\", {source})"
            ));
        }
    }

    /// Returns the smallest read that is enough.
    fn smallest_read(&self, current: &LockedFile, needed: Option<(u64, u64)>) -> SmallestRead {
        let shown = current.place.display();
        let path = quoted(shown);
        if crate::text::content::looks_binary(&current.bytes) {
            let command = format!("lbx read {path} --binary base64 --max-bytes 0");
            let (how, instead) = (Some("`binary` shows its bytes.".into()), Some(MOVE));
            return SmallestRead { what: shown.to_owned(), command, how, instead };
        }
        let Some((first, last)) = needed else {
            let command = format!("lbx read {path}");
            return SmallestRead { what: shown.to_owned(), command, how: None, instead: None };
        };
        let what = format!("{} of {shown}", LineSpan { first, last });
        let mut command = format!("lbx read {path} --start-line {first} --end-line {last}");
        let body = body_of(&current.bytes);
        let mut needed = lines::lines(&body).zip(1..).skip_while(|(_, line)| *line < first);
        let bound = self.engine.policy().max_bytes() / 2;
        // A line that is too long for a response of the usual size.
        let is_long = bound > 0 && needed.any(|(line, number)| number <= last && line.len() > bound);
        if is_long {
            command.push_str(" --max-bytes 0");
        }
        let how = is_long.then(|| "`max_bytes` shows a long line whole.".into());
        SmallestRead { what, command, how, instead: is_long.then_some(EDIT_OR_MOVE) }
    }

    /// Returns the message that a file does not match `expected`, which the caller may not have read.
    fn stale_message(&self, place: &ResolvedPath, expected: Sha256) -> String {
        let shown = place.display();
        if self.session.mark(place.path()).is_some_and(|mark| mark.sha256 == expected) {
            format!("{shown} has changed since it was read")
        } else {
            format!("{shown} does not match `expected_sha256`")
        }
    }

    /// Returns the error for a file whose bytes differ from those that the caller has seen.
    pub fn stale(&self, current: &LockedFile, expected: Sha256) -> Error {
        let shown = current.place.display();
        let message = if current.exists() {
            self.stale_message(&current.place, expected)
        } else {
            format!("{shown} does not exist, but `expected_sha256` was given")
        };
        let actual = current.exists().then(|| current.sha256.to_hex());
        let error = Error::new(ErrorKind::StaleFile, message).at(shown);
        let error = if current.exists() {
            error.with_command(format!("lbx read {}", quoted(shown)))
        } else {
            error.suggest(
                "Leave out `expected_sha256` to create the file, or name the path at which it is now.",
            )
        };
        let mut error = error.detail("expected_sha256", expected.to_hex()).detail("actual_sha256", actual);
        if let Some(seen) = self.bytes_seen(current.place.path(), expected)
            && current.exists()
        {
            let diff = crate::text::diff::unified(
                &format!("{shown} (as read)"),
                &format!("{shown} (now)"),
                &seen,
                &current.bytes,
                STALE_DIFF_BYTES,
            );
            error = error.detail("diff", diff);
        }
        error
    }
}

/// Returns lines as text: `lines 3 to 5 and line 9 were`.
fn lines_text(lines: &[(u64, u64)]) -> String {
    let one = |&(first, last): &(u64, u64)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    let mut named: Vec<String> = lines.iter().take(RANGES_LISTED).map(one).collect();
    if lines.len() > named.len() {
        named.push("…".to_owned());
    }
    match lines {
        [(first, last)] if first == last => format!("line {first} was"),
        _ => format!("lines {} were", named.join(", ")),
    }
}

/// Quotes a path for a command of a shell, where none is taken for a flag.
pub fn quoted(path: &str) -> String {
    let start = if path.starts_with('-') { "./" } else { "" };
    escaped::shell_word(&format!("{start}{path}"))
}

/// Recent changes of the session that are searched for the same request.
pub const RECENT: u64 = 20;
/// Changes that are searched for rare requests with no other protection against repetition.
pub const LONG_AGO: u64 = 1000;

/// Rejects a request that names a version and was made before, by an `earlier` change. Example: two workers of one session count in a file, and
/// both saw a 5. If the second were told that the file has a 6 already, one would be lost.
///
/// # Errors
/// Returns `stale_file`.
fn must_be_first(earlier: Option<&JournalEntry>) -> Result<(), Error> {
    // A change of the mode alone leaves the version that the request names.
    let has_other_bytes = |file: &FileEntry| {
        file.before.as_ref().map(|before| before.sha256) != file.after.as_ref().map(|after| after.sha256)
    };
    let is_done = |entry: &&JournalEntry| !entry.moves.is_empty() || entry.files.iter().any(has_other_bytes);
    match earlier.filter(is_done) {
        None => Ok(()),
        Some(entry) => Err(Error::new(
            ErrorKind::StaleFile,
            format!("this session has already made this change, as change {}", entry.seq),
        )
        .suggest("Nothing is left to do. To change the file again, read it, and name its SHA-256 of now.")),
    }
}

impl Change<'_> {
    /// Returns true if the session has made this very request before, as its last change of each file concerned, and
    /// the result is still in place. Keeps the digest with the change, for the next time.
    ///
    /// # Errors
    /// As [`Self::repeated`].
    pub fn is_repeated(&mut self, request: Sha256, names_version: bool) -> Result<bool, Error> {
        Ok(self.repeated(request, RECENT, names_version)?.is_some())
    }

    /// Returns the change that this very request made before, among the last `changes`, if nothing has touched its
    /// files since.
    ///
    /// # Errors
    /// Returns `stale_file` if it `names_version`, an `expected_sha256`; the OS error if the history cannot be read.
    pub fn repeated(
        &mut self,
        request: Sha256,
        changes: u64,
        names_version: bool,
    ) -> Result<Option<JournalEntry>, Error> {
        let request = self.digest_here(request);
        self.entry.request = Some(request);
        let Some(state) = &self.state else {
            return Ok(None);
        };
        let session = self.engine.session().as_str();
        // An entry of a newer lbx does not count as a repeat.
        let entry_of = |seq| journal::history_entry(state, session, seq).ok().flatten();
        let mut later: Vec<u64> = Vec::new();
        let first = self.entry.seq.saturating_sub(changes).max(1);
        for seq in (first..self.entry.seq).rev() {
            let is_other = self.session.is_of_another_request(seq, request);
            if !is_other && let Some(entry) = entry_of(seq).filter(|entry| entry.request == Some(request)) {
                let later = later.into_iter().filter_map(entry_of);
                let later: Vec<WorkspacePath> =
                    later.flat_map(|entry| entry.paths().cloned().collect::<Vec<_>>()).collect();
                let earlier = Some(entry).filter(|entry| self.is_in_place(state, entry, &later));
                must_be_first(earlier.as_ref().filter(|_| names_version))?;
                return Ok(earlier);
            }
            later.push(seq);
        }
        Ok(None)
    }

    /// Returns true if the session's last change of `path` removed the file, or moved it away.
    ///
    /// # Errors
    /// Returns the OS error if the history cannot be read.
    pub fn has_removed(&self, path: &WorkspacePath) -> Result<bool, Error> {
        let Some(state) = &self.state else {
            return Ok(false);
        };
        let session = self.engine.session().as_str();
        let (numbers, mut next) = (ChangeNumbers::of(state, session)?, u64::MAX);
        while let Some(seq) = numbers.before(next)? {
            next = seq;
            let Some(entry) = journal::history_entry(state, session, seq)? else {
                continue;
            };
            if let Some(file) = entry.files.iter().find(|file| file.path == *path) {
                return Ok(file.after.is_none());
            }
            if entry.moves.iter().any(|moved| path.is_within(&moved.to)) {
                return Ok(false);
            }
            if entry.moves.iter().any(|moved| path.is_within(&moved.from)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if the result of a change is unchanged, with no `later` change of its paths.
    fn is_in_place(&self, state: &State, entry: &JournalEntry, later: &[WorkspacePath]) -> bool {
        let workspace = &self.engine.workspace;
        let is_touched =
            |path: &WorkspacePath| later.iter().any(|other| path.is_within(other) || other.is_within(path));
        let is_there =
            |path: &WorkspacePath| workspace.place_of(path).is_ok_and(|place| place.stat().is_some());
        !entry.paths().any(is_touched)
            && entry.files.iter().all(|file| self.has_new_side(state, file))
            && entry.moves.iter().all(|moved| is_there(&moved.to) && !is_there(&moved.from))
    }

    /// Returns true if a file is still as a change left it.
    fn has_new_side(&self, state: &State, file: &FileEntry) -> bool {
        let executor = Executor { workspace: &self.engine.workspace, state };
        let found = executor.observe(&self.location(&file.path), file.after.is_some());
        match (found, &file.after) {
            (Ok(ObservedKind::File { version: Some(now), .. }), Some(after)) => {
                now == (after.sha256, after.mode)
            }
            (Ok(ObservedKind::Nothing | ObservedKind::Folder { .. }), None) => true,
            _ => false,
        }
    }

    /// Returns the digest of a request in this folder: in another folder, its paths name other files.
    fn digest_here(&self, request: Sha256) -> Sha256 {
        let base = self.engine.workspace.base();
        if base.is_root() {
            return request;
        }
        Sha256::of(&[request.to_string().as_bytes(), b" ", base.as_bytes()].concat())
    }
}
