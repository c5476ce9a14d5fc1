//! What a change leaves, checked as a whole before any of it is written, and in a dry run as well.
//!
//! The tools check each path as they come to it. What several paths come to together, and what an undo
//! or a restore brings, is checked here: no path that is protected, no folder that git would take for a
//! repository, and no link that leads to a protected path under another name.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;

use super::Change;
use super::planned::Planned;
use crate::engine::history::replay::Piece;
use crate::engine::store::state::path_in;
use crate::engine::store::trash;
use crate::engine::workspace::Workspace;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::repository;
use crate::engine::workspace::protect::repository::{HEAD, HEAD_BYTES_READ, Head, PARTS, is_repository_with};
use crate::error::{Error, ErrorKind};

/// Folders that a change may make into a repository, each with the names of parts that it puts there.
type Candidates = BTreeMap<WorkspacePath, BTreeSet<OsString>>;

impl Change<'_> {
    /// Refuses a change whose result would go past what is protected.
    ///
    /// # Errors
    /// `protected_path`.
    pub(in crate::engine) fn check_result(&self) -> Result<(), Error> {
        for path in self.touched() {
            self.must_be_writable_at(&path)?;
        }
        let result = ResultTree::of(self);
        for (folder, spelled) in result.candidates() {
            if result.is_repository(&folder, &spelled) {
                return Err(makes_repository(&self.engine.workspace.shown(&folder)));
            }
        }
        result.links().try_for_each(|link| self.must_be_free_below(link))
    }

    /// Every path that the change itself names, save those in lbx's own trash.
    fn touched(&self) -> impl Iterator<Item = WorkspacePath> {
        let trash = path_in(self.state.as_ref(), trash::FOLDER);
        let files = self.files.iter().map(|file| file.seen.current.place.path());
        let moves = self.pieces.iter().flat_map(|moved| [moved.real, moved.at]);
        let modes = self.entry.modes.iter().map(|folder| &folder.path);
        let all = files.chain(self.named_folders()).chain(modes).cloned().chain(moves);
        all.filter(move |path| !path.is_within(&trash))
    }

    /// Refuses a canonical path that no tool writes, or that the policy protects.
    fn must_be_writable_at(&self, path: &WorkspacePath) -> Result<(), Error> {
        let shown = self.engine.workspace.shown(path);
        self.protection.check(&self.engine.workspace, path, &shown)?;
        self.must_be_unprotected(path, None, &shown)
    }

    /// Refuses a link where the policy protects what would have its name before it: below the link other
    /// bytes would answer to the protected path.
    ///
    /// # Errors
    /// `protected_path`.
    pub(in crate::engine) fn must_be_free_below(&self, link: &WorkspacePath) -> Result<(), Error> {
        let workspace = &self.engine.workspace;
        let by_name = self.engine.policy().protects_below(workspace, link);
        match by_name.or_else(|| self.protected_links().protects_below(link)) {
            None => Ok(()),
            Some(why) => {
                let shown = workspace.shown(link);
                let message =
                    format!("{shown} cannot be a symlink, since what lies below it is protected: {why}");
                Err(Error::new(ErrorKind::ProtectedPath, message)
                    .at(shown)
                    .suggest("Leave it as it is and tell the user what you would change there."))
            }
        }
    }
}

/// The refusal of a change that would make a repository.
fn makes_repository(shown: &str) -> Error {
    let message = format!(
        "the change would make {shown} a folder that git takes for a repository, whose configuration can run programs"
    );
    Error::new(ErrorKind::ProtectedPath, message)
        .at(shown)
        .suggest("Leave out HEAD or give it another name; only the user makes repositories, with git init.")
}

/// The tree as the change leaves it, over the one on disk.
struct ResultTree<'c> {
    /// The workspace.
    workspace: &'c Workspace,
    /// What is put, by its path.
    puts: BTreeMap<&'c WorkspacePath, &'c Planned>,
    /// What is removed.
    removed: BTreeSet<WorkspacePath>,
    /// What gets another name.
    moves: Vec<Piece>,
    /// Folders that are made.
    folders: Vec<WorkspacePath>,
    /// Lbx's own trash.
    trash: WorkspacePath,
}

impl<'c> ResultTree<'c> {
    /// The tree that a change leaves.
    fn of(change: &'c Change<'_>) -> Self {
        Self {
            workspace: &change.engine.workspace,
            puts: change
                .files
                .iter()
                .filter(|file| file.after.is_some())
                .map(|file| (file.seen.current.place.path(), file))
                .collect(),
            removed: change.removed_paths(),
            moves: change.pieces.iter().collect(),
            folders: change.wanted_folders(),
            trash: path_in(change.state.as_ref(), trash::FOLDER),
        }
    }

    /// Everything that comes to stand.
    fn appearing(&self) -> impl Iterator<Item = &WorkspacePath> {
        let moved = self.moves.iter().map(|moved| &moved.at).filter(|at| !at.is_within(&self.trash));
        self.puts.keys().copied().chain(moved).chain(&self.folders)
    }

    /// The folders to which something is added that belongs to a repository, in any letter case.
    fn candidates(&self) -> Candidates {
        let mut candidates = Candidates::new();
        for path in self.appearing() {
            for (depth, name) in path.components().enumerate() {
                if PARTS.iter().any(|part| name.eq_ignore_ascii_case(part)) {
                    let folder =
                        path.components().take(depth).fold(WorkspacePath::root(), |to, name| to.join(name));
                    candidates.entry(folder).or_default().insert(name.to_owned());
                }
            }
        }
        candidates
    }

    /// Whether git would take a folder for a repository; `spelled` are names in it as the change has them.
    fn is_repository(&self, folder: &WorkspacePath, spelled: &BTreeSet<OsString>) -> bool {
        let at = |part: &str| {
            let others = spelled.iter().filter(move |name| name.eq_ignore_ascii_case(part));
            let names = others.map(OsString::as_os_str).chain([OsStr::new(part)]);
            names.map(|name| folder.join(name)).collect::<Vec<_>>()
        };
        let stands = |part: &str| at(part).iter().any(|path| self.stands(path));
        at(HEAD).iter().any(|path| is_repository_with(&self.head_at(path), stands))
    }

    /// Whether anything stands at a path.
    fn stands(&self, path: &WorkspacePath) -> bool {
        self.appearing().any(|appearing| appearing.is_within(path))
            || self.on_disk(path).is_some_and(|real| {
                let root = self.workspace.root_fd();
                fs::open_beneath(root, &real, fs::LOOK).is_ok()
            })
    }

    /// Where on disk that stands which is to stand at a path and is not put there; `None` for nothing.
    fn on_disk(&self, path: &WorkspacePath) -> Option<WorkspacePath> {
        if let Some(moved) = self.moves.iter().find(|moved| path.is_within(&moved.at)) {
            return Some(path.rebased(&moved.at, &moved.real));
        }
        let leaves =
            self.removed.contains(path) || self.moves.iter().any(|moved| path.is_within(&moved.real));
        (!leaves).then(|| path.clone())
    }

    /// What git would read at a path.
    fn head_at(&self, path: &WorkspacePath) -> Head {
        if let Some(file) = self.puts.get(path) {
            let bytes = file.after.iter().flat_map(|after| after.bytes.iter().take(HEAD_BYTES_READ));
            let bytes = bytes.copied().collect();
            return if is_link(file) { Head::Link(bytes) } else { Head::File(bytes) };
        }
        let Some(real) = self.on_disk(path) else {
            return Head::Absent;
        };
        let Some(name) = real.name().map(OsStr::to_owned) else {
            return Head::Absent;
        };
        match self.workspace.find_folder(&real.parent().unwrap_or_default()) {
            Ok(Some(folder)) => repository::head_at(folder.as_fd(), &name),
            Ok(None) => Head::Absent,
            Err(_) => Head::Unknown,
        }
    }

    /// The links that appear; those in folders that move are met where these are looked through.
    fn links(&self) -> impl Iterator<Item = &WorkspacePath> {
        let put = self.puts.iter().filter(|(_, file)| is_link(file)).map(|(path, _)| *path);
        let is_link = |moved: &&Piece| {
            let looked = fs::open_beneath(self.workspace.root_fd(), &moved.real, fs::LOOK);
            looked.and_then(rustix::fs::fstat).is_ok_and(|stat| fs::is_symlink(&stat))
        };
        let moved = self.moves.iter().filter(|moved| !moved.at.is_within(&self.trash)).filter(is_link);
        put.chain(moved.map(|moved| &moved.at))
    }
}

/// Whether a symlink is put.
fn is_link(file: &Planned) -> bool {
    let origin = file.origin.as_ref().map(|origin| fs::recorded_mode(&origin.original.stat));
    let kept = || origin.or_else(|| file.seen.current.mode());
    file.after.as_ref().and_then(|after| after.mode).or_else(kept).is_some_and(fs::is_symlink_mode)
}
