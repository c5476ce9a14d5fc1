//! The log that git keeps of a reference: a line for each value.

use std::io::{self, Write as _};
use std::path::Path;

use gix::ObjectId;
use gix::bstr::ByteSlice as _;

use super::error::{Doing as _, SnapshotError};
use super::held::HeldFolder;
use super::repo::Repo;
use crate::engine::workspace::fs::{is_regular, process_id};

/// Longest log that is read, in bytes.
const LOG_BYTES_MAX: u64 = 64 << 20;

/// What the branch's log says about a move.
#[derive(Debug)]
pub struct LogLine {
    /// Subject of the commit, one line.
    pub subject: String,
    /// When, in seconds since 1970.
    pub seconds: i64,
}

/// Writes the line of a move to the log of HEAD, which is on that branch.
pub fn append_to_head(repo: &Repo, from: Option<ObjectId>, to: ObjectId, log: &LogLine) {
    append(repo, repo.own(), "HEAD", (from, to), log);
}

/// Writes a line to the log of a reference; a convenience, so failure is silent.
pub fn append(
    repo: &Repo,
    holder: &HeldFolder,
    reference: &str,
    (from, to): (Option<ObjectId>, ObjectId),
    log: &LogLine,
) {
    let last = reference.rsplit('/').next().unwrap_or_default();
    let path = format!("logs/{reference}");
    let config = repo.settings();
    let bare = config.boolean("core.bare").unwrap_or(false);
    let wanted = config.boolean("core.logAllRefUpdates").unwrap_or(!bare);
    let parent = Path::new(&path).parent().unwrap_or(Path::new("logs"));
    let folder = match holder.folder(parent) {
        Ok(None) if wanted => holder.make_folder(parent).ok(),
        found => found.ok().flatten(),
    };
    let Some(folder) = folder else { return };
    let Ok(found) = folder.stat(last) else { return };
    // One that is there is added to, whatever the settings say.
    if found.map_or(wanted, |stat| is_regular(&stat))
        && let Ok(mut file) = folder.append(last)
    {
        let from = from.unwrap_or_else(|| ObjectId::null(to.kind()));
        let line =
            format!("{from} {to} lbx <lbx@localhost> {} +0000\tcommit: {}\n", log.seconds, log.subject);
        let _ = file.write_all(line.as_bytes());
    }
}

/// The values that a reference had, the newest first, as its log names them.
pub fn values(repo: &Repo, reference: &str) -> Vec<ObjectId> {
    let log = read(repo, reference).ok().flatten().unwrap_or_default();
    // `OLD NEW WHO TIME\tSUBJECT`, of which the value before the first is none.
    log.lines().rev().filter_map(|line| ids_in(line).nth(1)?).filter(|id| !id.is_null()).collect()
}

/// Removes the lines of a log that name what cannot be read: git takes them for damage. The whole log goes to
/// `keep` before; nothing does where all of it can be read.
///
/// # Errors
/// What the system says, and that of `keep`.
pub fn remove_unreadable(
    repo: &Repo,
    reference: &str,
    keep: impl FnOnce(&[u8]) -> Result<(), SnapshotError>,
) -> Result<(), SnapshotError> {
    let doing = || format!("the log of `{reference}` cannot be written");
    let Some(log) = read(repo, reference).doing(doing)? else { return Ok(()) };
    let is_readable =
        |id: Option<ObjectId>| id.is_some_and(|id| id.is_null() || repo.find_object(id).is_ok());
    let left: Vec<&[u8]> =
        log.lines_with_terminator().filter(|line| ids_in(line).take(2).all(is_readable)).collect();
    let left = left.concat();
    if left.len() == log.len() {
        return Ok(());
    }
    keep(&log)?;
    let path = format!("logs/{reference}");
    let parent = Path::new(&path).parent().unwrap_or(Path::new("logs"));
    let Some(folder) = repo.common().folder(parent).doing(doing)? else { return Ok(()) };
    let aside = format!("tmp_lbx_log_{}", process_id());
    let objects = repo.objects_folder();
    let _ = objects.remove(&aside);
    let write = || -> io::Result<()> {
        let mut file = objects.create(&aside, 0o666)?;
        file.write_all(&left)?;
        file.sync_all()?;
        objects.rename(&aside, &folder, reference.rsplit('/').next().unwrap_or_default())?;
        Ok(folder.sync()?)
    };
    let written = write();
    if written.is_err() {
        let _ = objects.remove(&aside);
    }
    written.doing(doing)
}

/// The bytes of a log.
fn read(repo: &Repo, reference: &str) -> io::Result<Option<Vec<u8>>> {
    repo.common().read(format!("logs/{reference}"), LOG_BYTES_MAX)
}

/// The two values in a line of a log; `None` for what is no id.
fn ids_in(line: &[u8]) -> impl Iterator<Item = Option<ObjectId>> + '_ {
    line.split(|byte| *byte == b' ').map(|hex| ObjectId::from_hex(hex).ok())
}
