//! Objects in files of their own, read beneath the opened folder of objects.

use std::io;
use std::path::PathBuf;

use gix::objs::Kind;
use gix::zlib::{Inflate, Status};
use rustix::io::Errno;

use super::held::HeldFolder;
use super::recent::RecentObjects;
use super::small;
use crate::engine::workspace::fs::is_regular;

/// Largest object that is unpacked, in bytes. A few kilobytes of zeros can say that they are many
/// gigabytes.
pub const OBJECT_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Largest file that is read whole, in bytes; a larger one is mapped.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Room for the header of an object, and for all of a small one.
const HEADER_BYTES: usize = 512;

/// What there is of an object in the folder of objects.
pub enum Loose {
    /// It.
    Here(Kind, Vec<u8>),
    /// No file, or one that is read in another way.
    Elsewhere,
}

/// The file of an object, from the folder of objects.
pub fn name(id: &gix::hash::oid) -> PathBuf {
    let mut hex = id.to_hex().to_string();
    hex.insert(2, '/');
    hex.into()
}

/// The object `id` in the folder `objects`; an earlier call may have left it in `recent`.
///
/// # Errors
/// Where its file is not a regular one, or is damaged.
pub fn read(objects: &HeldFolder, id: &gix::hash::oid, recent: Option<&RecentObjects>) -> io::Result<Loose> {
    let name = name(id);
    // Looked at first: a FIFO or a device is not even opened. A link leads elsewhere.
    let stat = match rustix::fs::statat(objects, &name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::INTR) => return Err(Errno::INTR.into()),
        Err(_) => return Ok(Loose::Elsewhere),
    };
    if crate::engine::workspace::fs::is_symlink(&stat) {
        return Ok(Loose::Elsewhere);
    }
    if !is_regular(&stat) {
        return Err(Errno::INVAL.into());
    }
    if let Some((kind, data)) = recent.and_then(|recent| recent.known(id, &stat)) {
        return Ok(Loose::Here(kind, data));
    }
    match objects.read_once(&name, FILE_BYTES_MAX) {
        Ok(Some(bytes)) => {
            let (kind, data) = unpacked(&bytes)?;
            if let Some(recent) = recent {
                recent.note(id, &stat, kind, &data);
            }
            Ok(Loose::Here(kind, data))
        }
        Ok(None) => Ok(Loose::Elsewhere),
        // The folder that it is in may be a link.
        Err(error) if [Errno::LOOP, Errno::XDEV, Errno::FBIG].iter().any(|errno| is(&error, *errno)) => {
            Ok(Loose::Elsewhere)
        }
        Err(error) => Err(error),
    }
}

/// Whether the system said so.
fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// An object from the bytes of its file.
fn unpacked(bytes: &[u8]) -> io::Result<(Kind, Vec<u8>)> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    if let Some(whole) = small::content(bytes) {
        let (kind, size, skip) = gix::objs::decode::loose_header(whole).map_err(|_| damaged())?;
        let data = whole.get(skip..).filter(|data| data.len() as u64 == size).ok_or_else(damaged)?;
        return Ok((kind, data.to_vec()));
    }
    let mut header = [0; HEADER_BYTES];
    let mut inflate = Inflate::default();
    let (status, read, written) = inflate.prefix(bytes, &mut header).map_err(|_| damaged())?;
    let begin = header.get(..written).filter(|_| status != Status::BufError).ok_or_else(damaged)?;
    let (kind, size, skip) = gix::objs::decode::loose_header(begin).map_err(|_| damaged())?;
    if size > OBJECT_BYTES_MAX {
        // Not damaged: lbx reads no object of that size.
        return Err(Errno::FBIG.into());
    }
    let size = usize::try_from(size).map_err(|_| damaged())?;
    let held = begin.get(skip..).ok_or_else(damaged)?;
    if held.len() > size {
        return Err(damaged());
    }
    let mut data = Vec::new();
    if status == Status::StreamEnd {
        data.extend_from_slice(held);
    } else {
        data.try_reserve_exact(size).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let rest = bytes.get(read..).unwrap_or_default();
        inflate.rest(rest, begin, skip, &mut data, size).map_err(|_| damaged())?;
    }
    if data.len() == size { Ok((kind, data)) } else { Err(damaged()) }
}

#[cfg(test)]
mod tests {
    use super::super::pack::Deflater;
    use super::*;
    use gix::zlib::Compression;

    #[test]
    fn an_object_of_any_size_comes_back_and_a_damaged_one_does_not() {
        for size in [0, 1, 400, 505, 511, 512, 513, 5_000, 200_000] {
            let data: Vec<u8> =
                (0..size).map(|at: u32| at.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
            let file = super::super::objects::blob_compressed(&data, Compression::BEST_SPEED).unwrap();
            assert_eq!(unpacked(&file).unwrap(), (Kind::Blob, data), "{size}");
            for end in [0, 1, file.len() / 2, file.len().saturating_sub(8)] {
                assert!(unpacked(&file[..end]).is_err(), "{size} up to {end}");
            }
        }
        assert!(unpacked(b"no object").is_err());
    }

    /// Damaged objects are moved out of `.git` by `doctor --fix`: a sound one must be no such.
    #[test]
    fn an_object_that_is_too_large_to_be_read_is_not_damaged() {
        for size in [1000, OBJECT_BYTES_MAX + 1, u64::MAX] {
            let begin = format!("blob {size}\0the first bytes");
            let mut file = Vec::new();
            Deflater::new(Compression::BEST_SPEED).deflate(&[begin.as_bytes()], &mut file).unwrap();
            let error = unpacked(&file).unwrap_err();
            let is_too_large = size > OBJECT_BYTES_MAX;
            assert_eq!(is(&error, Errno::FBIG), is_too_large, "{size}: {error}");
            assert_eq!(error.kind() == io::ErrorKind::InvalidData, !is_too_large, "{size}: {error}");
        }
    }
}
