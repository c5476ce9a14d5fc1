//! Diffs: short ones for answers, and complete ones in the exact format of git, for `git apply` and `patch`.

use std::borrow::Cow;
use std::io::Write as _;
use std::ops::Range;

use similar::{DiffOp, DiffTag, group_diff_ops};

use crate::limits::{DIFFED_BYTES_MAX, DIFFED_LINES_MAX};
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::checked::slice_or_empty;
use crate::text::patch::binary;
use crate::text::{escaped, line_diff, lines};

/// Unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;
/// Unchanged lines shown around a change if the diff should be small.
const CONTEXT_LINES_SMALL: usize = 1;
/// End of the note on what was omitted.
const MORE_LINES: &str = " more lines of diff";
/// Diffs of at most this many bytes are small.
const SMALL_BYTES: usize = 1000;

/// Number of lines in which two texts differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineCounts {
    /// Lines only in the new text.
    pub added: u64,
    /// Lines only in the old text.
    pub removed: u64,
}

/// Counts the lines added and removed from `old` to `new`; an ending is part of its line.
pub fn counts(old: &[u8], new: &[u8]) -> LineCounts {
    let (old, new) = middle(old, new);
    let (old_lines, new_lines) = (lines::count(old), lines::count(new));
    if old_lines + new_lines > DIFFED_LINES_MAX as u64 {
        return LineCounts { added: new_lines, removed: old_lines };
    }
    let (old, new): (Vec<&[u8]>, Vec<&[u8]>) = (lines::all(old), lines::all(new));
    let mut counts = LineCounts::default();
    for op in line_diff::diff(&old, &new).changes() {
        counts.removed += op.old_range().len() as u64;
        counts.added += op.new_range().len() as u64;
    }
    counts
}

/// Returns the parts of two texts between their common first and last lines.
fn middle<'a>(old: &'a [u8], new: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let same = lines::common_start(old, new);
    let start = old.get(..same).and_then(|head| memchr::memrchr(b'\n', head)).map_or(0, |at| at + 1);
    let (old, new) = (slice_or_empty(old, start..), slice_or_empty(new, start..));
    let same = lines::common_end(old, new);
    let tail = slice_or_empty(old, old.len() - same..);
    // The first line of the common tail may begin differently.
    let kept = memchr::memchr(b'\n', tail).map_or(0, |at| tail.len() - at - 1);
    (slice_or_empty(old, ..old.len() - kept), slice_or_empty(new, ..new.len() - kept))
}

/// Returns the unified diff of a file, of which one side may be missing; see [`unified`].
pub fn of_file(shown: &str, before: Option<&[u8]>, after: Option<&[u8]>, bytes_max: usize) -> String {
    let name = |side: &str, bytes: Option<&[u8]>| {
        bytes.map_or_else(|| "/dev/null".to_owned(), |_| format!("{side}/{shown}"))
    };
    let (old_name, new_name) = (name("a", before), name("b", after));
    unified(&old_name, &new_name, before.unwrap_or_default(), after.unwrap_or_default(), bytes_max)
}

/// Returns a unified diff of at most `bytes_max` bytes, cut at a whole line and with a note on what was omitted.
///
/// Its header has `old_name` and `new_name` as they are. Bytes that are not UTF-8 are shown lossily, so it is for
/// reading only.
pub fn unified(old_name: &str, new_name: &str, old: &[u8], new: &[u8], bytes_max: usize) -> String {
    let mut text = format!("--- {}\n+++ {}\n", escaped::name(old_name), escaped::name(new_name));
    if [old, new].iter().map(|side| lines::count(side)).sum::<u64>() > 2 * DIFFED_LINES_MAX as u64 {
        text.push_str("... too many lines for a diff\n");
        return text;
    }
    let split = |side| lines::all(side);
    let (old, new) = (split(old), split(new));
    let context = if bytes_max <= SMALL_BYTES && bytes_max > 0 { CONTEXT_LINES_SMALL } else { CONTEXT_LINES };
    let mut text = BoundedDiff {
        size: TextSize::of(text.as_bytes()),
        text,
        room: AnswerRoom::new(bytes_max),
        left_out: 0,
    };
    for group in group_diff_ops(line_diff::diff(&old, &new).ops, context) {
        if text.left_out == 0 {
            text.push(&hunk_header(&group));
        }
        each_line(&group, &old, &new, |sign, line| text.push_line(sign, line));
    }
    let BoundedDiff { mut text, left_out, .. } = text;
    if left_out > 0 {
        text.extend(["... ", &left_out.to_string(), MORE_LINES, "\n"]);
    }
    text
}

/// Returns true if a diff of [`unified`] was cut: no line of a file begins as that note does.
pub fn is_cut(diff: &str) -> bool {
    diff.lines().next_back().is_some_and(|line| line.starts_with("... ") && line.ends_with(MORE_LINES))
}

/// Returns the line before a hunk; an empty side names the line before it.
fn hunk_header(group: &[DiffOp]) -> String {
    let span = |of: fn(&DiffOp) -> Range<usize>| {
        let start = group.first().map_or(0, |first| of(first).start);
        match group.last().map_or(0, |last| of(last).end) - start {
            0 => format!("{start},0"),
            1 => format!("{}", start + 1),
            length => format!("{},{length}", start + 1),
        }
    };
    format!("@@ -{} +{} @@\n", span(DiffOp::old_range), span(DiffOp::new_range))
}

/// Passes each line of a hunk with its sign.
fn each_line(group: &[DiffOp], old: &[&[u8]], new: &[&[u8]], mut take: impl FnMut(char, &[u8])) {
    for op in group {
        let is_kept = op.tag() == DiffTag::Equal;
        let sign = if is_kept { ' ' } else { '-' };
        slice_or_empty(old, op.old_range()).iter().for_each(|line| take(sign, line));
        let added = if is_kept { 0..0 } else { op.new_range() };
        slice_or_empty(new, added).iter().for_each(|line| take('+', line));
    }
}

/// A diff for an answer.
struct BoundedDiff {
    /// Text that fits.
    text: String,
    /// Size of the text.
    size: TextSize,
    /// Limit of the size.
    room: AnswerRoom,
    /// Number of lines that were omitted.
    left_out: usize,
}

impl BoundedDiff {
    /// Adds a line of a hunk.
    fn push_line(&mut self, sign: char, line: &[u8]) {
        // Skip a line that cannot fit before its size is computed.
        if self.left_out > 0 || !self.room.holds(self.size.and(TextSize::plain(line.len() / 4))) {
            self.left_out += 1;
            return;
        }
        let body = lines::without_ending(line);
        let mut shown = format!("{sign}{}\n", String::from_utf8_lossy(body));
        if body.len() == line.len() {
            shown.push_str("\\ No newline at end of file\n");
        }
        self.push(&shown);
    }

    /// Adds a line if it still fits and no line was omitted before it; otherwise counts it.
    fn push(&mut self, line: &str) {
        let size = self.size.with(line);
        if self.left_out == 0 && self.room.holds(size) {
            self.text.push_str(line);
            self.size = size;
        } else {
            self.left_out += 1;
        }
    }
}

/// Digits of an object id.
const ID_DIGITS: usize = 10;
/// A NUL within this many bytes makes a file binary, as in git.
const BINARY_PROBE_BYTES: usize = 8000;

/// A file on one side of a diff.
#[derive(Debug, Clone, Copy)]
pub struct DiffSide<'a> {
    /// Path of the file.
    pub path: &'a [u8],
    /// Mode, as git writes it.
    pub mode: &'a str,
    /// Object id of the content, in hex.
    pub id: &'a str,
    /// Content of the file.
    pub bytes: &'a [u8],
}

/// One file of a diff.
#[derive(Debug, Clone, Copy)]
pub struct FileDiff<'a> {
    /// The old side; `None` for a new file.
    pub old: Option<DiffSide<'a>>,
    /// The new side; `None` for a deleted file.
    pub new: Option<DiffSide<'a>>,
    /// Similarity of the two in percent, if the path changed.
    pub similarity: Option<usize>,
    /// True if the content of a binary file is written, not only that it differs.
    pub binary: bool,
}

/// Size of a diff of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiffSize {
    /// Lines added; `None` if lines were not compared.
    pub insertions: Option<usize>,
    /// Lines removed; `None` if lines were not compared.
    pub deletions: Option<usize>,
}

impl FileDiff<'_> {
    /// Adds the diff of this file to `out`.
    pub fn write(&self, out: &mut Vec<u8>) -> DiffSize {
        let (old, new) = (bytes_of(self.old), bytes_of(self.new));
        let is_large = old.len().max(new.len()) > DIFFED_BYTES_MAX;
        let is_text = old == new || !(is_large || is_binary(old) || is_binary(new));
        // Git accepts binary content only with complete ids.
        let header = self.header(if self.binary && !is_text { usize::MAX } else { ID_DIGITS });
        out.extend_from_slice(&header);
        if old == new {
            return DiffSize { insertions: Some(0), deletions: Some(0) };
        }
        if self.binary && !is_text {
            binary::write(out, old, new);
            return DiffSize::default();
        }
        let name = |side: Option<DiffSide<'_>>, prefix: &str| match side {
            Some(side) => quoted(prefix, side.path).into_owned(),
            None => b"/dev/null".to_vec(),
        };
        let (old_name, new_name) = (name(self.old, "a/"), name(self.new, "b/"));
        if !is_text {
            let kind: &[u8] = if is_large { b"Large" } else { b"Binary" };
            out.extend([kind, b" files ", &old_name, b" and ", &new_name, b" differ\n"].concat());
            return DiffSize::default();
        }
        for (sign, name) in [(b"--- ", &old_name), (b"+++ ", &new_name)] {
            out.extend_from_slice(sign);
            out.extend_from_slice(name);
            // After a name with blanks, git writes a tab to mark its end.
            out.extend_from_slice(if name.contains(&b' ') { b"\t\n" } else { b"\n" });
        }
        write_hunks(out, old, new)
    }

    /// Returns the lines before `---`, with ids of `id_digits` digits.
    fn header(&self, id_digits: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let (Some(first), Some(second)) = (self.old.or(self.new), self.new.or(self.old)) else {
            return out;
        };
        let mut line = |parts: &[&[u8]]| {
            out.extend(parts.concat());
            out.push(b'\n');
        };
        line(&[b"diff --git ", &quoted("a/", first.path), b" ", &quoted("b/", second.path)]);
        match (self.old, self.new) {
            (None, Some(new)) => line(&[b"new file mode ", new.mode.as_bytes()]),
            (Some(old), None) => line(&[b"deleted file mode ", old.mode.as_bytes()]),
            (Some(old), Some(new)) if old.mode != new.mode => {
                line(&[b"old mode ", old.mode.as_bytes()]);
                line(&[b"new mode ", new.mode.as_bytes()]);
            }
            _ => {}
        }
        if let Some(similarity) = self.similarity {
            line(&[format!("similarity index {similarity}%").as_bytes()]);
            line(&[b"rename from ", &quoted("", first.path)]);
            line(&[b"rename to ", &quoted("", second.path)]);
        }
        let id = |side: Option<DiffSide<'_>>| match side {
            Some(side) => side.id.chars().take(id_digits).collect(),
            None => "0".repeat(id_digits.min(first.id.len().max(ID_DIGITS))),
        };
        let (old_id, new_id) = (id(self.old), id(self.new));
        if old_id != new_id {
            let is_same_mode = self.old.is_some() && self.new.is_some() && first.mode == second.mode;
            let mode = if is_same_mode { format!(" {}", first.mode) } else { String::new() };
            line(&[format!("index {old_id}..{new_id}{mode}").as_bytes()]);
        }
        out
    }
}

/// Returns the content of a side; empty for no side.
fn bytes_of(side: Option<DiffSide<'_>>) -> &[u8] {
    side.map_or(&[], |side| side.bytes)
}

/// Returns true if git would call a content binary.
fn is_binary(bytes: &[u8]) -> bool {
    bytes.get(..BINARY_PROBE_BYTES).unwrap_or(bytes).contains(&0)
}

/// Returns the lines of a text as git counts them: a line feed ends each.
fn lines_of(text: &[u8]) -> Vec<&[u8]> {
    lines::at_line_feeds(text).collect()
}

/// Returns the operations of each hunk between two texts; none is empty.
fn groups(old: &[&[u8]], new: &[&[u8]]) -> Vec<Vec<DiffOp>> {
    let mut groups = group_diff_ops(line_diff::diff(old, new).ops, CONTEXT_LINES);
    groups.retain(|group| !group.is_empty());
    groups
}

/// Returns true if a diff of two contents has hunks, and not only a note that they differ.
pub fn has_hunks(old: &[u8], new: &[u8]) -> bool {
    old.len().max(new.len()) <= DIFFED_BYTES_MAX && !is_binary(old) && !is_binary(new)
}

/// Returns `new` without the change of one hunk, given by its number in the diff from `old`, from 1.
///
/// # Errors
/// Returns the number of hunks if there is no such hunk.
pub fn without_hunk(old: &[u8], new: &[u8], number: usize) -> Result<Vec<u8>, usize> {
    if !has_hunks(old, new) {
        return Err(0);
    }
    let (old, new) = (lines_of(old), lines_of(new));
    let groups = groups(&old, &new);
    let group = number.checked_sub(1).and_then(|index| groups.get(index));
    let Some((first, last)) = group.and_then(|group| Some((group.first()?, group.last()?))) else {
        return Err(groups.len());
    };
    let (kept, gone) =
        (first.new_range().start..last.new_range().end, first.old_range().start..last.old_range().end);
    let parts = [new.get(..kept.start), old.get(gone), new.get(kept.end..)];
    Ok(parts.into_iter().flatten().flatten().copied().collect::<Vec<&[u8]>>().concat())
}

/// Adds the hunks between two texts.
fn write_hunks(out: &mut Vec<u8>, old: &[u8], new: &[u8]) -> DiffSize {
    let (old, new) = (lines_of(old), lines_of(new));
    let (mut insertions, mut deletions) = (0, 0);
    for group in groups(&old, &new) {
        out.extend_from_slice(hunk_header(&group).as_bytes());
        each_line(&group, &old, &new, |sign, line| {
            deletions += usize::from(sign == '-');
            insertions += usize::from(sign == '+');
            out.extend(u8::try_from(sign));
            out.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                out.extend_from_slice(b"\n\\ No newline at end of file\n");
            }
        });
    }
    DiffSize { insertions: Some(insertions), deletions: Some(deletions) }
}

/// Returns a path with its prefix, in quotes as git writes them if it could be misread.
fn quoted<'a>(prefix: &str, path: &'a [u8]) -> Cow<'a, [u8]> {
    let is_text = std::str::from_utf8(path).is_ok_and(|path| !path.contains(escaped::is_active));
    let is_odd =
        |byte: &u8| byte.is_ascii_control() || matches!(byte, b'"' | b'\\') || (!is_text && !byte.is_ascii());
    if !path.iter().any(is_odd) {
        return if prefix.is_empty() {
            Cow::Borrowed(path)
        } else {
            Cow::Owned([prefix.as_bytes(), path].concat())
        };
    }
    let mut out = vec![b'"'];
    out.extend_from_slice(prefix.as_bytes());
    for byte in path {
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            // Writing to a vector cannot fail.
            byte if is_odd(byte) => drop(write!(out, "\\{byte:03o}")),
            byte => out.push(*byte),
        }
    }
    out.push(b'"');
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_and_removed_counts_equal_a_line_diff() {
        for (old, new, added, removed) in [
            ("", "", 0, 0),
            ("", "a\nb\n", 2, 0),
            ("a\nb\n", "", 0, 2),
            ("a\nb\nc\n", "a\nB\nc\n", 1, 1),
            ("a\nb", "a\nb\n", 1, 1),
            ("x\na\n", "y\nxx\na\n", 2, 1),
            ("a\n", "a\na\n", 1, 0),
            ("aa\nb\n", "ba\nb\n", 1, 1),
        ] {
            assert_eq!(
                counts(old.as_bytes(), new.as_bytes()),
                LineCounts { added, removed },
                "{old:?} {new:?}"
            );
        }
    }

    #[test]
    fn long_diff_is_cut_at_a_line_with_a_notice() {
        let old: String = (0..100).map(|line| format!("line {line}\n")).collect();
        let new = old.replace("line", "Line");
        let diff = unified("a/f", "b/f", old.as_bytes(), new.as_bytes(), 300);
        assert!(diff.len() < 350, "{}", diff.len());
        assert!(diff.ends_with("more lines of diff\n"), "{diff}");
        assert_eq!(
            unified("a/f", "b/f", b"a\nb\n", b"a\nc", 0),
            "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n"
        );
    }

    fn side<'a>(path: &'a str, mode: &'a str, id: &'a str, text: &'a str) -> DiffSide<'a> {
        DiffSide { path: path.as_bytes(), mode, id, bytes: text.as_bytes() }
    }

    fn written(diff: &FileDiff<'_>) -> String {
        let mut out = Vec::new();
        diff.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn single_hunk_can_be_reverted() {
        let old: String = (1..=30).map(|number| format!("{number}\n")).collect();
        let new = old.replace("\n2\n", "\ntwo\n").replace("\n15\n", "\n").replace("\n30\n", "\n30\nend");
        let without = |number| {
            without_hunk(old.as_bytes(), new.as_bytes(), number).map(|text| String::from_utf8(text).unwrap())
        };
        assert_eq!(without(1), Ok(new.replace("\ntwo\n", "\n2\n")));
        assert_eq!(without(2), Ok(new.replace("\n14\n", "\n14\n15\n")));
        assert_eq!(without(3), Ok(new.replace("30\nend", "30\n")));
        assert_eq!((without(0), without(4)), (Err(3), Err(3)));
        assert_eq!(without_hunk(b"a\0", b"b\0", 1), Err(0));
    }

    #[test]
    fn diff_headers_equal_git_headers() {
        let old = side("a b", "100644", "1111111111111", "one\ntwo");
        let new = side("a b", "100755", "2222222222222", "one\nTWO\n");
        assert_eq!(
            written(&FileDiff { old: Some(old), new: Some(new), similarity: None, binary: false }),
            "diff --git a/a b b/a b\nold mode 100644\nnew mode 100755\nindex 1111111111..2222222222\n\
             --- a/a b\t\n+++ b/a b\t\n@@ -1,2 +1,2 @@\n one\n-two\n\\ No newline at end of file\n+TWO\n"
        );
        let new = side("c\"", "100644", "1111111111111", "one\ntwo");
        assert_eq!(
            written(&FileDiff { old: Some(old), new: Some(new), similarity: Some(100), binary: false }),
            "diff --git a/a b \"b/c\\\"\"\nsimilarity index 100%\nrename from a b\nrename to \"c\\\"\"\n"
        );
        assert_eq!(
            written(&FileDiff {
                old: None,
                new: Some(side("n", "100644", "3", "")),
                similarity: None,
                binary: false
            }),
            "diff --git a/n b/n\nnew file mode 100644\nindex 0000000000..3\n"
        );
        assert!(
            written(&FileDiff {
                old: None,
                new: Some(side("n", "100644", "3", "\0")),
                similarity: None,
                binary: false
            })
            .ends_with("Binary files /dev/null and b/n differ\n")
        );
    }
}
