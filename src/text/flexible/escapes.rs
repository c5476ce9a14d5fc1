//! Escapes that belong to JSON and were sent twice: `\n`, `\t`, `\"`.
//!
//! Either the whole text is the inside of a JSON string, on one line and without a bare quote, or only its quotes are
//! escaped. Otherwise each escape matches either its letters or its meaning, as the file has it (`letters`). The new
//! text is read in the same way, but only if that is beyond doubt.

use std::borrow::Cow;

use super::WorkBudget;
use super::place::{MatchedLines, Mismatch};
use crate::limits::FLEXIBLE_PLACES_MAX;
use crate::text::checked::{slice, slice_or_empty};

/// How a text is escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EscapeForm {
    /// All of it, as the inside of a JSON text.
    Whole,
    /// Its quotes alone.
    Quotes,
}

/// Returns the places of `old` in the text, read without escapes.
pub fn places(text: &[u8], old: &[u8], work: &WorkBudget) -> Vec<MatchedLines> {
    let Some((_, plain)) = unescaped(text, old) else {
        return letter_places(text, old, work);
    };
    memchr::memmem::find_iter(text, &plain)
        .map(|start| MatchedLines::as_one_line(start..start + plain.len()))
        .take(FLEXIBLE_PLACES_MAX)
        .collect()
}

/// Returns `new` without escapes, read as `old` was.
///
/// # Errors
/// Fails if its escapes may be meant literally.
pub fn new_text(text: &[u8], place: &MatchedLines, old: &[u8], new: &[u8]) -> Result<Vec<u8>, Mismatch> {
    match unescaped(text, old) {
        Some((EscapeForm::Whole, plain)) => whole_new(&plain, new),
        Some((EscapeForm::Quotes, _)) => Ok(without_quote_escapes(new).into_owned()),
        None => letters_new_text(text, place, old, new),
    }
}

/// Returns `old` without escapes, in the first reading that the text contains.
fn unescaped(text: &[u8], old: &[u8]) -> Option<(EscapeForm, Vec<u8>)> {
    let has_any = [&b"\\n"[..], b"\\t", b"\\\"", b"\\r\\n"].iter().any(|kind| contains(old, kind));
    let whole = || json_text(old).filter(|_| has_any).map(|plain| (EscapeForm::Whole, plain));
    let quotes = || match without_quote_escapes(old) {
        Cow::Owned(plain) => Some((EscapeForm::Quotes, plain)),
        Cow::Borrowed(_) => None,
    };
    let stands = |plain: &(EscapeForm, Vec<u8>)| !plain.1.is_empty() && contains(text, &plain.1);
    whole().filter(stands).or_else(|| quotes().filter(stands))
}

/// Returns true if a text contains a part.
fn contains(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}

/// Reads a text as the inside of a JSON string; CR LF in it counts as LF.
fn json_text(escaped: &[u8]) -> Option<Vec<u8>> {
    let quoted = [b"\"", escaped, b"\""].concat();
    let text: String = serde_json::from_slice(&quoted).ok()?;
    Some(text.replace("\r\n", "\n").into_bytes())
}

/// Returns the new text for an old text that was all escaped.
fn whole_new(old_plain: &[u8], new: &[u8]) -> Result<Vec<u8>, Mismatch> {
    let doubt = |what: &str| Mismatch(format!("its escapes may be meant as they stand: {what}"));
    if !new.contains(&b'\\') {
        return Ok(new.to_vec());
    }
    let plain = json_text(new)
        .ok_or_else(|| doubt("next to them it has line breaks or quotes that old_string does not have"))?;
    // An escape inside a string of the program looks the same.
    if plain.contains(&b'\n') && !old_plain.contains(&b'\n') {
        return Err(doubt("old_string has no escaped line break"));
    }
    let has_tab_inside = |text: &[u8]| {
        text.split(|&byte| byte == b'\n').any(|line| super::place::trimmed(line).contains(&b'\t'))
    };
    if has_tab_inside(&plain) && !has_tab_inside(old_plain) {
        return Err(doubt("old_string has no escaped tab inside a line"));
    }
    Ok(plain)
}

/// Returns a text with bare quotes for `\"` and `\'`.
fn without_quote_escapes(text: &[u8]) -> Cow<'_, [u8]> {
    if !contains(text, b"\\\"") && !contains(text, b"\\'") {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter().peekable();
    while let Some(&byte) = bytes.next() {
        if byte != b'\\' || !matches!(bytes.peek(), Some(b'"' | b'\'')) {
            plain.push(byte);
        }
    }
    Cow::Owned(plain)
}

/// A piece of a text with escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// A byte.
    Byte(u8),
    /// An escape.
    Escape(Escape),
}

/// An escape sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Escape {
    /// Its letters.
    letters: &'static [u8],
    /// Byte that it means.
    meaning: u8,
}

/// Known escapes; a longer one comes before its own prefix.
const ESCAPES: [Escape; 5] = [
    Escape { letters: b"\\r\\n", meaning: b'\n' },
    Escape { letters: b"\\n", meaning: b'\n' },
    Escape { letters: b"\\t", meaning: b'\t' },
    Escape { letters: b"\\\"", meaning: b'"' },
    Escape { letters: b"\\\\", meaning: b'\\' },
];

/// How an escape is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EscapeReading {
    /// As the byte that it means.
    Meant,
    /// As its letters.
    Letters,
}

/// Splits a text into tokens.
fn tokens(text: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, more)) = rest.split_first() {
        let escape =
            ESCAPES.into_iter().find_map(|escape| Some((escape, rest.strip_prefix(escape.letters)?)));
        let (token, more) =
            escape.map_or((Token::Byte(byte), more), |(escape, more)| (Token::Escape(escape), more));
        tokens.push(token);
        rest = more;
    }
    tokens
}

/// Returns the places of `old`, with each escape read as the file has it and at least one read as its meaning.
pub fn letter_places(text: &[u8], old: &[u8], work: &WorkBudget) -> Vec<MatchedLines> {
    let tokens = tokens(old);
    let has_any = tokens.iter().any(|token| matches!(token, Token::Escape(escape) if is_layout(*escape)));
    let Some((first, needle)) = longest_plain(&tokens).filter(|_| has_any) else {
        return Vec::new();
    };
    let place = |hit: usize| {
        work.line(&needle)?;
        let before = matched_before(text, hit, tokens.get(..first)?, work)?;
        let (end, readings) = matched(text, before, &tokens, work)?;
        let is_read = tokens.iter().filter_map(escape_of).zip(&readings);
        let mut meant =
            is_read.filter(|(escape, reading)| is_layout(*escape) && **reading == EscapeReading::Meant);
        meant.next().map(|_| MatchedLines::as_one_line(before..end))
    };
    memchr::memmem::find_iter(text, &needle).filter_map(place).take(FLEXIBLE_PLACES_MAX).collect()
}

/// Returns true if an escape means a line break or a tab.
const fn is_layout(escape: Escape) -> bool {
    matches!(escape.meaning, b'\n' | b'\t')
}

/// Returns the escape of a token.
fn escape_of(token: &Token) -> Option<Escape> {
    match token {
        Token::Escape(escape) => Some(*escape),
        Token::Byte(_) => None,
    }
}

/// Returns the longest run of bytes between escapes, and the index of its first token.
fn longest_plain(tokens: &[Token]) -> Option<(usize, Vec<u8>)> {
    let mut longest = 0..0;
    let mut start = 0;
    for (at, token) in tokens.iter().enumerate() {
        if matches!(token, Token::Escape(_)) {
            start = at + 1;
        } else if at + 1 - start > longest.len() {
            longest = start..at + 1;
        }
    }
    let bytes = tokens.get(longest.clone())?.iter().filter_map(|token| match token {
        Token::Byte(byte) => Some(*byte),
        Token::Escape(_) => None,
    });
    (!longest.is_empty()).then(|| (longest.start, bytes.collect()))
}

/// Returns the start of `tokens` if they end at `end`.
fn matched_before(text: &[u8], end: usize, tokens: &[Token], work: &WorkBudget) -> Option<usize> {
    let mut end = end;
    for token in tokens.iter().rev() {
        work.line(b"")?;
        let head = text.get(..end)?;
        end = match token {
            Token::Byte(byte) => head.strip_suffix(&[*byte])?.len(),
            Token::Escape(escape) => {
                head.strip_suffix(escape.letters).or_else(|| head.strip_suffix(&[escape.meaning]))?.len()
            }
        };
    }
    Some(end)
}

/// Returns the end of `tokens` if they begin at `start`, and how each escape is read there.
fn matched(
    text: &[u8],
    start: usize,
    tokens: &[Token],
    work: &WorkBudget,
) -> Option<(usize, Vec<EscapeReading>)> {
    let mut rest = text.get(start..)?;
    let mut readings = Vec::new();
    for token in tokens {
        work.line(b"")?;
        rest = match token {
            Token::Byte(byte) => rest.strip_prefix(&[*byte])?,
            Token::Escape(escape) => {
                let letters = rest.strip_prefix(escape.letters);
                readings.push(if letters.is_some() { EscapeReading::Letters } else { EscapeReading::Meant });
                letters.or_else(|| rest.strip_prefix(&[escape.meaning]))?
            }
        };
    }
    Some((text.len() - rest.len(), readings))
}

/// Returns `new`, with its escapes read as those of `old` are at the place.
///
/// # Errors
/// Fails if an escape can be read in two ways.
pub fn letters_new_text(
    text: &[u8],
    place: &MatchedLines,
    old: &[u8],
    new: &[u8],
) -> Result<Vec<u8>, Mismatch> {
    let (old, new) = (tokens(old), tokens(new));
    let work = WorkBudget::new();
    let readings = matched(text, place.range.start, &old, &work).map(|(_, readings)| readings);
    let readings = readings.ok_or_else(|| Mismatch("its escapes cannot be told from text".to_owned()))?;
    let known = EscapeReadings::of(&old, &readings);
    let head = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let most = old.len().min(new.len()) - head;
    let tail =
        old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(one, other)| one == other).count();
    let escapes_in = |tokens: &[Token]| tokens.iter().filter_map(escape_of).count();
    let (all, last) = (escapes_in(&new), escapes_in(slice(&new, new.len() - tail..new.len())?));
    let first = escapes_in(slice(&new, 0..head)?);
    let guessed = lexed(&new);
    let mut chosen = Vec::with_capacity(all);
    for (number, escape) in new.iter().filter_map(escape_of).enumerate() {
        let same = if number < first {
            readings.get(number)
        } else if number + last >= all {
            (number + readings.len()).checked_sub(all).and_then(|at| readings.get(at))
        } else {
            None
        };
        let reading = match same {
            Some(reading) => Some(*reading),
            None => known.reading(escape, guessed.get(number).copied().flatten()),
        };
        chosen.push(reading.ok_or_else(|| {
            let letters = String::from_utf8_lossy(escape.letters);
            Mismatch(format!("its escapes may be meant as they stand: `{letters}` in what is new"))
        })?);
    }
    let mut chosen = chosen.into_iter();
    let mut plain = Vec::with_capacity(new.len());
    for token in new {
        match token {
            Token::Byte(byte) => plain.push(byte),
            Token::Escape(escape) => match chosen.next() {
                Some(EscapeReading::Meant) => plain.push(escape.meaning),
                Some(EscapeReading::Letters) | None => plain.extend_from_slice(escape.letters),
            },
        }
    }
    Ok(plain)
}

/// How the writer of the old text escaped.
struct EscapeReadings {
    /// Reading of each kind of escape; `None` if it varies.
    readings: Vec<(u8, Option<EscapeReading>)>,
    /// True if the lexer predicts all layout escapes.
    is_lexed_rightly: bool,
}

impl EscapeReadings {
    /// Derives the readings from `old`, whose escapes are read as in `readings`.
    fn of(old: &[Token], readings: &[EscapeReading]) -> Self {
        let guessed = lexed(old);
        let mut known: Vec<(u8, Option<EscapeReading>)> = Vec::new();
        let mut is_lexed_rightly = true;
        for ((escape, reading), guess) in old.iter().filter_map(escape_of).zip(readings).zip(guessed) {
            match known.iter_mut().find(|(meaning, _)| *meaning == escape.meaning) {
                None => known.push((escape.meaning, Some(*reading))),
                Some((_, before)) => *before = before.filter(|before| before == reading),
            }
            if is_layout(escape) {
                is_lexed_rightly &= guess == Some(*reading);
            }
        }
        Self { readings: known, is_lexed_rightly }
    }

    /// Returns the reading of an escape in the new text, given the lexer's guess; `None` if in doubt.
    fn reading(&self, escape: Escape, guess: Option<EscapeReading>) -> Option<EscapeReading> {
        let known = self.readings.iter().find(|(meaning, _)| *meaning == escape.meaning);
        if !is_layout(escape) {
            // A quote or a backslash is escaped everywhere or nowhere.
            return known.and_then(|(_, reading)| *reading);
        }
        let guess = guess.filter(|_| self.is_lexed_rightly)?;
        match (known, guess) {
            // Letters in a quoted string belong to the program, as everywhere.
            (_, EscapeReading::Letters) => Some(EscapeReading::Letters),
            // A tab at the start of a line is meant if other layout is.
            (Some(_), EscapeReading::Meant) => Some(EscapeReading::Meant),
            (None, EscapeReading::Meant) if escape.meaning == b'\t' => Some(EscapeReading::Meant),
            (None, EscapeReading::Meant) => None,
        }
    }
}

/// Returns how a lexer reads each escape: as letters inside a quoted string of its line, else as its meaning; `None` if
/// in doubt.
fn lexed(tokens: &[Token]) -> Vec<Option<EscapeReading>> {
    let mut readings = Vec::new();
    let mut line = LinePart::default();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Byte(b'\n') => line = LinePart::default(),
            Token::Byte(byte) => line.read_byte(*byte),
            Token::Escape(escape) if !is_layout(*escape) => readings.push(None),
            Token::Escape(escape) => {
                let reading = line.reading(slice_or_empty(tokens, at + 1..));
                readings.push(reading);
                if escape.meaning == b'\n' && reading != Some(EscapeReading::Letters) {
                    line = LinePart::default();
                }
            }
        }
    }
    readings
}

/// State of the part of a line that was read.
#[derive(Debug, Clone, Copy, Default)]
struct LinePart {
    /// Quotes so far.
    double: usize,
    /// Backticks so far.
    back: usize,
    /// Apostrophes so far that are not between letters.
    single: usize,
    /// Previous byte.
    before: u8,
    /// True if it has a quote that may not begin or end a quoted string: in `'"'`, `\"` or `"""`.
    is_odd: bool,
    /// Length of the run of quotes that ends here.
    row: usize,
    /// True if the last apostrophe begins what may be a lifetime or a label.
    is_name: bool,
}

impl LinePart {
    /// Reads the next byte.
    fn read_byte(&mut self, byte: u8) {
        self.row = if byte == b'"' { self.row + 1 } else { 0 };
        self.is_odd |= self.row == 3 || (byte == b'"' && matches!(self.before, b'\'' | b'\\'));
        match byte {
            b'"' => self.double += 1,
            b'`' => self.back += 1,
            b'\'' if !self.before.is_ascii_alphanumeric() || self.single % 2 == 1 => {
                self.single += 1;
                self.is_name = true;
            }
            _ if !byte.is_ascii_alphanumeric() && byte != b'_' && self.is_name && self.before != b'\'' => {
                // `'a` without a closing apostrophe begins no quoted string.
                self.single -= usize::from(self.single % 2 == 1);
                self.is_name = false;
            }
            _ => {}
        }
        self.before = byte;
    }

    /// Returns the reading of an escape here, before the tokens of `after`.
    fn reading(self, after: &[Token]) -> Option<EscapeReading> {
        if self.back % 2 == 1 || self.is_odd {
            return None;
        }
        if self.single % 2 == 1 && self.double.is_multiple_of(2) {
            // A closing apostrophe right after it leaves no doubt.
            let is_closed = after.first() == Some(&Token::Byte(b'\''));
            return is_closed.then_some(EscapeReading::Letters);
        }
        if self.double.is_multiple_of(2) {
            return Some(EscapeReading::Meant);
        }
        // The quoted string must end before the next line break, and all others with it.
        let ends = |token: &Token| match token {
            Token::Byte(byte) => *byte == b'\n',
            Token::Escape(escape) => escape.meaning == b'\n',
        };
        let rest = after.iter().take_while(|token| !ends(token));
        let quotes = rest.filter(|token| **token == Token::Byte(b'"')).count();
        (quotes % 2 == 1).then_some(EscapeReading::Letters)
    }
}
