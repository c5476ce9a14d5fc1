//! The `GIT binary patch` part of a git patch: base 85, zlib and deltas.

use zlib_rs::{DeflateConfig, Inflate, InflateFlush, Status, compress_bound, compress_slice};

use crate::text::delta;

/// Largest content that a binary patch may have, in bytes.
pub const BINARY_BYTES_MAX: usize = 256 << 20;

/// Reason why a binary change does not apply.
const OTHER_CONTENT: &str = "the file does not have the bytes that the binary patch replaces";

/// Bytes that are inflated at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Digits of base 85, in order.
pub const DIGITS: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// A binary change, forward and, if the patch has it, backward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinaryChange {
    /// Data that makes the new content.
    pub forward: BinaryData,
    /// Data that restores the old content.
    pub backward: Option<BinaryData>,
}

/// One direction of a binary change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BinaryData {
    /// The whole content.
    Literal(Vec<u8>),
    /// A git delta against the other side.
    Delta(Vec<u8>),
    /// Size of a content that was too large to inflate.
    TooLarge(usize),
}

/// Result of a binary change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinaryResult {
    /// Content after the change.
    pub after: Vec<u8>,
    /// True if the file already had it.
    pub already_applied: bool,
}

impl BinaryChange {
    /// Returns the content after the change of `before`, which must equal the bytes that the patch replaces. A patch
    /// without these can only create a file.
    ///
    /// # Errors
    /// Returns the reason why it does not apply.
    pub fn apply(&self, before: &[u8]) -> Result<BinaryResult, &'static str> {
        if self.backward.as_ref().and_then(BinaryData::bytes).is_some_and(|bytes| bytes != before.len())
            && self.forward.bytes() != Some(before.len())
        {
            return Err(OTHER_CONTENT);
        }
        if self.is_result_in(before) {
            return Ok(BinaryResult { after: before.to_vec(), already_applied: true });
        }
        let after =
            self.forward.make_from(before).ok_or("the file is not the one that the delta was made from")?;
        let old = match &self.backward {
            Some(backward) => backward.make_from(&after),
            None => Some(Vec::new()),
        };
        if old.as_deref() == Some(before) {
            return Ok(BinaryResult { after, already_applied: false });
        }
        Err(OTHER_CONTENT)
    }

    /// Returns the size of the content after the change, as the patch states it.
    pub fn bytes_after(&self) -> usize {
        self.forward.bytes().unwrap_or_default()
    }

    /// Returns the reverse change; `None` if the patch does not have it.
    pub fn reversed(&self) -> Option<Self> {
        Some(Self { forward: self.backward.clone()?, backward: Some(self.forward.clone()) })
    }

    /// Returns true if `content` is the result of the change.
    fn is_result_in(&self, content: &[u8]) -> bool {
        match (&self.forward, &self.backward) {
            (BinaryData::Literal(new), _) => new == content,
            (BinaryData::Delta(_), Some(backward)) => backward
                .make_from(content)
                .and_then(|old| self.forward.make_from(&old))
                .is_some_and(|new| new == content),
            (BinaryData::Delta(_), None) | (BinaryData::TooLarge(_), _) => false,
        }
    }
}

impl BinaryData {
    /// Returns the size of the resulting content; `None` for a delta that states none.
    fn bytes(&self) -> Option<usize> {
        match self {
            Self::Literal(content) => Some(content.len()),
            Self::TooLarge(length) => Some(*length),
            Self::Delta(delta) => delta::size_after(delta),
        }
    }

    /// Returns the content made from that of the other side.
    fn make_from(&self, other: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Literal(content) => Some(content.clone()),
            Self::Delta(delta) => delta::apply(delta, other, BINARY_BYTES_MAX),
            Self::TooLarge(_) => None,
        }
    }
}

/// Decodes one line of base 85, whose first letter gives the number of bytes.
pub fn decode_line(line: &[u8]) -> Option<Vec<u8>> {
    let (first, digits) = line.split_first()?;
    let length = match first {
        b'A'..=b'Z' => usize::from(first - b'A') + 1,
        b'a'..=b'z' => usize::from(first - b'a') + 27,
        _ => return None,
    };
    if digits.len() != length.div_ceil(4) * 5 {
        return None;
    }
    let mut bytes = Vec::with_capacity(length + 3);
    for group in digits.chunks(5) {
        bytes.extend_from_slice(&decode_group(group)?.to_be_bytes());
    }
    bytes.truncate(length);
    Some(bytes)
}

/// Decodes five digits into 32 bits.
fn decode_group(group: &[u8]) -> Option<u32> {
    let value = group.iter().try_fold(0_u64, |value, digit| {
        let digit = DIGITS.iter().position(|known| known == digit)?;
        Some(value * 85 + u64::try_from(digit).ok()?)
    })?;
    u32::try_from(value).ok()
}

/// Inflates `compressed` to exactly `length` bytes.
///
/// # Errors
/// Returns the reason why it cannot be inflated.
pub fn inflate(compressed: &[u8], length: usize) -> Result<Vec<u8>, &'static str> {
    if length > BINARY_BYTES_MAX {
        return Err("the binary content is larger than 256 MiB");
    }
    let mut inflate = Inflate::new(true, 15);
    let mut chunk = vec![0; CHUNK_BYTES.min(length + 1)];
    let mut output = Vec::new();
    loop {
        let input = usize::try_from(inflate.total_in()).ok().and_then(|done| compressed.get(done..));
        let (input, before) = (input.unwrap_or_default(), inflate.total_out());
        let status = inflate.decompress(input, &mut chunk, InflateFlush::NoFlush);
        let status = status.map_err(|_| "the binary content is damaged")?;
        let made = usize::try_from(inflate.total_out() - before).unwrap_or_default();
        output.extend_from_slice(chunk.get(..made).ok_or("the binary content is damaged")?);
        match status {
            _ if output.len() > length => return Err("the binary content is longer than stated"),
            Status::StreamEnd if output.len() == length => return Ok(output),
            Status::StreamEnd => return Err("the binary content is shorter than stated"),
            Status::Ok if made > 0 || !input.is_empty() => {}
            Status::Ok | Status::BufError => return Err("the binary content is cut short"),
        }
    }
}

/// Most bytes that one line has.
const LINE_BYTES: usize = 52;
/// Default compression level of zlib.
const LEVEL: i32 = 6;

/// Adds the part that turns `old` into `new`, and the reverse.
pub fn write(out: &mut Vec<u8>, old: &[u8], new: &[u8]) {
    out.extend_from_slice(b"GIT binary patch\n");
    write_literal(out, new);
    write_literal(out, old);
}

/// Adds one content.
fn write_literal(out: &mut Vec<u8>, content: &[u8]) {
    out.extend_from_slice(format!("literal {}\n", content.len()).as_bytes());
    for line in deflate(content).chunks(LINE_BYTES) {
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

/// Returns the letter for the number of bytes in a line, 1 to 52.
fn length_letter(length: usize) -> u8 {
    let letters = (b'A'..=b'Z').chain(b'a'..=b'z');
    letters.zip(1..).find(|(_, bytes)| *bytes == length).map_or(b'A', |(letter, _)| letter)
}

/// Returns the five digits of 32 bits.
fn encoded(mut value: u32) -> [u8; 5] {
    let mut digits = [b'0'; 5];
    for digit in digits.iter_mut().rev() {
        let rest = usize::try_from(value % 85).unwrap_or_default();
        *digit = DIGITS.get(rest).copied().unwrap_or(b'0');
        value /= 85;
    }
    digits
}

/// Compresses a content with zlib.
pub fn deflate(content: &[u8]) -> Vec<u8> {
    let mut output = vec![0; compress_bound(content.len())];
    let length = compress_slice(&mut output, content, DeflateConfig::new(LEVEL)).0.len();
    output.truncate(length);
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::patch::binary::{decode_line, inflate};

    #[test]
    fn base85_line_states_its_length() {
        assert_eq!(decode_line(b"A00000").unwrap(), [0]);
        assert_eq!(decode_line(b"D00001").unwrap(), [0, 0, 0, 1]);
        assert_eq!(decode_line(b"D~~~~~"), None, "beyond 32 bits");
        assert_eq!(decode_line(b"E00000"), None, "too short");
        assert_eq!(decode_line(b""), None);
    }

    #[test]
    fn binary_literal_round_trips() {
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
