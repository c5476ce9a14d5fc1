//! How far a session had come at a snapshot.

use gix::ObjectId;

use crate::engine::snapshot::store::Store;
use crate::engine::snapshot::store::error::{Doing as _, SnapshotError};

/// How far a session had come at a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionAt {
    /// The session.
    pub session: String,
    /// The number of its newest change there; 0 where it had made none.
    pub seq: u64,
}

impl Store {
    /// The sessions that changed something, the one that did so last first.
    ///
    /// # Errors
    /// Where the branch or a commit on it cannot be read.
    pub fn sessions(&self) -> Result<Vec<String>, SnapshotError> {
        let mut sessions: Vec<String> = Vec::new();
        let mut next = self.branch.tip(&self.repo)?;
        while let Some(id) = next {
            let Some(found) = self.snapshot(id)? else { break };
            next = found.first_parent;
            let snapshot = found.snapshot;
            if snapshot.seq > 0 && !sessions.contains(&snapshot.session) {
                sessions.push(snapshot.session);
            }
        }
        Ok(sessions)
    }

    /// How far `session`, else the one that made the snapshot itself, had come at `commit` (in hex);
    /// `None` where none is named and the snapshot is nobody's, or it is neither a snapshot nor the commit
    /// that the first one is based on.
    ///
    /// # Errors
    /// Where there is no such commit, or one on the way back cannot be read.
    pub fn session_at(
        &self,
        commit: &str,
        session: Option<&str>,
    ) -> Result<Option<SessionAt>, SnapshotError> {
        let id = ObjectId::from_hex(commit.as_bytes()).doing(|| format!("`{commit}` is not a commit id"))?;
        let Some(first) = self.snapshot(id)? else {
            let began = self.began_at(id)?;
            let session = session.filter(|_| began);
            return Ok(session.map(|session| SessionAt { session: session.to_owned(), seq: 0 }));
        };
        let session = session.map_or_else(|| first.snapshot.session.clone(), str::to_owned);
        if session.is_empty() {
            return Ok(None);
        }
        let mut found = Some(first);
        while let Some(snapshot) = found {
            if snapshot.snapshot.session == session && snapshot.snapshot.seq > 0 {
                return Ok(Some(SessionAt { session, seq: snapshot.snapshot.seq }));
            }
            found = snapshot.first_parent.map_or(Ok(None), |id| self.snapshot(id))?;
        }
        Ok(Some(SessionAt { session, seq: 0 }))
    }

    /// Whether the first snapshot is based on this commit.
    fn began_at(&self, id: ObjectId) -> Result<bool, SnapshotError> {
        let mut next = self.branch.tip(&self.repo)?;
        while let Some(commit) = next {
            let Some(found) = self.snapshot(commit)? else { return Ok(commit == id) };
            next = found.first_parent;
        }
        Ok(false)
    }
}
