//! The private repository, for a workspace without one that gix can use.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

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
    write_new(&path.join("config"), CONFIG)?;
    write_new(&path.join("HEAD"), HEAD)?;
    fs::File::open(&path)?.sync_all()?;
    Ok(path)
}

/// The private repository under `state`, where there is one already.
pub fn find(state: &Path) -> Option<PathBuf> {
    let path = state.join(FOLDER);
    (fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) && is_whole(&path)).then_some(path)
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
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let aside = path.with_extension("new");
    let _ = fs::remove_file(&aside);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&aside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&aside, path)
}
