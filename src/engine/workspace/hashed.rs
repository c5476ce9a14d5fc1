//! A whole file and its SHA-256; a large one is hashed while it is read.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::mpsc;
use std::thread;

use rustix::io::Errno;

use super::fs;
use crate::apart::Apart;
use crate::buffer::Buffer;
use crate::sha256::{Hasher, Sha256};

/// Smaller files are read before a thread has begun.
const LARGE_BYTES: u64 = 1 << 20;
/// Bytes read at a time.
const PART_BYTES: usize = 1 << 20;
/// The same where they are not kept: of thousands of small files each zeroes that room first.
const PASSING_BYTES: usize = 64 << 10;

/// SHA-256 of everything in `file`, of which little is in memory at a time.
///
/// # Errors
/// What the system says.
pub fn sha256_of(mut file: File) -> io::Result<Sha256> {
    let mut hasher = Hasher::default();
    let mut part = vec![0; PASSING_BYTES];
    loop {
        match file.read(&mut part) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(count) => hasher.update(part.get(..count).unwrap_or_default()),
            Err(source) if source.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(source),
        }
    }
}

/// Everything in `file`, which is about `expected` bytes long, up to `bytes_max`, and its SHA-256.
///
/// # Errors
/// What the system says; `EFBIG` beyond the bound.
pub fn read(file: &File, expected: u64, bytes_max: u64) -> io::Result<(Buffer, Sha256)> {
    if expected < LARGE_BYTES || expected > bytes_max {
        let bytes = fs::read_to_end(file, expected, bytes_max)?;
        let sha256 = Sha256::of(&bytes);
        return Ok((bytes.into(), sha256));
    }
    let (bytes, mut hasher) = read_large(file, usize::try_from(expected).unwrap_or(usize::MAX))?;
    // It may have grown meanwhile.
    let mut more = Vec::new();
    file.take(bytes_max.saturating_add(1) - bytes.len() as u64).read_to_end(&mut more)?;
    if (bytes.len() + more.len()) as u64 > bytes_max {
        return Err(Errno::FBIG.into());
    }
    hasher.update(&more);
    let bytes = if more.is_empty() { bytes } else { [&bytes, more.as_slice()].concat().into() };
    Ok((bytes, hasher.finish()))
}

/// The first `length` bytes of a file, or all where it has fewer, and what has hashed them.
fn read_large(file: &File, length: usize) -> io::Result<(Buffer, Hasher)> {
    let mut bytes = Buffer::zeroed(length);
    let (sender, parts) = mpsc::channel::<&[u8]>();
    let apart = Apart::from_here();
    let hash = move || {
        apart.go();
        let mut hasher = Hasher::default();
        parts.into_iter().for_each(|part| hasher.update(part));
        hasher
    };
    let (read, hasher) = thread::scope(|scope| {
        let hasher = thread::Builder::new().spawn_scoped(scope, hash);
        let mut rest = &mut *bytes;
        let mut read = 0;
        loop {
            let room = rest.len().min(PART_BYTES);
            let part = rest.get_mut(..room).unwrap_or_default();
            let count = rustix::io::retry_on_intr(|| rustix::io::read(file, &mut *part))?;
            let (filled, unfilled) = std::mem::take(&mut rest).split_at_mut(count);
            if filled.is_empty() {
                break;
            }
            read += count;
            rest = unfilled;
            // Without a thread nobody takes it.
            let _ = sender.send(filled);
        }
        drop(sender);
        Ok::<_, io::Error>((read, hasher.ok().and_then(|thread| thread.join().ok())))
    })?;
    bytes.truncate(read);
    let hasher = hasher.unwrap_or_else(|| {
        let mut hasher = Hasher::default();
        hasher.update(&bytes);
        hasher
    });
    Ok((bytes, hasher))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_length_than_it_had_is_read_whole() {
        for length in [0, 1, 1_000_000, 1 << 20, (5 << 20) + 1] {
            let content: Vec<u8> = (0..251).cycle().take(length).collect();
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            std::fs::write(&path, &content).unwrap();
            for expected in [0, LARGE_BYTES, length as u64, length as u64 + 1, 9 << 20] {
                let (bytes, sha256) = read(&File::open(&path).unwrap(), expected, 10 << 20).unwrap();
                assert!(*bytes == *content, "{length} bytes, {expected} expected");
                assert_eq!(sha256, Sha256::of(&content));
            }
        }
    }

    #[test]
    fn what_grew_beyond_the_bound_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 3 << 20]).unwrap();
        for (expected, bytes_max) in [(2 << 20, (3 << 20) - 1), (3 << 20, 2 << 20), (0, 1)] {
            let refused = read(&File::open(&path).unwrap(), expected, bytes_max).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(Errno::FBIG.raw_os_error()));
        }
        assert!(read(&File::open(&path).unwrap(), 2 << 20, 3 << 20).is_ok());
    }
}
