//! Packing: old bytes go into one bundle, and the changes of each session into one file.
//!
//! `gc` packs everything. Each 128th change of a session packs some of what is older than a day: an agent that nobody tidies up after takes little of the disk, and what is young, or
//! measured, is left alone.
//!
//! A new file is durable before anything that it holds is removed: neither a kill nor a power cut loses a version. The
//! caller holds the workspace's lock.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use rustix::fs::AtFlags;

use super::backup;
use super::bundle::{self, PACKED, key_of};
use super::entry::{change_in, history_folder, history_name, keep_numbers, sessions};
use super::parts::{DELTAS_MAX, LOADED_ROWS_MAX, PART_BYTES_MAX, Parts, PartsWriter, ROWS_MAX, Versions};
use crate::control::seconds_now;
use crate::engine::journal::{JournalEntry, JournalFile, read};
use crate::engine::store::lock::unique_name;
use crate::engine::store::sealed;
use crate::engine::store::state::{STATE_FOLDER, State, names_in};
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::Error;
use crate::platform;
use crate::sha256::Sha256;

/// Most deltas of changes in a row: many are read in one call, and a delta saves a third of one.
const HISTORY_DELTAS_MAX: usize = 8;

/// Age in seconds from which a change is packed without `gc`.
const LITTLE_AGE_MIN: u64 = 24 * 60 * 60;
/// Fewest such changes of a session: each file that is written needs two syncs.
const LITTLE_CHANGES_MIN: usize = 16;
/// Most changes that one call packs.
const LITTLE_CHANGES_MAX: usize = 256;
/// Most old bytes that one call packs, unless one change has more.
const LITTLE_BYTES_MAX: u64 = 8 << 20;
/// Size of a bundle in bytes from which it is full: packing copies it.
const FULL_BUNDLE_BYTES: u64 = 32 << 20;

/// Amount to pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepackAmount {
    /// Some of what is older than a day.
    Little,
    /// Everything.
    All,
}

/// Counts of what was packed.
#[derive(Debug, Default, Clone, Copy)]
pub struct PackCounts {
    /// Number of changes.
    pub changes: usize,
    /// Bytes that the removed files had.
    removed_bytes: u64,
    /// Bytes by which the packed files grew.
    added_bytes: u64,
}

impl PackCounts {
    /// Returns the number of bytes that packing freed.
    pub const fn freed_bytes(&self) -> u64 {
        self.removed_bytes.saturating_sub(self.added_bytes)
    }
}

/// A use of old bytes. Those of one file sort together, the newest first: git orders versions so too, and an undo needs
/// the newest.
type BytesUse = (WorkspacePath, Reverse<(u64, u64)>, Sha256);

/// Folder of a session's history, and numbers of the changes to pack, ascending; each has a file of its own.
type History = (Arc<OwnedFd>, Vec<u64>);

/// Packs changes in the history, and the old bytes to which they refer. What cannot be read stays as it is.
///
/// # Errors
/// Returns the OS error; then nothing is lost.
pub fn pack(state: &State, amount: RepackAmount) -> Result<PackCounts, Error> {
    let mut done = PackCounts::default();
    let (mut histories, mut uses) = (Vec::new(), Vec::new());
    let (mut changes, mut bytes) = (0, 0);
    for session in sessions(state)? {
        let Some(folder) = state.find_folder(&history_folder(&session))? else { continue };
        let mut numbers = to_pack(&folder, amount)?;
        let mut taken = 0;
        for seq in &numbers {
            if amount == RepackAmount::Little && (changes == LITTLE_CHANGES_MAX || bytes >= LITTLE_BYTES_MAX)
            {
                break;
            }
            (changes, taken) = (changes + 1, taken + 1);
            let Some(entry) = single_entry(state, &folder, *seq)? else { continue };
            let age = Reverse((entry.time, entry.seq));
            for (path, before) in entry.files.into_iter().filter_map(|file| Some((file.path, file.before?))) {
                bytes = u64::saturating_add(bytes, before.size);
                uses.push((path, age, before.sha256));
            }
        }
        numbers.truncate(taken);
        histories.push((folder, numbers));
    }
    if amount == RepackAmount::Little && changes > 0 {
        set_full_aside(state)?;
    }
    let packed = pack_old_bytes(state, uses, &mut done)?;
    for history in histories.iter().filter(|(_, numbers)| !numbers.is_empty()) {
        pack_history(state, history, &packed, &mut done)?;
    }
    Ok(done)
}

/// Returns the numbers of the changes in the folder of a history that may be packed, ascending.
fn to_pack(folder: &OwnedFd, amount: RepackAmount) -> Result<Vec<u64>, Error> {
    let mut numbers: Vec<u64> =
        names_in(folder)?.iter().filter_map(|name| change_in(name.as_bytes())).collect();
    numbers.sort_unstable();
    if amount == RepackAmount::Little {
        let before = seconds_now().saturating_sub(LITTLE_AGE_MIN);
        let is_old = |seq: &u64| {
            let stat = fs::stat_at(folder.as_fd(), OsStr::new(&history_name(*seq)));
            stat.is_ok_and(|stat| u64::try_from(stat.st_mtime).is_ok_and(|time| time < before))
        };
        // The oldest first, so that most calls look at one of them.
        let old = numbers.iter().take(LITTLE_CHANGES_MAX).take_while(|seq| is_old(seq)).count();
        numbers.truncate(if old < LITTLE_CHANGES_MIN { 0 } else { old });
    }
    Ok(numbers)
}

/// Renames the bundle of packed bytes if it is full, so that another one begins: it is found under any name.
fn set_full_aside(state: &State) -> Result<(), Error> {
    let Some(folder) = state.find_folder(&bundle::folder())? else { return Ok(()) };
    if size_of(&folder, PACKED) < FULL_BUNDLE_BYTES {
        return Ok(());
    }
    fs::rename_at(&folder, PACKED, &folder, unique_name(PACKED)).map_err(|errno| unwritable(errno.into()))
}

/// Returns the change `seq` if it has a file of its own that can be read.
fn single_entry(state: &State, folder: &OwnedFd, seq: u64) -> Result<Option<JournalEntry>, Error> {
    match read(state, folder, &history_name(seq))? {
        JournalFile::Entry(entry) if entry.seq == seq => Ok(Some(*entry)),
        _ => Ok(None),
    }
}

/// Adds the used bytes to the bundle of packed ones, and removes other copies of them; returns which it has now.
fn pack_old_bytes(
    state: &State,
    mut uses: Vec<BytesUse>,
    done: &mut PackCounts,
) -> Result<BTreeSet<Sha256>, Error> {
    let mut packed = BTreeSet::new();
    if uses.is_empty() {
        return Ok(packed);
    }
    let folder = state.folder(&bundle::folder())?;
    let Some(old) = packed_part(&folder)? else { return Ok(packed) };
    uses.sort_unstable();
    let mut known = BTreeSet::new();
    uses.retain(|(.., sha256)| known.insert(*sha256));
    let mut new = Vec::new();
    for one in &uses {
        let found = old.as_ref().map_or(Ok(None), |old| bundle::find_in(old, one.2)).map_err(unreadable)?;
        if found.is_some() {
            packed.insert(one.2);
        } else {
            new.push(one);
        }
    }
    let rows = old.as_ref().map_or(0, Parts::rows);
    new.truncate(ROWS_MAX.saturating_sub(rows));
    if !new.is_empty() {
        done.added_bytes += replace(&folder, rows + new.len(), |writer| {
            for same_path in new.chunk_by(|one, other| one.0 == other.0) {
                let mut versions = Versions::new(DELTAS_MAX);
                for (.., sha256) in same_path {
                    let found = backup::find(state, *sha256)?;
                    let Some(bytes) = found.filter(|bytes| bytes.len() <= PART_BYTES_MAX) else { continue };
                    writer.version(*sha256.as_bytes(), bytes, &mut versions).map_err(unwritable)?;
                    packed.insert(*sha256);
                }
            }
            old.as_ref().map_or(Ok(()), |old| writer.copy(old, |_| true).map_err(unwritable))
        })?;
    }
    done.removed_bytes += backup::remove(state, &packed)?;
    for name in names_in(&folder)?.into_iter().filter(|name| name != PACKED) {
        let Some(other) = Parts::open(&folder, &name).map_err(unreadable)? else { continue };
        let rows = other.all_rows().map_err(unreadable)?;
        if rows.iter().all(|row| packed.contains(&Sha256::from_bytes(row.key))) {
            done.removed_bytes += remove(&folder, &name);
        }
    }
    Ok(packed)
}

/// Returns the packed file of a folder, or `None` in its place if it has none yet; `None` if that file is damaged.
#[expect(clippy::option_option, reason = "a damaged file is not a missing one")]
fn packed_part(folder: &OwnedFd) -> Result<Option<Option<Parts>>, Error> {
    let Some(mut packed) = Parts::open(folder, PACKED).map_err(unreadable)? else {
        return Ok(fs::stat_at(folder.as_fd(), PACKED.as_ref()).is_err().then_some(None));
    };
    Ok(packed.load().map_err(unreadable)?.then_some(Some(packed)))
}

/// Adds the changes of a session that have files of their own to its packed ones, without their old bytes.
fn pack_history(
    state: &State,
    (folder, numbers): &History,
    old_bytes: &BTreeSet<Sha256>,
    done: &mut PackCounts,
) -> Result<(), Error> {
    let Some(old) = packed_part(folder)? else { return Ok(()) };
    // The newest number may be among those that lose their files, and the packed file may be damaged later.
    keep_numbers(folder, |newest| numbers.contains(&newest))?;
    let rows = old.as_ref().map_or(0, Parts::rows);
    let oldest = numbers.iter().take(LOADED_ROWS_MAX.saturating_sub(rows)).rev();
    let mut packed = Vec::new();
    done.added_bytes += replace(folder, rows + numbers.len(), |writer| {
        let mut versions = Versions::new(HISTORY_DELTAS_MAX);
        for &seq in oldest {
            let Some(mut entry) = single_entry(state, folder, seq)? else { continue };
            let kept = std::mem::take(&mut entry.kept);
            if !kept.iter().all(|kept| old_bytes.contains(&kept.sha256)) {
                continue;
            }
            let content = sealed(&entry)?;
            if content.len() <= PART_BYTES_MAX {
                writer.version(key_of(seq), content, &mut versions).map_err(unwritable)?;
                packed.push(seq);
            }
        }
        old.as_ref().map_or(Ok(()), |old| writer.copy(old, |_| true).map_err(unwritable))
    })?;
    done.changes += packed.len();
    done.removed_bytes += packed.iter().map(|seq| remove(folder, &history_name(*seq))).sum::<u64>();
    Ok(())
}

/// Replaces the packed file of a folder durably, with room for so many parts; returns by how many bytes it grew.
///
/// # Errors
/// Returns the OS error, or that of `write`; then the old file is still there.
pub fn replace(
    folder: &OwnedFd,
    room: usize,
    write: impl FnOnce(&mut PartsWriter<'_>) -> Result<(), Error>,
) -> Result<u64, Error> {
    let aside = format!(".{PACKED}");
    let old = size_of(folder, PACKED);
    // The lock is held, so whoever left one is dead.
    let _ = fs::unlink_at(folder, &aside, AtFlags::empty());
    let file =
        fs::create_at(folder.as_fd(), OsStr::new(&aside), 0o600).map_err(|errno| unwritable(errno.into()))?;
    let written = PartsWriter::new(&file, room).map_err(unwritable).and_then(|mut writer| {
        write(&mut writer)?;
        writer.finish().and_then(|()| file.sync_all()).map_err(unwritable)?;
        let renamed = fs::rename_at(folder, &aside, folder, PACKED).and_then(|()| platform::sync(folder));
        renamed.map_err(|errno| unwritable(errno.into()))
    });
    match written {
        Ok(()) => Ok(size_of(folder, PACKED).saturating_sub(old)),
        Err(error) => {
            let _ = fs::unlink_at(folder, &aside, AtFlags::empty());
            Err(error)
        }
    }
}

/// Returns the number of bytes of a file; 0 if it is missing.
fn size_of(folder: &OwnedFd, name: &str) -> u64 {
    fs::stat_at(folder.as_fd(), OsStr::new(name)).map_or(0, |stat| fs::size_of(&stat))
}

/// Removes a file; returns the number of bytes that it had. It is packed too, so keeping it does no harm.
fn remove(folder: &OwnedFd, name: &str) -> u64 {
    let size = size_of(folder, name);
    if fs::unlink_at(folder, name, AtFlags::empty()).is_ok() { size } else { 0 }
}

/// Returns the error for a packed file that cannot be written.
fn unwritable(source: io::Error) -> Error {
    Error::io("pack the history in", STATE_FOLDER, source)
}

/// Returns the error for a packed file that cannot be read.
fn unreadable(source: io::Error) -> Error {
    Error::io("read the packed history in", STATE_FOLDER, source)
}
