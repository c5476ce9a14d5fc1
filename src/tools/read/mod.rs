//! `read`: returns lines of a file, and the SHA-256 of the whole file.

mod formats;
mod range;
mod reader;
mod render;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Effect, Image, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::policy::Policy;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::Error;
use crate::sha256::Sha256;
use crate::text::answer_size::AnswerRoom;
use crate::text::charset::Charset;
use crate::text::escaped::plural;
use range::{Range, ReadSelection};
pub use reader::past_end;
use reader::read;
use reader::read_several;
pub use reader::response_overhead as said_of_each;
use render::LineForm;
pub use render::{FileOrRefusal, FileRead, Response};
use render::{one_as_text, several_as_text};

/// Read a file, and record the lines shown
///
/// A file must be read before edit, write or patch may change it.
///
/// Very long lines are clipped: `clipped` has the `next_column` of each, for `column` together with `start_line`. The
/// response has the text with the file's own line endings, and the sha256 of all its bytes. A long file comes in parts:
/// if `truncated` is true, continue at `next_offset`.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// File to read
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path", "filename", "file", "target_file"]))]
    pub path: Option<PathBuf>,
    /// Several files to read in one call
    #[arg(value_name = "PATH")]
    #[schemars(extend("x-aliases" = ["files", "file_paths"]))]
    pub paths: Option<Vec<PathBuf>>,
    /// Lines to skip; -20 for the last 20
    #[arg(long, value_name = "LINES", allow_negative_numbers = true)]
    pub offset: Option<i64>,
    /// Maximum number of lines; 0 for all
    #[arg(long, value_name = "LINES")]
    pub limit: Option<u64>,
    /// First line, from 1 (or from the end if negative); instead of offset
    #[arg(long, value_name = "LINE", allow_negative_numbers = true)]
    #[schemars(extend("x-not-zero" = true))]
    pub start_line: Option<i64>,
    /// Last line, -1 for the file's last; instead of limit
    #[arg(long, value_name = "LINE", allow_negative_numbers = true)]
    #[schemars(extend("x-not-zero" = true))]
    pub end_line: Option<i64>,
    /// Several ranges of lines: 10-20, 50-, -20 for the last 20
    #[arg(long, alias = "range", value_name = "LINES", value_delimiter = ',', allow_hyphen_values = true)]
    #[schemars(extend("x-aliases" = ["range", "line_ranges"]))]
    pub ranges: Option<Vec<Range>>,
    /// Show the enclosing block of this line (by indentation)
    #[arg(long, value_name = "LINE")]
    #[schemars(range(min = 1))]
    pub around_line: Option<u64>,
    /// Byte of the first line or cell to start at, from 1, as in `next_column`
    #[arg(long, value_name = "BYTE")]
    #[schemars(range(min = 1))]
    pub column: Option<usize>,
    /// Prefix each line with its number and a tab
    #[arg(long, short = 'n')]
    pub line_numbers: bool,
    /// Make trailing blanks, tabs, CR and look-alike characters visible
    #[arg(long)]
    pub show_whitespace: bool,
    /// Show a cell of a notebook, from 1, with its outputs shortened; 0 for all cells
    #[arg(long, value_name = "NUMBER")]
    pub cell: Option<usize>,
    /// Return `unchanged` without content if the file still has this sha256
    #[arg(long, value_name = "HEX")]
    pub if_sha256: Option<Sha256>,
    /// How to return a binary file; without this it is an error
    #[arg(long, value_name = "FORM")]
    pub binary: Option<BinaryForm>,
    /// Encoding of the file if it is not UTF-8, such as windows-1252, euc-jp or gbk
    #[arg(long, value_name = "LABEL")]
    pub encoding: Option<Charset>,
    /// Maximum bytes of content; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
    /// First and last line, a parameter of the text editor tool of Claude
    #[arg(skip)]
    #[schemars(extend("x-hidden" = true))]
    pub view_range: Option<Vec<i64>>,
}

/// Format for files that are not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum BinaryForm {
    /// All bytes as base64, with the MIME type; MCP clients get an image block
    Base64,
}

/// `read` tool.
pub struct Read;

impl Tool for Read {
    const NAME: &'static str = "read";
    const LISTED: &'static str = "path paths offset limit start_line end_line line_numbers binary";
    const CORE: bool = true;
    const ALIASES: &'static [&'static str] = &["read_file", "read_text_file", "view"];
    const EFFECT: Effect = Effect::Reads;
    const STDIN: Stdin = Stdin::Request;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, mut request: Request) -> Result<Response, Error> {
        request.take_view_range()?;
        let selection = request.selection(engine.policy())?;
        let room = request.room(engine.policy());
        match (&request.path, &request.paths) {
            (Some(path), None) => {
                read(engine, path, &request, &selection, room).map(|read| Response::One(Box::new(read)))
            }
            (path, Some(paths)) if path.is_some() || !paths.is_empty() => {
                let paths: Vec<&PathBuf> = path.iter().chain(paths).collect();
                read_several(engine, &paths, &request, &selection, room)
            }
            _ => Err(Error::invalid("field `path` is missing: name the file to read")
                .suggest("Several files are given as `paths`.")
                .detail("field", "path")),
        }
    }

    fn text_status(response: &Response) -> u8 {
        match response {
            Response::Several { first_refused: Some(kind), .. } => kind.exit_code(),
            _ => 0,
        }
    }

    fn text(response: &Response, text: &mut Text) {
        match response {
            Response::One(read) => one_as_text(read, "", text),
            Response::Several { files, not_read, .. } => {
                for file in files {
                    several_as_text(file, text);
                }
                if *not_read > 0 {
                    text.note(format!("the last {} not read: the response is full", files_were(*not_read)));
                }
            }
        }
    }

    fn take_images(response: &mut Response) -> Vec<Image> {
        response.reads_mut().into_iter().filter_map(formats::take_image).collect()
    }
}

impl Request {
    /// Returns true if the request names lines.
    fn names_lines(&self) -> bool {
        let names = self.offset.is_some() || self.start_line.is_some();
        names || self.limit.is_some() || self.end_line.is_some() || self.around_line.is_some()
    }

    /// Resolves a path. Compilers and searches write `a.rs:10-14` for lines 10 to 14 of `a.rs`: if no file has the
    /// whole name, and the request names no lines, it means these lines.
    fn place_of(&self, engine: &Engine, path: &Path) -> Result<(ResolvedPath, Option<ReadSelection>), Error> {
        let place = engine.workspace.resolve(path)?;
        if let Some(only) = engine.workspace.similar_path(&place) {
            return Ok((engine.workspace.resolve(&only)?, None));
        }
        let names_lines = self.names_lines() || self.ranges.is_some() || self.cell.is_some();
        if place.stat().is_some() || names_lines || self.column.is_some() {
            return Ok((place, None));
        }
        let Some((name, lines)) = path.to_str().and_then(range::lines_in_name) else {
            return Ok((place, None));
        };
        let named = engine.workspace.resolve(Path::new(name))?;
        Ok(if named.stat().is_some() { (named, Some(lines)) } else { (place, None) })
    }

    /// Returns the room for content.
    fn room(&self, policy: &Policy) -> AnswerRoom {
        AnswerRoom::new(self.max_bytes.unwrap_or(policy.max_bytes()))
    }

    /// Returns the form of the lines.
    const fn form(&self) -> LineForm {
        LineForm { line_numbers: self.line_numbers, visible: self.show_whitespace }
    }
}

/// Returns a number of files with its verb.
fn files_were(count: usize) -> String {
    format!("{} {}", plural(count, "file"), if count == 1 { "was" } else { "were" })
}
