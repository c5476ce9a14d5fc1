//! Large objects, compressed for speed in pieces that do not know each other.
//!
//! A compressor moves its tables along with each 32 KiB that it has read, which takes as long again as the rest
//! of level 1. One that begins anew with each piece never moves them. What no longer finds its like
//! in the piece before costs up to 4 in 100 bytes; git deflates anew what it packs or sends.

use std::io;

use gix::objs::Kind;
use gix::objs::encode::loose_header;
use zlib_rs::adler32::adler32;
use zlib_rs::{Deflate, DeflateFlush};

/// Objects of so many bytes are large: smaller ones are done before a thread has begun.
pub const LARGE_BYTES: usize = 1024 * 1024;
/// Bytes of a piece: a compressor has room for 64 KiB, and looks some 300 bytes ahead.
const PIECE_BYTES: usize = 60 << 10;
/// Room for a compressed piece; one that cannot be compressed is stored, with a few bytes around it.
const ROOM_BYTES: usize = 64 << 10;
/// The first bytes of a stream that was compressed for speed.
const BEGIN: [u8; 2] = [0x78, 0x01];
/// The last block, which holds nothing.
const END: [u8; 2] = [0x03, 0x00];
/// zlib's fastest level.
const LEVEL: i32 = 1;
/// As git has it, in powers of two.
const WINDOW_BITS: u8 = 15;

/// The file of an object.
///
/// # Errors
/// Where it cannot be compressed.
///
/// # Source
/// RFC 1950 (header and checksum) and RFC 1951 (blocks, each of which ends with a byte here).
pub fn file(kind: Kind, content: &[u8]) -> io::Result<Vec<u8>> {
    let header = loose_header(kind, content.len() as u64);
    let mut deflate = Deflate::new(LEVEL, false, WINDOW_BITS);
    let mut room = vec![0; ROOM_BYTES];
    let mut file = Vec::with_capacity(content.len() / 4);
    file.extend_from_slice(&BEGIN);
    let mut sum = 1;
    for piece in std::iter::once(&*header).chain(content.chunks(PIECE_BYTES)) {
        sum = adler32(sum, piece);
        deflate.reset();
        let mut rest = piece;
        loop {
            let (read, written) = (deflate.total_in(), deflate.total_out());
            deflate
                .compress(rest, &mut room, DeflateFlush::SyncFlush)
                .map_err(|it| io::Error::other(it.as_str()))?;
            let since = |now: u64, then: u64| usize::try_from(now - then).unwrap_or(usize::MAX);
            let written = since(deflate.total_out(), written);
            file.extend_from_slice(room.get(..written).unwrap_or_default());
            rest = rest.get(since(deflate.total_in(), read)..).unwrap_or_default();
            // With room left, nothing waits in the compressor.
            if rest.is_empty() && written < room.len() {
                break;
            }
        }
    }
    file.extend_from_slice(&END);
    file.extend_from_slice(&sum.to_be_bytes());
    Ok(file)
}

#[cfg(test)]
mod tests {
    use gix::zlib::{Inflate, Status};

    use super::*;

    #[test]
    fn any_zlib_reads_what_is_compressed_in_pieces() {
        // What repeats, what nothing can compress, and lengths around those of a piece.
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        };
        let noise: Vec<u8> = std::iter::repeat_with(&mut random).take(LARGE_BYTES).collect();
        let lines: Vec<u8> =
            (0..80_000).flat_map(|line: u32| format!("line {line}\n").into_bytes()).collect();
        for length in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES, LARGE_BYTES] {
            for source in [&noise, &lines] {
                let content = source.get(..length).unwrap_or(source);
                let file = file(Kind::Blob, content).unwrap();
                let whole = [&*loose_header(Kind::Blob, content.len() as u64), content].concat();
                let mut out = vec![0; whole.len() + 1];
                let (status, read, written) = Inflate::default().prefix(&file, &mut out).unwrap();
                assert_eq!((status, read), (Status::StreamEnd, file.len()));
                assert!(out[..written] == *whole, "{length} bytes");
            }
        }
    }
}
