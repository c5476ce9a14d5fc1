//! The name of a session.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;
use crate::text::visible::short_path;

/// Characters in a session id.
const ID_CHARACTERS_MAX: usize = 100;

/// The name of a session: 1 to 100 of `A-Za-z0-9._-`, not beginning with a dot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for SessionId {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl FromStr for SessionId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if (1..=ID_CHARACTERS_MAX).contains(&text.len())
            && text.bytes().all(is_allowed)
            && !text.starts_with('.')
        {
            return Ok(Self(text.to_owned()));
        }
        Err(Error::invalid(format!(
            "session id {:?}: expected 1 to {ID_CHARACTERS_MAX} of A-Z a-z 0-9 . _ -, not beginning with a dot",
            short_path(text)
        ))
        .suggest("Give another session, such as agent-1."))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_are_validated() {
        for good in ["a", "A.b_c-9", &"x".repeat(100)] {
            assert!(good.parse::<SessionId>().is_ok(), "{good}");
        }
        for bad in ["", ".a", "a/b", "..", "a b", "ä", "a\n", &"x".repeat(101)] {
            assert!(bad.parse::<SessionId>().is_err(), "{bad}");
        }
    }
}
