//! Writing the `GIT binary patch` part of a git patch: both contents whole, in zlib and base 85.

use zlib_rs::{Deflate, DeflateFlush, Status};

use super::patch::binary::DIGITS;
use crate::text::checked::peek;

/// Bytes that one line holds at most.
const LINE_BYTES: usize = 52;
/// How much is compressed at once.
const CHUNK_BYTES: usize = 64 << 10;
/// zlib's own choice between speed and size.
const LEVEL: i32 = 6;

/// Adds the part that makes `new` of `old`, and back.
pub fn write(out: &mut Vec<u8>, old: &[u8], new: &[u8]) {
    out.extend_from_slice(b"GIT binary patch\n");
    write_literal(out, new);
    write_literal(out, old);
}

/// Adds one content.
fn write_literal(out: &mut Vec<u8>, content: &[u8]) {
    out.extend_from_slice(format!("literal {}\n", content.len()).as_bytes());
    for line in deflated(content).chunks(LINE_BYTES) {
        out.push(length_letter(line.len()));
        for group in line.chunks(4) {
            let mut bytes = [0; 4];
            bytes.iter_mut().zip(group).for_each(|(to, from)| *to = *from);
            out.extend_from_slice(&encoded(u32::from_be_bytes(bytes)));
        }
        out.push(b'\n');
    }
    out.push(b'\n');
}

/// The letter that tells how many bytes a line holds, 1 to 52.
fn length_letter(length: usize) -> u8 {
    let letters = (b'A'..=b'Z').chain(b'a'..=b'z');
    letters.zip(1..).find(|(_, bytes)| *bytes == length).map_or(b'A', |(letter, _)| letter)
}

/// The five digits of 32 bits.
fn encoded(mut value: u32) -> [u8; 5] {
    let mut digits = [b'0'; 5];
    for digit in digits.iter_mut().rev() {
        let rest = usize::try_from(value % 85).unwrap_or_default();
        *digit = DIGITS.get(rest).copied().unwrap_or(b'0');
        value /= 85;
    }
    digits
}

/// The content in zlib's form.
fn deflated(content: &[u8]) -> Vec<u8> {
    let mut deflate = Deflate::new(LEVEL, true, 15);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut output = Vec::new();
    loop {
        let done = usize::try_from(deflate.total_in()).unwrap_or(usize::MAX);
        let before = deflate.total_out();
        let input = peek(content, done..);
        let status = deflate.compress(input, &mut chunk, DeflateFlush::Finish);
        let made = usize::try_from(deflate.total_out() - before).unwrap_or_default();
        output.extend_from_slice(peek(&chunk, ..made));
        // It fails only where it is called in a wrong order.
        if made == 0 || !matches!(status, Ok(Status::Ok | Status::BufError)) {
            return output;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::patch::binary::{decode_line, inflate};
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for size in [0_usize, 1, 3, 51, 52, 53, 1000, 300_000] {
            let content: Vec<u8> = (0..size).map(|at| u8::try_from(at * at * 31 % 251).unwrap()).collect();
            let mut out = Vec::new();
            write_literal(&mut out, &content);
            let text = String::from_utf8(out).unwrap();
            let mut lines = text.lines();
            assert_eq!(lines.next(), Some(format!("literal {size}").as_str()));
            let packed: Vec<u8> = lines
                .take_while(|line| !line.is_empty())
                .flat_map(|line| decode_line(line.as_bytes()).unwrap())
                .collect();
            assert_eq!(inflate(&packed, size).unwrap(), content);
        }
    }
}
