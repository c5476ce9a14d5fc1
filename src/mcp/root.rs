//! The workspace of a server: the configured one, else the client's first root.
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
use crate::engine::workspace::{Workspace, must_be_meant};
use crate::error::Error;
use crate::request;
use crate::text::escaped;

/// Time in which the client must name its roots.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// The workspace of a server.
pub struct Root {
    /// Workspace found where the server was started.
    own: PathBuf,
    /// True if the command line names it, so that the client's roots do not count.
    is_named: bool,
    /// Root that calls work in, once it is known.
    chosen: Mutex<Option<ChosenRoot>>,
}

/// The folder that calls work in.
#[derive(Debug, Clone)]
pub struct ChosenRoot {
    /// Path of the folder.
    pub path: PathBuf,
    /// Reason why it is not the client's root, until a response has shown it.
    pub warning: Option<String>,
    /// True if neither the command line nor the client named it.
    is_implied: bool,
    /// Number of further folders that the client named, which are not served.
    others: usize,
}

impl ChosenRoot {
    /// Returns a root without a warning.
    fn silent(path: PathBuf) -> Self {
        Self { path, warning: None, is_implied: false, others: 0 }
    }

    /// Opens the workspace.
    ///
    /// # Errors
    /// Fails with `invalid_request` if nobody named a folder and this one is the disk or a home folder.
    pub fn open(&self) -> Result<Workspace, Error> {
        if self.is_implied {
            must_be_meant(&self.path)?;
        }
        let mut workspace = Workspace::open(&self.path)?;
        if self.others > 0 {
            let served = self.path.display();
            workspace.note_outside(format!(
                "the client named {} roots, of which {served} is served",
                self.others + 1
            ));
        }
        Ok(workspace)
    }
}

impl Root {
    /// Creates a root from the workspace found at the start.
    #[must_use]
    pub fn new(own: PathBuf, is_named: bool) -> Self {
        Self { own, is_named, chosen: Mutex::default() }
    }

    /// Returns the root for a request: it asks the client once, and other requests wait meanwhile.
    pub async fn of(&self, context: &RequestContext<RoleServer>) -> ChosenRoot {
        if self.is_named {
            return ChosenRoot::silent(self.own.clone());
        }
        let mut chosen = self.chosen.lock().await;
        if let Some(root) = chosen.as_ref() {
            return root.clone();
        }
        let root = match first_root(context).await {
            Ok(Some((path, others))) => ChosenRoot { others, ..ChosenRoot::silent(path) },
            Ok(None) => ChosenRoot { is_implied: true, ..ChosenRoot::silent(self.own.clone()) },
            Err(why) => ChosenRoot {
                warning: Some(self.warning(&why)),
                is_implied: true,
                ..ChosenRoot::silent(self.own.clone())
            },
        };
        chosen.insert(root).clone()
    }

    /// Returns the warning if the client's root cannot be used.
    fn warning(&self, why: &str) -> String {
        format!(
            "{why}: relative paths start at {}, where the server was started; `lbx mcp --workspace DIR` names another folder",
            escaped::line(&self.own.display().to_string())
        )
    }

    /// Returns the folder that calls worked in last.
    pub fn last(&mut self) -> &Path {
        self.chosen.get_mut().as_ref().map_or(&self.own, |chosen| &chosen.path)
    }

    /// Clears the warning after a response has shown it.
    pub async fn set_told(&self) {
        if let Some(root) = self.chosen.lock().await.as_mut() {
            root.warning = None;
        }
    }

    /// Forgets the client's roots: they have changed.
    pub async fn forget(&self) {
        *self.chosen.lock().await = None;
    }
}

/// Returns the client's first root that is a folder on this machine, and the number of its other roots; `None` if it
/// names no root. The error is the reason why none of its roots can be used.
async fn first_root(context: &RequestContext<RoleServer>) -> Result<Option<(PathBuf, usize)>, String> {
    if context.client_capabilities().is_none_or(|able| able.roots.is_none()) {
        return Ok(None);
    }
    let asked = context.peer.list_roots();
    let answer = tokio::time::timeout(ANSWER_TIME_MAX, asked)
        .await
        .map_err(|_| format!("the client did not name its roots within {} s", ANSWER_TIME_MAX.as_secs()))?
        .map_err(|error| {
            let error = error.to_string();
            format!("the client did not name its roots ({})", escaped::line(&request::quoted(&error)))
        })?;
    let mut folders = answer.roots.iter().filter_map(|root| uri::file_path(&root.uri));
    match (folders.find(|folder| is_folder(folder)), answer.roots.first()) {
        (None, Some(root)) => {
            let root = request::quoted(&root.uri);
            Err(format!("the client's root {} is not a folder on this machine", escaped::line(&root)))
        }
        (folder, _) => Ok(folder.map(|folder| (folder, answer.roots.len() - 1))),
    }
}

/// Returns true if a path is a folder.
#[expect(clippy::disallowed_methods, reason = "the client names the root as the command line would")]
fn is_folder(path: &Path) -> bool {
    path.is_dir()
}
