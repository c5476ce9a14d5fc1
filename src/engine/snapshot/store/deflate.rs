//! Compresses objects, for files of their own and for packs.

use std::io;

use gix::ObjectId;
use gix::objs::Kind;
use gix::objs::encode::loose_header;
use gix::zlib::Compression;
use zlib_rs::{Deflate, DeflateFlush, Status};

/// Buffer for compressed bytes: an incompressible piece is stored with a few more bytes than it has.
const ROOM_BYTES: usize = 64 << 10;
/// Window as git has it, as a power of two.
const WINDOW_BITS: u8 = 15;

/// Type of an entry that is a delta and names its base by id: a pack may have its entries in any order.
pub const REF_DELTA: u8 = 7;

/// An object in the form of a pack.
pub struct PackedObject {
    /// Its id.
    pub id: ObjectId,
    /// Header and compressed content.
    pub bytes: Vec<u8>,
}

/// Compressor for many objects in turn: setting it up takes longer than compressing a small object.
pub struct Deflater {
    /// Compressor.
    deflate: Deflate,
    /// Output buffer.
    room: Vec<u8>,
}

impl Deflater {
    /// Returns one with the given level.
    pub fn new(level: Compression) -> Self {
        Self { deflate: Deflate::new(level.level(), true, WINDOW_BITS), room: vec![0; ROOM_BYTES] }
    }

    /// Compresses pieces that do not know each other, for speed; writes neither header nor end of a stream.
    ///
    /// # Errors
    /// Fails if they cannot be compressed.
    pub fn pieces<'p>(pieces: impl Iterator<Item = &'p [u8]>) -> io::Result<Vec<u8>> {
        let level = Compression::BEST_SPEED.level();
        let mut one = Self { deflate: Deflate::new(level, false, WINDOW_BITS), room: vec![0; ROOM_BYTES] };
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

    /// Returns an object in the form of a loose file: header and content compressed.
    ///
    /// # Errors
    /// Fails if it cannot be compressed.
    pub fn loose(&mut self, kind: Kind, content: &[u8]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(content.len() / 2 + 64);
        self.deflate(&[&loose_header(kind, content.len() as u64), content], &mut bytes)?;
        Ok(bytes)
    }

    /// Appends the compressed `parts`, which form one content, to `bytes`.
    pub(super) fn deflate(&mut self, parts: &[&[u8]], bytes: &mut Vec<u8>) -> io::Result<()> {
        self.deflate.reset();
        for part in parts {
            self.feed(part, DeflateFlush::NoFlush, bytes)?;
        }
        self.feed(&[], DeflateFlush::Finish, bytes)
    }

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
