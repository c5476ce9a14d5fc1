//! The gate: nobody changes bytes that were not seen.

use super::{Change, look::Current};
use crate::engine::policy::Gate;
use crate::engine::policy::settings::Key;
use crate::engine::resolve::Place;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;

/// Size of the diff in a `stale_file`, in bytes.
const STALE_DIFF_BYTES: usize = 2000;

/// What a tool is about to do to a file, for the gate's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Change a part of it.
    Edit,
    /// Replace all of it.
    Overwrite,
}

impl Intent {
    /// The verb in `refusing to … PATH: Read it first`.
    const fn verb(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Overwrite => "overwrite",
        }
    }
}

/// A file that may be changed: it was checked, or needs no check.
pub struct Seen {
    /// The file.
    pub(super) current: Current,
    /// Whether the caller proved to have seen its bytes.
    pub(super) proved: bool,
}

impl Seen {
    /// The file.
    #[must_use]
    pub fn current(&self) -> &Current {
        &self.current
    }
}

impl Change<'_> {
    /// Checks a SHA-256 that the caller gave for what it is about to move.
    ///
    /// # Errors
    /// `stale_file`, or `invalid_request` for anything but a file.
    pub fn must_have_sha256(&self, place: &Place, expected: Option<Sha256>) -> Result<(), Error> {
        let Some(expected) = expected else {
            return Ok(());
        };
        match self.sha256_at(place)? {
            Some(actual) if actual == expected => Ok(()),
            Some(actual) => Err(Error::new(
                ErrorKind::StaleFile,
                format!("{} has changed since it was read", place.shown()),
            )
            .at(place.shown())
            .detail("expected_sha256", expected.to_hex())
            .detail("actual_sha256", actual.to_hex())),
            None => Err(Error::invalid(format!(
                "expected_sha256 is that of a file, and {} is none",
                place.shown()
            ))
            .at(place.shown())
            .detail("field", "expected_sha256")),
        }
    }

    /// The gate: lets the caller go on only where it has seen the bytes that stand there.
    ///
    /// `needed` tells, from the file's bytes, the lines whose reading would do. The policy may let
    /// the caller go on without proof; a SHA-256 that it gives is checked all the same.
    ///
    /// # Errors
    /// `not_read` or `stale_file`.
    pub fn prove(
        &mut self,
        current: Current,
        expected: Option<Sha256>,
        intent: Intent,
        needed: impl FnOnce(&[u8]) -> Option<(u64, u64)>,
    ) -> Result<Seen, Error> {
        let shown = current.place.shown();
        if let Some(expected) = expected {
            if current.exists() && current.sha256 == expected {
                return Ok(Seen { current, proved: true });
            }
            return Err(self.stale(&current, expected));
        }
        if !current.exists() {
            return Ok(Seen { current, proved: true });
        }
        let mark = self.session.mark(current.place.path()).map(|mark| mark.sha256);
        if mark.is_some_and(|seen| seen == current.sha256) {
            return Ok(Seen { current, proved: true });
        }
        if self.gate() != Gate::Strict {
            self.let_through(shown, mark.is_some(), intent);
            return Ok(current.without_proof());
        }
        if let Some(seen) = mark {
            return Err(self.stale(&current, seen));
        }
        let message = format!("refusing to {} {shown}: Read it first", intent.verb());
        let (what, command) = smallest_read(shown, &current.bytes, needed(&current.bytes));
        let suggestion = format!("Read {what} ({command}), then repeat the call.");
        Err(Error::new(ErrorKind::NotRead, message).at(shown).suggest(suggestion).command(command))
    }

    /// What the policy makes of a change without proof.
    #[must_use]
    pub fn gate(&self) -> Gate {
        self.engine.policy().gate()
    }

    /// Warns, where the policy wants that, of what the gate would have refused.
    fn let_through(&mut self, shown: &str, is_stale: bool, intent: Intent) {
        if self.gate() == Gate::Warn {
            let what =
                if is_stale { "has changed since it was read" } else { "was not read in this session" };
            let source = self.engine.policy().source_of(Key::Gate);
            let verb = intent.verb();
            self.engine.warn(format!(
                "{shown} {what}; the policy lets you {verb} it all the same (gate = \"warn\", {source})"
            ));
        }
    }

    /// The refusal of a file whose bytes are not those that the caller has seen.
    #[must_use]
    pub fn stale(&self, current: &Current, expected: Sha256) -> Error {
        let shown = current.place.shown();
        let message = if current.exists() {
            format!("{shown} has changed since it was read")
        } else {
            format!("{shown} no longer exists, but the bytes seen were named")
        };
        let actual = current.exists().then(|| current.sha256.to_hex());
        let mut error = Error::new(ErrorKind::StaleFile, message)
            .at(shown)
            .command(format!("lbx read {}", quoted(shown)))
            .detail("expected_sha256", expected.to_hex())
            .detail("actual_sha256", actual);
        if let Some(seen) = self.bytes_seen(current.place.path(), expected)
            && current.exists()
        {
            let diff = crate::text::diff::unified(
                &format!("{shown} (as read)"),
                &format!("{shown} (now)"),
                &seen,
                &current.bytes,
                STALE_DIFF_BYTES,
            );
            error = error.detail("diff", diff);
        }
        error
    }
}

/// The smallest read that would do, in words and as a command.
fn smallest_read(shown: &str, bytes: &[u8], needed: Option<(u64, u64)>) -> (String, String) {
    let path = quoted(shown);
    if crate::text::content::looks_binary(bytes) {
        return (shown.to_owned(), format!("lbx read {path} --binary base64 --max-bytes 0"));
    }
    match needed {
        Some((line, last)) if line == last => (
            format!("line {line} of {shown}"),
            format!("lbx read {path} --start-line {line} --end-line {line}"),
        ),
        Some((first, last)) => (
            format!("lines {first} to {last} of {shown}"),
            format!("lbx read {path} --start-line {first} --end-line {last}"),
        ),
        None => (shown.to_owned(), format!("lbx read {path}")),
    }
}

/// A path as a shell takes it.
#[must_use]
pub fn quoted(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=:@%,".contains(&byte);
    if !path.is_empty() && path.bytes().all(is_plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}
