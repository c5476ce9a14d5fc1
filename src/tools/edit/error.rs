//! Errors of edits that do not apply, with hints that lead to the intended text.

use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::{Value, json};

use super::find::{self, FileBody, FindError, MatchTally};
use super::step::{EditNumber, EditStep, MatchCount, TextToReplace};
use crate::engine::Engine;
use crate::engine::change::{Change, LockedFile};
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind, Message, text};
use crate::limits::{EDIT_PLACES_MAX, FLEXIBLE_PLACES_MAX, SEARCHED_FILE_BYTES_MAX, SEARCHED_FILES_MAX};
use crate::sha256::{DigestStart, Sha256};
use crate::text::checked::TextFault;
use crate::text::content::Content;
use crate::text::escaped::plural;
use crate::text::flexible::FlexibleTier;
use crate::text::lines::LineSpan;
use crate::text::nearest::{self, NearestRegion};
use crate::text::sketch::{PartName, SketchError};
use crate::text::{charset, lines, replace};

/// Error of the edits of a request on a text.
#[derive(Debug)]
pub struct EditError<'a> {
    /// Edit that failed.
    pub(super) named: EditNumber,
    /// Lines that the edit is limited to.
    lines: Option<LineSpan>,
    /// Text after the previous edits.
    body: FileBody<'a>,
    /// Reason.
    why: EditFault<'a>,
}

/// Reason why an edit fails.
#[derive(Debug)]
pub enum EditFault<'a> {
    /// Old text that does not identify a place within these bytes.
    Text(&'a TextToReplace, FindError, Range<usize>),
    /// Ambiguous or invalid sketch.
    Sketch(SketchError),
    /// Line in this field, which is past the end of the text.
    PastEnd(&'static str, u64),
    /// Lines of the edit, and the lines of another edit that they overlap.
    Overlap(LineSpan, LineSpan),
    /// Lines, as a byte range, that changed since they were read.
    OtherLines(Range<usize>, LineHashes),
    /// Lines that an earlier edit has changed.
    Touched,
    /// Number of places to replace, which is more than can be kept.
    TooManyPlaces(usize),
    /// Number of edits applied before the time ran out, and the total.
    OutOfTime(usize, usize),
    /// Failure to build the new text.
    Fault(TextFault),
}

impl From<TextFault> for EditFault<'_> {
    fn from(fault: TextFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<TextFault> for Box<EditError<'_>> {
    fn from(fault: TextFault) -> Self {
        let body = FileBody::Borrowed(b"");
        Self::new(EditError { named: EditNumber(None), lines: None, body, why: EditFault::Fault(fault) })
    }
}

impl<'a> EditError<'a> {
    /// Returns the error of an edit.
    pub fn of(step: &EditStep, body: FileBody<'a>, why: EditFault<'a>) -> Box<Self> {
        Box::new(Self { named: step.named, lines: step.lines, body, why })
    }

    /// Returns the text that is missing in the file.
    pub fn missing_text(&self) -> Option<&[u8]> {
        match &self.why {
            EditFault::Text(_, FindError::TooMany(..), _) => None,
            EditFault::Text(_, FindError::Nowhere(outside), _)
                if self.lines.is_some() && !outside.is_empty() =>
            {
                None
            }
            EditFault::Text(wanted, ..) => Some(wanted.old.as_bytes()),
            _ => None,
        }
    }

    /// Returns the error for the file at the displayed path.
    pub fn error(&self, shown: &str) -> Error {
        let (named, body) = (self.named, &*self.body);
        match &self.why {
            EditFault::Text(wanted, missed, scope) => {
                let text = SearchedText { body, named, wanted, lines: self.lines, shown };
                text.error(missed, scope)
            }
            EditFault::Sketch(refusal) => sketch(refusal, shown),
            EditFault::PastEnd(field, line) => {
                let total = lines::count(body);
                let has = plural(total, "line");
                let message = format!("line {line} is past the end: {shown} has {has}");
                named.invalid(field, message).at(shown).detail("total_lines", total)
            }
            EditFault::Overlap(one, other) => {
                let message = format!("{one} and {other} overlap: make one edit of the two");
                named.of_several(named.invalid("start_line", message))
            }
            EditFault::OtherLines(scope, shas) => {
                let there = body.get(scope.clone()).unwrap_or_default();
                let lines = self.lines.map_or_else(String::new, |lines| lines.to_string());
                let error = other_lines(named, &lines, there, shas, shown);
                match self.lines {
                    Some(LineSpan { first, last }) => {
                        error.detail("start_line", first).detail("end_line", last)
                    }
                    None => error,
                }
            }
            EditFault::Touched => named.of_several(named.invalid(
                "start_line",
                "an edit before it in the list has changed its lines: make one edit of the two",
            )),
            EditFault::TooManyPlaces(count) => {
                let message = text!(
                    "`old_string` appears {} times in {}; among several edits at most {} can be replaced",
                    count,
                    shown,
                    EDIT_PLACES_MAX
                );
                named
                    .refusal(ErrorKind::TooLarge, message, shown)
                    .suggest("Make this edit in a call of its own.")
            }
            EditFault::OutOfTime(done, all) => {
                let message = format!(
                    "the edits of {shown} ran out of time after {done} of {all}; nothing was changed"
                );
                named.of_several(Error::new(ErrorKind::Timeout, message).at(shown)).suggest(
                    "Give fewer edits in one call, with old strings exactly as they are in the file.",
                )
            }
            EditFault::Fault(fault) => fault.error(shown),
        }
    }
}

/// Largest number of places in an error.
const PLACES_LISTED: usize = 20;
/// Smallest number of bytes of a new text, without blanks, for which an error mentions it.
const TELLING_BYTES_MIN: usize = 4;
/// Largest number of places of a shorter text that an error lists.
const SHORT_PLACES_MAX: usize = 3;
/// Characters of a line in an error.
const LINE_CHARACTERS: usize = 80;
/// Bytes of the current lines that an error shows.
const THERE_BYTES: usize = 2000;

/// Longest text for which the most similar place is searched, in bytes: a longer diff helps nobody, and takes many
/// times its size in memory.
const DIAGNOSED_BYTES_MAX: usize = 1 << 20;

/// Old text that does not identify a place.
pub struct SearchedText<'t> {
    /// Text in which it was searched.
    pub body: &'t [u8],
    /// Edit of the old text.
    pub named: EditNumber,
    /// Text to replace.
    pub wanted: &'t TextToReplace,
    /// Lines that the edit is limited to.
    pub lines: Option<LineSpan>,
    /// Path of the file, for display.
    pub shown: &'t str,
}

impl SearchedText<'_> {
    /// Returns the error.
    pub fn error(&self, missed: &FindError, scope: &Range<usize>) -> Error {
        match missed {
            FindError::TooMany(tier, places) => self.ambiguous(*tier, places),
            FindError::TooFew(places) => self.too_few(places),
            FindError::Unfit(tier, place, why) => self.conversion_error(*tier, place, &why.0),
            FindError::Nowhere(outside) => self.no_match(scope, outside),
        }
    }

    /// Returns the error for an old text that does not exist.
    fn no_match(&self, scope: &Range<usize>, outside: &[Range<usize>]) -> Error {
        let Self { body, wanted, shown, .. } = *self;
        let message = text!(
            "`old_string` not found in {}. Make sure it matches exactly (including whitespace).",
            shown
        );
        let mut error = self.named.refusal(ErrorKind::NoMatch, message, shown);
        let mut hints: Vec<Message> = Vec::new();
        if let Some((hint, places)) = new_text_at(body, wanted) {
            hints.extend(hint);
            error = error.detail("new_string_at", places);
        }
        if let Some((hint, places)) = self.places_outside(outside) {
            return error.suggest(hint).detail("outside", places);
        }
        let old = wanted.old.as_bytes();
        if old.len() > DIAGNOSED_BYTES_MAX {
            hints.push(text!(
                "An `old_string` of {} bytes is not compared with {}: replace less text at once. Lines can be replaced by `start_line`, `end_line` and `range_sha256`.",
                old.len(), shown
            ));
            return error.suggest(Message::sentences(hints));
        }
        let flexible = would_match(body, wanted, scope);
        let near = match &flexible {
            Some(FlexibleMatch { only: Some((first, last)), .. }) => {
                nearest::at_lines(body, old, *first, *last)
            }
            Some(_) | None => nearest::nearest(body, old),
        };
        if let Some(near) = &near {
            error = error.detail("nearest", nearest_json(near));
        }
        if let Some(FlexibleMatch { hint, detail, .. }) = flexible {
            hints.push(hint);
            error = error.detail("flexible", detail);
        }
        if let Some(line) = line_in_other_case(body, wanted, scope) {
            hints.push(format!("It occurs at line {line} in different letter case.").into());
            error = error.detail("other_case", json!({ "line": line }));
        }
        let is_lossy = wanted.old.contains('\u{fffd}') && std::str::from_utf8(body).is_err();
        if is_lossy {
            hints.push(
                "The file is not UTF-8: \u{fffd} marks bytes that `old_string` cannot contain. Give the text next to them. Lines can be replaced by `start_line`, `end_line` and `range_sha256`.".into(),
            );
        }
        if let Some((hint, likely)) = encoding_hint(body, wanted).filter(|_| !is_lossy) {
            hints.push(hint);
            error = error.detail("likely_encoding", likely);
        }
        hints.push(self.source(near.as_ref(), is_lossy, hints.is_empty()));
        error.suggest(Message::sentences(hints))
    }

    /// Returns a sentence that says where the text can come from.
    fn source(&self, near: Option<&NearestRegion>, is_lossy: bool, is_only: bool) -> Message {
        match near {
            Some(near) => self.nearest_lines(near, is_lossy),
            None if self.body.is_empty() => text!("{} is empty: `write` puts text there.", self.shown),
            None if is_only => text!(
                "Nothing in {} is similar: read the file. To find the text in other files, use `grep`.",
                self.shown
            ),
            None => "Read the file, and take `old_string` from it.".into(),
        }
    }

    /// Returns a sentence about the most similar lines. Advises copying them, unless they are shown lossily.
    fn nearest_lines(&self, near: &NearestRegion, is_lossy: bool) -> Message {
        let (first, last) = (near.start_line, near.end_line);
        let lines = if first == last {
            format!("Line {first} of {} is", self.shown)
        } else {
            format!("Lines {first} to {last} of {} are", self.shown)
        };
        let nearest = text!("{} nearest", lines);
        let nearest = if is_lossy { nearest } else { nearest.followed_by(": take `old_string` from there") };
        nearest.followed_by(". `details.nearest` shows what differs.")
    }

    /// Returns the places of the text outside the lines that the edit is limited to.
    fn places_outside(&self, places: &[Range<usize>]) -> Option<(String, Vec<Value>)> {
        let lines = self.lines?;
        let named = line_list(self.body, places)?;
        let hint = match lines {
            LineSpan { first, last: u64::MAX } => {
                format!("It occurs at {named}, but not entirely within lines {first} to the end.")
            }
            lines => format!("It occurs at {named}, but not entirely within {lines}."),
        };
        Some((hint, place_lines(self.body, places)))
    }

    /// Returns the error for a text with the wrong number of matches.
    fn ambiguous(&self, tier: Option<FlexibleTier>, tally: &MatchTally) -> Error {
        let Self { body, wanted, shown, .. } = *self;
        // Overlapping matches cannot be replaced together; if a single one is allowed, none is certain.
        let is_one = tally.apart == 1 && !matches!(wanted.count, MatchCount::Exactly(_));
        let (places, count) =
            if is_one { (&tally.first, tally.all) } else { (&tally.first_apart, tally.apart) };
        let other = match wanted.count {
            MatchCount::Exactly(expected) => format!(", not {expected}"),
            MatchCount::One | MatchCount::All | MatchCount::Nth(_) => String::new(),
        };
        // A tier stops its search at this number.
        let least = if tier.is_some() && count >= FLEXIBLE_PLACES_MAX { "at least " } else { "" };
        let message = text!(
            "`old_string` appears {}{} times in {}{}. Include more surrounding context to make it unique.",
            least,
            count,
            shown,
            other
        );
        let lines = line_list(body, places).unwrap_or_default();
        let suggestion = match (tier, wanted.count) {
            (Some(tier), _) => text!(
                "It occurs nowhere exactly; apart from {} it occurs at {}: copy `old_string` from the place that you mean.",
                tier.difference(),
                lines
            ),
            (None, MatchCount::Exactly(_)) => text!(
                "Include more of the lines around the one meant ({}). To change all, set `expected_replacements` to {}.",
                lines,
                count
            ),
            (None, MatchCount::One | MatchCount::All | MatchCount::Nth(_)) => text!(
                "It occurs at {}: include more surrounding lines. To pick one, set `occurrence` or `start_line`. To replace all {}, set `replace_all`.",
                lines,
                count
            ),
        };
        let error = self
            .named
            .refusal(ErrorKind::AmbiguousMatch, message, shown)
            .suggest(suggestion)
            .detail("count", count)
            .detail("places", place_lines(body, places));
        match tier {
            Some(tier) => error.detail("match", tier.name()),
            None => error,
        }
    }

    /// Returns the error for a match number that is too high.
    fn too_few(&self, tally: &MatchTally) -> Error {
        let Self { body, wanted, shown, .. } = *self;
        let (places, count) = (&tally.first_apart, tally.apart);
        let number = match wanted.count {
            MatchCount::Nth(number) => number,
            MatchCount::One | MatchCount::All | MatchCount::Exactly(_) => 1,
        };
        let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
        let message =
            text!("`old_string` appears {} in {}: occurrence {} does not exist", times, shown, number);
        let lines = line_list(body, places).unwrap_or_default();
        self.named
            .refusal(ErrorKind::NoMatch, message, shown)
            .suggest(text!("Give an `occurrence` from 1 to {}: it occurs at {}.", count, lines))
            .detail("count", count)
            .detail("places", place_lines(body, places))
    }

    /// Returns the error for a new text that cannot be converted to the form of the file.
    fn conversion_error(&self, tier: FlexibleTier, place: &Range<usize>, why: &str) -> Error {
        let Self { body, shown, .. } = *self;
        let lines = replace::line_ranges(body, std::slice::from_ref(place), 1);
        let (first, last) = lines.first().copied().unwrap_or_default();
        let span = LineSpan { first, last };
        let message = text!(
            "`old_string` not found in {}. Apart from {} it occurs at {}, but `new_string` does not fit the form of the file there: {}.",
            shown,
            tier.difference(),
            span,
            why
        );
        self.named
            .refusal(ErrorKind::NoMatch, message, shown)
            .suggest(format!("Read {span} of {shown} and repeat the edit in exactly that form."))
            .detail("match", tier.name())
            .detail("start_line", first)
            .detail("end_line", last)
    }
}

/// Returns the hint for a text beyond ASCII in a file that is not UTF-8, and the likely encoding.
fn encoding_hint(body: &[u8], wanted: &TextToReplace) -> Option<(Message, String)> {
    if wanted.old.is_ascii() || std::str::from_utf8(body).is_ok() {
        return None;
    }
    let likely = charset::likely_encodings(body)?;
    let hint =
        text!("The file is not UTF-8. Set `encoding` to find text beyond ASCII, likely to {}.", likely);
    Some((hint, likely))
}

/// Returns the places of the new text, which may mean that the edit was already applied. The hint is only for a text in
/// one place that is unlikely to be there by chance.
fn new_text_at(body: &[u8], wanted: &TextToReplace) -> Option<(Option<Message>, Vec<Value>)> {
    if wanted.new.trim().is_empty() {
        return None;
    }
    // A text that is only similar may be the text to change.
    let mut places = find::new_text(body, wanted, &(0..body.len()));
    let plain = |text: &[u8]| lines::with_ending(text, b"\n");
    let new = plain(wanted.new.as_bytes());
    let is_it = |found: Vec<u8>| found == new || found.strip_suffix(b"\n") == Some(&new);
    places.retain(|place| body.get(place.clone()).is_some_and(|found| is_it(plain(found))));
    let listed = replace::line_ranges(body, &places, PLACES_LISTED);
    let &(first, _) = listed.first()?;
    let is_long = wanted.new.bytes().filter(|byte| !byte.is_ascii_whitespace()).count() >= TELLING_BYTES_MIN;
    // A few letters that occur everywhere prove nothing.
    if !is_long && places.len() > SHORT_PLACES_MAX {
        return None;
    }
    let hint = (is_long && places.len() == 1).then(|| {
        text!(
            "`new_string` already occurs at line {}: if this edit was made before, nothing is left to do.",
            first
        )
    });
    let place = |(first, last)| json!({ "start_line": first, "end_line": last });
    Some((hint, listed.into_iter().map(place).collect()))
}

/// Returns the most similar region as JSON.
fn nearest_json(near: &NearestRegion) -> Value {
    json!({
        "start_line": near.start_line,
        "end_line": near.end_line,
        "ratio": (f64::from(near.ratio) * 100.0).round() / 100.0,
        "line": near.first_difference.0,
        "column": near.first_difference.1,
        "difference": near.difference,
    })
}

/// Match that `match: "flexible"` would find.
struct FlexibleMatch {
    /// Hint for a person or a model.
    hint: Message,
    /// Detail for programs.
    detail: Value,
    /// Lines of the place, if there is only one.
    only: Option<(u64, u64)>,
}

/// Searches for a match with `match: "flexible"`.
fn would_match(body: &[u8], wanted: &TextToReplace, scope: &Range<usize>) -> Option<FlexibleMatch> {
    if wanted.flexible || wanted.word {
        return None;
    }
    let found = find::by_tier(body, &wanted.old, &wanted.new, scope)?;
    let lines = replace::line_ranges(body, &found.ranges, 1);
    let &(first, last) = lines.first()?;
    let count = found.ranges.len();
    let detail = json!({ "match": found.tier.name(), "count": count, "start_line": first, "end_line": last });
    let (difference, span) = (found.tier.difference(), LineSpan { first, last });
    let hint = match (count, &found.new_text) {
        (1, Ok(_)) => text!(
            "Apart from {} it occurs at {}. To replace it there, set `match` to \"flexible\".",
            difference,
            span
        ),
        (1, Err(_)) => format!("Apart from {difference} it occurs at {span}.").into(),
        _ if count >= FLEXIBLE_PLACES_MAX => {
            format!("Apart from {difference} it occurs in very many places.").into()
        }
        _ => format!("Apart from {difference} it occurs in {count} places.").into(),
    };
    Some(FlexibleMatch { hint, detail, only: (count == 1).then_some((first, last)) })
}

/// Returns the line of a text that differs only in case.
fn line_in_other_case(body: &[u8], wanted: &TextToReplace, scope: &Range<usize>) -> Option<u64> {
    let folded = body.to_ascii_lowercase();
    let places = find::exact(&folded, &wanted.old.to_ascii_lowercase(), wanted.word, scope);
    replace::line_ranges(body, places.get(..1)?, 1).first().map(|lines| lines.0)
}

/// SHA-256 of lines.
#[derive(Debug)]
pub struct LineHashes {
    /// Expected value.
    pub expected: DigestStart,
    /// Actual value.
    pub actual: Sha256,
}

/// Returns the error for lines that do not match their SHA-256.
pub fn other_lines(named: EditNumber, lines: &str, there: &[u8], shas: &LineHashes, shown: &str) -> Error {
    let message = text!("{} of {} do not have this `range_sha256`", lines, shown);
    let text = String::from_utf8_lossy(there);
    let cut = text.char_indices().map(|(at, _)| at).find(|&at| at >= THERE_BYTES);
    let text = match cut {
        Some(cut) => format!("{}…", text.get(..cut).unwrap_or_default()),
        None => text.into_owned(),
    };
    named
        .refusal(ErrorKind::StaleFile, message, shown)
        .suggest(text!(
            "Read {} of {} again, and repeat the edit with the lines meant now and their `range_sha256`.",
            lines,
            shown
        ))
        .detail("expected_sha256", shas.expected.to_string())
        .detail("actual_sha256", shas.actual.to_hex())
        .detail("content", text)
}

/// Returns the error for a sketch.
pub fn sketch(refusal: &SketchError, shown: &str) -> Error {
    let named = |part: &PartName| {
        let (first, last) = part.lines;
        let lines = LineSpan { first: first as u64, last: last as u64 };
        format!("part {} of the sketch ({lines}, beginning `{}`)", part.number, part.text.trim())
    };
    let detailed = |error: Error, part: &PartName| {
        error
            .at(shown)
            .detail("part", part.number)
            .detail("start_line", part.lines.0)
            .detail("end_line", part.lines.1)
    };
    match refusal {
        SketchError::Fault(fault) => fault.error(shown),
        SketchError::Unreadable { line, why } => Error::invalid(format!("sketch, line {line}: {why}"))
            .at(shown)
            .detail("field", "sketch")
            .detail("line", *line)
            .suggest("Between markers, give lines of the file around what changes; all else stays."),
        SketchError::NoPlace { part, why } => detailed(
            Error::new(ErrorKind::NoMatch, format!("{} has no place in {shown}: {why}", named(part))),
            part,
        )
        .suggest("Read the file, and begin and end each part of the sketch with lines of it, unchanged and in its order."),
        SketchError::Ambiguous { part, why, lines } => detailed(
            Error::new(ErrorKind::AmbiguousMatch, format!("{} can be read in several ways: {why}", named(part))),
            part,
        )
        .detail("lines", lines.clone())
        .suggest("Give the part more of the file's unchanged lines, or name the lines by `start_line` and `end_line`."),
    }
}

/// Returns the lines of the first places, each once: its number, the start of its first place, and the number of places.
fn counted_lines(body: &[u8], places: &[Range<usize>]) -> Vec<(u64, usize, usize)> {
    let mut counted: Vec<(u64, usize, usize)> = Vec::new();
    for (place, (line, _)) in places.iter().zip(replace::line_ranges(body, places, places.len())) {
        let is_full = counted.len() > PLACES_LISTED;
        match counted.last_mut() {
            Some((last, _, count)) if *last == line => *count += 1,
            _ if is_full => break,
            _ => counted.push((line, place.start, 1)),
        }
    }
    counted
}

/// Returns the lines of the first places, each with the one before it and, if there are several, the number of places.
fn place_lines(body: &[u8], places: &[Range<usize>]) -> Vec<Value> {
    let terminator = lines::terminator(body);
    let place = |(line, start, count): (u64, usize, usize)| {
        let start = line_start(body, start, terminator);
        let mut listed = json!({ "line": line, "text": line_at(body, start, terminator) });
        let Some(fields) = listed.as_object_mut() else { return listed };
        if let Some(before) = start.checked_sub(1) {
            let before = line_at(body, line_start(body, before, terminator), terminator);
            fields.insert("before".to_owned(), before.into());
        }
        if count > 1 {
            fields.insert("count".to_owned(), count.into());
        }
        listed
    };
    counted_lines(body, places).into_iter().take(PLACES_LISTED).map(place).collect()
}

/// Returns the lines of the first places as text; `None` if the list is empty.
fn line_list(body: &[u8], places: &[Range<usize>]) -> Option<String> {
    let lines = counted_lines(body, places);
    let number = |&(line, _, count): &(u64, usize, usize)| match count {
        1 => line.to_string(),
        count => format!("{line} ({count} times)"),
    };
    let numbers: Vec<String> = lines.iter().take(PLACES_LISTED).map(number).collect();
    let more = if lines.len() > numbers.len() { ", …" } else { "" };
    match numbers.as_slice() {
        [] => None,
        [only] => Some(format!("line {only}")),
        _ => Some(format!("lines {}{more}", numbers.join(", "))),
    }
}

/// Returns the start of the line that contains a byte.
fn line_start(body: &[u8], offset: usize, terminator: u8) -> usize {
    memchr::memrchr(terminator, body.get(..offset).unwrap_or_default()).map_or(0, |at| at + 1)
}

/// Returns the line that begins at `start`, shortened, its whitespace visible.
fn line_at(body: &[u8], start: usize, terminator: u8) -> String {
    let rest = body.get(start..).unwrap_or_default();
    let end = memchr::memchr(terminator, rest).map_or(rest.len(), |at| at + 1);
    let line = nearest::visible(rest.get(..end).unwrap_or_default());
    line.trim_end_matches('␍').chars().take(LINE_CHARACTERS).collect()
}

/// Returns the error for edits that fail, with hints from outside the current text of the file.
pub fn explained(change: &mut Change<'_>, current: &LockedFile, miss: &EditError<'_>) -> Error {
    let error = miss.error(current.place().display());
    let Some(old) = miss.missing_text() else { return error };
    let error = with_older_state(change, current, old, error);
    let path = current.place().path().clone();
    let elsewhere = of_the_same_name(change.engine(), &path, old);
    match elsewhere.first() {
        None => error,
        Some(first) => {
            let hint = format!("{first} has just this text: is it the file you mean?");
            error.suggest_first(hint).detail("elsewhere", elsewhere)
        }
    }
}

/// Adds a note if the text was in the file when this session last saw it.
fn with_older_state(change: &Change<'_>, current: &LockedFile, old: &[u8], error: Error) -> Error {
    let path = current.place().path();
    let stale = change.mark(path).map(|mark| mark.sha256).filter(|seen| *seen != current.sha256());
    let Some(seen) = stale else { return error };
    let stood = change.bytes_seen(path, seen).is_some_and(|bytes| has(&bytes, old));
    let what = if stood { ", and then had this text" } else { "" };
    let hint = format!("The file was another when this session last saw it{what}.");
    error.suggest_first(hint).detail("changed_since_read", true)
}

/// Returns true if the bytes of a file contain a text.
fn has(bytes: &[u8], old: &[u8]) -> bool {
    Content::of(bytes, None).is_ok_and(|view| !replace::places(&view.body, old, false).is_empty())
}

/// Returns other files with this name that contain the text; skips ignored and hidden ones.
fn of_the_same_name(engine: &Engine, path: &WorkspacePath, old: &[u8]) -> Vec<String> {
    let is_hidden =
        |found: &WorkspacePath| found.as_path().iter().any(|part| part.as_bytes().starts_with(b"."));
    let found = engine.workspace.of_the_same_name(path);
    found
        .filter(|found| found != path && found.name() == path.name() && !is_hidden(found))
        .take(SEARCHED_FILES_MAX)
        .filter(|found| bytes_of(engine, found).is_some_and(|bytes| has(&bytes, old)))
        .map(|found| engine.workspace.display(&found))
        .take(3)
        .collect()
}

/// Returns the bytes of a file that is not too large.
fn bytes_of(engine: &Engine, path: &WorkspacePath) -> Option<Vec<u8>> {
    let (file, _) = engine.workspace.open_regular(path, "").ok()?;
    let mut bytes = Vec::new();
    file.take(SEARCHED_FILE_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= SEARCHED_FILE_BYTES_MAX).then_some(bytes)
}
