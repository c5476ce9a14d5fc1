//! Texts of the tools of the npm reference server, as JavaScript formats them.

use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use similar::{DiffOp, DiffTag, group_diff_ops};

use crate::dialect::client::{FileMetadata, LbxClient};
use crate::dialect::tool::{ToolOutput, refused};
use crate::engine::workspace::path::lexical;
use crate::error::{Error, ErrorKind};
use crate::text::checked::slice_or_empty;
use crate::text::patch::{self, PatchOptions};
use crate::text::{content, escaped, line_diff, lines};

/// Lines of context around a change in a diff.
const CONTEXT: usize = 4;
/// Line below the name of the file.
const RULE: &str = "===================================================================";

/// Entry of a directory.
pub struct DirectoryEntry {
    /// Path relative to the listed directory.
    pub below: PathBuf,
    /// True if it is a directory.
    pub is_folder: bool,
}

impl DirectoryEntry {
    /// Returns the label before the name in a list.
    pub fn label(&self) -> &'static str {
        if self.is_folder { "[DIR]" } else { "[FILE]" }
    }

    /// Returns the path for display.
    pub fn display(&self) -> String {
        escaped::name(&self.below.to_string_lossy()).into_owned()
    }
}

/// File or directory in a tree.
#[derive(Debug, Serialize)]
pub struct Node {
    /// Name of the entry.
    name: String,
    /// Type: `file` or `directory`.
    r#type: &'static str,
    /// Entries of a directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<Vec<Node>>,
}

impl Node {
    /// Returns an empty directory.
    pub fn folder(name: &str) -> Self {
        Self { name: name.to_owned(), r#type: "directory", children: Some(Vec::new()) }
    }

    /// Inserts an entry below this one; does nothing if one of its parent directories is missing.
    pub fn insert(&mut self, entry: &DirectoryEntry) {
        let mut node = self;
        let mut names = entry.below.iter().map(|name| escaped::name(&name.to_string_lossy()).into_owned());
        let Some(last) = names.next_back() else { return };
        for name in names {
            let children = node.children.as_mut();
            // Entries come in order, so the parent is the last directory with its name.
            let Some(child) = children.and_then(|all| all.iter_mut().rev().find(|child| child.name == name))
            else {
                return;
            };
            node = child;
        }
        let Some(children) = &mut node.children else { return };
        children.push(if entry.is_folder {
            Self::folder(&last)
        } else {
            Self { name: last, r#type: "file", children: None }
        });
    }

    /// Returns the entries as JSON over several lines.
    ///
    /// # Errors
    /// Returns `internal` if they cannot be converted to JSON.
    pub fn children_as_json(&self) -> Result<String, Error> {
        let children = self.children.as_deref().unwrap_or_default();
        serde_json::to_string_pretty(children)
            .map_err(|error| Error::internal(format!("the tree is not valid JSON: {error}")))
    }
}

/// Returns the first lines of a file, without the final newline.
pub fn first_lines(content: &str) -> String {
    content.strip_suffix('\n').unwrap_or(content).to_owned()
}

/// Returns the last `count` lines of the end of a file. The text after the last newline counts as a line.
pub fn last_lines(end: &str, count: u64) -> String {
    let end = end.replace("\r\n", "\n");
    let lines: Vec<&str> = end.split('\n').collect();
    let skipped = lines.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
    lines.get(skipped..).unwrap_or_default().join("\n")
}

/// Returns a size with its unit.
#[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
pub fn size_text(bytes: u64) -> String {
    let units = ["B", "KB", "MB", "GB", "TB"];
    let step = (bytes.checked_ilog2().unwrap_or(0) / 10).min(4);
    let unit = usize::try_from(step).ok().and_then(|step| units.get(step)).unwrap_or(&"B");
    if step == 0 {
        return format!("{bytes} B");
    }
    format!("{:.2} {unit}", bytes as f64 / (1_u64 << (10 * step)) as f64)
}

/// Returns a key that sorts names almost as `localeCompare` does: signs, digits, letters; case breaks ties.
pub fn collation_key(name: &str) -> (Vec<(u8, char)>, String) {
    let class = |character: char| match character {
        character if character.is_alphabetic() => 2,
        character if character.is_numeric() => 1,
        _ => 0,
    };
    let lower = name.chars().flat_map(char::to_lowercase);
    let swapped = name.chars().map(|character| {
        if character.is_lowercase() { character.to_ascii_uppercase() } else { character.to_ascii_lowercase() }
    });
    (lower.map(|character| (class(character), character)).collect(), swapped.collect())
}

/// Returns the MIME type of a file. Images are detected by their bytes, since one invalid image would make a model API
/// reject the whole conversation. All other types come from the name, as in the reference server.
///
/// # Errors
/// Returns `binary_file` if the file has the name of an image but is not one.
pub fn mime_of(path: &str, base64: &str) -> Result<&'static str, Error> {
    /// Number of base64 characters that is enough to detect any type.
    const START: usize = 4096;
    /// MIME type of unknown bytes.
    const UNKNOWN: &str = "application/octet-stream";
    let start = base64.get(..START).unwrap_or(base64);
    let start = base64::engine::general_purpose::STANDARD.decode(start).unwrap_or_default();
    let (named, found) = (named_mime(path), content::mime_of(&start));
    let is_image = |mime: &str| mime.starts_with("image/");
    if is_image(named) && !is_image(found) || found == "image/svg+xml" {
        let what = match start.as_slice() {
            [] => "it is empty".to_owned(),
            start if content::looks_binary(start) => format!("it holds {found}"),
            _ => "it holds text".to_owned(),
        };
        return Err(Error::new(
            ErrorKind::BinaryFile,
            format!("{path} is no image that can be shown: {what}"),
        )
        .at(path)
        .suggest("Read it as text."));
    }
    Ok(if is_image(found) || named == UNKNOWN { found } else { named })
}

/// Returns the MIME type for the name of a file.
fn named_mime(path: &str) -> &'static str {
    let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    match extension.as_deref().unwrap_or_default() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "bmp" => "image/bmp",
        "svg" => "image/svg+xml",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "ogg" => "audio/ogg",
        "flac" => "audio/flac",
        _ => "application/octet-stream",
    }
}

/// Returns an absolute path as a URI.
pub fn file_uri(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"#%<>?\\^`{}".contains(&byte);
    let path: String = path
        .as_os_str()
        .as_bytes()
        .iter()
        .map(|&byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    format!("file://{path}")
}

/// Returns the metadata of a file, one fact per line.
pub fn file_facts(facts: &FileMetadata) -> String {
    let lines = [
        format!("size: {}", facts.size),
        format!("created: {}", date(facts.created)),
        format!("modified: {}", date(facts.modified)),
        format!("accessed: {}", date(facts.accessed)),
        format!("isDirectory: {}", facts.is_folder),
        format!("isFile: {}", facts.is_file),
        format!("permissions: {:03o}", facts.mode & 0o777),
    ];
    lines.join("\n")
}

/// Returns a time in the date format of JavaScript, in UTC.
fn date(seconds: i64) -> String {
    let time = Timestamp::from_second(seconds).unwrap_or_default();
    time.strftime("%a %b %d %Y %H:%M:%S GMT+0000 (Coordinated Universal Time)").to_string()
}

/// Adds lines of a diff.
fn show(shown: &mut String, sign: char, lines: &[&[u8]]) {
    for line in lines {
        let text = String::from_utf8_lossy(line);
        shown.push(sign);
        shown.push_str(&text);
        if !text.ends_with('\n') {
            shown.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// Returns the change of a file as the server shows it: a fenced diff with four lines of context. `diff` is the native
/// diff; it gives the new text without another read of the file.
pub fn edit_diff(path: &str, before: &str, diff: &str) -> String {
    let after = applied(before, diff);
    let (before, after) = (before.replace("\r\n", "\n"), after.replace("\r\n", "\n"));
    let mut shown = format!("Index: {path}\n{RULE}\n--- {path}\toriginal\n+++ {path}\tmodified\n");
    let lines_of = |text| lines::at_line_feeds(text).collect::<Vec<_>>();
    let (before, after) = (lines_of(before.as_bytes()), lines_of(after.as_bytes()));
    let ops = line_diff::diff(&before, &after).ops;
    for group in group_diff_ops(ops, CONTEXT) {
        let range = |of: fn(&DiffOp) -> Range<usize>| {
            let start = group.first().map_or(0, |op| of(op).start);
            let count = group.last().map_or(0, |op| of(op).end) - start;
            format!("{},{count}", start + usize::from(count > 0))
        };
        shown.extend([format!("@@ -{} +{} @@\n", range(DiffOp::old_range), range(DiffOp::new_range))]);
        for op in &group {
            let (old, new) =
                (slice_or_empty(&before, op.old_range()), slice_or_empty(&after, op.new_range()));
            if op.tag() == DiffTag::Equal {
                show(&mut shown, ' ', old);
            } else {
                show(&mut shown, '-', old);
                show(&mut shown, '+', new);
            }
        }
    }
    let mut fence = "```".to_owned();
    while shown.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}diff\n{shown}{fence}\n\n")
}

/// Returns a text with the hunks of its unified diff applied.
fn applied(before: &str, diff: &str) -> String {
    let hunks = diff.find("@@ -").and_then(|start| diff.get(start..)).unwrap_or_default();
    let patch = format!("--- a\n+++ b\n{hunks}");
    let parsed = patch::parse(patch.as_bytes()).ok();
    let file = parsed.as_ref().and_then(|patch| patch.files.first());
    let applied = file.and_then(|file| patch::apply(file, before.as_bytes(), &PatchOptions::default()).ok());
    applied.map_or_else(|| before.to_owned(), |applied| String::from_utf8_lossy(&applied.after).into_owned())
}

/// File or directory, for tools with no other parameter.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct PathRequest {
    /// The path
    pub path: String,
}

/// Returns a text in the form of these tools: as a block, and as structured content.
pub fn text_output(text: String) -> ToolOutput {
    let structured = Some(json!({ "content": text }));
    ToolOutput { text, structured, ..ToolOutput::default() }
}

/// Converts an error of a native call to the text of the reference server; `call` is the system call that fails there.
pub fn reference_error(lbx: &LbxClient<'_>, path: &str, call: &str, error: Error) -> Error {
    let Ok(absolute) = lbx.absolute(path) else { return error };
    let absolute = lexical(&absolute);
    let absolute = absolute.display();
    match error.kind() {
        ErrorKind::NotFound => no_entry(lbx, path, call),
        ErrorKind::OutsideWorkspace => {
            let root = lbx.root().map(|root| root.display().to_string()).unwrap_or_default();
            let words = format!("Access denied - path outside allowed directories: {absolute} not in {root}");
            refused(ErrorKind::OutsideWorkspace, path, words)
        }
        ErrorKind::IsADirectory => refused(
            ErrorKind::IsADirectory,
            path,
            "EISDIR: illegal operation on a directory, read".to_owned(),
        ),
        // A parent is not a directory: the reference server fails when it resolves the path.
        ErrorKind::NotADirectory => refused(
            ErrorKind::NotADirectory,
            path,
            format!("ENOTDIR: not a directory, realpath '{absolute}'"),
        ),
        _ => error,
    }
}

/// Returns the error for a path that does not exist.
pub fn no_entry(lbx: &LbxClient<'_>, path: &str, call: &str) -> Error {
    let absolute = lbx.absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    let words = format!("ENOENT: no such file or directory, {call} '{}'", absolute.display());
    refused(ErrorKind::NotFound, path, words)
}

/// Rejects a path whose folder does not exist: the reference server creates no parent folders.
pub fn must_have_parent(lbx: &LbxClient<'_>, path: &str, call: &str) -> Result<(), Error> {
    let absolute = lbx.absolute(path)?;
    let Some(parent) = absolute.parent() else { return Ok(()) };
    match lbx.is_folder(&parent.display().to_string()) {
        Ok(false) => Err(no_entry(lbx, path, call)),
        // The call itself rejects paths outside the workspace.
        Ok(true) | Err(_) => Ok(()),
    }
}
