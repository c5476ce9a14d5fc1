//! Where a path leads.

use std::ffi::OsString;
use std::fs::File;
use std::sync::Arc;

use rustix::fs::Stat;

use super::path::WorkspacePath;
use super::protect::names::{name_error, protected_component};
use crate::error::{Error, ErrorKind};

/// Where a path leads.
#[derive(Debug)]
pub struct ResolvedPath {
    /// The canonical path, links followed.
    pub(super) path: WorkspacePath,
    /// The path as answers show it.
    pub(super) shown: String,
    /// What stands there; `None` where nothing does.
    pub(super) stat: Option<Stat>,
    /// A name in the path as it was written that no tool may write.
    pub(super) protected: Option<OsString>,
    /// The other names by which the path as it was written, followed link by link, led there.
    pub(super) aliases: Vec<WorkspacePath>,
    /// Whether it was written as a folder's name: it ended in `/` or `/.`.
    pub(super) names_folder: bool,
    /// The regular file that stands there, where it was opened to be looked at.
    pub(super) opened: Option<Arc<File>>,
}

impl ResolvedPath {
    /// A place whose canonical path is known already.
    #[must_use]
    pub fn at(path: WorkspacePath, shown: String, stat: Option<Stat>) -> Self {
        let (protected, aliases) = (None, Vec::new());
        Self { path, shown, stat, protected, aliases, names_folder: false, opened: None }
    }

    /// The canonical path.
    #[must_use]
    pub fn path(&self) -> &WorkspacePath {
        &self.path
    }

    /// The path as answers show it.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The other names by which it was reached, each through a link.
    #[must_use]
    pub fn aliases(&self) -> &[WorkspacePath] {
        &self.aliases
    }

    /// The regular file that stands there and its state, where
    /// [`Workspace::resolve_file`](super::Workspace::resolve_file) has opened it.
    #[must_use]
    pub fn opened(&self) -> Option<(Arc<File>, Stat)> {
        self.opened.clone().zip(self.stat)
    }

    /// What stands there.
    #[must_use]
    pub fn stat(&self) -> Option<&Stat> {
        self.stat.as_ref()
    }

    /// Refuses a place where nothing stands and whose name, as it was written, is a folder's: no file
    /// can get it.
    ///
    /// # Errors
    /// `not_found`.
    pub fn must_take_a_file(&self) -> Result<(), Error> {
        if self.stat.is_some() || !self.names_folder {
            return Ok(());
        }
        let written = format!("{}/", self.shown);
        Err(Error::new(ErrorKind::NotFound, format!("no such directory: {written}"))
            .at(written)
            .suggest("Name a file in it (the folder is created), or leave out the trailing slash."))
    }

    /// Refuses a place with a name in it that no file tool may write.
    ///
    /// # Errors
    /// `protected_path`.
    pub fn must_be_writable(&self) -> Result<(), Error> {
        let name = self.protected.as_deref().or_else(|| protected_component(self.path.as_path()));
        match name {
            None => Ok(()),
            Some(name) => Err(name_error(&self.shown, name)),
        }
    }
}
