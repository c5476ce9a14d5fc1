//! Edits by line: sections `[PATH]` with `PUT`, `CUT`, `REM` and `MV`, as in Oh My Pi's language hashline.
//!
//! The numbers are those of the lines as the caller was shown them, so only a session knows the places: the parser
//! returns them as [`FileEdits`], and the caller fills in the [`Splice`](super::Splice)s of each file.

use std::collections::HashMap;

use super::model::{
    EditPlace, FileEdits, FileOp, FilePatch, Format, LineEdit, NewText, Patch, PatchBody, PathPrefix,
};
use super::plan::normal;
use super::source::{
    EnvelopeLine, ParseError, PatchLines, begins_section, envelope_line, is_envelope_begin, other_format,
    section_header,
};
use crate::sha256::DigestStart;
use crate::text::lines::LineSpan;

/// One line of a section.
#[derive(Clone, Copy)]
enum LineOperator<'a> {
    /// `PUT`, with rows below it if there is no register.
    Put(EditPlace, Option<&'a [u8]>),
    /// `CUT`, into a register.
    Cut(LineSpan, &'a [u8]),
    /// `REM`.
    Remove,
    /// `MV`.
    Move(&'a [u8]),
}

/// Reads the sections.
///
/// # Errors
/// Fails at the first line that is no operation, or if operations contradict each other.
pub(super) fn parse<'a>(source: &PatchLines<'a>) -> Result<Patch<'a>, ParseError> {
    let mut reader = ByLineReader {
        patch: Patch::of(Format::ByLine),
        files: HashMap::new(),
        registers: HashMap::new(),
        section: None,
        takes_rows: false,
    };
    let mut is_in_envelope = false;
    for index in 0..source.len() {
        let text = source.text(index).unwrap_or_default();
        // A section after several first lines of envelopes is searched for once.
        let begins = is_in_envelope || begins_section(source, index);
        is_in_envelope = begins && is_envelope_begin(text);
        if begins || (reader.section.is_some() && section_header(text).is_some()) {
            reader.begin_section(index, text)?;
        } else if reader.section.is_some() {
            reader.line(index, text)?;
        } else if let Some(message) = other_format(source, index, Format::ByLine) {
            return Err(ParseError::at(index, message));
        }
    }
    reader.end_section()?;
    for (file, of_file) in reader.patch.files.iter().zip(&reader.patch.by_line) {
        must_agree(file, of_file)?;
    }
    Ok(reader.patch)
}

/// State of the parser.
struct ByLineReader<'a> {
    /// Sections so far.
    patch: Patch<'a>,
    /// Index of each file in the patch.
    files: HashMap<Vec<u8>, usize>,
    /// File and edit of the last `CUT` into each register; the one without a name is empty.
    registers: HashMap<&'a [u8], (usize, usize)>,
    /// Current section: index of its line, index of its file, and number of its operations.
    section: Option<(usize, usize, usize)>,
    /// True if `+` rows may follow.
    takes_rows: bool,
}

impl<'a> ByLineReader<'a> {
    /// Begins a section; a later one of the same file adds to it.
    fn begin_section(&mut self, index: usize, text: &'a [u8]) -> Result<(), ParseError> {
        self.end_section()?;
        let Some((path, tag)) = section_header(text) else { return Ok(()) };
        let tag = tag.map(|tag| {
            String::from_utf8_lossy(tag).parse::<DigestStart>().map_err(|_| {
                let message =
                    "a tag is 8 digits or more of the file's SHA-256: leave it out, and lines count as they were shown";
                ParseError::at(index, message)
            })
        });
        let (path, tag) = (normal(path), tag.transpose()?);
        let next = self.patch.files.len();
        let file = *self.files.entry(path.clone()).or_insert(next);
        if file == next {
            let body = PatchBody::Splices(Vec::new());
            let (old_path, new_path) = (Some(path.clone()), Some(path));
            let prefix = PathPrefix::Unknown;
            self.patch.files.push(FilePatch { old_path, new_path, prefix, body, ..FilePatch::at(index) });
            self.patch.by_line.push(FileEdits { tag: tag.clone(), edits: Vec::new() });
        }
        if self.patch.by_line.get(file).is_some_and(|of_file| of_file.tag != tag) {
            return Err(ParseError::at(index, "this file has a section with another tag above"));
        }
        self.section = Some((index, file, 0));
        Ok(())
    }

    /// Ends the section.
    fn end_section(&mut self) -> Result<(), ParseError> {
        self.end_rows()?;
        match self.section.take() {
            Some((index, _, 0)) => Err(ParseError::at(index, "no PUT, CUT, REM or MV follows this line")),
            _ => Ok(()),
        }
    }

    /// Ends the rows of a `PUT`.
    fn end_rows(&mut self) -> Result<(), ParseError> {
        let last = self.section.and_then(|(_, file, _)| self.patch.by_line.get(file)?.edits.last());
        if let Some(LineEdit { patch_line, text: NewText::Rows(rows), .. }) = last
            && self.takes_rows
            && rows.is_empty()
        {
            let message = "this PUT has no `+` row below it; to delete lines, write CUT";
            return Err(ParseError::at(patch_line - 1, message));
        }
        self.takes_rows = false;
        Ok(())
    }

    /// Reads a line of a section.
    fn line(&mut self, index: usize, text: &'a [u8]) -> Result<(), ParseError> {
        let Some((start, file, operations)) = self.section else { return Ok(()) };
        if let Some(row) = text.strip_prefix(b"+") {
            let of_file = self.patch.by_line.get_mut(file).and_then(|of_file| of_file.edits.last_mut());
            return match of_file.map(|edit| &mut edit.text) {
                Some(NewText::Rows(rows)) if self.takes_rows => {
                    rows.push(row);
                    Ok(())
                }
                _ => Err(ParseError::at(index, "this row is below no PUT with a `:` at its end")),
            };
        }
        self.end_rows()?;
        let is_end = matches!(envelope_line(text), Some(EnvelopeLine::EndPatch)) || text.starts_with(b"```");
        if is_end {
            return self.end_section();
        }
        if text.trim_ascii().is_empty() {
            return Ok(());
        }
        let operator = operator(text).map_err(|message| ParseError::at(index, message))?;
        self.section = Some((start, file, operations + 1));
        self.take(index, file, operator)
    }

    /// Adds an operation to a file.
    fn take(&mut self, index: usize, file: usize, operator: LineOperator<'a>) -> Result<(), ParseError> {
        let (Some(patch), Some(of_file)) = (self.patch.files.get_mut(file), self.patch.by_line.get_mut(file))
        else {
            return Ok(());
        };
        let patch_line = index + 1;
        let mut push = |place, text| of_file.edits.push(LineEdit { patch_line, place, text });
        match operator {
            LineOperator::Put(place, None) => {
                push(place, NewText::Rows(Vec::new()));
                self.takes_rows = true;
            }
            LineOperator::Put(place, Some(name)) => {
                let Some(&(file, edit)) = self.registers.get(name) else {
                    let name = String::from_utf8_lossy(name).into_owned();
                    return Err(ParseError::at(index, format!("no CUT above fills the register {name:?}")));
                };
                push(place, NewText::Pasted { file, edit });
            }
            LineOperator::Cut(span, name) => {
                push(EditPlace::Lines(span), NewText::Cut);
                self.registers.insert(name, (file, of_file.edits.len() - 1));
            }
            LineOperator::Remove | LineOperator::Move(_) if patch.operation != FileOp::Modify => {
                return Err(ParseError::at(index, "this file is removed or moved above already"));
            }
            LineOperator::Remove => {
                (patch.operation, patch.new_path, patch.body) = (FileOp::Delete, None, PatchBody::Unseen);
            }
            LineOperator::Move(path) => {
                (patch.operation, patch.new_path) = (FileOp::Rename, Some(path.to_vec()));
            }
        }
        Ok(())
    }
}

/// Reads an operation.
fn operator(text: &[u8]) -> Result<LineOperator<'_>, String> {
    let text = text.trim_ascii_end();
    let (word, rest) = text
        .split_at_checked(text.iter().position(|byte| *byte == b' ').unwrap_or(text.len()))
        .unwrap_or_default();
    let rest = rest.trim_ascii();
    match word {
        b"REM" if rest.is_empty() => Ok(LineOperator::Remove),
        b"MV" if !rest.is_empty() => {
            let quoted = rest.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
            Ok(LineOperator::Move(quoted.unwrap_or(rest)))
        }
        b"PUT" => put(rest),
        b"CUT" => {
            let (at, name) = with_register(rest)?;
            match place(at)? {
                EditPlace::Lines(span) => Ok(LineOperator::Cut(span, name.unwrap_or_default())),
                EditPlace::After(_) | EditPlace::End => Err("CUT names lines, such as CUT 3.=5".into()),
            }
        }
        _ => Err(format!(
            "expected PUT, CUT, REM, MV, a `+` row or a section [PATH], but this is {:?}",
            String::from_utf8_lossy(text)
        )),
    }
}

/// Reads the rest of a `PUT`.
fn put(rest: &[u8]) -> Result<LineOperator<'_>, String> {
    if let Some(at) = rest.strip_suffix(b":") {
        return match with_register(at)? {
            (at, None) => Ok(LineOperator::Put(place(at)?, None)),
            (_, Some(_)) => Err("a PUT of a register takes no rows: write it without `:`".into()),
        };
    }
    let (at, name) = with_register(rest)?;
    let place = place(at)?;
    if name.is_none() && matches!(place, EditPlace::Lines(_)) {
        return Err("write `:` at the end, and the new lines below as `+` rows".into());
    }
    Ok(LineOperator::Put(place, Some(name.unwrap_or_default())))
}

/// Splits a place and the name of a register.
fn with_register(text: &[u8]) -> Result<(&[u8], Option<&[u8]>), String> {
    let Some((at, name)) =
        text.iter().position(|byte| *byte == b'@').and_then(|at| text.split_at_checked(at))
    else {
        return Ok((text, None));
    };
    let name = name.strip_prefix(b"@").unwrap_or(name);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if name.is_empty() || !name.iter().all(is_name) {
        return Err("the name of a register has letters, digits, `_` and `-`, such as @fn".into());
    }
    Ok((at.trim_ascii_end(), Some(name)))
}

/// Reads a place: `3.=5`, `3`, `<3`, `>3` or `>$`.
fn place(text: &[u8]) -> Result<EditPlace, String> {
    if text == b">$" {
        return Ok(EditPlace::End);
    }
    if text.ends_with(b"*") {
        return Err("a block by its first line (N*) is not known here: name the lines, such as 3.=5".into());
    }
    let text = std::str::from_utf8(text).unwrap_or_default();
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        let number = digits.parse::<u64>().ok().filter(|_| is_number);
        number.ok_or_else(|| format!("expected a place such as 3.=5, <3, >3 or >$, got {text:?}"))
    };
    if let Some(line) = text.strip_prefix('<') {
        return match number(line)? {
            0 => Err("lines count from 1".into()),
            line => Ok(EditPlace::After(line - 1)),
        };
    }
    if let Some(line) = text.strip_prefix('>') {
        return number(line).map(EditPlace::After);
    }
    let cut = [".=", "..", "-"].iter().find_map(|separator| text.split_once(separator));
    let (first, last) = cut.unwrap_or((text, text));
    let span = LineSpan { first: number(first)?, last: number(last)? };
    match span {
        LineSpan { first: 0, .. } => Err("lines count from 1".into()),
        LineSpan { first, last } if last < first => Err(format!("line {last} is before line {first}")),
        span => Ok(EditPlace::Lines(span)),
    }
}

/// Rejects edits of one file that contradict each other.
fn must_agree(file: &FilePatch<'_>, of_file: &FileEdits<'_>) -> Result<(), ParseError> {
    if file.operation == FileOp::Delete
        && let Some(put) = of_file.edits.iter().find(|edit| edit.text != NewText::Cut)
    {
        return Err(ParseError::at(
            put.patch_line - 1,
            "this file is removed (REM): there is nothing to put",
        ));
    }
    let shown = |place| match place {
        EditPlace::Lines(span) => Some((span.first, span.last)),
        EditPlace::After(line) => Some((line.saturating_add(1), line)),
        EditPlace::End => None,
    };
    let places = of_file.edits.iter().filter_map(|edit| Some((shown(edit.place)?, edit.patch_line)));
    match overlap(places.collect()) {
        Some((one, other)) => {
            let message = format!(
                "these lines, or the gap between two of them, are edited at line {one} of the patch too"
            );
            Err(ParseError::at(other - 1, message))
        }
        None => Ok(()),
    }
}

/// Returns the lines in the patch of two edits that overlap. Each edit has its first and last line; for a gap, the last
/// is the one before the first.
pub fn overlap(mut places: Vec<((u64, u64), usize)>) -> Option<(usize, usize)> {
    places.sort_unstable();
    let mut widest: Option<(u64, usize)> = None;
    for ((first, last), patch_line) in places {
        if let Some((end, other)) = widest
            && first <= end
        {
            return Some((other.min(patch_line), other.max(patch_line)));
        }
        if last >= first {
            widest = Some((last, patch_line));
        }
    }
    None
}
