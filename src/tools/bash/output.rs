//! The file with the whole output of a command, in lbx's own folder.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::AtFlags;

use crate::engine::Engine;
use crate::engine::sandbox::capture::Log;
use crate::engine::store::state::State;
use crate::engine::store::unique::unique_name;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;

/// Where such files are.
const FOLDER: &str = "outputs";
/// How many are kept.
const KEPT: usize = 20;

/// Makes the file when it is needed.
pub struct OutputFile {
    /// The folder, or why there is none.
    folder: Result<(Arc<OwnedFd>, WorkspacePath), String>,
    /// Where paths count from in answers.
    base: WorkspacePath,
}

impl OutputFile {
    /// A file in the state of the workspace.
    pub fn new(engine: &Engine) -> Self {
        let state = State::open(&engine.workspace);
        let folder = state.and_then(|state| Ok((state.folder(FOLDER)?, state.path_of(FOLDER))));
        let base = engine.workspace.base().clone();
        Self { folder: folder.map_err(|error| error.message().to_owned()), base }
    }
}

impl Log for OutputFile {
    fn begin(&mut self) -> Result<(File, String), String> {
        let (folder, path) = self.folder.as_ref().map_err(Clone::clone)?;
        remove_old(folder);
        let name = format!("{}.txt", unique_name("output"));
        let file =
            fs::create_at(folder.as_fd(), OsStr::new(&name), 0o600).map_err(|errno| errno.to_string())?;
        let shown = path.join(OsStr::new(&name)).relative_to(&self.base).to_string_lossy().into_owned();
        Ok((file, shown))
    }
}

/// Removes all but the newest files: their names begin with the time.
fn remove_old(folder: &OwnedFd) {
    let mut names = fs::names_in(folder).unwrap_or_default();
    names.sort();
    let old = names.len().saturating_sub(KEPT - 1);
    for name in names.into_iter().take(old) {
        // Another call may have removed it.
        let _ = fs::unlink_at(folder, &name, AtFlags::empty());
    }
}
