//! Whether a repository can be read without waiting for ever and without telling what is elsewhere.
//!
//! Whoever made the repository may have put a FIFO or a link in place of any of its files, or may
//! name one in its configuration. A FIFO blocks whoever opens it; a parser's message about a file
//! that is none of git's may quote it.

use std::fs::{self, FileType};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice as _;
use gix::config::{File, Source};

use super::error::{Doing as _, SnapshotError};

/// Files of a git folder whose parsers tell what they found.
const QUOTED: [&str; 8] = [
    "HEAD",
    "config",
    "config.worktree",
    "packed-refs",
    "index",
    "shallow",
    "commondir",
    "objects/info/alternates",
];
/// Files of a git folder that are rules, whose parsers say nothing.
const RULES: [&str; 2] = ["info/exclude", "info/attributes"];
/// Settings that name a file of rules.
const RULE_SETTINGS: [&str; 2] = ["core.excludesFile", "core.attributesFile"];
/// How deep configuration files may include each other; git stops there too.
const INCLUDE_DEPTH_MAX: usize = 10;
/// Largest configuration file that is looked at for what it includes, in bytes.
const CONFIG_BYTES_MAX: u64 = 1024 * 1024;

/// Refuses a git folder in which something else stands in place of a file.
pub fn check_folder(folder: &Path) -> Result<(), SnapshotError> {
    for name in QUOTED {
        let path = folder.join(name);
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        let may_be_read = match found.file_type() {
            kind if kind.is_symlink() => is_link_within_git(&path),
            kind => kind.is_file(),
        };
        if !may_be_read {
            return Err(refused(&path));
        }
    }
    for name in RULES {
        let path = folder.join(name);
        if is_odd(&path) {
            return Err(refused(&path));
        }
    }
    check_head(folder)?;
    ["config", "config.worktree"].iter().try_for_each(|name| check_includes(&folder.join(name), 0))
}

/// Refuses a HEAD whose branch is no file.
fn check_head(folder: &Path) -> Result<(), SnapshotError> {
    let head = fs::read(folder.join("HEAD")).unwrap_or_default();
    let branch = head.strip_prefix(b"ref:").and_then(|name| name.trim().to_path().ok());
    match branch.map(|branch| folder.join(branch)).filter(|branch| is_odd(branch)) {
        Some(odd) => Err(refused(&odd)),
        None => Ok(()),
    }
}

/// Refuses rules that the configuration names and that are no file.
pub fn check_rules(repo: &gix::Repository) -> Result<(), SnapshotError> {
    let config = repo.config_snapshot();
    for setting in RULE_SETTINGS {
        let Ok(Some(path)) = config.trusted_path(setting) else { continue };
        if is_odd(&repo.workdir().unwrap_or(Path::new("")).join(path)) {
            return Err(SnapshotError::new(format!(
                "`{setting}` names something that is not a regular file"
            )));
        }
    }
    Ok(())
}

/// Refuses what a configuration file includes, where git could not read it either.
fn check_includes(path: &Path, depth: usize) -> Result<(), SnapshotError> {
    let is_small = |found: fs::Metadata| found.is_file() && found.len() <= CONFIG_BYTES_MAX;
    if !fs::metadata(path).is_ok_and(is_small) {
        return Ok(());
    }
    let bytes = fs::read(path).doing(|| format!("`{}` cannot be read", path.display()))?;
    if !bytes.to_ascii_lowercase().contains_str("include") {
        return Ok(()); // what is wrong with it otherwise, opening will tell
    }
    let Ok(config) = File::from_path_no_includes(path.to_owned(), Source::Local) else {
        return if depth == 0 { Ok(()) } else { Err(no_configuration(path)) };
    };
    let sections = config.sections().filter(|section| {
        ["include", "includeif"]
            .iter()
            .any(|name| section.header().name().eq_ignore_ascii_case(name.as_bytes()))
    });
    for named in sections.flat_map(|section| section.values("path")) {
        let included = resolved(path, named.to_path_lossy().as_ref());
        if is_odd(&included) || depth >= INCLUDE_DEPTH_MAX {
            return Err(no_configuration(&included));
        }
        if included.is_file() {
            if File::from_path_no_includes(included.clone(), Source::Local).is_err() {
                return Err(no_configuration(&included));
            }
            check_includes(&included, depth + 1)?;
        }
    }
    Ok(())
}

/// Where an included file lies.
pub fn resolved(from: &Path, named: &Path) -> PathBuf {
    let home =
        named.strip_prefix("~").ok().and_then(|rest| Some(Path::new(&std::env::var_os("HOME")?).join(rest)));
    home.unwrap_or_else(|| from.parent().unwrap_or(Path::new("")).join(named))
}

/// Whether something is there that may block, or never end, when it is read.
pub fn is_odd(path: &Path) -> bool {
    let blocks = |kind: FileType| {
        kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device()
    };
    path != Path::new("/dev/null") && fs::metadata(path).is_ok_and(|found| blocks(found.file_type()))
}

/// Whether a link leads to a file of a git folder, as some tools set up their work trees.
fn is_link_within_git(path: &Path) -> bool {
    if fs::read_link(path).is_ok_and(|target| target.starts_with("refs")) {
        return true; // HEAD, as git wrote it once
    }
    let Ok(target) = fs::canonicalize(path) else { return false };
    let mut folders = target.ancestors().skip(1).take(3);
    target.is_file() && folders.any(|folder| folder.join("HEAD").is_file() && folder.join("objects").is_dir())
}

/// The refusal of something that is no file of git's.
fn refused(path: &Path) -> SnapshotError {
    SnapshotError::new(format!("`{}` is not a regular file", path.display()))
}

/// The refusal of an included file.
fn no_configuration(path: &Path) -> SnapshotError {
    SnapshotError::new(format!("its configuration includes `{}`, which is none", path.display()))
}
