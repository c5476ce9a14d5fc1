//! What `diff` answers: a diff, or how much changed in each file, as much of it as has room.

use schemars::JsonSchema;
use serde::Serialize;

use super::compared::Compared;
use super::window::Window;
use super::written::write;
use crate::engine::snapshot::{Delta, SnapshotError, Store};
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::escaped;
use crate::text::git_diff::Amount;

/// Files that are listed with their numbers.
const FILES_LISTED_MAX: usize = 1000;

/// What differs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// The earlier commit; absent where there is none before
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The later commit; absent where there is no snapshot at all
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Present where this is what that session changed, without what others changed meanwhile
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// How many files differ
    pub files: usize,
    /// How much changed in each file, where that was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stat: Option<Vec<FileStat>>,
    /// The unified diff; absent with `stat`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// What each session changed, the newest first, where that was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Vec<SessionDiff>>,
    /// Whether there is more
    pub truncated: bool,
    /// The offset at which to continue
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// The diff's own bytes.
    #[serde(skip)]
    #[schemars(skip)]
    pub bytes: Vec<u8>,
    /// Lines of which only the beginning is shown.
    #[serde(skip)]
    #[schemars(skip)]
    pub cut_lines: usize,
}

/// What one session changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionDiff {
    /// The session
    pub session: String,
    /// How many files differ
    pub files: usize,
    /// How much changed in each file, where that was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stat: Option<Vec<FileStat>>,
    /// The unified diff; absent with `stat`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The diff's own bytes.
    #[serde(skip)]
    #[schemars(skip)]
    pub bytes: Vec<u8>,
}

/// How much changed in one file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileStat {
    /// The path from the root
    pub path: String,
    /// The path that it had before, where that was another
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What became of it
    pub action: Action,
    /// Lines added; absent for a binary or very large file
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insertions: Option<usize>,
    /// Lines removed; likewise
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletions: Option<usize>,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is new
    Create,
    /// It is another
    Modify,
    /// It is gone
    Delete,
    /// It has another name
    Rename,
}

impl Action {
    /// Its letter, as git has it.
    #[must_use]
    pub const fn sign(self) -> char {
        match self {
            Self::Create => 'A',
            Self::Modify => 'M',
            Self::Delete => 'D',
            Self::Rename => 'R',
        }
    }
}

impl Response {
    /// An answer that has no diff yet.
    pub(super) fn of(compared: &Compared, files: usize) -> Self {
        Self {
            from: compared.from.clone(),
            to: compared.to.clone(),
            session: compared.session.clone(),
            files,
            stat: None,
            diff: None,
            sessions: None,
            truncated: false,
            next_offset: None,
            bytes: Vec::new(),
            cut_lines: 0,
        }
    }

    /// Adds the diff, as much of it as the window lets through.
    pub(super) fn fill_diff(
        &mut self,
        store: &Store,
        deltas: &[Delta],
        mut window: Window,
        binary: bool,
    ) -> Result<(), SnapshotError> {
        for delta in deltas {
            let mut diff = Vec::new();
            write(store, delta, binary, &mut diff)?;
            for line in diff.split_inclusive(|byte| *byte == b'\n') {
                window.push(line);
            }
            if window.is_full {
                break;
            }
        }
        self.truncated = window.is_full || window.cut_lines > 0;
        self.cut_lines = window.cut_lines;
        self.next_offset = window.is_full.then(|| window.offset + window.shown);
        self.diff = Some(String::from_utf8_lossy(&window.out).into_owned());
        self.bytes = window.out;
        Ok(())
    }

    /// Adds the numbers of each file, of as many as have room, and of one at least.
    pub(super) fn fill_stat(
        &mut self,
        store: &Store,
        deltas: &[Delta],
        offset: usize,
        room: AnswerRoom,
    ) -> Result<(), SnapshotError> {
        let (mut files, mut size) = (Vec::new(), TextSize::default());
        for delta in deltas.iter().skip(offset).take(FILES_LISTED_MAX) {
            let amount = write(store, delta, false, &mut Vec::new())?;
            let stat = FileStat::of(delta, amount);
            size = size.and(stat.size());
            if !room.holds(size) && !files.is_empty() {
                break;
            }
            files.push(stat);
        }
        let end = offset.saturating_add(files.len());
        self.truncated = end < deltas.len();
        self.next_offset = self.truncated.then_some(end);
        self.stat = Some(files);
        Ok(())
    }
}

impl FileStat {
    /// How long its entry is.
    pub fn size(&self) -> TextSize {
        /// Bytes beside its names.
        const SAID_BYTES: usize = 80;
        let names = [Some(&self.path), self.from.as_ref()];
        names.into_iter().flatten().fold(TextSize::plain(SAID_BYTES), |size, name| size.with(name))
    }

    /// The numbers of one file.
    fn of(delta: &Delta, amount: Amount) -> Self {
        let action = match (&delta.before, &delta.after) {
            (None, _) => Action::Create,
            (_, None) => Action::Delete,
            _ if delta.similarity.is_some() => Action::Rename,
            _ => Action::Modify,
        };
        let before = delta.before.as_ref().filter(|_| action == Action::Rename);
        Self {
            path: String::from_utf8_lossy(delta.path()).into_owned(),
            from: before.map(|(path, _)| String::from_utf8_lossy(path).into_owned()),
            action,
            insertions: amount.insertions,
            deletions: amount.deletions,
        }
    }

    /// One line for a person.
    pub fn line(&self) -> String {
        let amount = match (self.insertions, self.deletions) {
            (Some(insertions), Some(deletions)) => format!("+{insertions} -{deletions}"),
            _ => "binary".to_owned(),
        };
        let name = self.from.as_ref().map_or_else(String::new, |from| format!("{} => ", escaped::name(from)));
        let sign = self.action.sign();
        format!("{sign} {name}{} ({amount})", escaped::name(&self.path))
    }
}
