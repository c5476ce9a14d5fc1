//! The tools that read files.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::texts::{file_uri, first_lines, last_lines, mime_of};
use super::worded::{PathRequest, said, worded};
use crate::dialect::foreign::{Foreign, Media, Said, refused};
use crate::dialect::native::Native;
use crate::dialect::render::text;
use crate::error::{Error, ErrorKind};
use crate::tools::{Effect, read};

/// All of a file's text.
fn whole(lbx: &mut Native<'_>, path: &str) -> Result<String, Error> {
    let data = lbx.call::<read::Read>(json!({ "path": path, "limit": 0, "max_bytes": 0 }));
    data.map(|data| text(&data, "content").to_owned()).map_err(|error| worded(lbx, path, "open", error))
}

/// Reads a text file, all of it or its first or last lines.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadTextRequest {
    /// The file to read
    path: String,
    /// If provided, returns only the first N lines of the file
    head: Option<u64>,
    /// If provided, returns only the last N lines of the file
    tail: Option<u64>,
}

/// Reads the text that is wanted of a file.
fn read_text(lbx: &mut Native<'_>, request: &ReadTextRequest) -> Result<Said, Error> {
    let path = &request.path;
    let (head, tail) = (request.head.filter(|lines| *lines > 0), request.tail.filter(|lines| *lines > 0));
    let asked = match (head, tail) {
        (Some(_), Some(_)) => {
            let words = "Cannot specify both head and tail parameters simultaneously";
            return Err(refused(ErrorKind::InvalidRequest, path, words.to_owned()));
        }
        (None, None) => return whole(lbx, path).map(said),
        (Some(lines), None) => json!({ "path": path, "offset": 0, "limit": lines, "max_bytes": 0 }),
        (None, Some(lines)) => {
            let lines = i64::try_from(lines).unwrap_or(i64::MAX);
            json!({ "path": path, "offset": -lines, "limit": 0, "max_bytes": 0 })
        }
    };
    let data = lbx.call::<read::Read>(asked).map_err(|error| worded(lbx, path, "open", error))?;
    let content = text(&data, "content");
    Ok(said(match tail {
        Some(lines) => last_lines(content, lines),
        None => first_lines(content),
    }))
}

/// `read_file`.
pub struct ReadFile;

impl Foreign for ReadFile {
    const NAME: &'static str = "read_file";
    const EFFECT: Effect = Effect::Reads;
    const READS_FILES: bool = true;
    type Request = ReadTextRequest;

    fn run(lbx: &mut Native<'_>, request: ReadTextRequest) -> Result<Said, Error> {
        read_text(lbx, &request)
    }
}

/// `read_text_file`.
pub struct ReadTextFile;

impl Foreign for ReadTextFile {
    const NAME: &'static str = "read_text_file";
    const EFFECT: Effect = Effect::Reads;
    const READS_FILES: bool = true;
    type Request = ReadTextRequest;

    fn run(lbx: &mut Native<'_>, request: ReadTextRequest) -> Result<Said, Error> {
        read_text(lbx, &request)
    }
}

/// `read_media_file`.
pub struct ReadMediaFile;

impl Foreign for ReadMediaFile {
    const NAME: &'static str = "read_media_file";
    const EFFECT: Effect = Effect::Reads;
    const READS_FILES: bool = true;
    const ABOUT: Option<&'static str> =
        Some("Reads an image, an audio file or any other binary file, base64-encoded.");
    type Request = PathRequest;

    fn run(lbx: &mut Native<'_>, PathRequest { path }: PathRequest) -> Result<Said, Error> {
        let base64 = lbx.base64_of(&path).map_err(|error| worded(lbx, &path, "open", error))?;
        let uri = file_uri(&lbx.absolute(&path)?);
        let media = Media { mime: mime_of(&path, &base64)?.to_owned(), base64, uri };
        let structured = Some(json!({ "content": [media.as_block()] }));
        Ok(Said { media: vec![media], structured, ..Said::default() })
    }
}

/// Reads several files; one that cannot be read does not stop the others.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadMultipleRequest {
    /// The files to read
    paths: Vec<String>,
}

/// `read_multiple_files`.
pub struct ReadMultipleFiles;

impl Foreign for ReadMultipleFiles {
    const NAME: &'static str = "read_multiple_files";
    const EFFECT: Effect = Effect::Reads;
    const READS_FILES: bool = true;
    type Request = ReadMultipleRequest;

    fn run(lbx: &mut Native<'_>, request: ReadMultipleRequest) -> Result<Said, Error> {
        if request.paths.is_empty() {
            return Err(Error::invalid("paths must name at least one file").detail("field", "paths"));
        }
        let one = |lbx: &mut Native<'_>, path: &String| match whole(lbx, path) {
            Ok(content) => format!("{path}:\n{content}\n"),
            Err(error) => format!("{path}: Error - {}", error.message()),
        };
        let files: Vec<String> = request.paths.iter().map(|path| one(lbx, path)).collect();
        Ok(said(files.join("\n---\n")))
    }
}
