//! Checks that a repository can be read without blocking, without filling the memory, and without leaking other files.
//!
//! The author of a repository may have replaced any of its files by a FIFO, a link or a terabyte of zeros, or may name
//! one in its configuration. Opening a FIFO blocks, and a parser takes as much memory as there are bytes. So everything
//! that gix reads by path is checked first, and borrowed objects are bounded in number and depth.

use std::path::{Path, PathBuf};

use gix::bstr::{BStr, ByteSlice as _};
use gix::config::file::Metadata;
use gix::config::file::init::Options;
use gix::config::{File, Source};
use gix::sec::Trust;
use rustix::fs::{AtFlags, CWD, OFlags, Stat};

use super::dir::Dir;
use super::{ErrorContext as _, SnapshotError};
use crate::engine::workspace::fs::{READ, is_folder, is_regular, open_at, read_to_end, size_of};
use crate::engine::workspace::git_files;
use crate::engine::workspace::stat_cache::{FileCache, SymlinkPolicy};
use crate::limits::{PACK_FILES_MAX, RULE_FILE_BYTES_MAX};

/// Largest configuration file, in bytes.
pub const CONFIG_BYTES_MAX: u64 = 1024 * 1024;
/// Files of a git folder that hold rules.
pub const RULES: [&str; 2] = ["info/exclude", "info/attributes"];
/// Setting of a file that turns it off.
const NO_FILE: &str = "/dev/null";
/// Deepest nesting of included configuration files; git stops there too.
const INCLUDE_DEPTH_MAX: usize = 10;
/// Most files that a configuration may include, counted each time they are named.
const INCLUDES_MAX: usize = 64;

/// Checks that a git folder has the parts that git requires, and that they are safe to read.
///
/// # Errors
/// Names the missing part.
pub fn check_folder(own: &Dir, common: &Dir) -> Result<(), SnapshotError> {
    let require = |folder: &Dir, name, is_it: fn(&Stat) -> bool, what| {
        let found = folder.stat(name).context_redacted(|| refusal(folder, name, what))?;
        let is_whole = found.is_some_and(|stat| is_it(&stat));
        if is_whole { Ok(()) } else { Err(refused(folder, name, what)) }
    };
    require(common, "refs", is_folder, "a folder of its own")?;
    require(own, "HEAD", is_regular, "a regular file")
}

/// Returns the rules in the file `name` of a git folder; `None` if it is missing.
///
/// # Errors
/// Fails if it is not a regular file, or is too large.
pub fn rules(folder: &Dir, name: &str) -> Result<Option<Vec<u8>>, SnapshotError> {
    let what = "a regular file within the limits";
    let rules = folder.read(name, RULE_FILE_BYTES_MAX);
    let rules = rules.context_redacted(|| refusal(folder, name, what))?;
    match rules {
        Some(rules) if !git_files::is_few(&rules) => Err(refused(folder, name, what)),
        rules => Ok(rules),
    }
}

/// Fails if a pack in a folder of objects is not a file: gix opens all that it finds. Follows links to files, as git
/// does.
///
/// # Errors
/// Names the entry that is not a file.
pub fn check_packs(objects: &Dir) -> Result<(), SnapshotError> {
    let Some(packs) =
        objects.folder("pack").context_redacted(|| refusal(objects, "pack", "a folder of its own"))?
    else {
        return Ok(());
    };
    let names = packs.names().context_redacted(|| format!("`{}` cannot be read", packs.path().display()))?;
    if names.len() > PACK_FILES_MAX {
        return Err(SnapshotError::new(format!("`{}` has too many files", packs.path().display())));
    }
    for name in names {
        let found = rustix::fs::statat(&packs, &name, AtFlags::empty());
        if found.is_ok_and(|stat| !is_regular(&stat) && !is_folder(&stat)) {
            return Err(refused(&packs, &name.to_string_lossy(), "a regular file"));
        }
    }
    Ok(())
}

/// Returns true if the path exists.
#[expect(
    clippy::disallowed_methods,
    reason = "only looked at, as git finds it: what a configuration names may lie anywhere"
)]
pub fn is_there(path: &Path) -> bool {
    std::fs::metadata(path).is_ok()
}

/// Fails if the file `path`, which `setting` names, is not safe to read as rules: it must be missing, or a regular file
/// within bounds. It may be anywhere, as for git.
///
/// # Errors
/// Names the setting.
#[expect(
    clippy::disallowed_methods,
    reason = "only looked at, as git finds it: what a configuration names may lie anywhere"
)]
pub fn check_rules_at(path: &Path, setting: &str) -> Result<(), SnapshotError> {
    let Ok(found) = std::fs::metadata(path) else { return Ok(()) };
    let is_small = found.is_file()
        && found.len() <= RULE_FILE_BYTES_MAX
        && std::fs::read(path).is_ok_and(|rules| git_files::is_few(&rules));
    if path == Path::new(NO_FILE) || found.is_dir() || is_small {
        return Ok(());
    }
    Err(SnapshotError::new(format!(
        "`{setting}` names something that is not a regular file, or has too many rules"
    )))
}

/// Parses a configuration file; follows no includes.
///
/// # Errors
/// Fails if it is not in git's format.
pub fn parse_config(bytes: &[u8], source: Source, path: PathBuf) -> gix::error::Result<File> {
    let metadata = Metadata::from(source).at(path).with(Trust::Full);
    let options = Options { lossy: true, ignore_io_errors: true, ..Options::default() };
    File::from_bytes_owned(&mut bytes.to_owned(), metadata, options)
}

/// Returns true if a section includes other files.
pub fn is_include(name: &BStr) -> bool {
    ["include", "includeif"].iter().any(|it| name.eq_ignore_ascii_case(it.as_bytes()))
}

/// Fails if an include of the configuration file `path`, which has these bytes, is something that git could not read
/// either.
///
/// # Errors
/// Names that include.
pub fn check_includes(path: &Path, bytes: &[u8]) -> Result<(), SnapshotError> {
    let mut left = INCLUDES_MAX;
    check_included(path, bytes, 0, &mut left)
}

/// Checks the includes of a configuration file, to the given depth.
#[expect(clippy::disallowed_methods, reason = "as git does: what a configuration names may lie anywhere")]
fn check_included(path: &Path, bytes: &[u8], depth: usize, left: &mut usize) -> Result<(), SnapshotError> {
    if depth == 0 && !bytes.to_ascii_lowercase().contains_str("include") {
        return Ok(()); // what is wrong with it otherwise, opening will tell
    }
    let Ok(config) = parse_config(bytes, Source::Local, path.to_owned()) else {
        return if depth == 0 { Ok(()) } else { Err(SnapshotError::new(no_configuration(path))) };
    };
    let sections = config.sections().filter(|section| is_include(section.header().name()));
    for named in sections.flat_map(|section| section.values("path")) {
        let included = resolved(path, named.to_path_lossy().as_ref());
        let found = std::fs::metadata(&included).ok();
        // Reading anything else may block, or never end.
        let is_odd = |it: std::fs::Metadata| !it.is_file() && !it.is_dir();
        let is_file = found.as_ref().is_some_and(std::fs::Metadata::is_file);
        if *left == 0
            || depth >= INCLUDE_DEPTH_MAX
            || (included != Path::new(NO_FILE) && found.is_some_and(is_odd))
        {
            return Err(SnapshotError::new(no_configuration(&included)));
        }
        *left -= 1;
        if !is_file {
            continue;
        }
        let bytes = read_followed(&included, None).context_redacted(|| no_configuration(&included))?;
        check_included(&included, &bytes, depth + 1, left)?;
    }
    Ok(())
}

/// Returns the bytes of a configuration file, with links followed. Does not block, even if it was replaced by a FIFO
/// since the check. `files` may have them from an earlier call.
pub fn read_followed(path: &Path, files: Option<&FileCache>) -> std::io::Result<Vec<u8>> {
    if let Some(files) = files {
        // Most of these files are missing: then this is the only call.
        let now = rustix::io::retry_on_intr(|| rustix::fs::stat(path))?;
        if let Some(bytes) = files.cached_bytes(SymlinkPolicy::Followed, &now) {
            return Ok(bytes);
        }
    }
    let file = open_at(CWD, path.as_os_str(), READ - OFlags::NOFOLLOW)?;
    let stat = rustix::fs::fstat(&file)?;
    if !is_regular(&stat) {
        return Err(rustix::io::Errno::INVAL.into());
    }
    let bytes = read_to_end(std::fs::File::from(file), size_of(&stat), CONFIG_BYTES_MAX)?;
    if let Some(files) = files {
        files.note(SymlinkPolicy::Followed, &stat, &bytes);
    }
    Ok(bytes)
}

/// Returns the path of an included file.
pub fn resolved(from: &Path, named: &Path) -> PathBuf {
    let home =
        named.strip_prefix("~").ok().and_then(|rest| Some(Path::new(&std::env::var_os("HOME")?).join(rest)));
    home.unwrap_or_else(|| from.parent().unwrap_or(Path::new("")).join(named))
}

/// Returns the error for an entry that has the wrong type.
fn refused(folder: &Dir, name: &str, what: &str) -> SnapshotError {
    SnapshotError::new(refusal(folder, name, what))
}

/// Returns the text of that error.
fn refusal(folder: &Dir, name: &str, what: &str) -> String {
    format!("`{}` is not {what}", folder.path().join(name).display())
}

/// Returns the text of the error for an included file.
fn no_configuration(path: &Path) -> String {
    format!(
        "its configuration includes `{}`, which is not a configuration file, or includes too many files",
        path.display()
    )
}

/// Longest list of borrowed folders, in bytes.
const ALTERNATES_BYTES_MAX: u64 = 64 * 1024;
/// Most borrowed folders in all.
const ALTERNATES_MAX: usize = 64;
/// Deepest nesting of such lists; git stops there too.
const ALTERNATE_DEPTH_MAX: usize = 5;
/// The list, in a folder of objects.
pub(super) const ALTERNATES: &str = "info/alternates";

/// Returns the folders from which `objects` borrows, each held open and checked.
///
/// # Errors
/// Fails if a list is not a regular file, or there are too many folders. Skips a missing folder, as git does.
pub fn alternates(objects: &Dir) -> Result<Vec<Dir>, SnapshotError> {
    check_packs(objects)?;
    let mut found: Vec<Dir> = Vec::new();
    let mut waiting = named_by(objects, 0)?;
    while let Some((path, depth)) = waiting.pop() {
        // The target of the name, which is then opened through no link.
        #[expect(clippy::disallowed_methods, reason = "git follows links there too")]
        let Ok(path) = std::fs::canonicalize(path) else { continue };
        if path == objects.path() || found.iter().any(|known| known.path() == path) {
            continue;
        }
        if depth > ALTERNATE_DEPTH_MAX || found.len() >= ALTERNATES_MAX {
            return Err(SnapshotError::new(
                "the repository borrows objects from too many others (objects/info/alternates)",
            ));
        }
        let Ok(folder) = Dir::open(&path) else { continue };
        check_packs(&folder)?;
        waiting.extend(named_by(&folder, depth)?);
        found.push(folder);
    }
    Ok(found)
}

/// Returns the folders in a folder's list, each one level deeper.
fn named_by(folder: &Dir, depth: usize) -> Result<Vec<(PathBuf, usize)>, SnapshotError> {
    let shown =
        || format!("`{}` is not a regular file of its size", folder.path().join(ALTERNATES).display());
    let Some(list) = folder.read(ALTERNATES, ALTERNATES_BYTES_MAX).context_redacted(shown)? else {
        return Ok(Vec::new());
    };
    let parsed = gix::odb::alternate::parse(&list).context_redacted(|| {
        format!("`{}` is not in git's format", folder.path().join(ALTERNATES).display())
    })?;
    if parsed.len() > ALTERNATES_MAX {
        return Err(SnapshotError::new(
            "the repository borrows objects from too many others (objects/info/alternates)",
        ));
    }
    Ok(parsed.iter().map(|path: &PathBuf| (folder.path().join(Path::new(path)), depth + 1)).collect())
}
