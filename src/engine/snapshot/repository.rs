//! Opening the repository that holds the snapshots.

use std::fs;
use std::path::{Path, PathBuf};

use gix::bstr::{BString, ByteSlice as _};
use gix::config::Source;
use gix::open::{Options, Permissions};
use gix::sec::{Permission, Trust};

use super::error::{Doing as _, SnapshotError};
use super::gitdir::{self, GitDir, Located};
use super::{ordinary, private};

/// Extensions that a repository of format 1 may use, in lower case.
///
/// One that is missing here changes what the files of the repository mean, so nothing may be
/// written there. What matters of `refStorage` and `objectFormat` is looked at apart.
const EXTENSIONS_KNOWN: [&str; 10] = [
    "noop",
    "noop-v1",
    "objectformat",
    "partialclone",
    "preciousobjects",
    "refstorage",
    "relativeworktrees",
    "submodulepathconfig",
    "worktreeconfig",
    "compatobjectformat",
];

/// The repository that holds the snapshots of a workspace.
#[derive(Debug)]
pub struct Opened {
    /// The repository; its work tree is the workspace, whatever its configuration says.
    pub repo: gix::Repository,
    /// The name of the linked worktree, where the workspace is one.
    pub worktree: Option<String>,
    /// Whether it is lbx's own, under the state folder.
    pub private: bool,
    /// Why it is not the one that the workspace has, where it is not.
    pub warning: Option<String>,
}

/// Opens the workspace's repository where gix can use it, else the private one.
pub fn open(root: &Path, state: &Path) -> Result<Opened, SnapshotError> {
    open_with(root, || {
        private::repository(state).map(Some).doing(|| "cannot make the private snapshot repository".into())
    })?
    .ok_or_else(|| SnapshotError::new("there is no private snapshot repository"))
}

/// The same without making anything; `None` where there is no repository at all.
pub fn find(root: &Path, state: &Path) -> Result<Option<Opened>, SnapshotError> {
    open_with(root, || Ok(private::find(state)))
}

/// Opens the workspace's repository where gix can use it, else the one that `private` gives.
fn open_with(
    root: &Path,
    private: impl FnOnce() -> Result<Option<PathBuf>, SnapshotError>,
) -> Result<Option<Opened>, SnapshotError> {
    let found = gitdir::locate(root).doing(|| format!("cannot look at `{}`", root.join(".git").display()))?;
    let (refusal, unusable) = match found {
        GitDir::Absent => (None, None),
        GitDir::Odd(why) => (Some(why), None),
        GitDir::Here(located) => match open_located(root, &located) {
            // It can be used all the same: the caller tries again.
            Err(error) if error.is_interrupted() => return Err(error),
            Ok(repo) => {
                return Ok(Some(Opened { repo, worktree: located.worktree, private: false, warning: None }));
            }
            Err(error) => (Some(error.to_string()), Some(located)),
        },
    };
    let Some(path) = private()? else {
        return Ok(None);
    };
    // Its rules for what is ignored, and how line endings are stored, count all the same.
    let settings = unusable.map(|located| private::adopt_rules(&path, &located)).unwrap_or_default();
    let repo = open_path(root, &path, settings)?;
    let warning = refusal.map(|why| {
        format!("snapshots go to the private repository `.lbx/repo.git`, since {}", lower_first(&why))
    });
    Ok(Some(Opened { repo, worktree: None, private: true, warning }))
}

/// Opens a repository that was found, and refuses what gix cannot serve.
fn open_located(root: &Path, located: &Located) -> Result<gix::Repository, SnapshotError> {
    ordinary::check_folder(&located.path)?;
    if let Some(common) = &located.common {
        ordinary::check_folder(common)?;
    }
    let repo = open_path(root, &located.path, Vec::new())?;
    check_extensions(&repo)?;
    ordinary::check_rules(&repo)?;
    check_partial(&repo)?;
    check_home(root, &repo, located)?;
    Ok(repo)
}

/// Opens a git folder with `root` as its work tree, and with `settings` besides its own.
fn open_path(root: &Path, git_dir: &Path, settings: Vec<BString>) -> Result<gix::Repository, SnapshotError> {
    let settings = settings.into_iter().chain(["core.useReplaceRefs=false".into()]);
    let mut repo = options()
        .config_overrides(settings)
        .open(git_dir)
        .doing(|| format!("the repository `{}` cannot be opened", git_dir.display()))?
        .to_thread_local();
    repo.set_workdir(root.to_owned()).doing(|| format!("`{}` cannot be read", root.display()))?;
    Ok(repo)
}

/// Options that obey no `GIT_*` variable and trust the folder, yet know the user's own settings.
///
/// Trust is safe here, since nothing that a configuration names is ever run.
fn options() -> Options {
    let mut permissions = Permissions::isolated();
    permissions.config.system = true;
    permissions.config.git = true;
    permissions.config.user = true;
    permissions.config.includes = true;
    permissions.attributes.system = true;
    permissions.attributes.git = true;
    permissions.env.home = Permission::Allow;
    permissions.env.xdg_config_home = Permission::Allow;
    Options::default().permissions(permissions).open_path_as_is(true).with(Trust::Full).lossy_config(true)
}

/// Refuses a reference storage, a format or an extension that gix would misread.
fn check_extensions(repo: &gix::Repository) -> Result<(), SnapshotError> {
    let config = repo.config_snapshot();
    let format = config.integer("core.repositoryFormatVersion").unwrap_or(0);
    if !(0..=1).contains(&format) {
        return Err(SnapshotError::new(format!("the format {format} of the repository is not known")));
    }
    let local = config.plumbing().sections_by_name("extensions").into_iter().flatten();
    for section in local.filter(|section| of_repository(section.meta().source)) {
        for name in section.value_names() {
            let name = name.to_ascii_lowercase();
            let value = section.value(&name).unwrap_or_default();
            if name == "refstorage" && value != "files" {
                return Err(SnapshotError::new(format!(
                    "the repository stores its references as {value}, which lbx cannot write"
                )));
            }
            if format == 1 && !EXTENSIONS_KNOWN.contains(&name.as_str()) {
                return Err(SnapshotError::new(format!(
                    "the extension `{name}` of the repository is not known"
                )));
            }
        }
    }
    Ok(())
}

/// Refuses a clone without trees, since nothing is ever fetched here.
fn check_partial(repo: &gix::Repository) -> Result<(), SnapshotError> {
    let config = repo.config_snapshot();
    let remotes = config.plumbing().sections_by_name("remote").into_iter().flatten();
    let treeless = remotes
        .filter_map(|remote| remote.value("partialclonefilter"))
        .any(|filter| filter.starts_with(b"tree:"));
    if treeless {
        return Err(SnapshotError::new("the repository is a partial clone without its trees"));
    }
    Ok(())
}

/// Makes sure that a repository which a link or a file led to belongs to this work tree.
fn check_home(root: &Path, repo: &gix::Repository, located: &Located) -> Result<(), SnapshotError> {
    if !located.elsewhere {
        return Ok(());
    }
    let config = repo.config_snapshot();
    let Some(work_tree) = config.plumbing().string_filter("core.worktree", |meta| of_repository(meta.source))
    else {
        if config.boolean("core.bare") == Some(true) {
            return Err(SnapshotError::new(format!(
                "`.git` points to the bare repository `{}`",
                located.path.display()
            )));
        }
        return Ok(());
    };
    let work_tree: Option<PathBuf> =
        work_tree.to_path().ok().and_then(|path| fs::canonicalize(located.path.join(path)).ok());
    if work_tree.as_deref() == Some(root) {
        return Ok(());
    }
    Err(SnapshotError::new("`.git` points to the repository of another work tree"))
}

/// Whether a setting comes from the repository itself.
fn of_repository(source: Source) -> bool {
    matches!(source, Source::Local | Source::Worktree)
}

/// `text` on one line and with a small first letter, to stand inside a sentence.
fn lower_first(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut chars = line.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}
