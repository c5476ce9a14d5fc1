//! The private repository, for a workspace without one that gix can use.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use gix::bstr::{BString, ByteSlice as _};
use gix::config::Source;

use super::gitdir::Located;
use super::ordinary;

/// Settings of a repository that count though it cannot be used itself.
const SETTINGS: [&str; 5] =
    ["core.excludesFile", "core.attributesFile", "core.autocrlf", "core.eol", "core.fileMode"];
/// Largest file of rules that is taken over, in bytes.
const RULES_BYTES_MAX: u64 = 1024 * 1024;
/// Name of the private repository in the state folder.
const FOLDER: &str = "repo.git";
/// Its configuration: bare, so that nobody takes the state folder for a work tree.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";
/// Its HEAD, on a branch that is never born.
const HEAD: &str = "ref: refs/heads/main\n";

/// The private repository under `state`, made where it is missing.
///
/// `HEAD` comes last, since it is what makes a folder a repository: a killed call leaves
/// something that the next one completes. No template and no hook is involved.
///
/// # Errors
/// Where the file system fails, or a link stands where the folder should be.
pub fn repository(state: &Path) -> io::Result<PathBuf> {
    let path = state.join(FOLDER);
    make_folder(&path)?;
    if is_whole(&path) {
        return Ok(path);
    }
    for folder in ["objects", "objects/pack", "objects/info", "refs", "refs/heads", "refs/tags"] {
        make_folder(&path.join(folder))?;
    }
    write_new(&path.join("config"), CONFIG.as_bytes())?;
    write_new(&path.join("HEAD"), HEAD.as_bytes())?;
    fs::File::open(&path)?.sync_all()?;
    Ok(path)
}

/// The private repository under `state`, where there is one already.
pub fn find(state: &Path) -> Option<PathBuf> {
    let path = state.join(FOLDER);
    (fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) && is_whole(&path)).then_some(path)
}

/// Takes over the rules of a repository that cannot be used itself: the files in its `info`, and
/// the settings that name others, as overrides for opening the private one at `path`.
///
/// What cannot be read is passed over, as git passes over rules that are not there.
pub fn adopt_rules(path: &Path, unusable: &Located) -> Vec<BString> {
    let folder = unusable.common.as_ref().unwrap_or(&unusable.path);
    let is_small = |metadata: fs::Metadata| metadata.is_file() && metadata.len() <= RULES_BYTES_MAX;
    let read = |path: &Path| {
        if fs::metadata(path).is_ok_and(is_small) { fs::read(path).ok() } else { None }
    };
    for name in ["info/exclude", "info/attributes"] {
        let (rules, to) = (read(&folder.join(name)).unwrap_or_default(), path.join(name));
        if fs::read(&to).unwrap_or_default() != rules {
            let _ = fs::create_dir(path.join("info"));
            let _ = write_new(&to, &rules);
        }
    }
    let config = folder.join("config");
    let parsed =
        read(&config).and_then(|_| gix::config::File::from_path_no_includes(config, Source::Local).ok());
    let Some(parsed) = parsed else { return Vec::new() };
    let setting = |name: &str| {
        let value = parsed.string(name)?;
        let names_odd = name.ends_with("File")
            && ordinary::is_odd(&ordinary::resolved(&folder.join("config"), &value.to_path_lossy()));
        (!names_odd).then(|| BString::from(format!("{name}={value}")))
    };
    SETTINGS.iter().filter_map(|name| setting(name)).collect()
}

/// Whether the last thing that makes a folder a repository is there.
fn is_whole(path: &Path) -> bool {
    fs::symlink_metadata(path.join("HEAD")).is_ok_and(|metadata| metadata.is_file())
}

/// Makes a folder, where there is not a real one already.
fn make_folder(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    if fs::symlink_metadata(path)?.is_dir() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::NotADirectory, format!("`{}` is not a folder", path.display())))
}

/// Writes a file whole or not at all.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let aside = path.with_extension("new");
    let _ = fs::remove_file(&aside);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&aside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&aside, path)
}
