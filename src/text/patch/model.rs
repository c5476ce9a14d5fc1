//! Model of a patch in any format: files, hunks, lines and their endings.

use super::binary::BinaryChange;
use crate::sha256::DigestStart;
use crate::text::lines::{LineSpan, at_line_feeds};

/// Format of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A unified diff as `diff -u` writes it.
    Unified,
    /// A unified diff with git's headers.
    Git,
    /// The `*** Begin Patch` envelope of Codex.
    Codex,
    /// `<<<<<<< SEARCH` blocks.
    SearchReplace,
    /// `[PATH]` sections of edits by line.
    ByLine,
}

/// A parsed patch; its lines borrow from the parsed text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch<'a> {
    /// Format of the patch.
    pub format: Format,
    /// Effect on each file, in order; one file may occur several times.
    pub files: Vec<FilePatch<'a>>,
    /// Edits by line of each file, in a patch of that format.
    pub by_line: Vec<FileEdits<'a>>,
}

/// Edits of one file, in the order of the patch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileEdits<'a> {
    /// First digits of the file's SHA-256 by which its lines are numbered; without it, they are as shown.
    pub tag: Option<DigestStart>,
    /// Edits.
    pub edits: Vec<LineEdit<'a>>,
}

/// Edit of some lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineEdit<'a> {
    /// Line of the patch text, from 1.
    pub patch_line: usize,
    /// Place of the edit.
    pub place: EditPlace,
    /// New text.
    pub text: NewText<'a>,
}

/// Place of an edit, by the numbers of its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditPlace {
    /// These lines.
    Lines(LineSpan),
    /// The gap after a line; 0 is the start of the file.
    After(u64),
    /// The end of the file.
    End,
}

/// New text of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewText<'a> {
    /// None: `CUT`.
    Cut,
    /// These lines.
    Rows(Vec<&'a [u8]>),
    /// The lines of an earlier `CUT`.
    Pasted {
        /// Index of its file in the patch.
        file: usize,
        /// Index of the `CUT` among the edits of that file.
        edit: usize,
    },
}

/// Lines of a file that are replaced where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice<'a> {
    /// Line of the patch text, from 1.
    pub patch_line: usize,
    /// Stated line of the edit, from 1.
    pub stated: u64,
    /// Index of the first removed line.
    pub start: usize,
    /// Index after the last removed line.
    pub end: usize,
    /// Lines in their place, without endings.
    pub added: Vec<&'a [u8]>,
}

/// Type bits of a symlink in a mode; its bytes are its target.
pub const SYMLINK_MODE: u32 = 0o120_000;

/// Returns true if a mode is that of a symlink.
pub const fn is_symlink(mode: u32) -> bool {
    mode & 0o170_000 == SYMLINK_MODE
}

/// Effect on the file as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOp {
    /// The file is created.
    Create,
    /// Its content or mode changes.
    Modify,
    /// The file is deleted.
    Delete,
    /// It moves from the old path to the new one.
    Rename,
    /// The new path becomes a copy of the old one.
    Copy,
}

/// Effect of a patch on one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePatch<'a> {
    /// Line of the patch text where it begins, from 1.
    pub patch_line: usize,
    /// Effect on the file as a whole.
    pub operation: FileOp,
    /// Path before, as written; absent for a creation or if the patch names none.
    pub old_path: Option<Vec<u8>>,
    /// Path after, as written; absent for a deletion or if the patch names none.
    pub new_path: Option<Vec<u8>>,
    /// Other name that a plain diff gives the file, such as `f.orig` for `f`.
    pub other_name: Option<Vec<u8>>,
    /// Prefix of the paths.
    pub prefix: PathPrefix,
    /// Mode before, if stated, as git writes it (`0o100644`, `0o120000` for a symlink).
    pub old_mode: Option<u32>,
    /// Mode after, if stated.
    pub new_mode: Option<u32>,
    /// True for each side, old and new, that is known to have lines by its id from git.
    pub has_lines: (bool, bool),
    /// Number of its commit, in a series of several.
    pub commit: usize,
    /// Change of the content.
    pub body: PatchBody<'a>,
}

/// The paths of a file without their prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchPaths {
    /// Path before the patch; absent if it names none.
    pub old: Option<Vec<u8>>,
    /// Path after the patch; absent if it names none.
    pub new: Option<Vec<u8>>,
}

/// Change of the content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatchBody<'a> {
    /// Line by line; without a hunk, the content stays.
    Hunks(Vec<Hunk<'a>>),
    /// Line by line at known places; none until the caller has found them.
    Splices(Vec<Splice<'a>>),
    /// A binary patch of git.
    Binary(BinaryChange),
    /// The patch does not show the content: a deletion in a Codex envelope.
    Unseen,
}

/// Prefix of the paths of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathPrefix {
    /// None, in a unified diff.
    Absent,
    /// Paths of a plain diff that differ only in their first folder, as `diff -r old new` writes them; only the tree
    /// shows whether that is a prefix.
    Folders,
    /// `a/` and `b/`, or git's mnemonic ones.
    Present,
    /// Paths of `rename from` lines of git, which never have the prefix that the other lines may have.
    Dropped,
    /// Paths of a format without prefixes; never stripped.
    Unknown,
}

/// Number of leading components to remove from the paths of a unified diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strip {
    /// `a/` and `b/` if both paths have them.
    #[default]
    Auto,
    /// A fixed number, as for `patch -p`.
    Components(usize),
}

/// Kind of a hunk line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LineKind {
    /// It stays.
    Context,
    /// It is removed.
    Removed,
    /// It is added.
    Added,
}

/// One line of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HunkLine<'a> {
    /// Kind of the line.
    pub kind: LineKind,
    /// Line without its ending.
    pub text: &'a [u8],
    /// Ending in the patch; [`Ending::None`] after `\ No newline at end of file`.
    pub ending: Ending,
}

/// A place in a file and its change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hunk<'a> {
    /// Line of the patch text where it begins, from 1.
    pub patch_line: usize,
    /// Stated line of the old text, if any.
    pub old_start: Option<usize>,
    /// Stated line of the new text, if any.
    pub new_start: Option<usize>,
    /// True if its `@@` line ends in CRLF, as in a patch that was converted as a whole.
    pub is_crlf: bool,
    /// True if the counts were stated and right.
    pub counts_match: bool,
    /// Lines that come before it, outermost first (`@@ class A`, `@@ def f`).
    pub anchors: Vec<&'a [u8]>,
    /// True if its last line is the last of the file.
    pub at_end: bool,
    /// True if lines without any context are added at the end of the file, as in a Codex envelope.
    pub appends: bool,
    /// Lines of the hunk.
    pub lines: Vec<HunkLine<'a>>,
}

impl<'a> Hunk<'a> {
    /// Returns the lines that it expects.
    pub fn old(&self) -> impl DoubleEndedIterator<Item = &HunkLine<'a>> + Clone {
        self.lines.iter().filter(|line| line.kind != LineKind::Added)
    }

    /// Returns the lines that it leaves.
    pub fn new_side(&self) -> impl DoubleEndedIterator<Item = &HunkLine<'a>> + Clone {
        self.lines.iter().filter(|line| line.kind != LineKind::Removed)
    }

    /// Returns the index of its first old line according to the stated line number.
    ///
    /// Without old lines, the number names the line before, as in `diff -U0`.
    pub fn first_old_index(&self) -> Option<usize> {
        let start = self.old_start?;
        Some(if self.old().next().is_some() { start.saturating_sub(1) } else { start })
    }

    /// Returns the text that it leaves, as the patch writes it.
    pub fn new_text(&self) -> Vec<u8> {
        text_of(self.new_side())
    }

    /// Returns the size of that text in bytes.
    pub fn new_bytes(&self) -> usize {
        self.new_side().map(|line| line.text.len() + line.ending.bytes().len()).sum()
    }

    /// Returns the hunk that undoes it.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let turn = |line: &HunkLine<'a>| HunkLine {
            kind: match line.kind {
                LineKind::Context => LineKind::Context,
                LineKind::Removed => LineKind::Added,
                LineKind::Added => LineKind::Removed,
            },
            ..*line
        };
        Self {
            old_start: self.new_start,
            new_start: self.old_start,
            lines: self.lines.iter().map(turn).collect(),
            anchors: self.anchors.clone(),
            ..*self
        }
    }
}

impl FilePatch<'_> {
    /// Creates a change at the line with `index` without a name and content.
    pub fn at(index: usize) -> Self {
        Self {
            patch_line: index + 1,
            operation: FileOp::Modify,
            old_path: None,
            new_path: None,
            other_name: None,
            prefix: PathPrefix::Absent,
            old_mode: None,
            new_mode: None,
            has_lines: (false, false),
            commit: 0,
            body: PatchBody::Hunks(Vec::new()),
        }
    }

    /// Returns the old and the new path without the part that `strip` removes.
    ///
    /// Returns `None` if a path has fewer components than that.
    pub fn paths(&self, strip: Strip) -> Option<PatchPaths> {
        let shortened = |path: &[u8]| match (strip, self.prefix) {
            (_, PathPrefix::Unknown)
            | (Strip::Auto, PathPrefix::Absent | PathPrefix::Folders | PathPrefix::Dropped) => {
                without_components(path, 0)
            }
            (Strip::Auto, PathPrefix::Present) => without_prefix(path),
            (Strip::Components(count), PathPrefix::Dropped) => {
                without_components(path, count.saturating_sub(1))
            }
            (Strip::Components(count), _) => without_components(path, count),
        };
        let short = |path: &Option<Vec<u8>>| match path {
            None => Some(None),
            Some(path) => shortened(path).map(Some),
        };
        Some(PatchPaths { old: short(&self.old_path)?, new: short(&self.new_path)? })
    }

    /// Returns the hunks; empty if the change does not go by lines.
    pub fn hunks(&self) -> &[Hunk<'_>] {
        match &self.body {
            PatchBody::Hunks(hunks) => hunks,
            PatchBody::Splices(_) | PatchBody::Binary(_) | PatchBody::Unseen => &[],
        }
    }

    /// Returns true if it changes a symlink itself.
    pub fn speaks_of_symlink(&self) -> bool {
        self.old_mode.or(self.new_mode).is_some_and(is_symlink)
    }

    /// Returns true if it leaves the content as it is.
    pub fn keeps_content(&self) -> bool {
        matches!(&self.body, PatchBody::Hunks(hunks) if hunks.is_empty())
            || matches!(&self.body, PatchBody::Splices(splices) if splices.is_empty())
    }

    /// Returns the patch that undoes it; `None` for a copy, or if the patch does not have the old content.
    pub fn reversed(&self) -> Option<Self> {
        let body = match &self.body {
            PatchBody::Hunks(hunks) => PatchBody::Hunks(hunks.iter().map(Hunk::reversed).collect()),
            PatchBody::Binary(binary) => PatchBody::Binary(binary.reversed()?),
            PatchBody::Splices(_) | PatchBody::Unseen => return None,
        };
        let operation = match self.operation {
            FileOp::Create => FileOp::Delete,
            FileOp::Delete => FileOp::Create,
            FileOp::Modify => FileOp::Modify,
            FileOp::Rename => FileOp::Rename,
            FileOp::Copy => return None,
        };
        Some(Self {
            operation,
            old_path: self.new_path.clone(),
            new_path: self.old_path.clone(),
            other_name: self.other_name.clone(),
            old_mode: self.new_mode,
            new_mode: self.old_mode,
            has_lines: (self.has_lines.1, self.has_lines.0),
            body,
            ..*self
        })
    }
}

/// Joins lines into one text.
fn text_of<'l, 'a: 'l>(lines: impl Iterator<Item = &'l HunkLine<'a>>) -> Vec<u8> {
    lines.flat_map(|line| [line.text, line.ending.bytes()]).flatten().copied().collect()
}

/// Returns `path` without `a/` or `b/` before it. A slash that is left makes it absolute, as in a diff of absolute
/// paths.
fn without_prefix(path: &[u8]) -> Option<Vec<u8>> {
    let slash = path.iter().position(|byte| *byte == b'/')?;
    path.get(slash + 1..).filter(|rest| rest.iter().any(|byte| *byte != b'/')).map(<[u8]>::to_vec)
}

/// Returns `path` without its first `count` components; a run of slashes counts once, as in git.
fn without_components(path: &[u8], count: usize) -> Option<Vec<u8>> {
    let mut rest = path;
    for _ in 0..count {
        let slash = rest.iter().position(|byte| *byte == b'/')?;
        rest = rest.get(slash..)?;
        while let [b'/', after @ ..] = rest {
            rest = after;
        }
    }
    (!rest.is_empty()).then(|| rest.to_vec())
}

/// Ending of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// None: the last line of a text without a final newline.
    None,
    /// A line feed.
    Lf,
    /// A carriage return and a line feed.
    CrLf,
    /// A carriage return alone.
    Cr,
}

impl Ending {
    /// Returns the bytes of the ending.
    pub const fn bytes(self) -> &'static [u8] {
        match self {
            Self::None => b"",
            Self::Lf => b"\n",
            Self::CrLf => b"\r\n",
            Self::Cr => b"\r",
        }
    }
}

/// One line of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLine<'a> {
    /// Line without its ending.
    pub text: &'a [u8],
    /// Ending of the line.
    pub ending: Ending,
}

impl<'a> TextLine<'a> {
    /// Splits `raw` into a line and its ending.
    pub fn of(raw: &'a [u8]) -> Self {
        match raw.strip_suffix(b"\n") {
            None => Self { text: raw, ending: Ending::None },
            Some(text) => match text.strip_suffix(b"\r") {
                None => Self { text, ending: Ending::Lf },
                Some(text) => Self { text, ending: Ending::CrLf },
            },
        }
    }
}

/// Splits `bytes` at line feeds; a carriage return before one belongs to the ending.
///
/// An empty text has no lines; a last line without an ending counts.
pub fn lines(bytes: &[u8]) -> Vec<TextLine<'_>> {
    // Counting the lines is faster than letting the list grow.
    let mut lines = Vec::with_capacity(memchr::memchr_iter(b'\n', bytes).count() + 1);
    lines.extend(at_line_feeds(bytes).map(TextLine::of));
    lines
}

/// Splits `bytes` at carriage returns, for files of old Macs.
pub fn lines_at_carriage_returns(bytes: &[u8]) -> Vec<TextLine<'_>> {
    bytes
        .split_inclusive(|byte| *byte == b'\r')
        .map(|raw| match raw.strip_suffix(b"\r") {
            None => TextLine { text: raw, ending: Ending::None },
            Some(text) => TextLine { text, ending: Ending::Cr },
        })
        .collect()
}

impl Patch<'_> {
    /// Creates a patch without files.
    pub const fn of(format: Format) -> Self {
        Self { format, files: Vec::new(), by_line: Vec::new() }
    }

    /// Resolves the names of plain diffs that depend on the tree. The callback returns true if a path exists.
    ///
    /// `--- f.orig` and `+++ f` name the one that exists, the new one first. `--- old/f` and `+++ new/f` name the file
    /// `f` if neither exists.
    pub fn resolve_names(&mut self, stands: &dyn Fn(&[u8]) -> bool) {
        for file in &mut self.files {
            file.resolve_names(stands);
        }
    }
}

impl FilePatch<'_> {
    /// Resolves the names of one file.
    fn resolve_names(&mut self, stands: &dyn Fn(&[u8]) -> bool) {
        if self.other_name.is_none() && self.prefix != PathPrefix::Folders {
            return;
        }
        let written = self.new_path.as_ref().or(self.old_path.as_ref());
        let Some(name) = written.filter(|name| !stands(name)) else { return };
        if let Some(other) = self.other_name.take_if(|other| stands(other)) {
            (self.old_path, self.new_path) = (Some(other.clone()), Some(other));
        } else if self.prefix == PathPrefix::Folders && is_prefixed(self.operation, name, stands) {
            self.prefix = PathPrefix::Present;
        }
    }
}

/// Returns true if the first folder of `name`, which does not exist, is a prefix.
fn is_prefixed(operation: FileOp, name: &[u8], stands: &dyn Fn(&[u8]) -> bool) -> bool {
    let Some(slash) = name.iter().position(|byte| *byte == b'/') else { return false };
    let (folder, rest) = name.split_at_checked(slash).unwrap_or_default();
    match operation {
        // For a created or deleted file, the folder decides.
        FileOp::Create | FileOp::Delete => !stands(folder) || rest.get(1..).is_some_and(stands),
        FileOp::Modify | FileOp::Rename | FileOp::Copy => rest.get(1..).is_some_and(stands),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_endings() {
        let endings: Vec<_> = lines(b"a\nb\r\n\nc\rd").iter().map(|line| (line.text, line.ending)).collect();
        let wanted: Vec<(&[u8], Ending)> =
            vec![(b"a", Ending::Lf), (b"b", Ending::CrLf), (b"", Ending::Lf), (b"c\rd", Ending::None)];
        assert_eq!(endings, wanted);
        assert!(lines(b"").is_empty());
        assert_eq!(lines_at_carriage_returns(b"a\rb").len(), 2);
    }
}
