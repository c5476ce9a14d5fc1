//! Texts whose names of fields and tools are known, so that each caller reads its own.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::ops::Range;
use std::sync::LazyLock;

/// Message in which the names of lbx's fields and tools are known, so that each caller reads its own names.
///
/// A literal is code: the words in its backticks are names, and its sentences end where it says so. What fills it is
/// data, and stays as it is, whatever it holds.
#[derive(Debug, Clone, Default)]
pub struct Message {
    /// Message with lbx's own names.
    plain: String,
    /// Places of the names.
    names: Vec<Range<usize>>,
    /// Ends of the sentences, except the last.
    ends: Vec<usize>,
}

impl Message {
    /// Returns a literal with `data` in the place of each `{}`; see [`text!`](crate::message::text).
    pub fn of(literal: &'static str, data: &[&dyn Display]) -> Self {
        let (mut text, mut data) = (Self::default(), data.iter().peekable());
        for (place, part) in literal.split('`').enumerate() {
            if place > 0 {
                text.plain.push('`');
            }
            let start = text.plain.len();
            for (gap, piece) in part.split("{}").enumerate() {
                if let Some(value) = data.next_if(|_| gap > 0) {
                    // Writing to a string cannot fail.
                    let _ = write!(text.plain, "{value}");
                }
                let blanks = piece.match_indices(' ').map(|(blank, _)| blank + 1);
                let ends = blanks.filter(|&end| {
                    [". ", "? "].iter().any(|mark| piece.get(..end).is_some_and(|it| it.ends_with(mark)))
                });
                text.ends.extend(ends.map(|end| text.plain.len() + end));
                text.plain.push_str(piece);
            }
            if place % 2 == 1 && is_name(part) {
                text.names.push(start..text.plain.len());
            }
        }
        text
    }

    /// Returns the name of a field, a tool or a detail.
    pub fn name(name: &'static str) -> Self {
        let mut message = Self::from(name.to_owned());
        message.names.push(0..name.len());
        message
    }

    /// Returns the text followed by another, which continues its last sentence.
    #[must_use]
    pub fn followed_by(mut self, next: impl Into<Self>) -> Self {
        let (next, start) = (next.into(), self.plain.len());
        self.names.extend(next.names.iter().map(|name| name.start + start..name.end + start));
        self.ends.extend(next.ends.iter().map(|end| end + start));
        self.plain.push_str(&next.plain);
        self
    }

    /// Returns texts as sentences, one after the other.
    pub fn sentences(texts: impl IntoIterator<Item = Self>) -> Self {
        let join = |before: Self, next| {
            let mut before = before.followed_by(" ".to_owned());
            before.ends.push(before.plain.len());
            before.followed_by(next)
        };
        texts.into_iter().reduce(join).unwrap_or_default()
    }

    /// Returns each sentence in the names of a family, and true if it has all names of the sentence.
    pub(crate) fn for_family(&self, family: &Vocabulary) -> Vec<(String, bool)> {
        let (mut from, mut names) = (0, self.names.iter().peekable());
        let ends = self.ends.iter().copied().chain([self.plain.len()]);
        let sentence = |end: usize| {
            let (mut said, mut is_known) = (String::new(), true);
            let plain = |range: Range<usize>| self.plain.get(range).unwrap_or_default();
            while let Some(name) = names.next_if(|name| name.end <= end) {
                let own = family.0.get(plain(name.clone()));
                is_known &= own.is_some();
                said.push_str(plain(from..name.start));
                said.push_str(own.map_or(plain(name.clone()), String::as_str));
                from = name.end;
            }
            said.push_str(plain(from..end));
            from = end;
            (said, is_known)
        };
        ends.map(sentence).collect()
    }

    /// Returns the sentences that a family has the names for; `None` if there are none.
    pub fn sentences_for(&self, family: &Vocabulary) -> Option<String> {
        let known =
            self.for_family(family).into_iter().filter_map(|(said, is_known)| is_known.then_some(said));
        Some(known.collect::<String>().trim_end().to_owned()).filter(|known| !known.is_empty())
    }

    /// Returns the text with lbx's own names.
    pub fn as_str(&self) -> &str {
        &self.plain
    }

    /// Returns the text with lbx's own names.
    pub fn into_plain(self) -> String {
        self.plain
    }
}

/// Returns true if a word in backticks names a field, a tool or a detail.
fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_lowercase())
        && word
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.".contains(&byte))
}

impl From<&'static str> for Message {
    fn from(literal: &'static str) -> Self {
        Self::of(literal, &[])
    }
}

impl From<String> for Message {
    /// Returns data: a text without names.
    fn from(plain: String) -> Self {
        Self { plain, ..Self::default() }
    }
}

/// Makes a [`Message`] from a literal and the data for each `{}`.
macro_rules! text {
    ($literal:literal $(, $data:expr)* $(,)?) => {
        $crate::message::Message::of($literal, &[$(&$data as &dyn std::fmt::Display),*])
    };
}
pub(crate) use text;

/// Names of a model family for lbx's fields and tools.
type FamilyNames = BTreeMap<String, String>;

/// Names of a model family for lbx's fields and tools, listed once they are needed.
#[derive(Debug)]
pub struct Vocabulary(LazyLock<FamilyNames, Box<dyn FnOnce() -> FamilyNames + Send>>);

impl Vocabulary {
    /// Returns the names that `list` lists.
    pub fn new(list: impl FnOnce() -> FamilyNames + Send + 'static) -> Self {
        Self(LazyLock::new(Box::new(list)))
    }
}
