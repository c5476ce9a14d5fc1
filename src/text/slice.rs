//! Some lines of a text that arrives in pieces, and facts about the whole text.
//!
//! Memory holds only the slice, however large the text is.

use crate::text::answer_size::{AnswerRoom, growth_of, prefix_within};
use crate::text::charset::Charset;
use crate::text::checked::slice_or_empty;
use crate::text::content::{Decoder, Encoding, EncodingGuess, UnsupportedText};
use crate::text::lines::{LineEnding, LineEndingCounts};

/// Lines to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceBounds {
    /// First line, from 0.
    pub offset: u64,
    /// Number of lines; `u64::MAX` for all.
    pub lines_max: u64,
    /// Bytes to omit at the start of the first line.
    pub skip_bytes: usize,
    /// Room for the slice.
    pub room: AnswerRoom,
    /// True if a first line that exceeds the bound is clipped, as any other, so that the lines after it follow.
    /// Otherwise it is cut at the bound and ends the slice.
    pub clips_first: bool,
}

/// A line that exceeds the bound by itself, so that only its start is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClippedStart {
    /// Line number, from 1.
    pub line: u64,
    /// Bytes of it that are kept.
    pub kept: usize,
    /// Bytes of the whole line, without its ending.
    pub length: u64,
}

/// A requested part of a text.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Slice {
    /// First line, from 0: the one after the requested one if the bytes to omit are all of that line.
    pub offset: u64,
    /// Bytes omitted at the start of the first line.
    pub skipped: usize,
    /// Lines of the part, with their endings: UTF-8, or raw bytes if the encoding is unknown.
    pub bytes: Vec<u8>,
    /// Number of complete lines, including clipped ones.
    pub ended_lines: u64,
    /// Clipped lines, in order; each keeps its line ending.
    pub clipped: Vec<ClippedStart>,
    /// Bytes of the last line before the cut, if it was cut.
    pub cut_at: Option<usize>,
    /// True if the bound on bytes ended the slice.
    pub stopped: bool,
    /// True if the bytes to omit are all of the first requested line.
    pub skipped_all: bool,
}

/// Facts about the whole text, and the requested parts in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceResult {
    /// Requested parts.
    pub parts: Vec<Slice>,
    /// Number of lines in the whole text.
    pub total_lines: u64,
    /// Encoding of the text.
    pub encoding: Encoding,
    /// True if it begins with a byte-order mark.
    pub bom: bool,
    /// Style of its line endings.
    pub line_ending: LineEnding,
}

/// Cuts parts out of a text that arrives in pieces.
pub struct TextSlicer {
    /// Encoding that the caller named.
    charset: Option<Charset>,
    /// Decoder of the pieces; `None` before the first piece.
    decoder: Option<Decoder>,
    /// First bytes, until there are enough to detect the encoding.
    start: Vec<u8>,
    /// Cutter of each part.
    cutters: Vec<LineCutter>,
    /// Byte that ends a line.
    terminator: u8,
    /// Number of lines ended so far.
    ended: u64,
    /// True if text has arrived since the last end of a line.
    in_line: bool,
    /// Line endings so far.
    endings: LineEndingCounts,
}

impl TextSlicer {
    /// Creates a slicer for lines that end in `terminator`: LF, or CR for a text that has no LF at all.
    pub fn new(wanted: &[SliceBounds], terminator: u8, charset: Option<Charset>) -> Self {
        let cutters = wanted.iter().map(|&wanted| LineCutter::new(wanted, terminator)).collect();
        let endings = LineEndingCounts::default();
        Self {
            charset,
            decoder: None,
            start: Vec::new(),
            cutters,
            terminator,
            ended: 0,
            in_line: false,
            endings,
        }
    }

    /// Adds the next piece.
    ///
    /// # Errors
    /// Fails if the text breaks the encoding that it claims.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), UnsupportedText> {
        if self.decoder.is_some() {
            return self.decode(piece);
        }
        self.start.extend_from_slice(piece);
        // Four bytes distinguish all byte-order marks.
        if self.start.len() >= 4 { self.begin() } else { Ok(()) }
    }

    /// Returns the parts, after the last piece.
    ///
    /// # Errors
    /// Fails as [`Self::push`] does.
    pub fn finish(mut self) -> Result<SliceResult, UnsupportedText> {
        if self.decoder.is_none() {
            self.begin()?;
        }
        let rest = self.decoder.as_mut().map(Decoder::finish_text).transpose()?.unwrap_or_default();
        self.cut(&rest);
        let decoder = self.decoder.unwrap_or_default();
        let (encoding, bom) = decoder.finish()?;
        // Only now is it known that the text is not UTF-8, so the mark is part of the text.
        let has_own_mark = encoding == Encoding::Bytes && self.start.starts_with(super::content::UTF8_BOM);
        let parts = self.cutters.into_iter().map(|cutter| {
            let mut slice = cutter.finish();
            if has_own_mark && slice.offset == 0 && slice.skipped == 0 {
                slice.bytes.splice(0..0, super::content::UTF8_BOM.iter().copied());
            }
            slice
        });
        Ok(SliceResult {
            parts: parts.collect(),
            total_lines: self.ended + u64::from(self.in_line),
            encoding,
            bom,
            line_ending: self.endings.style(),
        })
    }

    /// Detects the encoding and adds the first bytes.
    fn begin(&mut self) -> Result<(), UnsupportedText> {
        let start = EncodingGuess::of(&self.start);
        self.decoder = Some(Decoder::of(start, self.charset)?);
        let first = slice_or_empty(&self.start, start.bom_bytes()..).to_vec();
        self.start.truncate(start.bom_bytes());
        self.decode(&first)
    }

    /// Decodes a piece and cuts it into lines.
    fn decode(&mut self, piece: &[u8]) -> Result<(), UnsupportedText> {
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        let text = decoder.text_of(piece)?;
        self.cut(&text);
        Ok(())
    }

    /// Counts the lines of a text and passes it to the cutters that need it.
    fn cut(&mut self, text: &[u8]) {
        let Some(last) = text.last() else {
            return;
        };
        self.endings.count(text);
        let ended = memchr::memchr_iter(self.terminator, text).count() as u64;
        for cutter in &mut self.cutters {
            // Lines before the first requested one are only counted.
            if cutter.ended.saturating_add(ended) < cutter.wanted.offset {
                cutter.ended += ended;
            } else {
                cutter.push(text);
            }
        }
        self.ended += ended;
        self.in_line = *last != self.terminator;
    }
}

/// Minimum length of a clipped line, in bytes. A shorter one ends the slice instead, and begins the next one.
const LONG_LINE_BYTES: usize = 2000;
/// Divisor of the bound for the kept part of a clipped line.
const CLIPPED_PART: usize = 8;
/// Most bytes that are kept of a clipped line.
const CLIPPED_BYTES_MAX: usize = 2000;

/// Cuts text into lines and keeps the requested ones.
struct LineCutter {
    /// Lines to keep.
    wanted: SliceBounds,
    /// Byte that ends a line.
    terminator: u8,
    /// Lines ended so far, up to the requested ones.
    ended: u64,
    /// Slice so far.
    slice: Slice,
    /// Start in the slice of the current line, which has not ended.
    line_start: usize,
    /// Bytes still to omit from the first line.
    to_skip: usize,
    /// Set if only the start of the current line is kept; true if the text of it so far ends in CR.
    clipping: Option<bool>,
    /// Bytes that the answer adds to the complete kept lines.
    growth: usize,
    /// Bytes that the answer adds to the current line, up to `counted`: a line may arrive in very many pieces.
    pending_growth: usize,
    /// Offset in the slice up to which these are counted.
    counted: usize,
}

impl LineCutter {
    /// Creates a cutter at the start of the text.
    fn new(wanted: SliceBounds, terminator: u8) -> Self {
        Self {
            wanted,
            terminator,
            ended: 0,
            slice: Slice::default(),
            line_start: 0,
            to_skip: wanted.skip_bytes,
            clipping: None,
            growth: 0,
            pending_growth: 0,
            counted: 0,
        }
    }

    /// Adds the next piece of text.
    fn push(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            if self.is_past() {
                return;
            }
            let end = memchr::memchr(self.terminator, piece).map(|at| at + 1);
            let (line, rest) = piece.split_at(end.unwrap_or(piece.len()));
            if self.ended >= self.wanted.offset {
                self.keep(line, end.is_some());
            }
            self.ended += u64::from(end.is_some());
            piece = rest;
        }
    }

    /// Returns true if no further line is needed.
    fn is_past(&self) -> bool {
        self.slice.stopped || self.ended >= self.wanted.offset.saturating_add(self.wanted.lines_max)
    }

    /// Keeps a line, or as much of it as has arrived.
    fn keep(&mut self, line: &[u8], is_whole: bool) {
        if let Some(after_cr) = self.clipping {
            self.pass_over(line, is_whole, after_cr);
            return;
        }
        let skipped = self.to_skip.min(line.len());
        self.to_skip -= skipped;
        self.slice.bytes.extend_from_slice(slice_or_empty(line, skipped..));
        if is_whole && self.slice.bytes.is_empty() {
            self.skip_line();
        } else if self.is_over(is_whole) {
            self.bound_line(is_whole);
        } else if is_whole {
            self.end_line();
        }
    }

    /// Begins with the next line, since nothing is left of the first one.
    fn skip_line(&mut self) {
        self.slice.skipped_all = true;
        self.to_skip = 0;
        let SliceBounds { offset, lines_max, skip_bytes, .. } = &mut self.wanted;
        (*offset, *lines_max, *skip_bytes) = (*offset + 1, *lines_max - 1, 0);
    }

    /// Returns as much of the current line as has arrived.
    fn pending(&self) -> &[u8] {
        slice_or_empty(&self.slice.bytes, self.line_start..)
    }

    /// Returns true if the kept text exceeds the bound.
    fn is_over(&mut self, is_whole: bool) -> bool {
        if !self.wanted.room.is_bounded() {
            return false;
        }
        self.count_growth(is_whole);
        !self.wanted.room.has_room_for_text(self.slice.bytes.len(), self.growth + self.pending_growth)
    }

    /// Counts the bytes that the answer adds to the text since the last count.
    fn count_growth(&mut self, is_whole: bool) {
        let new = slice_or_empty(&self.slice.bytes, self.counted..);
        let new = if is_whole { new } else { whole_characters(new) };
        let length = new.len();
        self.pending_growth += growth_of(new);
        self.counted += length;
    }

    /// Records the end of a kept line.
    fn end_line(&mut self) {
        if self.wanted.room.is_bounded() {
            self.count_growth(true);
            self.growth += self.pending_growth;
        }
        self.line_start = self.slice.bytes.len();
        (self.counted, self.pending_growth) = (self.line_start, 0);
        self.slice.ended_lines += 1;
    }

    /// Keeps as much as the bound allows of the line that exceeds it: its start if it is very long, else nothing.
    fn bound_line(&mut self, is_whole: bool) {
        if self.line_start == 0 && !self.wanted.clips_first {
            self.stop(is_whole);
        } else if is_long(self.pending().len(), self.pending_growth, self.wanted.room) {
            self.clip(is_whole);
        } else if is_whole {
            self.stop(is_whole);
        }
        // Otherwise the rest of the line decides.
    }

    /// Keeps the start of a very long line, and continues after it.
    fn clip(&mut self, is_whole: bool) {
        /// Bytes of the longest line ending.
        const ENDING_BYTES: usize = 2;
        let kept = clipped_bytes(self.pending(), self.wanted.room);
        let start = slice_or_empty(self.pending(), ..kept);
        let growth = self.growth + growth_of(start) + ENDING_BYTES;
        if !self.wanted.room.has_room_for_text(self.line_start + kept + ENDING_BYTES, growth) {
            self.stop(is_whole);
            return;
        }
        self.slice.clipped.push(ClippedStart { line: self.ended + 1, kept, length: kept as u64 });
        let rest = self.slice.bytes.split_off(self.line_start + kept);
        (self.counted, self.pending_growth) = (self.line_start, 0);
        self.pass_over(&rest, is_whole, false);
    }

    /// Skips the rest of a clipped line, but keeps its ending.
    fn pass_over(&mut self, rest: &[u8], is_whole: bool, after_cr: bool) {
        let mut ending: &[u8] = &[];
        if is_whole {
            let before = rest.len().checked_sub(2).map_or(after_cr, |at| rest.get(at) == Some(&b'\r'));
            ending = if self.terminator == b'\r' {
                b"\r"
            } else if before {
                b"\r\n"
            } else {
                b"\n"
            };
        }
        if let Some(clipped) = self.slice.clipped.last_mut() {
            // The previous piece may have ended in the CR of a CR LF.
            clipped.length = (clipped.length + rest.len() as u64).saturating_sub(ending.len() as u64);
        }
        self.slice.bytes.extend_from_slice(ending);
        if is_whole {
            self.clipping = None;
            self.end_line();
        } else {
            self.clipping = Some(rest.last().map_or(after_cr, |&last| last == b'\r'));
        }
    }

    /// Ends the slice before the line that exceeds the bound, or inside it if it is the first.
    fn stop(&mut self, is_whole: bool) {
        let is_first = self.line_start == 0;
        let length = if is_first { self.wanted.room.prefix_of(&self.slice.bytes) } else { self.line_start };
        if length < self.slice.bytes.len() {
            self.slice.stopped = true;
            self.slice.bytes.truncate(length);
            self.slice.cut_at = is_first.then_some(self.wanted.skip_bytes + length);
        } else if is_whole {
            // The only character of the line, which is shown whatever the bound.
            self.end_line();
        }
        // Otherwise the rest of the line decides.
    }

    /// Returns the slice.
    fn finish(mut self) -> Slice {
        if !self.slice.stopped && self.line_start < self.slice.bytes.len() {
            // The last line may have been incomplete.
            if self.clipping.is_none() && self.is_over(true) { self.stop(true) } else { self.end_line() }
        } else if self.slice.bytes.is_empty() && self.to_skip < self.wanted.skip_bytes {
            self.skip_line();
        }
        Slice { offset: self.wanted.offset, skipped: self.wanted.skip_bytes, ..self.slice }
    }
}

/// Returns true if a line, with its ending, is too long for an answer by itself, and so long that it is clipped.
pub fn is_very_long(line: &[u8], room: AnswerRoom) -> bool {
    is_long(line.len(), growth_of(line), room)
}

/// Returns true if a line of `length` bytes is very long, given that the answer adds `growth`.
const fn is_long(length: usize, growth: usize, room: AnswerRoom) -> bool {
    length > LONG_LINE_BYTES && !room.has_room_for_text(length, growth)
}

/// Returns the bytes to keep of a very long line that is clipped: whole characters, at least one.
pub fn clipped_bytes(line: &[u8], room: AnswerRoom) -> usize {
    let most = (room.bytes() / CLIPPED_PART).min(CLIPPED_BYTES_MAX);
    prefix_within(line, most, most)
}

/// Returns a text without an incomplete character at its end.
pub fn whole_characters(text: &[u8]) -> &[u8] {
    /// Bytes of a character after its first.
    const TRAIL_MAX: usize = 3;
    for back in 1..=TRAIL_MAX.min(text.len()) {
        let start = text.len() - back;
        let bytes = match text.get(start) {
            Some(0x80..0xc0) => continue,
            Some(0xc2..0xe0) => 2,
            Some(0xe0..0xf0) => 3,
            Some(0xf0..0xf5) => 4,
            _ => 1,
        };
        return if bytes > back { slice_or_empty(text, ..start) } else { text };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices a text that arrives in pieces of `size`.
    fn slices(text: &[u8], wanted: &[SliceBounds], size: usize) -> SliceResult {
        let mut slicer = TextSlicer::new(wanted, b'\n', None);
        text.chunks(size).for_each(|piece| slicer.push(piece).unwrap());
        slicer.finish().unwrap()
    }

    /// Slices a text for one part.
    fn slice(text: &[u8], wanted: SliceBounds, size: usize) -> Slice {
        slices(text, &[wanted], size).parts.pop().unwrap()
    }

    const NO_BOUND: AnswerRoom = AnswerRoom::new(0);
    const ALL: SliceBounds =
        SliceBounds { offset: 0, lines_max: u64::MAX, skip_bytes: 0, room: NO_BOUND, clips_first: false };

    #[test]
    fn slices_are_independent_of_the_chunk_size() {
        let text = "one\ntwö\r\nthree\n\nfive".as_bytes();
        for size in 1..=text.len() {
            let whole = slice(text, ALL, size);
            assert_eq!((whole.bytes.as_slice(), whole.ended_lines), (text, 5));
            let none = slices(text, &[], size);
            assert_eq!((none.total_lines, none.parts.len()), (5, 0));
            assert_eq!((none.encoding, none.line_ending), (Encoding::Utf8, LineEnding::Mixed));
            let part = slice(text, SliceBounds { offset: 1, lines_max: 2, ..ALL }, size);
            assert_eq!(part.bytes, "twö\r\nthree\n".as_bytes());
            let cut = slice(text, SliceBounds { room: AnswerRoom::new(10), ..ALL }, size);
            assert_eq!(
                (cut.bytes.as_slice(), cut.stopped, cut.cut_at),
                ("one\ntwö\r\n".as_bytes(), true, None)
            );
            let of = |offset, lines_max| SliceBounds { offset, lines_max, ..ALL };
            let several = slices(text, &[of(4, 1), of(0, 2), of(1, 1), of(9, 1)], size);
            let parts: Vec<&[u8]> = several.parts.iter().map(|part| part.bytes.as_slice()).collect();
            let wanted = ["five", "one\ntwö\r\n", "twö\r\n", ""];
            assert_eq!(parts, wanted.map(str::as_bytes));
            assert_eq!(several.total_lines, 5);
        }
    }

    #[test]
    fn long_line_is_cut_and_continued_between_characters() {
        let text = "ääääääää\nb\n".as_bytes();
        for size in 1..=text.len() {
            let first = slice(text, SliceBounds { room: AnswerRoom::new(5), ..ALL }, size);
            assert_eq!((first.bytes.as_slice(), first.cut_at), ("ää".as_bytes(), Some(4)));
            let next = slice(text, SliceBounds { room: AnswerRoom::new(50), skip_bytes: 4, ..ALL }, size);
            assert_eq!((next.bytes.as_slice(), next.ended_lines), ("ääääää\nb\n".as_bytes(), 2));
        }
    }

    #[test]
    fn very_long_line_among_others_is_clipped() {
        let long = "é".repeat(1500);
        let text = format!("a\n{long}\r\nb\r\n{long}");
        let wanted = SliceBounds { room: AnswerRoom::new(800), ..ALL };
        let of = |line| ClippedStart { line, kept: 100, length: 3000 };
        let start = "é".repeat(50);
        for size in (1..20).chain([2999, 3000, 3001, 3003, 3004, 3005, 10_000]) {
            let cut = slice(text.as_bytes(), wanted, size);
            assert_eq!(
                String::from_utf8(cut.bytes).unwrap(),
                format!("a\n{start}\r\nb\r\n{start}"),
                "{size}"
            );
            assert_eq!((cut.clipped, cut.ended_lines, cut.stopped), (vec![of(2), of(4)], 4, false));
            let first = slice(text.as_bytes(), SliceBounds { offset: 1, clips_first: true, ..wanted }, size);
            assert_eq!((first.clipped, first.cut_at), (vec![of(2), of(4)], None));
            let fills = slice(text.as_bytes(), SliceBounds { offset: 1, ..wanted }, size);
            assert_eq!((fills.clipped, fills.cut_at, fills.stopped), (vec![], Some(800), true));
            // A line that fits into the next slice as a whole is not clipped or cut.
            let long = format!("a\n{}\nb\n", "x".repeat(799));
            let short = slice(long.as_bytes(), wanted, size);
            assert_eq!((short.bytes.as_slice(), short.stopped, short.ended_lines), (&b"a\n"[..], true, 1));
        }
    }

    #[test]
    fn invalid_bytes_count_by_their_size_in_the_response() {
        let text = [0xe9; 4000];
        for size in 1..5 {
            let cut = slice(&text, SliceBounds { room: AnswerRoom::new(3000), ..ALL }, size);
            assert_eq!((cut.bytes.len(), cut.cut_at), (2333, Some(2333)));
        }
    }

    #[test]
    fn encoding_is_detected_across_chunks() {
        let utf16: Vec<u8> = std::iter::once(0xfeff)
            .chain("a\u{1f600}\nb".encode_utf16())
            .flat_map(u16::to_le_bytes)
            .collect();
        for size in 1..6 {
            assert_eq!(slice(&utf16, ALL, size).bytes, "a\u{1f600}\nb".as_bytes());
            assert_eq!(slices(&utf16, &[], size).encoding, Encoding::Utf16Le);
            assert_eq!(slices(b"caf\xe9\n", &[], size).encoding, Encoding::Bytes);
            assert!(slices(b"\xef\xbb\xbfx", &[], size).bom);
            assert_eq!(slice(b"\xef\xbb\xbfx", ALL, size).bytes, b"x");
            assert_eq!(slice(b"\xef\xbb\xbf\xff", ALL, size).bytes, b"\xef\xbb\xbf\xff");
        }
        assert_eq!(slices(b"", &[ALL], 1).total_lines, 0);
        let mut odd = TextSlicer::new(&[ALL], b'\n', None);
        odd.push(b"\xff\xfea").unwrap();
        assert!(odd.finish().is_err());
    }
}
