//! Files that are not text.

use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};

use base64::Engine as _;
use rustix::fs::Stat;

use super::Request;
use super::answer::FileRead;
use super::pass::for_each_piece;
use crate::engine::Engine;
use crate::engine::workspace::fs;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::{Error, ErrorKind};
use crate::sha256::Hasher;
use crate::text::answer_size::AnswerRoom;
use crate::text::content;
use crate::text::counted::counted;
use crate::tools::Image;

/// Bytes of the file's start in a refusal.
const MAGIC_BYTES: usize = 16;
/// The largest file whose width and height are looked for, in bytes.
const IMAGE_BYTES_MAX: u64 = 1 << 30;

/// Bytes of payload that an answer over MCP holds in any case.
const MESSAGE_BYTES: u64 = 3_400_000;
/// The images that models are shown: clients hand on no others.
const IMAGES_SHOWN: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Takes the image out of an answer, if it is one that clients show. What is then left of a binary as
/// text is its base64.
pub fn take_image(read: &mut FileRead) -> Option<Image> {
    let base64 = read.base64.take()?;
    read.raw.clear();
    if let Some(mime) = read.mime.filter(|mime| IMAGES_SHOWN.contains(mime)) {
        return Some(Image { mime, base64 });
    }
    read.raw.extend_from_slice(base64.as_bytes());
    read.base64 = Some(base64);
    None
}

/// What a file is that is not text.
struct Binary {
    /// Its MIME type.
    mime: &'static str,
    /// Its width and height in pixels, where it is an image.
    pixels: Option<(usize, usize)>,
    /// Its first bytes as hex.
    magic: String,
    /// Its bytes.
    size: u64,
}

/// Reads a file that is not text.
pub fn read(
    engine: &mut Engine,
    place: &ResolvedPath,
    mut file: File,
    stat: &Stat,
    start: &[u8],
    request: &Request,
    room: AnswerRoom,
) -> Result<FileRead, Error> {
    let shown = place.shown();
    let size = fs::size_of(stat);
    let binary = Binary::of(&mut file, start, size).map_err(|source| Error::io("read", shown, source))?;
    if request.binary.is_none() && request.if_sha256.is_none() {
        return Err(binary.refused(shown));
    }
    let encoded_size = size.div_ceil(3).saturating_mul(4);
    let is_too_large = encoded_size > room.bytes() as u64;
    let (mut hasher, mut bytes) = (Hasher::default(), Vec::new());
    for_each_piece(engine, &mut file, place, |piece| {
        hasher.update(piece);
        if !is_too_large {
            bytes.extend_from_slice(piece);
        }
    })?;
    let sha256 = hasher.finish();
    let read = FileRead {
        mime: Some(binary.mime),
        width: binary.pixels.map(|(width, _)| width),
        height: binary.pixels.map(|(_, height)| height),
        ..FileRead::new(place, sha256, size, stat)
    };
    if request.if_sha256 == Some(sha256) {
        engine.mark_shown(place.path(), sha256, stat, &[]);
        return Ok(FileRead { unchanged: true, ..read });
    }
    if request.binary.is_none() {
        return Err(binary.refused(shown));
    }
    if is_too_large {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("{shown} takes {encoded_size} bytes as base64, and max_bytes is {}", room.bytes()),
        )
        .at(shown)
        .detail("size", size)
        .suggest(if encoded_size > MESSAGE_BYTES {
            format!(
                "Set max_bytes to {encoded_size} on the command line; over MCP no response can be that long."
            )
        } else {
            format!("Set max_bytes to {encoded_size}, or to 0 for no bound.")
        }));
    }
    engine.mark_shown(place.path(), sha256, stat, &[(1, crate::text::lines::count(&bytes))]);
    let base64 = base64::engine::general_purpose::STANDARD.encode(&bytes);
    Ok(FileRead { base64: Some(base64), raw: bytes, ..read })
}

impl Binary {
    /// Looks at a file, which is at its start and stays there.
    fn of(file: &mut File, start: &[u8], size: u64) -> std::io::Result<Self> {
        let mime = content::mime_of(start);
        let mut pixels = None;
        if mime.starts_with("image/") && size <= IMAGE_BYTES_MAX {
            // What cannot be read as an image is one without a size.
            pixels = imagesize::reader_size(BufReader::new(&mut *file)).ok().map(|it| (it.width, it.height));
            file.seek(SeekFrom::Start(0))?;
        }
        let magic = start.iter().take(MAGIC_BYTES).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { mime, pixels, magic, size })
    }

    /// The refusal to show it as text.
    fn refused(&self, shown: &str) -> Error {
        let pixels =
            self.pixels.map_or_else(String::new, |(width, height)| format!(", {width}x{height} pixels"));
        let message =
            format!("{shown} is a binary file ({}, {}{pixels})", self.mime, counted(self.size, "byte"));
        let error = Error::new(ErrorKind::BinaryFile, message)
            .at(shown)
            .detail("mime", self.mime)
            .detail("size", self.size)
            .detail("magic", self.magic.as_str());
        match self.pixels {
            Some((width, height)) => error.detail("width", width).detail("height", height),
            None => error,
        }
    }
}
