//! The native calls that a foreign tool makes.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::app::call::Call;
use crate::app::options::Options;
use crate::control::Control;
use crate::engine::Outcome;
use crate::engine::workspace::Workspace;
use crate::error::Error;
use crate::tools::{self, Image};

/// Opens the workspace of a call.
pub type Opener<'a> = &'a dyn Fn() -> Result<Workspace, Error>;

/// Makes native calls for one foreign call.
pub struct Native<'a> {
    /// Opens the workspace; each native call has it anew.
    open: Opener<'a>,
    /// The session and what else was fixed.
    options: &'a Options,
    /// Cancellation and progress of the foreign call.
    control: Control,
    /// Warnings and the newest snapshot of the native calls so far.
    pub outcome: Outcome,
    /// Images of the native calls so far.
    images: Vec<Image>,
}

impl<'a> Native<'a> {
    /// Native calls of the options' session.
    #[must_use]
    pub fn new(open: Opener<'a>, options: &'a Options, control: Control) -> Self {
        Self { open, options, control, outcome: Outcome::default(), images: Vec::new() }
    }

    /// The data that the native tool answers.
    ///
    /// # Errors
    /// What the tool refuses.
    pub fn call(&mut self, tool: &str, request: Value) -> Result<Value, Error> {
        let entry = tools::find(tool).ok_or_else(|| Error::internal(format!("there is no tool {tool}")))?;
        let call = Call::within((self.open)()?, entry, self.options)?.controlled_by(self.control.clone());
        let called = call.run_with(|engine| (entry.run_json)(engine, request));
        self.outcome.warnings.extend(called.outcome.warnings);
        self.outcome.snapshot = called.outcome.snapshot.or(self.outcome.snapshot.take());
        let mut reply = called.answered?;
        self.images.extend(reply.take_images());
        reply.value()
    }

    /// The image in a file, as a block of its own; none where the file is something else.
    ///
    /// # Errors
    /// What `read` refuses.
    pub fn image(&mut self, path: &str) -> Result<Vec<Image>, Error> {
        self.call("read", json!({ "path": path, "binary": "base64", "max_bytes": 0 }))?;
        Ok(std::mem::take(&mut self.images))
    }

    /// `path` as an absolute path, from where relative paths count.
    ///
    /// # Errors
    /// Where the workspace cannot be opened.
    pub fn absolute(&self, path: &str) -> Result<PathBuf, Error> {
        Ok(self.base()?.join(path))
    }

    /// The absolute path from which relative ones count.
    ///
    /// # Errors
    /// Where the workspace cannot be opened.
    pub fn base(&self) -> Result<PathBuf, Error> {
        let workspace = (self.open)()?;
        let base =
            workspace.base().components().fold(workspace.root().to_owned(), |path, name| path.join(name));
        Ok(base)
    }

    /// The absolute path of the workspace root.
    ///
    /// # Errors
    /// Where the workspace cannot be opened.
    pub fn root(&self) -> Result<PathBuf, Error> {
        Ok((self.open)()?.root().to_owned())
    }

    /// The size of what stands at `path`, in bytes; 0 where there is nothing.
    ///
    /// # Errors
    /// Where the path cannot be resolved.
    pub fn size_of(&self, path: &str) -> Result<u64, Error> {
        let place = (self.open)()?.resolve(Path::new(path))?;
        Ok(place.stat().map_or(0, crate::engine::workspace::fs::size_of))
    }

    /// Whether anything stands at `path`.
    ///
    /// # Errors
    /// Where the path cannot be resolved.
    pub fn exists(&self, path: &str) -> Result<bool, Error> {
        Ok((self.open)()?.resolve(Path::new(path))?.stat().is_some())
    }

    /// Whether a folder stands at `path`.
    ///
    /// # Errors
    /// Where the path cannot be resolved.
    pub fn is_folder(&self, path: &str) -> Result<bool, Error> {
        let place = (self.open)()?.resolve(Path::new(path))?;
        Ok(place.stat().is_some_and(crate::engine::workspace::fs::is_folder))
    }
}
