//! Opening the repository that holds the snapshots.

use std::path::{Path, PathBuf};

use gix::bstr::BString;
use gix::config::Source;
use gix::open::{Options, Permissions};
use gix::sec::{Permission, Trust};

use super::error::{Doing as _, SnapshotError};
use super::gitdir;
use super::gitdir::{GitDir, Located};
use super::held::HeldFolder;
use super::ordinary::CONFIG_BYTES_MAX;
use super::repo::{OBJECT_BYTES_MAX, Repo};
use super::{alternates, ordinary, private};

/// Most bytes of objects that are kept because others are told as differences from them.
const DELTA_CACHE_BYTES: u32 = 64 * 1024 * 1024;

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

/// Where the snapshots of a workspace are.
#[derive(Debug, Clone, Copy)]
pub struct RepositoryPaths<'a> {
    /// The workspace, a canonical absolute path.
    pub root: &'a Path,
    /// The folder for lbx's own files, below it.
    pub state: &'a Path,
    /// Git folders elsewhere that the user trusts `.git` to lead to.
    pub git_dirs: &'a [PathBuf],
}

/// The repository that holds the snapshots of a workspace.
#[derive(Debug)]
pub struct Opened {
    /// The repository; its work tree is the workspace, whatever its configuration says.
    pub repo: Repo,
    /// The name of the linked worktree, where the workspace is one.
    pub worktree: Option<String>,
    /// Whether it is lbx's own, under the state folder.
    pub private: bool,
    /// Why it is not the one that the workspace has, where it is not.
    pub warning: Option<String>,
}

/// Opens the workspace's repository where gix can use it, else the private one.
pub fn open(place: &RepositoryPaths<'_>) -> Result<Opened, SnapshotError> {
    open_with(place, || private::repository(place).map(Some))?
        .ok_or_else(|| SnapshotError::new("there is no private snapshot repository"))
}

/// The same without making anything; `None` where there is no repository at all.
pub fn find(place: &RepositoryPaths<'_>) -> Result<Option<Opened>, SnapshotError> {
    open_with(place, || private::find(place))
}

/// Opens the workspace's repository where gix can use it, else the one that `private` gives.
fn open_with(
    place: &RepositoryPaths<'_>,
    private: impl FnOnce() -> Result<Option<HeldFolder>, SnapshotError>,
) -> Result<Option<Opened>, SnapshotError> {
    let root = place.root;
    let found = gitdir::locate(root, place.git_dirs)
        .doing(|| format!("cannot look at `{}`", root.join(".git").display()))?;
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
    let Some(own) = private()? else {
        return Ok(None);
    };
    // Its rules for what is ignored, and how line endings are stored, count all the same.
    let settings = unusable.map(|located| private::adopt_rules(&own, &located)).transpose()?;
    private::check(&own)?;
    let repo = open_path(root, own.path(), settings.unwrap_or_default())?;
    let common = own.folder(".").doing(|| format!("`{}` cannot be read", own.path().display()))?;
    let common = common.ok_or_else(|| SnapshotError::new("the private snapshot repository is gone"))?;
    let warning = refusal.map(|why| {
        let shown = own.path().strip_prefix(root).unwrap_or(own.path());
        format!("snapshots go to the private repository `{}`, since {}", shown.display(), lower_first(&why))
    });
    let repo = Repo::new(repo, own, common)?;
    Ok(Some(Opened { repo, worktree: None, private: true, warning }))
}

/// Opens a repository that was found, and refuses what gix cannot serve.
fn open_located(root: &Path, located: &Located) -> Result<Repo, SnapshotError> {
    let opened =
        |path: &Path| HeldFolder::open(path).doing(|| format!("`{}` cannot be opened", path.display()));
    let own = opened(&located.path)?;
    let common = opened(located.common.as_deref().unwrap_or(&located.path))?;
    ordinary::check_folder(&own)?;
    if located.common.is_some() {
        ordinary::check_folder(&common)?;
    }
    // What it borrows is looked at before gix follows it.
    let objects = common.folder("objects").doing(|| "the folder of its objects cannot be opened".into())?;
    let objects = objects.ok_or_else(|| SnapshotError::new("it has no folder for objects"))?;
    let borrowed = alternates::folders(&objects)?;
    check_extensions(&common)?;
    let repo = open_path(root, &located.path, Vec::new())?;
    ordinary::check_rules(&repo)?;
    check_partial(&repo)?;
    Ok(Repo::with(repo, (own, common), objects, borrowed))
}

/// Opens a git folder with `root` as its work tree, and with `settings` besides its own.
fn open_path(root: &Path, git_dir: &Path, settings: Vec<BString>) -> Result<gix::Repository, SnapshotError> {
    let own = [
        "core.useReplaceRefs=false".to_owned(),
        format!("gitoxide.objects.allocLimit={OBJECT_BYTES_MAX}"),
        format!("core.deltaBaseCacheLimit={DELTA_CACHE_BYTES}"),
    ];
    let settings = settings.into_iter().chain(own.map(BString::from));
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
///
/// Read from the file itself and before gix opens the repository, so that the refusal has lbx's words.
fn check_extensions(common: &HeldFolder) -> Result<(), SnapshotError> {
    let read = common.read("config", CONFIG_BYTES_MAX);
    let bytes = read.doing(|| "its configuration cannot be read".into())?.unwrap_or_default();
    let metadata = gix::config::file::Metadata::from(Source::Local);
    let config = gix::config::File::from_bytes_no_includes(
        &bytes,
        metadata,
        gix::config::file::init::Options::default(),
    )
    .untold(|| "its configuration is not of git's form".into())?;
    let format = config.integer("core.repositoryFormatVersion").ok().flatten().unwrap_or(0);
    if !(0..=1).contains(&format) {
        return Err(SnapshotError::new(format!("the format {format} of the repository is not known")));
    }
    for section in config.sections_by_name("extensions").into_iter().flatten() {
        for name in section.value_names() {
            let name = name.to_ascii_lowercase();
            let value = section.value(&name).unwrap_or_default();
            if name == "refstorage" && value != "files" {
                return Err(SnapshotError::new(
                    "the repository stores its references in a form, such as reftable, that lbx cannot write",
                ));
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

/// `text` on one line and with a small first letter, to stand inside a sentence.
fn lower_first(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut chars = line.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}
