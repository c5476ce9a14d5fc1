//! What is searched for, and what comes of one file.

use rustix::fs::Stat;

use super::collect::Gathered;
use super::file::Manner;
use super::page::Window;
use crate::control::Control;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::path::WorkspacePath;
use crate::sha256::Sha256;

/// What is searched for, and how much of it is shown.
#[derive(Debug)]
pub struct Search<'w> {
    /// The workspace searched.
    pub workspace: &'w Workspace,
    /// How files are searched.
    pub manner: Manner,
    /// How much is shown.
    pub window: Window,
    /// Whether matches are counted behind the page too.
    pub total: bool,
    /// Whether an answer names each file once.
    pub group: bool,
    /// When to stop.
    pub control: Control,
}

/// What came of one file, or of a part of it.
pub struct SearchedPart {
    /// The file.
    pub path: WorkspacePath,
    /// What was found in it.
    pub gathered: Gathered,
    /// Whether it is the last part.
    pub last: bool,
    /// All matches of the file; known with the last part.
    pub count: u64,
    /// The file as it was searched.
    pub seen: Option<(Sha256, Stat)>,
}
