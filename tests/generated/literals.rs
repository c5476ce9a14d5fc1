//! The string literals of Rust sources, apart from code and comments.

use std::iter::Peekable;
use std::str::Chars;

/// A source with its literals separated.
#[derive(Default)]
pub struct Source {
    /// Code without comments; a quotation mark replaces each literal.
    pub code: String,
    /// Contents of the literals, in order.
    pub literals: Vec<String>,
}

impl Source {
    /// Splits a source.
    pub fn new(text: &str) -> Self {
        let (mut source, mut letters) = (Self::default(), text.chars().peekable());
        while let Some(letter) = letters.next() {
            source.take(letter, &mut letters);
        }
        source
    }

    /// Returns the literals in the parentheses that open at this place of the code.
    pub fn literals_at(&self, opening: usize) -> Vec<String> {
        let (before, behind) = self.code.split_at(opening);
        let (mut depth, mut count) = (0_u32, 0);
        for letter in behind.chars() {
            match letter {
                '(' => depth += 1,
                ')' if depth == 1 => break,
                ')' => depth -= 1,
                '"' => count += 1,
                _ => {}
            }
        }
        self.literals.iter().skip(before.matches('"').count()).take(count).cloned().collect()
    }

    /// Takes a character, with the rest of its token.
    fn take(&mut self, letter: char, letters: &mut Peekable<Chars<'_>>) {
        match letter {
            '/' if letters.peek() == Some(&'/') => {
                letters.find(|letter| *letter == '\n');
                self.code.push('\n');
            }
            '\'' => character(letters),
            '"' => {
                let text = match self.raw_signs() {
                    Some(signs) => raw(letters, signs),
                    None => escaped(letters),
                };
                self.code.push('"');
                self.literals.push(text);
            }
            letter => self.code.push(letter),
        }
    }

    /// Returns the number of `#` signs of a raw literal, if the code ends with its opening.
    fn raw_signs(&self) -> Option<usize> {
        let before = self.code.trim_end_matches('#');
        before.ends_with('r').then_some(self.code.len() - before.len())
    }
}

/// Skips a character literal after its opening quote; a lifetime has no closing one.
fn character(letters: &mut Peekable<Chars<'_>>) {
    match letters.next() {
        Some('\\') => {
            letters.next();
            letters.find(|letter| *letter == '\'');
        }
        _ => {
            letters.next_if_eq(&'\'');
        }
    }
}

/// Returns the rest of a literal after its opening quote.
fn escaped(letters: &mut Peekable<Chars<'_>>) -> String {
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => match letters.next() {
                // The text continues on the next line.
                Some('\n') => while letters.next_if(|letter| letter.is_whitespace()).is_some() {},
                // Whitespace between words in any case.
                Some('n' | 't' | 'r') => text.push(' '),
                Some(escaped) => text.push(escaped),
                None => break,
            },
            letter => text.push(letter),
        }
    }
    text
}

/// Returns the rest of a raw literal after its opening quote, up to a quote with as many signs.
fn raw(letters: &mut Peekable<Chars<'_>>, signs: usize) -> String {
    let (mut text, end) = (String::new(), format!("\"{}", "#".repeat(signs)));
    for letter in letters {
        text.push(letter);
        if let Some(whole) = text.strip_suffix(&end) {
            return whole.to_owned();
        }
    }
    text
}

#[test]
fn string_literals_are_distinguished_from_comments_and_chars() {
    let source = Source::new(
        r##"// "a comment"
        fn f<'a>(x: &'a str) { warn('"', '\'', "one \"and\" \
            two"); other(r"three\", r#"fo"ur"#, b"five") } // for "six"
        "##,
    );
    assert_eq!(source.literals, ["one \"and\" two", "three\\", "fo\"ur", "five"]);
    let opening = source.code.find("other(").unwrap() + "other".len();
    assert_eq!(source.literals_at(opening), source.literals[1..]);
}
