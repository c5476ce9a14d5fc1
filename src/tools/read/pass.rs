//! A pass over a file: its SHA-256 and some of its lines, both of the same bytes.

use std::fs::File;
use std::io::{Read as _, Seek, SeekFrom};

use super::wanted::{Extent, Span};
use crate::control::Progress;
use crate::engine::Engine;
use crate::engine::workspace::fs;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::{Error, ErrorKind};
use crate::sha256::{Hasher, Sha256};
use crate::text::content::BINARY_CHECK_BYTES;
use crate::text::slice::{SliceBounds, Sliced, Slicer};
use crate::tools::common::unsupported_encoding;

/// How often a file that changes meanwhile is read anew.
const PASSES_MAX: usize = 8;
/// Bytes between two reports of how far a read is.
const REPORT_BYTES: u64 = 128 << 20;
/// Most bytes read at once,
const PIECE_BYTES: usize = 256 << 10;
/// and fewest, of a file that is said to be smaller.
const PIECE_BYTES_MIN: usize = 4 << 10;

/// The first bytes of a file, which stays at its start.
pub fn first_bytes(file: &File) -> std::io::Result<Vec<u8>> {
    let mut start = vec![0; BINARY_CHECK_BYTES];
    let mut length = 0;
    while let Some(room) = start.get_mut(length..).filter(|room| !room.is_empty()) {
        match rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *room, length as u64))? {
            0 => break,
            count => length += count,
        }
    }
    start.truncate(length);
    Ok(start)
}

/// What one pass over a file found.
pub struct Pass {
    /// SHA-256 of its bytes.
    pub sha256: Sha256,
    /// Their number.
    pub size: u64,
    /// The lines wanted.
    pub sliced: Sliced,
    /// Which these are.
    pub wanted: Vec<SliceBounds>,
}

/// Reads a whole file: its SHA-256, and the lines wanted, both of the same bytes.
///
/// One pass is enough unless lines count from the end or end in CR alone: then the first one says
/// how many there are, and another one is made.
pub fn slices(
    engine: &Engine,
    file: &mut File,
    place: &ResolvedPath,
    spans: &[Span],
    extent: Extent,
) -> Result<Pass, Error> {
    let is_relative = spans.iter().any(Span::is_relative);
    let (mut terminator, mut known) = (b'\n', None);
    for _ in 0..PASSES_MAX {
        let total = known.map_or(0, |(_, total)| total);
        let wanted = if is_relative && known.is_none() {
            Vec::new()
        } else {
            let resolved = spans.iter().map(|span| span.resolve(total, extent));
            resolved.collect::<Result<Vec<_>, _>>()?
        };
        file.seek(SeekFrom::Start(0)).map_err(|source| Error::io("read", place.shown(), source))?;
        let pass = one_pass(engine, file, place, wanted, terminator)?;
        let is_cut_right = pass.sliced.line_ending.terminator() == terminator;
        let is_counted = !is_relative || known == Some((pass.sha256, pass.sliced.total_lines));
        if is_cut_right && is_counted {
            return Ok(pass);
        }
        known = is_cut_right.then_some((pass.sha256, pass.sliced.total_lines));
        terminator = pass.sliced.line_ending.terminator();
    }
    Err(Error::new(ErrorKind::IoError, format!("{} was changed while it was being read", place.shown()))
        .at(place.shown())
        .suggest("Wait until the program that writes it has finished, then read it again."))
}

/// Reads a whole file in pieces: its SHA-256, its size, and the lines wanted.
pub fn one_pass(
    engine: &Engine,
    file: &mut File,
    place: &ResolvedPath,
    wanted: Vec<SliceBounds>,
    terminator: u8,
) -> Result<Pass, Error> {
    let (mut slicer, mut hasher, mut size) = (Slicer::new(&wanted, terminator), Hasher::default(), 0);
    let unsupported = |what| unsupported_encoding(place.shown(), &what);
    let mut refused = None;
    for_each_piece(engine, file, place, |piece| {
        hasher.update(piece);
        size += piece.len() as u64;
        if refused.is_none() {
            refused = slicer.push(piece).err();
        }
    })?;
    if let Some(what) = refused {
        return Err(unsupported(what));
    }
    let sliced = slicer.finish().map_err(unsupported)?;
    Ok(Pass { sha256: hasher.finish(), size, sliced, wanted })
}

/// Hands a file on piece by piece.
pub fn for_each_piece(
    engine: &Engine,
    file: &mut File,
    place: &ResolvedPath,
    mut take: impl FnMut(&[u8]),
) -> Result<(), Error> {
    // A small file is read at once, and one that has grown since in pieces.
    let expected = place.stat().map_or(u64::MAX, fs::size_of).saturating_add(1);
    let bytes = usize::try_from(expected).unwrap_or(usize::MAX).clamp(PIECE_BYTES_MIN, PIECE_BYTES);
    let mut buffer = vec![0; bytes];
    let (mut done, mut reported) = (0, 0);
    loop {
        engine.control.check()?;
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                take(buffer.get(..length).unwrap_or_default());
                done += length as u64;
                if done - reported >= REPORT_BYTES {
                    reported = done;
                    engine.control.report(Progress { done, total: place.stat().map(fs::size_of) });
                }
            }
            Err(source) if source.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => return Err(Error::io("read", place.shown(), source)),
        }
    }
}
