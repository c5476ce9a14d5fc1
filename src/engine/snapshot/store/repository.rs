//! Opening the repository that holds the snapshots.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use super::error::{Doing as _, SnapshotError};
use super::gitdir::{GitDir, Located, RepositoryPaths};
use super::held::HeldFolder;
use super::recent::{self, RecentObjects};
use super::repo::{Folders, Repo};
use super::settings::Settings;
use super::{gitdir, private};
use crate::engine::workspace::kept_files::{self, KeptFiles};

/// The repository that holds the snapshots of a workspace.
#[derive(Debug)]
pub struct Opened {
    /// The repository; its work tree is the workspace, whatever its configuration says.
    pub repo: Repo,
    /// The name of the linked worktree, where the workspace is one.
    pub worktree: Option<OsString>,
    /// Whether it is lbx's own, under the state folder.
    pub private: bool,
    /// Why it is not the one that the workspace has, where it is not.
    pub warning: Option<String>,
}

/// What a repository must pass to serve.
pub type Check<'c> = &'c dyn Fn(&Opened) -> Result<(), SnapshotError>;

/// Opens the workspace's repository where it can be used and passes `check`, else the private one.
pub fn open(place: &RepositoryPaths<'_>, check: Check<'_>) -> Result<Opened, SnapshotError> {
    open_with(place, check, || private::repository(place).map(Some))?
        .ok_or_else(|| SnapshotError::new("there is no private snapshot repository"))
}

/// The same without making anything; `None` where there is no repository at all.
pub fn find(place: &RepositoryPaths<'_>, check: Check<'_>) -> Result<Option<Opened>, SnapshotError> {
    open_with(place, check, || private::find(place))
}

/// Opens the workspace's repository where it can be used, else the one that `private` gives.
fn open_with(
    place: &RepositoryPaths<'_>,
    check: Check<'_>,
    private: impl FnOnce() -> Result<Option<HeldFolder>, SnapshotError>,
) -> Result<Option<Opened>, SnapshotError> {
    let root = place.root;
    let (files, recent) = kept(place);
    let mut work_tree = HeldFolder::open(root)
        .doing(|| format!("`{}` cannot be read", root.display()))?
        .keeping(files.clone());
    let found = gitdir::locate(&work_tree, place.git_dirs)
        .doing(|| format!("cannot look at `{}`", root.join(".git").display()))?;
    let (refusal, unusable) = match found {
        GitDir::Absent => (None, None),
        GitDir::Odd(why) => (Some(why), None),
        GitDir::Here(located) => match open_located(&work_tree, &located) {
            // It can be used all the same: the caller tries again, or the next call does.
            Err(error) if error.is_passing() => return Err(error),
            Ok((folders, settings)) => {
                let mut repo = Repo::new(work_tree, folders, settings);
                repo.remember(recent.clone());
                let worktree = located.worktree.clone();
                let opened = Opened { repo, worktree, private: false, warning: None };
                match check(&opened) {
                    Err(error) if !error.is_passing() => {
                        work_tree = opened.repo.into_work_tree();
                        (Some(error.to_string()), Some(located))
                    }
                    checked => return checked.map(|()| Some(opened)),
                }
            }
            Err(_) if gitdir::is_empty(&work_tree) => (None, None),
            Err(error) => (Some(error.to_string()), Some(located)),
        },
    };
    let Some(own) = private()?.map(|own| own.keeping(files)) else {
        return Ok(None);
    };
    // Its rules for what is ignored, and how line endings are stored, count all the same.
    let settings = unusable.map(|located| private::adopt_rules(&own, &located)).transpose()?;
    private::check(&own)?;
    let settings = Settings::read(&own, &own, &settings.unwrap_or_default())?;
    let shown = own.path().strip_prefix(root).unwrap_or(own.path()).display().to_string();
    let warning = refusal
        .map(|why| format!("snapshots go to the private repository `{shown}`, since {}", lower_first(&why)));
    let mut repo = Repo::new(work_tree, Folders::of(own, None)?, settings);
    repo.remember(recent);
    Ok(Some(Opened { repo, worktree: None, private: true, warning }))
}

/// What earlier calls have read of the repository of a workspace: small files, commits and trees.
fn kept(place: &RepositoryPaths<'_>) -> (Option<Arc<KeptFiles>>, Option<Arc<RecentObjects>>) {
    let of = |name| (place.root, name);
    let files = place.kept.lasting_value(of("files of the repository"), kept_files::BYTES_MAX);
    let recent = place.kept.lasting_value(of("objects of the repository"), recent::BYTES_MAX);
    (files, recent)
}

/// Opens a repository that was found, and refuses what cannot serve.
fn open_located(work_tree: &HeldFolder, located: &Located) -> Result<(Folders, Settings), SnapshotError> {
    let opened = |path: &Path| {
        let folder = HeldFolder::open(path).doing(|| format!("`{}` cannot be opened", path.display()))?;
        Ok(folder.keeping(work_tree.files().cloned()))
    };
    let own = opened(&located.path)?;
    let common = located.common.as_deref().map(opened).transpose()?;
    let folders = Folders::of(own, common)?;
    let settings = Settings::read(folders.common(), folders.own(), &[])?;
    settings.check_rules(work_tree.path())?;
    Ok((folders, settings))
}

/// `text` on one line and with a small first letter, unless that begins a name such as `HEAD`, to stand
/// inside a sentence.
fn lower_first(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().take(2).all(char::is_uppercase) {
        return line;
    }
    let mut chars = line.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}
