//! A survey as bytes, for a later call: numbers in little-endian order, texts after their length, the SHA-256 of all
//! at the end.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use super::{EntryStat, Survey, SurveyedFolder, THINGS_MAX};
use crate::engine::workspace::path::WorkspacePath;
use crate::sha256::Sha256;

/// Beginning of the bytes.
const MAGIC: &[u8] = b"lbx survey 1\n";
/// Bytes of the digest at the end.
const DIGEST_BYTES: usize = 32;

impl Survey {
    /// Returns the number of files and folders in it.
    pub fn count(&self) -> usize {
        self.folders.iter().map(|folder| folder.things.len()).sum()
    }

    /// Returns the survey as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put(&mut out, self.folders.len() as u64);
        for folder in &self.folders {
            let SurveyedFolder { path, names, things } = folder.as_ref();
            put_text(&mut out, path);
            put_text(&mut out, names);
            put(&mut out, things.len() as u64);
            for (range, thing) in things {
                [range.start as u64, range.end as u64].into_iter().for_each(|number| put(&mut out, number));
                fields_of(thing).into_iter().for_each(|number| put(&mut out, number));
            }
        }
        put(&mut out, self.unseen.len() as u64);
        self.unseen.iter().for_each(|path| put_text(&mut out, path.as_bytes()));
        self.root.iter().flat_map(fields_of).for_each(|number| put(&mut out, number));
        let digest = Sha256::of(&out);
        out.extend(digest.as_bytes());
        out
    }

    /// Returns the survey in some bytes; `None` if lbx did not write them.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (content, digest) = bytes.split_at_checked(bytes.len().checked_sub(DIGEST_BYTES)?)?;
        if Sha256::of(content).as_bytes() != digest {
            return None;
        }
        let mut rest = content.strip_prefix(MAGIC)?;
        let mut folders = Vec::new();
        for _ in 0..read_number(&mut rest)? {
            let (path, names) = (take_text(&mut rest)?.to_vec(), take_text(&mut rest)?.to_vec());
            let count = usize::try_from(read_number(&mut rest)?).ok().filter(|count| *count <= THINGS_MAX)?;
            let mut things = Vec::with_capacity(count);
            for _ in 0..count {
                let (start, end) = (read_number(&mut rest)?, read_number(&mut rest)?);
                let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
                things.push((range, read_entry(&mut rest)?));
            }
            folders.push(Arc::new(SurveyedFolder { path, names, things }));
        }
        let mut unseen = std::collections::BTreeSet::new();
        for _ in 0..read_number(&mut rest)? {
            unseen.insert(WorkspacePath::new(OsStr::from_bytes(take_text(&mut rest)?).as_ref())?);
        }
        // Older surveys have no root.
        let root = if rest.is_empty() { None } else { Some(read_entry(&mut rest)?) };
        rest.is_empty().then_some(Self { root, folders, unseen, linked: Vec::new() })
    }
}

/// Returns the fields of a thing as numbers.
fn fields_of(thing: &EntryStat) -> [u64; 10] {
    let EntryStat { mode, owner: (user, group), inode, size, modified, changed, is_closed } = *thing;
    [
        mode.into(),
        user.into(),
        group.into(),
        inode,
        size,
        modified.0.cast_unsigned(),
        modified.1.cast_unsigned(),
        changed.0.cast_unsigned(),
        changed.1.cast_unsigned(),
        is_closed.into(),
    ]
}

/// Takes the fields of a thing from the beginning of some bytes.
fn read_entry(rest: &mut &[u8]) -> Option<EntryStat> {
    let mut next = || read_number(rest);
    let mode = u32::try_from(next()?).ok()?;
    let owner = (u32::try_from(next()?).ok()?, u32::try_from(next()?).ok()?);
    let (inode, size) = (next()?, next()?);
    let modified = (next()?.cast_signed(), next()?.cast_signed());
    let changed = (next()?.cast_signed(), next()?.cast_signed());
    Some(EntryStat { mode, owner, inode, size, modified, changed, is_closed: next()? != 0 })
}

/// Adds a number.
fn put(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

/// Adds a text.
fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put(out, text.len() as u64);
    out.extend(text);
}

/// Takes a number from the beginning of some bytes.
fn read_number(rest: &mut &[u8]) -> Option<u64> {
    let (number, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u64::from_le_bytes(*number))
}

/// Takes a text from the beginning of some bytes.
fn take_text<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(read_number(rest)?).ok()?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn survey_is_read_back_and_damage_is_refused() {
        let thing = EntryStat {
            mode: 0o100_644,
            owner: (1000, 7),
            inode: 42,
            size: u64::MAX,
            modified: (-1, 999_999_999),
            changed: (1_790_000_000, 0),
            is_closed: true,
        };
        let names = b"a.txtb".to_vec();
        let folder =
            SurveyedFolder { path: b"d/\xff".to_vec(), names, things: vec![(0..5, thing), (5..6, thing)] };
        let unseen = BTreeSet::from([WorkspacePath::new("x/y".as_ref()).unwrap()]);
        let folders = vec![Arc::new(folder)];
        let survey = Survey { root: Some(thing), folders, unseen, linked: Vec::new() };
        let bytes = survey.to_bytes();
        let again = Survey::from_bytes(&bytes).unwrap();
        assert_eq!((again.to_bytes(), again.count(), again.root), (bytes.clone(), 2, survey.root));
        assert_eq!(survey.touched(&again, None).len(), 0);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Survey::from_bytes(&damaged).is_none(), "{at}");
            assert!(Survey::from_bytes(&bytes[..at]).is_none(), "{at}");
        }
    }
}
