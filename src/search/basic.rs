//! Patterns in the syntax of `grep` without `-E`, where the backslash makes an operator.
//!
//! Models write `a\|b` out of habit. Here `\|` is a plain `|`, and such a pattern seldom finds anything.

/// Operators that need a backslash in the basic syntax, and none here.
const OPERATORS: &str = "|()+?{}";

/// The same pattern in the syntax used here; `None` where it has no operator of the basic syntax.
#[must_use]
pub fn as_extended(pattern: &str) -> Option<String> {
    let mut extended = String::with_capacity(pattern.len());
    let (mut found, mut in_class) = (false, false);
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(operator) if OPERATORS.contains(operator) && !in_class => {
                    found = true;
                    extended.push(operator);
                }
                Some(other) => extended.extend(['\\', other]),
                None => extended.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                extended.push('[');
                // A `]` right at the beginning belongs to the class.
                for first in ['^', ']'] {
                    extended.extend(characters.next_if_eq(&first));
                }
            }
            ']' => {
                in_class = false;
                extended.push(']');
            }
            plain if OPERATORS.contains(plain) && !in_class => extended.extend(['\\', plain]),
            other => extended.push(other),
        }
    }
    found.then_some(extended)
}

/// Whether the pattern has an alternative of the basic syntax.
#[must_use]
pub fn has_alternative(pattern: &str) -> bool {
    has_escaped(pattern, "|")
}

/// Whether the pattern may be meant in the basic syntax: `\(` alone is how everyone writes a plain
/// parenthesis.
#[must_use]
pub fn is_likely(pattern: &str) -> bool {
    has_escaped(pattern, "|+?{")
}

/// Whether one of `operators` stands behind a backslash.
fn has_escaped(pattern: &str, operators: &str) -> bool {
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if character == '\\' && characters.next().is_some_and(|escaped| operators.contains(escaped)) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_change_sides() {
        assert_eq!(as_extended(r"a\|b").as_deref(), Some("a|b"));
        assert_eq!(as_extended(r"fn main(\|\(pub\)\+").as_deref(), Some(r"fn main\(|(pub)+"));
        assert_eq!(as_extended(r"[\|(]\|x").as_deref(), Some(r"[\|(]|x"));
        assert_eq!(as_extended(r"\bword\b"), None);
        assert_eq!(as_extended("a|b"), None);
        assert!(has_alternative(r"a\|b") && !has_alternative(r"a\\|b"));
        assert!(is_likely(r"a\+") && !is_likely(r"main\(\)"));
    }
}
