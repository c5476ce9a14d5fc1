//! The private repository, for a workspace without one that gix can use.
//!
//! It is lbx's own, below the state folder, and yet looked at each time: whatever in it could lead
//! elsewhere, or is not as lbx writes it, is put right or refused.

use std::io::Write as _;
use std::path::Path;

use gix::bstr::{BString, ByteSlice as _};
use gix::config::Source;
use rustix::io::Errno;

use super::error::{Doing as _, SnapshotError};
use super::gitdir::{Located, RepositoryPaths};
use super::held::HeldFolder;
use super::ordinary;
use super::ordinary::{CONFIG_BYTES_MAX, RULES};

/// Settings of a repository that count though it cannot be used itself.
const SETTINGS: [&str; 5] =
    ["core.excludesFile", "core.attributesFile", "core.autocrlf", "core.eol", "core.fileMode"];
/// Name of the private repository in the state folder.
const FOLDER: &str = "repo.git";
/// Its folders.
const FOLDERS: [&str; 6] = ["objects", "objects/pack", "objects/info", "refs", "refs/heads", "refs/tags"];
/// Its configuration: bare, so that nobody takes the state folder for a work tree.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";
/// Its HEAD, on a branch that is never born.
const HEAD: &str = "ref: refs/heads/main\n";
/// What lbx never puts there, since it leads elsewhere.
const LEADING_ELSEWHERE: [&str; 6] = [
    "commondir",
    "config.worktree",
    "gitdir",
    "shallow",
    "objects/info/alternates",
    "objects/info/http-alternates",
];

/// The private repository, made where it is missing.
///
/// `HEAD` comes last, since it is what makes a folder a repository: a killed call leaves
/// something that the next one completes. No template and no hook is involved.
///
/// # Errors
/// Where the file system fails, or a link stands where a folder should be.
pub fn repository(place: &RepositoryPaths<'_>) -> Result<HeldFolder, SnapshotError> {
    let doing = || {
        "cannot make the private snapshot repository: `repo.git` cannot be opened as a folder of its own"
            .into()
    };
    let state = state(place)?.ok_or_else(|| SnapshotError::new("there is no folder for lbx's own files"))?;
    let folder = state.make_folder(FOLDER).doing(doing)?;
    for name in LEADING_ELSEWHERE {
        let path = Path::new(name);
        let parent = folder
            .folder(path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new(".")))
            .ok()
            .flatten();
        // What stays, since it is a folder, is refused below.
        let _ = parent.map(|parent| parent.remove(path.file_name().unwrap_or_default()));
    }
    let is_whole = is_as_written(&folder, "HEAD", HEAD) && is_as_written(&folder, "config", CONFIG);
    if is_whole {
        return Ok(folder);
    }
    for name in FOLDERS {
        folder.make_folder(name).doing(|| format!("cannot make `{}`", folder.path().join(name).display()))?;
    }
    write(&folder, "config", CONFIG.as_bytes())?;
    write(&folder, "HEAD", HEAD.as_bytes())?;
    folder.sync().doing(doing)?;
    Ok(folder)
}

/// The private repository, where there is one already.
///
/// # Errors
/// Where a link stands where a folder should be.
pub fn find(place: &RepositoryPaths<'_>) -> Result<Option<HeldFolder>, SnapshotError> {
    let Some(state) = state(place)? else { return Ok(None) };
    let doing = || "the private snapshot repository cannot be opened as a folder of its own".into();
    let Some(folder) = state.folder(FOLDER).doing(doing)? else { return Ok(None) };
    let is_whole = is_as_written(&folder, "HEAD", HEAD) && is_as_written(&folder, "config", CONFIG);
    Ok(is_whole.then_some(folder))
}

/// The state folder, reached from the workspace through no link.
fn state(place: &RepositoryPaths<'_>) -> Result<Option<HeldFolder>, SnapshotError> {
    let doing = || format!("`{}` cannot be opened as a folder of its own", place.state.display());
    let root = HeldFolder::open(place.root).doing(|| format!("`{}` cannot be read", place.root.display()))?;
    let below = place.state.strip_prefix(place.root).doing(doing)?;
    root.folder(below).doing(doing)
}

/// Whether a file of the private repository has what lbx wrote.
fn is_as_written(folder: &HeldFolder, name: &str, wanted: &str) -> bool {
    let read = folder.read(name, wanted.len() as u64);
    read.is_ok_and(|read| read.is_some_and(|read| read == wanted.as_bytes()))
}

/// Refuses the private repository where something in it leads elsewhere, or is no file or folder.
///
/// # Errors
/// Names what that is.
pub fn check(folder: &HeldFolder) -> Result<(), SnapshotError> {
    for name in LEADING_ELSEWHERE {
        let shown = || format!("`{}` should not be there", folder.path().join(name).display());
        if folder.stat(name).doing(shown)?.is_some() {
            return Err(SnapshotError::new(shown()));
        }
    }
    Ok(())
}

/// Takes over the rules of a repository that cannot be used itself: the files in its `info`, and
/// the settings that name others, as overrides for opening the private one.
///
/// # Errors
/// Where the rules are there and cannot be read: what they ignore may be secrets, which must not
/// enter the private repository either.
pub fn adopt_rules(own: &HeldFolder, unusable: &Located) -> Result<Vec<BString>, SnapshotError> {
    let path = unusable.common.as_ref().unwrap_or(&unusable.path);
    let folder = HeldFolder::open(path).doing(|| format!("`{}` cannot be read", path.display()))?;
    for name in RULES {
        let rules = ordinary::rules(&folder, name)?.unwrap_or_default();
        if ordinary::rules(own, name).ok().flatten().unwrap_or_default() != rules {
            write(own, name, &rules)?;
        }
    }
    let Ok(Some(bytes)) = folder.read("config", CONFIG_BYTES_MAX) else { return Ok(Vec::new()) };
    let metadata = gix::config::file::Metadata::from(Source::Local);
    let options = gix::config::file::init::Options::default();
    let Ok(parsed) = gix::config::File::from_bytes_no_includes(&bytes, metadata, options) else {
        return Ok(Vec::new());
    };
    let mut settings = Vec::new();
    for name in SETTINGS {
        let Some(value) = parsed.string(name) else { continue };
        let named = ordinary::resolved(&path.join("config"), &value.to_path_lossy());
        if name.ends_with("File") && !ordinary::may_be_rules(&named) {
            return Err(SnapshotError::new(format!(
                "`{name}` names something that is not a regular file, or has too many rules"
            )));
        }
        settings.push(BString::from(format!("{name}={value}")));
    }
    Ok(settings)
}

/// Writes a file of the private repository whole or not at all; whatever stands in its place goes.
fn write(own: &HeldFolder, name: &str, bytes: &[u8]) -> Result<(), SnapshotError> {
    let doing = || format!("cannot write `{}`", own.path().join(name).display());
    let path = Path::new(name);
    let (parent, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
    let made =
        if parent.as_os_str().is_empty() { own.folder(".") } else { own.make_folder(parent).map(Some) };
    let folder = made.doing(doing)?.ok_or_else(|| SnapshotError::new(doing()))?;
    let aside = path.with_extension("new");
    let aside = aside.file_name().unwrap_or_default();
    // Of a killed call.
    match folder.remove(aside) {
        Err(errno) if errno != Errno::NOENT => return Err(errno).doing(doing),
        _ => {}
    }
    let mut file = folder.create(aside, 0o666).doing(doing)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).doing(doing)?;
    folder.rename(aside, &folder, name).doing(doing)
}
