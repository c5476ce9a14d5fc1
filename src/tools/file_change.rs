//! The way of a change of one file: look, compute, prove, put and commit.

use std::fmt::Debug;
use std::path::Path;

use super::common::{ContentOptions, must_exist, subject};
use crate::engine::Engine;
use crate::engine::change::gate::Needs;
use crate::engine::change::{CallerKnowledge, Change, CheckedFile, Current};
use crate::engine::store::session::ReplacedLines;
use crate::error::Error;
use crate::sha256::Sha256;

/// A change of one file in progress, by a tool.
pub struct FileChange<'e, 'r> {
    /// The change itself.
    pub change: Change<'e>,
    /// The tool.
    tool: &'static str,
    /// The file, as the request names it.
    path: &'r Path,
    /// SHA-256 of the bytes that the caller takes it to have.
    expected_sha256: Option<Sha256>,
    /// What the caller wants of the change and its answer.
    options: &'r ContentOptions,
    /// The lines that it replaces, where the tool knows them.
    pub replaced: Option<Vec<ReplacedLines>>,
}

impl<'e, 'r> FileChange<'e, 'r> {
    /// Begins the change.
    pub fn begin(
        engine: &'e mut Engine,
        tool: &'static str,
        path: &'r Path,
        expected_sha256: Option<Sha256>,
        options: &'r ContentOptions,
    ) -> Result<Self, Error> {
        let change = engine.begin(tool, &[("path", path)], options.change.dry_run)?;
        Ok(Self { change, tool, path, expected_sha256, options, replaced: None })
    }

    /// Whether one of the session's last `changes` came of this very request and still stands; `what`
    /// is what the request says beside the path and the SHA-256.
    pub fn is_repeated(&mut self, what: impl Debug, changes: u64) -> Result<bool, Error> {
        let request = (self.tool, self.path, self.expected_sha256, what);
        Ok(self.change.repeated(Sha256::of(format!("{request:?}").as_bytes()), changes)?.is_some())
    }

    /// Looks at the file, or at the place where there is none yet.
    pub fn look(&self) -> Result<Current, Error> {
        self.change.look_at(self.path)
    }

    /// Looks at the file.
    pub fn look_at_existing(&mut self) -> Result<Current, Error> {
        let current = self.look()?;
        must_exist(&mut self.change, &current)?;
        Ok(current)
    }

    /// The gate.
    pub fn prove(&mut self, current: Current, needs: Needs<'_>) -> Result<CheckedFile, Error> {
        self.change.prove(current, self.expected_sha256, needs)
    }

    /// The gate of a change that needs no proof: one that is given is checked all the same.
    pub fn check(&mut self, current: Current) -> Result<CheckedFile, Error> {
        if self.expected_sha256.is_some() {
            return self.prove(current, Needs::Any);
        }
        Ok(current.without_proof())
    }

    /// Puts the new bytes in place of what was seen, and commits; answers the diff where one is wanted.
    pub fn commit(
        mut self,
        seen: CheckedFile,
        bytes: Vec<u8>,
        mode: Option<u32>,
        known: CallerKnowledge,
    ) -> Result<Option<String>, Error> {
        let current = seen.current();
        let before = current.exists().then(|| current.bytes());
        let wanted = self.options.diff_wanted(self.change.policy());
        let diff = wanted.of(current.place().shown(), before, Some(&bytes));
        let subject = subject(self.tool, &[current.place().path().clone()]);
        self.change.put(seen, bytes, mode, known);
        self.change.note_replaced(self.replaced);
        self.change.commit(subject, self.options.change.why.clone())?;
        Ok(diff)
    }
}
