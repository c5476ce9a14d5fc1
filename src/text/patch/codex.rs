//! The `*** Begin Patch` envelope of Codex.

use super::hunk;
use super::model::{Ending, FileOp, FilePatch, Format, Hunk, HunkLine, LineKind, PatchBody, PathPrefix};
use super::source::{
    EnvelopeLine, ParseError, PatchLines, envelope_line, is_envelope_begin, is_hunk_header, not_a_hunk_line,
    other_format,
};

/// Reads every envelope of the text.
///
/// # Errors
/// Fails at the first line that cannot be read, and for an envelope that does not end.
pub fn parse<'a>(source: &PatchLines<'a>) -> Result<Vec<FilePatch<'a>>, ParseError> {
    let is_end = |index: &usize| source.text(*index).is_some_and(|text| text.starts_with(b"*** End Patch"));
    let last_end = (0..source.len()).rfind(is_end);
    let mut files = Vec::new();
    let mut index = 0;
    while let Some(text) = source.text(index) {
        if let Some(message) = other_format(source, index, Format::Codex) {
            return Err(ParseError::at(index, message));
        }
        index += 1;
        if is_envelope_begin(text) {
            if begins_elsewhere(source, index) {
                let message = "the patch is wrapped in a `cd`: write paths from where lbx runs instead";
                return Err(ParseError::at(index.saturating_sub(2), message));
            }
            let crlf = source.ends_in_crlf(index - 1);
            let mut envelope = EnvelopeReader { source, at: index, last_end, crlf, files };
            envelope.read()?;
            (index, files) = (envelope.at, envelope.files);
        }
    }
    Ok(files)
}

/// Returns true if the line before the first line of the envelope changes the directory before it calls `apply_patch`.
fn begins_elsewhere(source: &PatchLines<'_>, after_begin: usize) -> bool {
    let before = after_begin.checked_sub(2).and_then(|index| source.text(index)).unwrap_or_default();
    before.trim_ascii().starts_with(b"cd ") && before.windows(2).any(|pair| pair == b"<<")
}

/// State of reading one envelope.
struct EnvelopeReader<'s, 'a> {
    /// Text of the patch.
    source: &'s PatchLines<'a>,
    /// Index of the next line.
    at: usize,
    /// Index of the last `*** End Patch` at the start of a line: before it, an indented one is context.
    last_end: Option<usize>,
    /// True if the patch itself has CRLF line endings, which then mean nothing.
    crlf: bool,
    /// Files read so far.
    files: Vec<FilePatch<'a>>,
}

impl<'a> EnvelopeReader<'_, 'a> {
    /// Reads up to `*** End Patch`.
    fn read(&mut self) -> Result<(), ParseError> {
        // Codex may work on several machines, but lbx has only this one.
        if self.source.text(self.at).is_some_and(|text| text.trim_ascii().starts_with(b"*** Environment ID:"))
        {
            self.at += 1;
        }
        while let Some(text) = self.source.text(self.at) {
            match envelope_line(text) {
                Some(EnvelopeLine::EndPatch) => {
                    self.at += 1;
                    return Ok(());
                }
                Some(EnvelopeLine::File(operation, path)) => self.file(operation, path)?,
                _ if text.trim_ascii().is_empty() => self.at += 1,
                _ => {
                    let message = format!(
                        "expected `*** Add File: PATH`, `*** Delete File: PATH` or `*** Update File: PATH`, found {:?}",
                        String::from_utf8_lossy(text)
                    );
                    return Err(ParseError::at(self.at, message));
                }
            }
        }
        Err(ParseError::at(
            self.source.len().saturating_sub(1),
            "the patch ends without `*** End Patch`: it may be cut short",
        ))
    }

    /// Reads the change of one file.
    fn file(&mut self, operation: FileOp, path: &'a [u8]) -> Result<(), ParseError> {
        let start = self.at;
        if path.is_empty() {
            return Err(ParseError::at(start, "this line names no file"));
        }
        self.at += 1;
        let mut file = FilePatch {
            operation,
            old_path: (operation != FileOp::Create).then(|| path.to_vec()),
            new_path: (operation != FileOp::Delete).then(|| path.to_vec()),
            prefix: PathPrefix::Unknown,
            body: PatchBody::Unseen,
            ..FilePatch::at(start)
        };
        if operation == FileOp::Create {
            file.body = PatchBody::Hunks(self.added(start)?);
        } else if operation == FileOp::Modify {
            self.move_to(&mut file)?;
            let hunks = self.hunks()?;
            if hunks.is_empty() && file.operation == FileOp::Modify {
                return Err(ParseError::at(start, "there is no hunk for this file"));
            }
            file.body = PatchBody::Hunks(hunks);
        }
        self.files.push(file);
        Ok(())
    }

    /// Reads `*** Move to:`, if it follows.
    fn move_to(&mut self, file: &mut FilePatch<'_>) -> Result<(), ParseError> {
        let Some(EnvelopeLine::MoveTo(path)) = self.source.text(self.at).and_then(envelope_line) else {
            return Ok(());
        };
        if path.is_empty() {
            return Err(ParseError::at(self.at, "this line names no file"));
        }
        self.at += 1;
        if file.new_path.as_deref() != Some(path) {
            file.operation = FileOp::Rename;
            file.new_path = Some(path.to_vec());
        }
        Ok(())
    }

    /// Reads the lines of an added file as one hunk; an empty file has none.
    fn added(&mut self, start: usize) -> Result<Vec<Hunk<'a>>, ParseError> {
        let mut hunk = Hunk { patch_line: start + 1, counts_match: true, ..Hunk::default() };
        let mut blanks = Vec::new();
        while let Some(text) = self.source.text(self.at).filter(|text| envelope_line(text).is_none()) {
            match text.split_first() {
                Some((b'+', rest)) => {
                    for index in blanks.drain(..) {
                        hunk.lines.push(self.line(index, LineKind::Added, b""));
                    }
                    hunk.lines.push(self.line(self.at, LineKind::Added, rest));
                }
                None => blanks.push(self.at),
                Some(_) => {
                    return Err(ParseError::at(self.at, "every line of an added file begins with `+`"));
                }
            }
            self.at += 1;
        }
        Ok(if hunk.lines.is_empty() { Vec::new() } else { vec![hunk] })
    }

    /// Reads the hunks of an updated file.
    fn hunks(&mut self) -> Result<Vec<Hunk<'a>>, ParseError> {
        let mut hunks = Vec::new();
        loop {
            let hunk = self.hunk()?;
            match (hunk.lines.is_empty(), hunk.anchors.is_empty(), hunk.at_end) {
                (false, ..) => hunks.push(hunk),
                (true, true, false) if self.at + 1 == hunk.patch_line => return Ok(hunks),
                _ => {
                    return Err(ParseError {
                        line: hunk.patch_line,
                        message: "this hunk has no lines".into(),
                    });
                }
            }
        }
    }

    /// Reads one hunk with its anchors; it has no lines if none follow.
    fn hunk(&mut self) -> Result<Hunk<'a>, ParseError> {
        self.skip_blanks();
        let mut hunk = Hunk { patch_line: self.at + 1, counts_match: true, appends: true, ..Hunk::default() };
        while let Some(text) = self.source.text(self.at).filter(|text| is_hunk_header(text)) {
            if let Some((old, new)) = hunk::starts(text) {
                (hunk.old_start, hunk.new_start) = (Some(old), Some(new));
            } else if let Some(anchor) = anchor(text) {
                hunk.anchors.push(anchor);
            }
            self.at += 1;
        }
        self.hunk_lines(&mut hunk)?;
        Ok(hunk)
    }

    /// Reads the lines of one hunk.
    fn hunk_lines(&mut self, hunk: &mut Hunk<'a>) -> Result<(), ParseError> {
        let mut blanks = Vec::new();
        while let Some(text) = self.source.text(self.at).filter(|text| !is_hunk_header(text)) {
            let (kind, rest) = match (envelope_line(text), text.split_first()) {
                (Some(EnvelopeLine::EndOfFile), Some((b'*', _))) => {
                    hunk.at_end = true;
                    self.at += 1;
                    break;
                }
                (Some(EnvelopeLine::MoveTo(_)), Some((b'*', _))) => {
                    return Err(ParseError::at(
                        self.at,
                        "`*** Move to:` belongs right after `*** Update File:`",
                    ));
                }
                (Some(_), Some((b'*', _))) => break,
                (Some(EnvelopeLine::EndPatch), _) if self.last_end.is_none_or(|last| last <= self.at) => {
                    break;
                }
                (_, None) => {
                    blanks.push(self.at);
                    self.at += 1;
                    continue;
                }
                (_, Some((b' ', rest))) => (LineKind::Context, rest),
                (_, Some((b'-', rest))) => (LineKind::Removed, rest),
                (_, Some((b'+', rest))) => (LineKind::Added, rest),
                (_, Some(_)) => return Err(ParseError::at(self.at, not_a_hunk_line(text))),
            };
            // An empty line inside a hunk is context that lost its space; one at its end is not part of it.
            for index in blanks.drain(..) {
                hunk.lines.push(self.line(index, LineKind::Context, b""));
            }
            hunk.lines.push(self.line(self.at, kind, rest));
            self.at += 1;
        }
        Ok(())
    }

    /// Skips empty lines.
    fn skip_blanks(&mut self) {
        while self.source.text(self.at).is_some_and(<[u8]>::is_empty) {
            self.at += 1;
        }
    }

    /// Returns the line with `index`, whose content is `text`.
    fn line(&self, index: usize, kind: LineKind, text: &'a [u8]) -> HunkLine<'a> {
        let is_crlf = !self.crlf && self.source.ends_in_crlf(index);
        HunkLine { kind, text, ending: if is_crlf { Ending::CrLf } else { Ending::Lf } }
    }
}

/// Returns the line that `@@ line` or `@@ line @@` names.
fn anchor(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_prefix(b"@@")?.trim_ascii_end();
    let text = text.strip_suffix(b"@@").unwrap_or(text);
    let text = text.strip_prefix(b" ").unwrap_or(text).trim_ascii_end();
    (!text.is_empty() && text != b"...").then_some(text)
}
