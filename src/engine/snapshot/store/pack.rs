//! Packs: one with the many objects of one change, and those that `gc` and the private repository need.
//!
//! Git packs the developer's repository when it finds many loose objects; nobody else packs lbx's own. So a call that
//! finds many loose objects there packs some of them, within some 20 ms, and one that finds many packs joins them.
//! `gc` packs the objects of the snapshots in both. A pack and its index are durable before anything that they hold is
//! removed: no kill loses an object.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gix::ObjectId;
use gix::zlib::Compression;
use rustix::fs::CWD;

use super::deflate::{Deflater, PackedObject, REF_DELTA};
use super::dir::Dir;
use super::repo::{Object, Repo};
use super::versions::{PackBounds, SnapshotObjects};
use super::{ErrorContext as _, SnapshotError};
use crate::engine::workspace::fs::{self, is_regular, size_of};
use crate::limits::{CALL_PACK_BYTES_MAX, CALL_PACK_TIME_MAX, LBX_PACKS_MAX, PACK_COMMAND_BYTES_MAX};

/// Folder whose objects are counted: ids are spread evenly, so it holds one in 256.
const SAMPLE: u8 = 0x17;
/// Number of objects in it that counts as many: some 1,300 in all.
const SAMPLE_MAX: usize = 5;
/// Most objects that one call packs.
const OBJECTS_MAX: usize = 256;
/// Most loose snapshots that one call looks for.
const SNAPSHOTS_MAX: usize = 1024;
/// Most packed snapshots in a row, until one call looks no further.
const PACKED_SNAPSHOTS_MAX: usize = 64;
/// Most bytes of a pack by `gc`, after compression; then another begins. It is too large to be joined.
const PACKED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Size in bytes above which a pack is left alone.
const PACK_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Bytes of a pack that are written at once.
const WRITTEN_AT_ONCE: usize = 64 << 10;
/// Prefix of temporary files; `git gc` removes such files too.
pub const ASIDE: &str = "tmp_lbx_";
/// First bytes of an index.
const INDEX_BEGIN: &[u8] = b"\xfftOc\0\0\0\x02";
/// The types of pack entries that are whole objects.
const WHOLE: std::ops::RangeInclusive<u8> = 1..=4;

/// File in which a `git gc` records its process and machine.
const GC_NAME: &str = "gc.pid";
/// Longest content of that file that is read, in bytes.
const GC_BYTES_MAX: u64 = 512;
/// Longest wait: other calls queue for the workspace's lock meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);
/// Sleep between two checks.
const NAP: Duration = Duration::from_millis(5);

/// Amount to pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackAmount {
    /// In lbx's own repository: some objects if there are many, within some 20 ms.
    Little,
    /// In the developer's repository: all objects that snapshots added. The others are left to git.
    Snapshots,
    /// In lbx's own repository: everything.
    All,
}

/// Returns true if a repository has many loose objects, by a sample.
pub fn has_many_loose(repo: &Repo) -> bool {
    repo.loose_objects(SAMPLE).len() >= SAMPLE_MAX
}

/// Packs loose objects, those of the snapshots up to `tip` as deltas; returns their number.
///
/// The caller holds lbx's lock, so any process that left temporary files in lbx's own repository is dead.
pub fn tidy(repo: &Repo, tip: Option<ObjectId>, amount: PackAmount) -> Result<usize, SnapshotError> {
    let Some(packs) =
        repo.objects_folder().folder("pack").context(|| "the folder of packs cannot be opened".into())?
    else {
        return Ok(0);
    };
    let packer = Packer { repo, packs };
    match amount {
        PackAmount::Little => {
            packer.clear()?;
            let begun = Instant::now();
            let mut packed = packer.pack_snapshots(tip, amount)?;
            // Others are many then: those of a squash, or of snapshots too long ago to look for.
            if packed < OBJECTS_MAX / 2 && begun.elapsed() < CALL_PACK_TIME_MAX {
                packed += packer.pack_loose(begun + CALL_PACK_TIME_MAX)?;
            }
            packer.join_packs(LBX_PACKS_MAX)?;
            Ok(packed)
        }
        PackAmount::Snapshots => packer.pack_snapshots(tip, amount),
        PackAmount::All => {
            packer.clear()?;
            let mut packed = packer.pack_snapshots(tip, amount)?;
            loop {
                match packer.pack_loose(Instant::now() + Duration::from_secs(60))? {
                    0 => break,
                    some => packed += some,
                }
            }
            while packer.join_packs(2)? {}
            Ok(packed)
        }
    }
}

/// Packs one repository.
struct Packer<'a> {
    /// The repository.
    repo: &'a Repo,
    /// Its folder of packs.
    packs: Dir,
}

impl Packer<'_> {
    /// Packs the loose objects that snapshots added; returns their number.
    fn pack_snapshots(&self, tip: Option<ObjectId>, amount: PackAmount) -> Result<usize, SnapshotError> {
        let all = PackBounds {
            snapshots_max: usize::MAX,
            packed_max: usize::MAX,
            objects_max: usize::MAX,
            bytes_max: PACKED_BYTES_MAX,
            until: None,
        };
        let little = PackBounds {
            snapshots_max: SNAPSHOTS_MAX,
            packed_max: PACKED_SNAPSHOTS_MAX,
            objects_max: OBJECTS_MAX,
            bytes_max: CALL_PACK_BYTES_MAX,
            until: Some(Instant::now() + CALL_PACK_TIME_MAX),
        };
        let (level, bounds) = match amount {
            PackAmount::Little => (self.repo.settings().loose_compression(), little),
            PackAmount::Snapshots | PackAmount::All => (Compression::DEFAULT, all),
        };
        let mut versions = SnapshotObjects::of(self.repo, tip, level, bounds);
        let mut packed = 0;
        loop {
            let entries = versions.next_pack()?;
            packed += entries.len();
            let is_last = entries.is_empty() || amount == PackAmount::Little;
            self.replace_loose(entries)?;
            if is_last {
                return Ok(packed);
            }
        }
    }

    /// Packs loose objects of any kind until a bound is reached, each as a whole; returns their number.
    fn pack_loose(&self, until: Instant) -> Result<usize, SnapshotError> {
        let mut entries = Vec::new();
        let mut deflater = Deflater::new(self.repo.settings().loose_compression());
        let mut bytes = 0;
        // The sample comes last, so that it represents all other folders.
        let folders = (0..=u8::MAX).map(|step| SAMPLE.wrapping_add(1).wrapping_add(step));
        for id in folders.flat_map(|first| self.repo.loose_objects(first)) {
            if entries.len() >= OBJECTS_MAX
                || bytes >= CALL_PACK_BYTES_MAX
                || (bytes > 0 && Instant::now() >= until)
            {
                break;
            }
            // A damaged object stays where it is, for a repair.
            let Some(object) = self.repo.find_object(id).ok().filter(Object::is_whole) else { continue };
            bytes += object.data.len();
            let packed = deflater.entry(id, object.kind, &object.data);
            entries.push(packed.context(|| format!("cannot pack {id}"))?);
        }
        let packed = entries.len();
        self.replace_loose(entries)?;
        Ok(packed)
    }

    /// Writes a pack, if it has entries, and removes the files of its objects.
    fn replace_loose(&self, entries: Vec<PackedObject>) -> Result<(), SnapshotError> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut ids: Vec<ObjectId> = entries.iter().map(|entry| entry.id).collect();
        ids.sort_unstable();
        self.write(entries)?;
        for ids in ids.chunk_by(|one, other| one.first_byte() == other.first_byte()) {
            let Some(folder) = ids.first().and_then(|id| self.repo.loose_folder(id.first_byte())) else {
                continue;
            };
            for id in ids {
                // It is in the pack too, so keeping it does no harm.
                let _ = folder.remove(id.to_hex().to_string().get(2..).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Joins the small packs, if there are at least `packs_min`.
    fn join_packs(&self, packs_min: usize) -> Result<bool, SnapshotError> {
        let mut small: Vec<OsString> = Vec::new();
        for name in self.packs.names().unwrap_or_default() {
            let stat = |name: &OsStr| self.packs.stat(name).ok().flatten().filter(is_regular);
            let is_small = stat(&name).is_some_and(|it| size_of(&it) <= PACK_BYTES_MAX);
            if is_small
                && Path::new(&name).extension().is_some_and(|it| it == "pack")
                && stat(index_of(&name).as_os_str()).is_some()
            {
                small.push(name);
            }
        }
        small.sort();
        let mut joined = Vec::new();
        let (mut entries, mut known) = (Vec::new(), BTreeSet::new());
        for name in small {
            // A pack with deltas by offset was made by git, which packs better.
            if let Some(its) = movable_entries(&self.packs, &name, self.repo.object_hash()) {
                entries.extend(its.into_iter().filter(|entry| known.insert(entry.id)));
                joined.push(name);
            }
        }
        if joined.len() < packs_min {
            return Ok(false);
        }
        let made = self.write(entries)?;
        for name in joined.iter().filter(|name| **name != made) {
            let _ = self.packs.remove(index_of(name));
            let _ = self.packs.remove(name);
        }
        Ok(joined.len() > 1)
    }

    /// Removes temporary files of killed calls.
    fn clear(&self) -> Result<(), SnapshotError> {
        let doing = || format!("cannot clear `{}`", self.packs.path().display());
        for name in self.packs.names().unwrap_or_default() {
            let is_pack = Path::new(&name).extension().is_some_and(|it| it == "pack");
            let is_half = is_pack && self.packs.stat(index_of(&name)).ok().flatten().is_none();
            if is_half || name.to_string_lossy().starts_with(ASIDE) {
                self.packs.remove(name).context(doing)?;
            }
        }
        Ok(())
    }

    /// Writes a pack and its index durably; returns its name.
    fn write(&self, mut entries: Vec<PackedObject>) -> Result<OsString, SnapshotError> {
        entries.sort_by_key(|entry| entry.id);
        let doing = || format!("cannot write a pack in `{}`", self.packs.path().display());
        let id = std::process::id();
        let (pack_aside, index_aside) = (format!("{ASIDE}pack{id}-gc"), format!("{ASIDE}idx{id}-gc"));
        let (hash, count) = (self.repo.object_hash(), entries.len());
        let write = |file: &File| write_pack(file, (hash, count), std::iter::once(Ok(entries)));
        let (pack, (name, index)) = self.packs.write_new_by(&pack_aside, 0o444, write).context(doing)?;
        pack.sync_all().context(doing)?;
        let index = self.packs.write_new(&index_aside, 0o444, &index).context(doing)?;
        index.sync_all().context(doing)?;
        let name = OsString::from(name);
        self.packs.rename(&pack_aside, &self.packs, &name).context(doing)?;
        self.packs.rename(&index_aside, &self.packs, index_of(&name)).context(doing)?;
        self.packs.sync().context(doing)?;
        Ok(name)
    }
}

/// Writes a pack of `count` objects to `file`; returns its name and its index. `parts` returns the objects, ascending by
/// id: no more than a part of them is in memory.
///
/// # Errors
/// Returns the errors of `parts` and the OS; fails if the pack would be larger than 2 GiB.
///
/// # Source
/// gitformat-pack(5), version 2 of both files.
pub fn write_pack(
    file: &File,
    (hash, count): (gix::hash::Kind, usize),
    parts: impl Iterator<Item = io::Result<Vec<PackedObject>>>,
) -> io::Result<(String, Vec<u8>)> {
    let (mut file, mut hasher) = (BufWriter::with_capacity(WRITTEN_AT_ONCE, file), gix::hash::hasher(hash));
    let mut offset = 0_usize;
    let mut write = |bytes: &[u8]| {
        hasher.update(bytes);
        // Above 2 GiB an offset would need another table.
        let at = i32::try_from(offset).map_err(io::Error::other)?.unsigned_abs();
        offset += bytes.len();
        file.write_all(bytes).map(|()| at)
    };
    write(&[b"PACK\0\0\0\x02", &number(count)?[..]].concat())?;
    let mut rows = Vec::with_capacity(count);
    for part in parts {
        for PackedObject { id, bytes } in part? {
            rows.push((id, crc32fast::hash(&bytes), write(&bytes)?));
        }
    }
    // The last bytes of a pack give it its name.
    let checksum = hasher.try_finalize().map_err(io::Error::other)?;
    file.write_all(checksum.as_bytes())?;
    file.flush()?;
    let mut index = INDEX_BEGIN.to_vec();
    for first in 0..=u8::MAX {
        let count = rows.partition_point(|(id, ..)| id.first_byte() <= first);
        index.extend_from_slice(&number(count)?);
    }
    rows.iter().for_each(|(id, ..)| index.extend_from_slice(id.as_bytes()));
    let numbers = rows.iter().map(|row| row.1).chain(rows.iter().map(|row| row.2));
    numbers.for_each(|number| index.extend_from_slice(&number.to_be_bytes()));
    index.extend_from_slice(checksum.as_bytes());
    let sum = self::checksum(hash, &index)?;
    index.extend_from_slice(sum.as_bytes());
    Ok((format!("pack-{checksum}.pack"), index))
}

/// Returns the name of the index of a pack.
pub fn index_of(pack: impl AsRef<OsStr>) -> OsString {
    let pack = pack.as_ref();
    Path::new(pack).with_extension("idx").into_os_string()
}

/// Returns the entries of a pack on disk; `None` if it is damaged, or some are deltas by offset, which only hold in
/// that pack.
fn movable_entries(packs: &Dir, name: &OsStr, hash: gix::hash::Kind) -> Option<Vec<PackedObject>> {
    let read = |name: &OsStr| packs.read(name, PACK_BYTES_MAX).ok().flatten();
    let (pack, index) = (read(name)?, read(&index_of(name))?);
    let length = hash.len_in_bytes();
    let end = pack.len().checked_sub(length)?;
    let (content, trailer) = pack.split_at_checked(end)?;
    let table = index.strip_prefix(INDEX_BEGIN)?;
    let (fan_out, rest) = table.split_at_checked(256 * 4)?;
    let count = usize::try_from(u32::from_be_bytes(fan_out.last_chunk().copied()?)).ok()?;
    let (ids, rest) = rest.split_at_checked(count.checked_mul(length)?)?;
    let (_, rest) = rest.split_at_checked(count.checked_mul(4)?)?;
    let (offsets, _) = rest.split_at_checked(count.checked_mul(4)?)?;
    if checksum(hash, content).ok()?.as_bytes() != trailer {
        return None;
    }
    let offset = |bytes: &[u8]| usize::try_from(u32::from_be_bytes(bytes.try_into().ok()?)).ok();
    let offsets: Vec<usize> = offsets.chunks_exact(4).map(offset).collect::<Option<_>>()?;
    let starts: BTreeSet<usize> = offsets.iter().copied().chain([end]).collect();
    let entry = |(id, start): (&[u8], &usize)| {
        let next = starts.range(start + 1..).next()?;
        let bytes = content.get(*start..*next)?.to_vec();
        let kind = bytes.first()? >> 4 & 7;
        (WHOLE.contains(&kind) || kind == REF_DELTA)
            .then(|| Some(PackedObject { id: ObjectId::try_from(id).ok()?, bytes }))?
    };
    ids.chunks_exact(length).zip(&offsets).map(entry).collect()
}

/// Returns a count as packs write it.
fn number(count: usize) -> io::Result<[u8; 4]> {
    Ok(u32::try_from(count).map_err(io::Error::other)?.to_be_bytes())
}

/// Returns the checksum of `bytes`.
fn checksum(hash: gix::hash::Kind, bytes: &[u8]) -> io::Result<ObjectId> {
    let mut hasher = gix::hash::hasher(hash);
    hasher.update(bytes);
    hasher.try_finalize().map_err(io::Error::other)
}

/// Waits until no `git gc --prune=now` runs: it removes objects that no reference names yet, including those of an
/// unfinished snapshot, and leaves a branch without its commits.
///
/// git's manual warns of this, but git does not prevent it. Any other `git gc` keeps objects for two weeks.
///
/// # Errors
/// Fails if it takes longer; then at once, until it has ended.
pub fn wait_for_gc(repo: &Repo) -> Result<(), SnapshotError> {
    /// Process of the last one that was waited for in vain.
    static GIVEN_UP: AtomicU32 = AtomicU32::new(0);
    let asked = Instant::now();
    while let Some(process) = taker_of_young_objects(repo) {
        if asked.elapsed() >= PATIENCE || GIVEN_UP.load(Ordering::Relaxed) == process {
            GIVEN_UP.store(process, Ordering::Relaxed);
            return Err(SnapshotError::new(format!(
                "git gc is running (process {process}) and removes new objects; the next change after it makes up for it"
            )));
        }
        thread::sleep(NAP);
    }
    Ok(())
}

/// Returns the process of a running `git gc` that removes even the newest objects.
fn taker_of_young_objects(repo: &Repo) -> Option<u32> {
    let named = repo.common().read_once(GC_NAME, GC_BYTES_MAX).ok()??;
    let number = named.split(|&byte| byte == b' ').next().and_then(|word| std::str::from_utf8(word).ok());
    // A gc that has ended, or runs on another machine, has no such process here.
    let process = number.and_then(|word| word.parse::<u32>().ok())?;
    let command = fs::read_at(CWD, OsStr::new(&format!("/proc/{process}/cmdline")), PACK_COMMAND_BYTES_MAX);
    let command = command.ok()??;
    let mut words = command.split(|&byte| byte == 0);
    words.any(|word| matches!(word, b"--prune=now" | b"--prune=all")).then_some(process)
}
