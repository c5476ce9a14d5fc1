//! Long lines, cut down to what an answer can afford.

use std::borrow::Cow;

/// Part of a line before a match that is kept when the line is cut: a quarter of the room.
const BEFORE_SHARE: usize = 4;

/// A line, or the part of it that is shown.
#[derive(Debug, PartialEq, Eq)]
pub struct Clip<'l> {
    /// What is shown.
    pub text: Cow<'l, str>,
    /// The 1-based column where it begins in the line.
    pub column: u64,
    /// Whether something is missing.
    pub clipped: bool,
}

/// Cuts `line` to at most `bytes_max` bytes round `match_start`, between characters; 0 cuts
/// nothing.
#[must_use]
pub fn clip(line: &[u8], match_start: usize, bytes_max: usize) -> Clip<'_> {
    if bytes_max == 0 || line.len() <= bytes_max {
        return Clip { text: String::from_utf8_lossy(line), column: 1, clipped: false };
    }
    let latest = line.len() - bytes_max;
    let start = match_start.saturating_sub(bytes_max / BEFORE_SHARE).min(latest);
    let start = character_start(line, start);
    let end = character_start(line, (start + bytes_max).min(line.len()));
    // A single character may be wider than the room.
    let end = if end > start { end } else { (start + bytes_max).min(line.len()) };
    let text = String::from_utf8_lossy(line.get(start..end).unwrap_or_default());
    Clip { text, column: start as u64 + 1, clipped: true }
}

/// The start of the character that `index` lies in; `index` itself where that is no UTF-8.
fn character_start(line: &[u8], index: usize) -> usize {
    /// Bytes of a character after its first.
    const TRAIL_MAX: usize = 3;
    let is_trail = |index: usize| line.get(index).is_some_and(|byte| byte & 0xc0 == 0x80);
    (0..=TRAIL_MAX).map(|back| index.saturating_sub(back)).find(|&start| !is_trail(start)).unwrap_or(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_round_the_match() {
        let line = [b"x".repeat(1000), b"needle".to_vec(), b"y".repeat(1000)].concat();
        let cut = clip(&line, 1000, 100);
        assert_eq!(cut.text.len(), 100);
        assert!(cut.clipped && cut.text.contains("needle"));
        assert_eq!(cut.column, 976);
        assert_eq!(clip(&line, 0, 100).column, 1);
        assert_eq!(clip(&line, 2005, 100).column, 1907);
        assert!(!clip(b"short", 0, 100).clipped);
        assert_eq!(clip(&line, 0, 0).text.len(), 2006);
    }

    #[test]
    fn characters_stay_whole() {
        let line = "é".repeat(100);
        for start in 0..100 {
            assert!(!clip(line.as_bytes(), start, 31).text.contains('\u{fffd}'), "{start}");
        }
        assert_eq!(clip(&[0xff; 10], 5, 4).text.chars().count(), 4);
    }
}
