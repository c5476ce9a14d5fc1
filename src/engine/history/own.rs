//! What one session did to one path, apart from what others did there in between. Pure.

use crate::text::{content, own};

/// A version of a file, wherever its bytes are kept.
pub trait Version: Clone {
    /// Whether it has the same bytes and is the same besides.
    fn is_same(&self, other: &Self) -> bool;

    /// Whether it is the same besides its bytes: its mode, or its type.
    fn is_alike(&self, other: &Self) -> bool;
}

/// The two sides of a change; `None` where there is no file.
pub type Sides<V> = (Option<V>, Option<V>);

/// The changes that one session made of one path, from the oldest on: each goes on from the one
/// before it, or from what others made of that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own<V> {
    /// The first change.
    first: Sides<V>,
    /// Those that go on from what others left.
    later: Vec<Sides<V>>,
}

/// What a path would have been before a session's changes, with what others changed in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before<V> {
    /// What once was there, or nothing.
    Known(Option<V>),
    /// This text, which is otherwise as that version.
    Text(V, Vec<u8>),
}

impl<V: Version> Own<V> {
    /// One change.
    #[must_use]
    pub const fn new(before: Option<V>, after: Option<V>) -> Self {
        Self { first: (before, after), later: Vec::new() }
    }

    /// Adds the next change.
    pub fn push(&mut self, before: Option<V>, after: Option<V>) {
        let last = self.later.last_mut().unwrap_or(&mut self.first);
        if is_same(last.1.as_ref(), before.as_ref()) {
            last.1 = after;
        } else {
            self.later.push((before, after));
        }
    }

    /// What was there before the first change.
    #[must_use]
    pub const fn first(&self) -> Option<&V> {
        self.first.0.as_ref()
    }

    /// What was there after the last change.
    #[must_use]
    pub fn last(&self) -> Option<&V> {
        self.later.last().unwrap_or(&self.first).1.as_ref()
    }

    /// Whether others changed the path in between.
    #[must_use]
    pub const fn is_interrupted(&self) -> bool {
        !self.later.is_empty()
    }

    /// Whether all of it changes nothing, as far as that can be told without the bytes.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        !self.is_interrupted() && is_same(self.first(), self.last())
    }

    /// What the path would have been without these changes: where others changed it in between, their
    /// changes are part of it. `read` gives the bytes of a version, where they are at hand.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn before<E>(&self, mut read: impl FnMut(&V) -> Result<Option<Vec<u8>>, E>) -> Result<Before<V>, E> {
        let (mut base, mut mine) = (Before::Known(self.first.0.clone()), self.first.1.clone());
        for (theirs, after) in &self.later {
            base = match (&base, &mine, theirs) {
                // What the session made is its own, though others changed it since.
                (Before::Known(None), Some(_), Some(_)) => base,
                (_, Some(made), Some(theirs)) => carried(base, made, theirs, &mut read)?,
                _ => Before::Known(theirs.clone()),
            };
            mine.clone_from(after);
        }
        Ok(base)
    }
}

/// `base` with what others made of `mine`.
fn carried<V: Version, E>(
    base: Before<V>,
    mine: &V,
    theirs: &V,
    read: &mut impl FnMut(&V) -> Result<Option<Vec<u8>>, E>,
) -> Result<Before<V>, E> {
    let (like, text) = match base {
        Before::Known(None) => return Ok(Before::Known(Some(theirs.clone()))),
        Before::Known(Some(version)) => {
            let text = read(&version)?;
            (version, text)
        }
        Before::Text(version, text) => (version, Some(text)),
    };
    let like = if mine.is_alike(theirs) { like } else { theirs.clone() };
    let texts = (text, read(mine)?, read(theirs)?);
    Ok(match texts {
        (Some(base), Some(mine), Some(theirs))
            if ![&base, &mine, &theirs].iter().any(|text| content::looks_binary(text)) =>
        {
            Before::Text(like, own::carried(&base, &mine, &theirs))
        }
        _ => Before::Known(Some(theirs.clone())),
    })
}

/// Whether two sides are the same.
fn is_same<V: Version>(one: Option<&V>, other: Option<&V>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.is_same(other),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Version for &'static str {
        fn is_same(&self, other: &Self) -> bool {
            self == other
        }

        fn is_alike(&self, _: &Self) -> bool {
            true
        }
    }

    /// What was before these changes.
    fn before(changes: &[Sides<&'static str>]) -> Before<&'static str> {
        let mut own = Own::new(changes[0].0, changes[0].1);
        changes[1..].iter().for_each(|change| own.push(change.0, change.1));
        own.before(|text| Ok::<_, ()>(Some(text.as_bytes().to_vec()))).unwrap()
    }

    #[test]
    fn what_others_changed_in_between_is_there_before() {
        let text = |text: &str| Before::Text("1\n2\n3\n4\n", text.as_bytes().to_vec());
        for (changes, wanted) in [
            (vec![(Some("a"), Some("b"))], Before::Known(Some("a"))),
            (vec![(Some("a"), Some("b")), (Some("b"), Some("c"))], Before::Known(Some("a"))),
            (
                vec![
                    (Some("1\n2\n3\n4\n"), Some("1\nB\n3\n4\n")),
                    (Some("1\nB\n3\nD\n"), Some("A\nB\n3\nD\n")),
                    (Some("A\nB\nC\nD\n"), Some("A\nBB\nC\nD\n")),
                ],
                text("1\n2\nC\nD\n"),
            ),
            (vec![(None, Some("a")), (Some("b"), Some("c"))], Before::Known(None)),
            (vec![(Some("a"), Some("b")), (None, Some("c"))], Before::Known(None)),
            (vec![(Some("a"), None), (Some("b"), Some("c"))], Before::Known(Some("b"))),
        ] {
            assert_eq!(before(&changes), wanted, "{changes:?}");
        }
    }
}
