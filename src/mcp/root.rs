//! The workspace of a server: the one that it was given, else the client's first root.
#![expect(
    deprecated,
    reason = "the newest revision has no roots; clients of the others name their folder so"
)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::service::RequestContext;
use tokio::sync::Mutex;

use super::uri;

/// How long the client may take to name its roots.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// The workspace of a server.
pub struct Root {
    /// The one that was found where the server was started.
    own: PathBuf,
    /// Whether the command line names it, so that the client's roots do not count.
    is_named: bool,
    /// The one that calls work in, once it is known.
    chosen: Mutex<Option<PathBuf>>,
}

impl Root {
    /// The workspace found at the start.
    #[must_use]
    pub fn new(own: PathBuf, is_named: bool) -> Self {
        Self { own, is_named, chosen: Mutex::default() }
    }

    /// The workspace for a request: it is asked for once, and whoever comes meanwhile waits.
    pub async fn of(&self, context: &RequestContext<RoleServer>) -> PathBuf {
        if self.is_named {
            return self.own.clone();
        }
        let mut chosen = self.chosen.lock().await;
        if let Some(root) = chosen.as_ref() {
            return root.clone();
        }
        let root = first_root(context).await.unwrap_or_else(|| self.own.clone());
        chosen.insert(root).clone()
    }

    /// Forgets what the client named: it has other roots now.
    pub async fn forget(&self) {
        *self.chosen.lock().await = None;
    }
}

/// The client's first root that is a folder here.
async fn first_root(context: &RequestContext<RoleServer>) -> Option<PathBuf> {
    context.client_capabilities()?.roots?;
    let asked = context.peer.list_roots();
    let answer = tokio::time::timeout(ANSWER_TIME_MAX, asked).await.ok()?.ok()?;
    let mut folders = answer.roots.iter().filter_map(|root| uri::file_path(&root.uri));
    folders.find(|folder| is_folder(folder))
}

/// Whether a folder stands at a path.
#[expect(clippy::disallowed_methods, reason = "the client names the root as the command line would")]
fn is_folder(path: &Path) -> bool {
    path.is_dir()
}
