//! Compresses objects, for files of their own and for packs.

use std::io;

use gix::ObjectId;
use gix::objs::Kind;
use gix::objs::encode::loose_header;
use gix::zlib::Compression;
use zlib_rs::adler32::adler32;
use zlib_rs::{Deflate, DeflateFlush, Status};

/// Buffer for compressed bytes: an incompressible piece is stored with a few more bytes than it has.
const ROOM_BYTES: usize = 64 << 10;
/// Window as git has it, as a power of two.
const WINDOW_BITS: u8 = 15;

/// First bytes of a stream that was compressed for speed.
pub const STREAM_BEGIN: [u8; 2] = [0x78, 0x01];

/// Type of an entry that is a delta and names its base by id: a pack may have its entries in any order.
pub const REF_DELTA: u8 = 7;

/// An object in the form of a pack.
pub struct PackedObject {
    /// Its id.
    pub id: ObjectId,
    /// Header and compressed content.
    pub bytes: Vec<u8>,
}

/// Largest object file that is not compressed at the fastest level, in bytes: it takes one block of the disk either way,
/// and git compresses what it packs or sends. To set up a compressor takes longer than the rest of such a file.
const STORED_BYTES_MAX: usize = 4096;
/// Bytes of a stored stream besides its content.
const STORED_EXTRA_BYTES: usize = 11;

/// Compressor for many objects in turn, made when the first needs it.
pub struct Deflater {
    /// Level of compression.
    level: Compression,
    /// Compressor with its output buffer.
    made: Option<Compressor>,
}

/// A compressor.
struct Compressor {
    /// Its state.
    deflate: Deflate,
    /// Output buffer.
    room: Vec<u8>,
}

impl Deflater {
    /// Returns one with the given level.
    pub const fn new(level: Compression) -> Self {
        Self { level, made: None }
    }

    /// Compresses pieces that do not know each other, for speed; writes neither header nor end of a stream.
    ///
    /// # Errors
    /// Fails if they cannot be compressed.
    pub fn pieces<'p>(pieces: impl Iterator<Item = &'p [u8]>) -> io::Result<Vec<u8>> {
        let level = Compression::BEST_SPEED.level();
        let mut one =
            Compressor { deflate: Deflate::new(level, false, WINDOW_BITS), room: vec![0; ROOM_BYTES] };
        let mut bytes = Vec::new();
        for piece in pieces {
            one.deflate.reset();
            one.feed(piece, DeflateFlush::SyncFlush, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Returns an object in the form of a pack.
    ///
    /// # Errors
    /// Fails if it cannot be compressed.
    pub fn entry(&mut self, id: ObjectId, kind: Kind, content: &[u8]) -> io::Result<PackedObject> {
        let kind: u8 = match kind {
            Kind::Commit => 1,
            Kind::Tree => 2,
            Kind::Blob => 3,
            Kind::Tag => 4,
        };
        let mut bytes = entry_header(kind, content.len());
        self.deflate(&[content], &mut bytes)?;
        Ok(PackedObject { id, bytes })
    }

    /// Returns an object in the form of a pack, as a delta of the object `base`.
    ///
    /// # Errors
    /// Fails if it cannot be compressed.
    pub fn delta(&mut self, id: ObjectId, base: ObjectId, delta: &[u8]) -> io::Result<PackedObject> {
        let mut bytes = entry_header(REF_DELTA, delta.len());
        bytes.extend_from_slice(base.as_bytes());
        self.deflate(&[delta], &mut bytes)?;
        Ok(PackedObject { id, bytes })
    }

    /// Returns an object in the form of a loose file: header and content, compressed unless they are small.
    ///
    /// # Errors
    /// Fails if it cannot be compressed.
    pub fn loose(&mut self, kind: Kind, content: &[u8]) -> io::Result<Vec<u8>> {
        let header = loose_header(kind, content.len() as u64);
        let length = header.len() + content.len();
        if self.level == Compression::BEST_SPEED && length + STORED_EXTRA_BYTES <= STORED_BYTES_MAX {
            return Ok(stored(&[&header[..], content].concat()));
        }
        let mut bytes = Vec::with_capacity(content.len() / 2 + 64);
        self.deflate(&[&header, content], &mut bytes)?;
        Ok(bytes)
    }

    /// Appends the compressed `parts`, which form one content, to `bytes`.
    pub(super) fn deflate(&mut self, parts: &[&[u8]], bytes: &mut Vec<u8>) -> io::Result<()> {
        let level = self.level.level();
        let make =
            || Compressor { deflate: Deflate::new(level, true, WINDOW_BITS), room: vec![0; ROOM_BYTES] };
        let compressor = self.made.get_or_insert_with(make);
        compressor.deflate.reset();
        for part in parts {
            compressor.feed(part, DeflateFlush::NoFlush, bytes)?;
        }
        compressor.feed(&[], DeflateFlush::Finish, bytes)
    }
}

impl Compressor {
    /// Compresses `rest`; with [`DeflateFlush::Finish`] to the end of the stream.
    fn feed(&mut self, mut rest: &[u8], flush: DeflateFlush, bytes: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let (read, written) = (self.deflate.total_in(), self.deflate.total_out());
            let status = self.deflate.compress(rest, &mut self.room, flush);
            let status = status.map_err(|error| io::Error::other(error.as_str()))?;
            let since = |now: u64, then: u64| usize::try_from(now - then).unwrap_or(usize::MAX);
            let written = since(self.deflate.total_out(), written);
            bytes.extend_from_slice(self.room.get(..written).unwrap_or_default());
            rest = rest.get(since(self.deflate.total_in(), read)..).unwrap_or_default();
            // Room is left, so the compressor has no more output.
            if status == Status::StreamEnd || (rest.is_empty() && written < self.room.len()) {
                return Ok(());
            }
        }
    }
}

/// Returns a stream of one block that holds fewer than 64 KiB as they are.
///
/// # Source
/// RFC 1950 (header and checksum), RFC 1951, 3.2.4 (the block).
fn stored(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap_or(u16::MAX);
    let sum = adler32(1, content);
    [&STREAM_BEGIN[..], &[1], &length.to_le_bytes(), &(!length).to_le_bytes(), content, &sum.to_be_bytes()]
        .concat()
}

/// Returns the first bytes of an entry of a pack: type, and size before compression, lowest bits first.
fn entry_header(kind: u8, mut size: usize) -> Vec<u8> {
    let low = |size: usize, bits: u32| u8::try_from(size & ((1 << bits) - 1)).unwrap_or_default();
    let mut bytes = vec![kind << 4 | low(size, 4)];
    size >>= 4;
    while size > 0 {
        bytes.last_mut().into_iter().for_each(|byte| *byte |= 0x80);
        bytes.push(low(size, 7));
        size >>= 7;
    }
    bytes
}
