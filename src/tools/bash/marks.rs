//! Files that the session has read and that a command changed.

use std::os::fd::OwnedFd;

use rustix::fs::Stat;

use crate::engine::Engine;
use crate::engine::store::session;
use crate::engine::store::state::State;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;
use crate::sha256::Sha256;

/// Files that are read again at most, since each costs its size.
const READ_MAX: usize = 10_000;
/// Largest file that is read again, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What the session had read before the command ran.
pub struct Marks(Vec<Marked>);

/// A file that was read.
struct Marked {
    /// Its path.
    path: WorkspacePath,
    /// The bytes that were seen.
    sha256: Sha256,
    /// The file as it was before the command.
    stat: Stat,
}

impl Marks {
    /// The files that the session has read and that are still there.
    ///
    /// # Errors
    /// Where the state cannot be read.
    pub fn of_session(engine: &mut Engine) -> Result<Self, Error> {
        let Some(state) = State::find(&engine.workspace)? else { return Ok(Self(Vec::new())) };
        let (session, warning) = session::load(&state, engine.session())?;
        engine.warn_if(warning);
        let marked = |mark: &session::Mark| {
            let (_, stat) = look(engine, &mark.path)?;
            Some(Marked { path: mark.path.clone(), sha256: mark.sha256, stat })
        };
        Ok(Self(session.marks().iter().filter_map(marked).collect()))
    }

    /// Those that are different now, as answers show them.
    pub fn stale(&self, engine: &Engine) -> Vec<String> {
        let is_stale = |marked: &&Marked| match look(engine, &marked.path) {
            None => true,
            Some((file, now)) => {
                !fs::is_unchanged(&marked.stat, &now)
                    && fs::read_to_end(std::fs::File::from(file), fs::size_of(&now), FILE_BYTES_MAX)
                        .map_or(true, |bytes| Sha256::of(&bytes) != marked.sha256)
            }
        };
        let stale = self.0.iter().filter(is_stale).take(READ_MAX);
        stale.map(|marked| engine.workspace.shown(&marked.path)).collect()
    }
}

/// Opens a file that was read, and looks at it; `None` where it is a file no more.
fn look(engine: &Engine, path: &WorkspacePath) -> Option<(OwnedFd, Stat)> {
    let file = fs::open_beneath(engine.workspace.root_fd(), path, fs::READ).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    fs::is_regular(&stat).then_some((file, stat))
}
