//! Request of `edit`.

use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Deserialize;

use super::step::{EditItem, EditStep, MatchMode};
use crate::engine::Engine;
use crate::engine::policy::Matching;
use crate::error::Error;
use crate::request;
use crate::sha256::{DigestStart, Sha256};
use crate::text::patch;
use crate::tools::common::{ContentOptions, bytes_at, must_be_absent, reject_if};

/// Replace text that occurs exactly once in a file
///
/// `old_string` must match exactly, whitespace included; only line endings may differ. Without it, `new_string`
/// replaces lines `start_line` to `end_line` as they were shown. Several edits apply in order, all or none.
///
/// The file must have been read in this session and be unchanged since. `new_string` takes the line
/// endings of the file. Every byte outside the replaced text stays as it is.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
#[command(
    after_help = "Without old_string, `edit PATH` takes blocks of `<<<<<<< SEARCH`, `=======`, `>>>>>>> REPLACE` on stdin."
)]
pub struct Request {
    /// File to change
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path", "filename", "file", "target_file"]))]
    pub path: Option<PathBuf>,
    /// Several files to change the same way, all or none
    #[arg(value_name = "PATH")]
    #[schemars(extend("x-aliases" = ["files", "file_paths"]))]
    pub paths: Option<Vec<PathBuf>>,
    /// Text to find, exactly as in the file
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    #[schemars(extend("x-aliases" = ["old_str", "old_text", "before", "search"]))]
    pub old_string: Option<String>,
    /// Replacement text; may be empty
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    #[schemars(extend("x-aliases" = ["new_str", "new_text", "after", "replace", "replacement"]))]
    pub new_string: Option<String>,
    /// Replace whole words only
    #[arg(long)]
    pub word: bool,
    /// Replace all matches
    #[arg(long)]
    #[schemars(extend("x-aliases" = ["allow_multiple"]))]
    pub replace_all: bool,
    /// Replace all matches; fail unless there are exactly COUNT
    #[arg(long, value_name = "COUNT")]
    #[schemars(range(min = 1))]
    pub expected_replacements: Option<usize>,
    /// Replace only the Nth match, from 1
    #[arg(long, value_name = "NUMBER")]
    #[schemars(range(min = 1))]
    pub occurrence: Option<usize>,
    /// First line of the range to search, from 1
    #[arg(long, value_name = "LINE")]
    #[schemars(range(min = 1))]
    pub start_line: Option<u64>,
    /// Last line of the range to search; without `old_string`, `new_string` replaces the range
    #[arg(long, value_name = "LINE")]
    #[schemars(range(min = 1))]
    pub end_line: Option<u64>,
    /// SHA-256 of the bytes of these lines, 8 digits or more, for lines that were not read
    #[arg(long, value_name = "HEX")]
    pub range_sha256: Option<DigestStart>,
    /// How `old_string` may match; exact unless the policy says otherwise
    #[arg(long = "match", value_name = "HOW", value_enum)]
    pub r#match: Option<MatchMode>,
    /// Several edits in order, each on the previous result; instead of `old_string`
    #[arg(
        long,
        value_name = "JSON",
        help = "Several edits in order, each on the result of the one before, as a JSON list of objects; instead of \
                `old_string`; @FILE takes it from a file"
    )]
    pub edits: Option<Edits>,
    /// The new text, with a line such as `// ... existing code ...` for all that stays between two
    /// parts; instead of `old_string`
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        help = "The new text, with a line such as `// ... existing code ...` for all that stays between two parts; \
                instead of `old_string`; - takes it from stdin"
    )]
    #[schemars(extend("x-aliases" = ["code_edit"]))]
    pub sketch: Option<String>,
    /// Allow a line that replaces omitted text, such as `... existing code ...`
    #[arg(long)]
    pub allow_omission: bool,
    /// SHA-256 of the file as last seen; replaces a prior read
    #[arg(long, value_name = "HEX")]
    pub expected_sha256: Option<Sha256>,
    /// Allow new lines that repeat the line just before or after the range
    #[arg(long)]
    pub allow_repeat: bool,
    /// Apply even if other lines have changed since the read
    #[arg(long)]
    pub rebase: bool,
    /// Options of the change.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ContentOptions,
    /// SEARCH/REPLACE blocks, from stdin; also a sketch, or the new lines of a range
    #[arg(long, hide = true)]
    #[serde(skip)]
    pub blocks: Option<String>,
}

/// Several edits.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Edits(pub Vec<EditItem>);

impl FromStr for Edits {
    type Err = String;

    /// Returns the edits of a flag, parsed as those of a request are.
    fn from_str(text: &str) -> Result<Self, String> {
        #[derive(Deserialize, JsonSchema)]
        struct Given {
            edits: Edits,
        }
        let given = request::read_json(text.as_bytes())
            .and_then(|edits| request::parse::<Given>(serde_json::json!({ "edits": edits })));
        given.map(|given| given.edits).map_err(|error| error.message().to_owned())
    }
}

impl Request {
    /// Returns the edits, in order.
    ///
    /// # Errors
    /// Returns `invalid_request`.
    pub fn steps(&self, engine: &Engine) -> Result<Vec<EditStep>, Error> {
        let default = engine.policy().match_default();
        if let Some(sketch) = self.sketch()? {
            return self
                .must_be_a_sketch_alone()
                .and_then(|()| Ok(vec![EditStep::of_sketch(&self.item(), sketch)?]));
        }
        let has = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        let is_single = has(&self.old_string) || has(&self.new_string);
        let has_blocks = self.blocks.is_some() && !self.takes_lines_from_stdin();
        if usize::from(is_single) + usize::from(self.edits.is_some()) + usize::from(has_blocks) > 1 {
            return Err(Error::invalid("old_string and edits both say what to change: give one of them"));
        }
        let items = match (&self.edits, &self.blocks) {
            (Some(edits), _) => edits.0.clone(),
            (None, Some(blocks)) if has_blocks => self.items_of(engine, blocks)?,
            (None, _) => vec![self.single()?],
        };
        reject_if(items.is_empty(), "edits", "field `edits` is empty: name at least one edit")?;
        must_differ(&items)?;
        if self.edits.is_some() {
            self.must_leave_lines_to_edits()?;
        }
        let is_list = self.edits.is_some() || items.len() > 1;
        let total = items.len();
        let flexible = self.r#match.map_or(default == Matching::Flexible, |how| how == MatchMode::Flexible);
        items
            .into_iter()
            .zip(1..)
            .map(|(item, number)| EditStep::new(item, is_list.then_some((number, total)), flexible))
            .collect()
    }

    /// Returns the sketch, which may come from stdin.
    fn sketch(&self) -> Result<Option<String>, Error> {
        match (self.sketch.as_deref(), &self.blocks) {
            (Some("-"), Some(text)) => Ok(Some(text.clone())),
            (Some(_), Some(_)) => {
                Err(Error::invalid("there is a sketch and a text on stdin: give one of them"))
            }
            (sketch, _) => Ok(sketch.map(str::to_owned)),
        }
    }

    /// Returns true if the text on stdin replaces lines named by number.
    fn takes_lines_from_stdin(&self) -> bool {
        self.blocks.is_some()
            && self.old_string.is_none()
            && self.new_string.is_none()
            && (self.range_sha256.is_some() || (self.start_line.is_some() && !self.has_blocks()))
    }

    /// Returns true if the text on stdin has SEARCH/REPLACE blocks.
    fn has_blocks(&self) -> bool {
        let begins = |line: &str| line.trim_end() == "<<<<<<< SEARCH" || line.starts_with("------- SEARCH");
        self.blocks.as_ref().is_some_and(|text| text.lines().any(begins))
    }

    /// Rejects a sketch together with other ways to name a change.
    fn must_be_a_sketch_alone(&self) -> Result<(), Error> {
        let others = [
            ("old_string", self.old_string.as_ref().is_some_and(|text| !text.is_empty())),
            ("new_string", self.new_string.as_ref().is_some_and(|text| !text.is_empty())),
            ("edits", self.edits.is_some()),
            ("word", self.word),
            ("replace_all", self.replace_all),
            ("expected_replacements", self.expected_replacements.is_some()),
            ("occurrence", self.occurrence.is_some()),
        ];
        must_be_absent(&others, |field| format!("sketch cannot be combined with {field}: give one of them"))
    }

    /// Rejects fields of one edit together with a list of edits.
    fn must_leave_lines_to_edits(&self) -> Result<(), Error> {
        let fields = [
            ("start_line", self.start_line.is_some()),
            ("end_line", self.end_line.is_some()),
            ("range_sha256", self.range_sha256.is_some()),
            ("occurrence", self.occurrence.is_some()),
        ];
        must_be_absent(&fields, |field| format!("{field} belongs to one edit: give it in edits"))
    }

    /// Returns the fields for place and match, without the texts.
    fn item(&self) -> EditItem {
        EditItem {
            old_string: None,
            new_string: String::new(),
            word: self.word,
            replace_all: self.replace_all,
            expected_replacements: self.expected_replacements,
            occurrence: self.occurrence,
            start_line: self.start_line,
            end_line: self.end_line,
            range_sha256: self.range_sha256.clone(),
            r#match: self.r#match,
        }
    }

    /// Returns the edit in the request's own fields.
    fn single(&self) -> Result<EditItem, Error> {
        let missing = |field: &str| {
            Error::invalid(format!("field `{field}` is missing (or give several edits as `edits`)"))
                .suggest("Give old_string and new_string, or edits.")
                .on_command_line(
                    "Or put blocks on stdin: <<<<<<< SEARCH, the old lines, =======, the new lines, >>>>>>> REPLACE.",
                )
                .detail("field", field)
        };
        if self.old_string.is_none()
            && self.start_line.is_none()
            && self.end_line.is_none()
            && self.range_sha256.is_none()
        {
            return Err(missing("old_string"));
        }
        let from_stdin = || self.blocks.clone().filter(|_| self.takes_lines_from_stdin());
        Ok(EditItem {
            old_string: self.old_string.clone(),
            new_string: self.new_string.clone().or_else(from_stdin).ok_or_else(|| missing("new_string"))?,
            ..self.item()
        })
    }

    /// Returns the edits in SEARCH/REPLACE blocks.
    fn items_of(&self, engine: &Engine, blocks: &str) -> Result<Vec<EditItem>, Error> {
        let text_of = |_: Option<&[u8]>| {
            let path = self.files().ok()?.into_iter().next()?;
            let place = engine.workspace.resolve(path).ok()?;
            bytes_at(&engine.workspace, &place)
        };
        let blocks = patch::search_replace_blocks(blocks.as_bytes(), &text_of).map_err(|error| {
            Error::invalid(format!("stdin, line {}: {}", error.line, error.message)).suggest(
                "Send blocks of <<<<<<< SEARCH, =======, >>>>>>> REPLACE, or give --old-string and --new-string.",
            )
        })?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let items = blocks.into_iter().map(|block| {
            let item = self.item();
            EditItem {
                old_string: Some(text(block.search)),
                new_string: text(block.replace),
                start_line: block.lines.map(|lines| lines.0).or(item.start_line),
                end_line: block.lines.map(|lines| lines.1).or(item.end_line),
                ..item
            }
        });
        Ok(items.collect())
    }

    /// Returns the files, in order.
    ///
    /// # Errors
    /// Returns `invalid_request`.
    pub fn files(&self) -> Result<Vec<&PathBuf>, Error> {
        let files: Vec<&PathBuf> = self.path.iter().chain(self.paths.iter().flatten()).collect();
        reject_if(files.is_empty(), "path", "field `path` is missing: name the file to change")?;
        if files.len() > 1 && self.expected_sha256.is_some() {
            return Err(Error::invalid(
                "expected_sha256 is for a single file: read the files instead, or edit one",
            ));
        }
        Ok(files)
    }
}

/// Rejects an edit that appears twice and would find its old text in its new one.
fn must_differ(items: &[EditItem]) -> Result<(), Error> {
    let goes_on =
        |item: &EditItem| item.old_string.as_ref().is_some_and(|old| item.new_string.contains(old.as_str()));
    for (at, item) in items.iter().enumerate().filter(|(_, item)| goes_on(item)) {
        if let Some(first) = items.iter().take(at).position(|earlier| earlier == item) {
            let message = format!(
                "edits {} and {} are the same, and the second would change the text of the first once more",
                first + 1,
                at + 1
            );
            return Err(Error::invalid(message).detail("field", "edits").suggest("Give this edit once."));
        }
    }
    Ok(())
}
