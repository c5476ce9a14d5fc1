//! Objects whose file takes one block of a disk however hard it is compressed: they are stored as they are.
//!
//! The file is a zlib stream as git reads it, whose one block is not compressed. To set a compressor up
//! takes 380 kB of zeros, which costs more than everything else about such an object; git deflates anew
//! what it packs or sends.

/// Largest file that is written so, in bytes: a block of most disks.
const FILE_BYTES_MAX: usize = 4096;
/// A stream that was compressed for speed, then its last block, which is stored.
const BEGIN: [u8; 3] = [0x78, 0x01, 0x01];
/// Bytes around the content: the beginning, the length twice, the checksum.
const FRAME_BYTES: usize = BEGIN.len() + 2 + 2 + 4;

/// The file of an object that is `header` and then `content`; `None` where compression may save a block.
pub fn file(header: &[u8], content: &[u8]) -> Option<Vec<u8>> {
    let length = header.len() + content.len();
    if length + FRAME_BYTES > FILE_BYTES_MAX {
        return None;
    }
    let written = u16::try_from(length).ok()?;
    let mut bytes = Vec::with_capacity(length + FRAME_BYTES);
    bytes.extend_from_slice(&BEGIN);
    bytes.extend_from_slice(&written.to_le_bytes());
    bytes.extend_from_slice(&(!written).to_le_bytes());
    bytes.extend_from_slice(header);
    bytes.extend_from_slice(content);
    bytes.extend_from_slice(&checksum(&[header, content]).to_be_bytes());
    Some(bytes)
}

/// What a file written by [`file`] holds, header and content; `None` where it has another form or is damaged.
pub fn content(file: &[u8]) -> Option<&[u8]> {
    if file.len() > FILE_BYTES_MAX {
        return None;
    }
    let (length, rest) = file.strip_prefix(&BEGIN)?.split_first_chunk()?;
    let (inverse, rest) = rest.split_first_chunk()?;
    let (content, sum) = rest.split_last_chunk()?;
    let length = u16::from_le_bytes(*length);
    let is_whole = length == !u16::from_le_bytes(*inverse)
        && usize::from(length) == content.len()
        && u32::from_be_bytes(*sum) == checksum(&[content]);
    is_whole.then_some(content)
}

/// The checksum of a zlib stream, over at most [`FILE_BYTES_MAX`] bytes.
///
/// # Source
/// RFC 1950, Adler-32. The sums of so few bytes fit into 32 bits (that holds up to 5,552), so that one
/// division at the end does.
fn checksum(parts: &[&[u8]]) -> u32 {
    const BASE: u32 = 65_521;
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in parts.iter().copied().flatten() {
        low += u32::from(*byte);
        high += low;
    }
    (high % BASE) << 16 | (low % BASE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_zlib_reads_what_is_stored_and_damage_is_seen() {
        for size in [0, 1, 300, 4_000, FILE_BYTES_MAX - FRAME_BYTES - 9] {
            let bytes = vec![0xff; size];
            let file = file(b"blob 123\0", &bytes).unwrap();
            let whole = [b"blob 123\0".as_slice(), &bytes].concat();
            assert_eq!(content(&file), Some(&*whole));
            let mut out = vec![0; whole.len() + 1];
            let (status, read, written) = gix::zlib::Inflate::default().prefix(&file, &mut out).unwrap();
            assert_eq!(status, gix::zlib::Status::StreamEnd);
            assert_eq!((read, &out[..written]), (file.len(), &*whole));
            for at in [0, 3, 5, 9, file.len() - 1] {
                let mut damaged = file.clone();
                damaged[at] ^= 1;
                assert_eq!(content(&damaged), None, "{at}");
                assert_eq!(content(&file[..at]), None, "{at}");
            }
        }
        assert!(file(b"blob 9999\0", &[0; FILE_BYTES_MAX]).is_none());
    }
}
