//! Unified diffs, plain and from git.

use super::binary::{BINARY_BYTES_MAX, BinaryChange, BinaryData, decode_line, inflate};
use super::hunk;
use super::hunk::{HeaderPath, file_name, git_names, prefix_of, whole_name};
use super::model::{FileOp, FilePatch, Format, LineKind, Patch, PatchBody, PathPrefix, is_symlink};
use super::source::{ParseError, PatchLines, foreign, is_file_header, is_hunk_header, other_format};
use crate::text::checked::slice_or_empty;

/// Minimum number of digits of an id in an `index` line.
const ID_DIGITS_MIN: usize = 4;

/// Ids of the empty content, in SHA-1 and SHA-256.
const EMPTY_IDS: [&[u8]; 2] = [
    b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    b"473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
];

/// Reads every file of a unified diff. A binary content of more than `binary_bytes_max` is not inflated.
///
/// # Errors
/// Fails at the first line that cannot be read.
pub fn parse<'a>(source: &PatchLines<'a>, binary_bytes_max: usize) -> Result<Patch<'a>, ParseError> {
    let mut reader = UnifiedReader {
        source,
        at: 0,
        files: Vec::new(),
        format: Format::Unified,
        commits: 0,
        in_message: false,
        binary_bytes_max,
        binary_bytes: 0,
    };
    while let Some(text) = source.text(reader.at) {
        reader.take(text)?;
    }
    for file in &reader.files {
        check(file)?;
    }
    Ok(Patch { files: reader.files, ..Patch::of(reader.format) })
}

/// State of the reader.
struct UnifiedReader<'s, 'a> {
    /// Text of the patch.
    source: &'s PatchLines<'a>,
    /// Index of the next line.
    at: usize,
    /// Files read so far.
    files: Vec<FilePatch<'a>>,
    /// `Git` from the first `diff --git` on.
    format: Format,
    /// Number of commits begun so far.
    commits: usize,
    /// True inside the message of a commit, which has no hunks.
    in_message: bool,
    /// Size limit of one binary content, in bytes; a larger one is not inflated.
    binary_bytes_max: usize,
    /// Bytes of the binary contents inflated so far.
    binary_bytes: usize,
}

impl<'a> UnifiedReader<'_, 'a> {
    /// Reads the block that begins at the next line, or skips a line of prose.
    fn take(&mut self, text: &'a [u8]) -> Result<(), ParseError> {
        if let Some(names) = text.strip_prefix(b"diff --git ") {
            (self.format, self.in_message) = (Format::Git, false);
            return self.git_file(names);
        }
        if is_file_header(self.source, self.at) {
            self.in_message = false;
            return self.plain_file();
        }
        if begins_commit(text) {
            self.commits += 1;
            self.in_message = true;
        }
        if !self.in_message {
            if is_hunk_header(text) {
                return self.hunk();
            }
            let other = other_format(self.source, self.at, Format::Unified);
            if let Some(message) = foreign(text).or(other) {
                return Err(ParseError::at(self.at, message));
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Returns the change that begins at the next line.
    fn begin_change(&self) -> FilePatch<'a> {
        FilePatch { commit: self.commits, ..FilePatch::at(self.at) }
    }

    /// Reads one hunk into the current file, or into one without a name.
    fn hunk(&mut self) -> Result<(), ParseError> {
        if self.files.is_empty() {
            self.files.push(self.begin_change());
        }
        let (hunk, next) = hunk::parse(self.source, self.at)?;
        self.push_hunk(hunk, next)
    }

    /// Adds `hunk` to the current file.
    fn push_hunk(&mut self, hunk: super::model::Hunk<'a>, next: usize) -> Result<(), ParseError> {
        match self.files.last_mut().map(|file| &mut file.body) {
            Some(PatchBody::Hunks(hunks)) => hunks.push(hunk),
            _ => return Err(ParseError::at(self.at, "this hunk follows a binary change")),
        }
        self.at = next;
        Ok(())
    }

    /// Reads the two name lines of a file, and its first hunk if that has no `@@` line.
    fn plain_file(&mut self) -> Result<(), ParseError> {
        let mut file = self.begin_change();
        let (old, new) = self.names()?;
        set_names(&mut file, old, new);
        self.files.push(file);
        self.headless_hunk()
    }

    /// Reads a hunk that directly follows the names.
    fn headless_hunk(&mut self) -> Result<(), ParseError> {
        let first = self.source.text(self.at).and_then(<[u8]>::first);
        if !matches!(first, Some(b' ' | b'+' | b'-')) || is_file_header(self.source, self.at) {
            return Ok(());
        }
        let (hunk, next) = hunk::parse_headless(self.source, self.at)?;
        self.push_hunk(hunk, next)
    }

    /// Reads `---` and `+++`.
    fn names(&mut self) -> Result<(HeaderPath, HeaderPath), ParseError> {
        let mut name = || {
            let text = self.source.text(self.at).map_or(&[][..], |text| slice_or_empty(text, 4..));
            let name =
                file_name(text).ok_or_else(|| ParseError::at(self.at, "this file name cannot be read"));
            self.at += 1;
            name
        };
        Ok((name()?, name()?))
    }

    /// Reads the headers of git for one file, up to its hunks.
    fn git_file(&mut self, names: &'a [u8]) -> Result<(), ParseError> {
        let mut file = self.begin_change();
        if let Some((old, new)) = git_names(names) {
            file.prefix = if old == new { PathPrefix::Absent } else { PathPrefix::Present };
            (file.old_path, file.new_path) = (Some(old), Some(new));
        }
        self.at += 1;
        while let Some(text) = self.source.text(self.at) {
            if is_file_header(self.source, self.at) {
                let start = self.at;
                let (old, new) = self.names()?;
                if is_of_another_file(&file, &old, &new) {
                    self.at = start;
                    break;
                }
                set_git_names(&mut file, old, new);
                break;
            }
            if text == b"GIT binary patch" {
                file.body = PatchBody::Binary(self.binary()?);
                break;
            }
            if !self.extended_header(&mut file, text)? {
                break;
            }
            self.at += 1;
        }
        match file.operation {
            FileOp::Create => file.old_path = None,
            FileOp::Delete => file.new_path = None,
            FileOp::Modify | FileOp::Rename | FileOp::Copy => {}
        }
        self.files.push(file);
        Ok(())
    }

    /// Reads one extended header; returns `false` if the line is not one.
    fn extended_header(&self, file: &mut FilePatch<'a>, text: &[u8]) -> Result<bool, ParseError> {
        let bad_name = || ParseError::at(self.at, "this file name cannot be read");
        let mode = |digits: &[u8]| mode(digits).map_err(|message| ParseError::at(self.at, message)).map(Some);
        if let Some(digits) = text.strip_prefix(b"old mode ") {
            file.old_mode = mode(digits)?;
        } else if let Some(digits) = text.strip_prefix(b"new mode ") {
            file.new_mode = mode(digits)?;
        } else if let Some(digits) = text.strip_prefix(b"new file mode ") {
            file.new_mode = mode(digits)?;
            file.operation = FileOp::Create;
        } else if let Some(digits) = text.strip_prefix(b"deleted file mode ") {
            file.old_mode = mode(digits)?;
            file.operation = FileOp::Delete;
        } else if let Some((operation, is_source, name)) = moving(text) {
            let name = whole_name(name).ok_or_else(bad_name)?;
            (file.operation, file.prefix) = (operation, PathPrefix::Dropped);
            *(if is_source { &mut file.old_path } else { &mut file.new_path }) = Some(name);
        } else if let Some(index) = text.strip_prefix(b"index ") {
            let mut words = index.split(|byte| *byte == b' ');
            file.has_lines = has_lines(words.next().unwrap_or_default());
            if let Some(digits) = words.next() {
                file.old_mode = file.old_mode.or(mode(digits)?);
            }
        } else {
            return Ok(text.starts_with(b"similarity index ") || text.starts_with(b"dissimilarity index "));
        }
        Ok(true)
    }

    /// Reads the one or two parts of a binary patch.
    fn binary(&mut self) -> Result<BinaryChange, ParseError> {
        self.at += 1;
        let forward = self
            .binary_part()?
            .ok_or_else(|| ParseError::at(self.at, "expected `literal` or `delta` and a size"))?;
        Ok(BinaryChange { forward, backward: self.binary_part()? })
    }

    /// Reads one part, if one follows.
    fn binary_part(&mut self) -> Result<Option<BinaryData>, ParseError> {
        let head = self.source.text(self.at).unwrap_or_default();
        let (is_delta, size) = match (head.strip_prefix(b"literal "), head.strip_prefix(b"delta ")) {
            (Some(size), _) => (false, size),
            (_, Some(size)) => (true, size),
            _ => return Ok(None),
        };
        let start = self.at;
        let size = std::str::from_utf8(size).ok().and_then(|size| size.parse().ok());
        let size = size.ok_or_else(|| ParseError::at(start, "the size of this part is not a number"))?;
        self.at += 1;
        let mut compressed = Vec::new();
        while let Some(line) = self.source.text(self.at).filter(|line| !line.is_empty()) {
            let bytes =
                decode_line(line).ok_or_else(|| ParseError::at(self.at, "this is not a line of base 85"))?;
            compressed.extend(bytes);
            self.at += 1;
        }
        self.at += 1;
        if size > self.binary_bytes_max {
            return Ok(Some(BinaryData::TooLarge(size)));
        }
        self.binary_bytes = self.binary_bytes.saturating_add(size);
        if self.binary_bytes > BINARY_BYTES_MAX {
            return Err(ParseError::at(start, "the binary contents of the patch exceed 256 MiB: split it"));
        }
        let content = inflate(&compressed, size).map_err(|message| ParseError::at(start, message))?;
        Ok(Some(if is_delta { BinaryData::Delta(content) } else { BinaryData::Literal(content) }))
    }
}

/// Sets the names of a plain diff.
fn set_names(file: &mut FilePatch<'_>, old: HeaderPath, new: HeaderPath) {
    file.operation = match (old.path.is_none(), new.path.is_none()) {
        (true, false) => FileOp::Create,
        (false, true) => FileOp::Delete,
        _ if old.is_missing => FileOp::Create,
        _ if new.is_missing => FileOp::Delete,
        _ => FileOp::Modify,
    };
    file.prefix = prefix_of(old.path.as_deref(), new.path.as_deref());
    file.old_path = old.path.filter(|_| file.operation != FileOp::Create);
    file.new_path = new.path.filter(|_| file.operation != FileOp::Delete);
    let is_plain = matches!(file.prefix, PathPrefix::Absent | PathPrefix::Folders);
    if file.operation == FileOp::Modify && is_plain && file.old_path != file.new_path {
        // `--- f.orig` and `+++ f` name one file: the new one unless only the other exists.
        file.other_name = std::mem::replace(&mut file.old_path, file.new_path.clone());
    }
}

/// Returns true if `text` is the first line of a commit, as `git format-patch` or `git show` writes it.
fn begins_commit(text: &[u8]) -> bool {
    let id = text.strip_prefix(b"From ").or_else(|| text.strip_prefix(b"commit "));
    id.and_then(|id| id.split(|byte| *byte == b' ').next())
        .is_some_and(|id| id.len() >= 40 && id.iter().all(u8::is_ascii_hexdigit))
}

/// Returns true for each side of `old..new` that is the id of a content with bytes.
fn has_lines(ids: &[u8]) -> (bool, bool) {
    let has_lines = |id: &[u8]| {
        let is_id = id.len() >= ID_DIGITS_MIN && id.iter().all(u8::is_ascii_hexdigit);
        is_id
            && !id.iter().all(|digit| *digit == b'0')
            && !EMPTY_IDS.iter().any(|empty| empty.starts_with(id))
    };
    let mut sides = ids.splitn(2, |byte| *byte == b'.');
    let old = sides.next().unwrap_or_default();
    let new = sides.next().and_then(|rest| rest.strip_prefix(b".")).unwrap_or_default();
    (has_lines(old), has_lines(new))
}

/// Returns true if the name lines do not belong to the renamed or copied file, but to one that follows without headers
/// of git.
fn is_of_another_file(file: &FilePatch<'_>, old: &HeaderPath, new: &HeaderPath) -> bool {
    let is = |name: &HeaderPath, path: &Option<Vec<u8>>| match (&name.path, path) {
        (Some(name), Some(path)) => name
            .strip_suffix(path.as_slice())
            .is_some_and(|before| before.is_empty() || before.ends_with(b"/")),
        (_, None) => true,
        (None, Some(_)) => false,
    };
    matches!(file.operation, FileOp::Rename | FileOp::Copy)
        && !(is(old, &file.old_path) && is(new, &file.new_path))
}

/// Sets the names from the body of a git diff, which are more reliable than those in its first line.
fn set_git_names(file: &mut FilePatch<'_>, old: HeaderPath, new: HeaderPath) {
    match file.operation {
        FileOp::Rename | FileOp::Copy => return,
        FileOp::Modify if old.path.is_none() => file.operation = FileOp::Create,
        FileOp::Modify if new.path.is_none() => file.operation = FileOp::Delete,
        FileOp::Modify | FileOp::Create | FileOp::Delete => {}
    }
    if file.old_path.is_none() && file.new_path.is_none() {
        file.prefix = prefix_of(old.path.as_deref(), new.path.as_deref());
    }
    (file.old_path, file.new_path) = (old.path, new.path);
}

/// Reads the headers of renames and copies: the operation, whether it names the source, and the name.
fn moving(text: &[u8]) -> Option<(FileOp, bool, &[u8])> {
    let starts: [(&[u8], FileOp, bool); 6] = [
        (b"rename from ", FileOp::Rename, true),
        (b"rename to ", FileOp::Rename, false),
        (b"rename old ", FileOp::Rename, true),
        (b"rename new ", FileOp::Rename, false),
        (b"copy from ", FileOp::Copy, true),
        (b"copy to ", FileOp::Copy, false),
    ];
    starts.iter().find_map(|(start, operation, is_source)| {
        text.strip_prefix(*start).map(|name| (*operation, *is_source, name))
    })
}

/// Reads an octal mode and refuses those that no file tool may set.
fn mode(digits: &[u8]) -> Result<u32, String> {
    let text = String::from_utf8_lossy(digits);
    let mode =
        u32::from_str_radix(text.trim(), 8).map_err(|_| format!("the mode {text} is not an octal number"))?;
    match mode >> 12 {
        _ if mode & 0o7000 != 0 => Err(format!("the mode {text} sets setuid, setgid or sticky bits")),
        0o10 => Ok(mode),
        0o12 if mode == 0o120_000 => Ok(mode),
        0o16 => Err(format!("the mode {text} is a submodule, which cannot be patched")),
        _ => Err(format!("the mode {text} is neither a file's nor a symlink's")),
    }
}

/// Refuses a file without a change, or with missing names.
fn check(file: &FilePatch<'_>) -> Result<(), ParseError> {
    let at = file.patch_line.saturating_sub(1);
    let is_empty = matches!(&file.body, PatchBody::Hunks(hunks) if hunks.is_empty());
    let is_modify = file.operation == FileOp::Modify;
    if is_empty && is_modify && file.new_mode.is_none() {
        return Err(ParseError::at(at, "there is no hunk for this file"));
    }
    if file.old_mode.zip(file.new_mode).is_some_and(|(old, new)| is_symlink(old) != is_symlink(new)) {
        let message = "a file does not become a symlink by a change of mode, nor back: delete the one and create the other";
        return Err(ParseError::at(at, message));
    }
    if matches!(file.operation, FileOp::Rename | FileOp::Copy)
        && (file.old_path.is_none() || file.new_path.is_none())
    {
        return Err(ParseError::at(at, "one of the two names is missing"));
    }
    let is_named = file.old_path.is_some() || file.new_path.is_some();
    if !is_named && (!is_modify || is_empty || matches!(file.body, PatchBody::Binary(_))) {
        return Err(ParseError::at(at, "the name of this file cannot be read"));
    }
    let stays = |kind| file.hunks().iter().flat_map(|hunk| &hunk.lines).any(|line| line.kind == kind);
    match file.operation {
        FileOp::Create
            if file.hunks().len() > 1 || file.hunks().iter().any(|hunk| hunk.old().next().is_some()) =>
        {
            Err(ParseError::at(at, "a file that is created cannot have lines already"))
        }
        FileOp::Delete if stays(LineKind::Added) || stays(LineKind::Context) => {
            Err(ParseError::at(at, "a file that is deleted cannot keep lines"))
        }
        _ => Ok(()),
    }
}
