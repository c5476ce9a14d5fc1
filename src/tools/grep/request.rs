//! Request of `grep`, and its conversion to a search.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::engine::Engine;
use crate::engine::policy::Policy;
use crate::engine::policy::settings::Key;
use crate::error::Error;
use crate::search::collect::{MatchDetail, MatchStyle};
use crate::search::entry::EntryType;
use crate::search::file::SearchOptions;
use crate::search::globs::{self, one_or_many};
use crate::search::page::{ENTRY_BYTES, PageWindow};
use crate::search::pattern::{Pattern, PatternOptions, compile};
use crate::search::rules::EntrySelection;

/// Largest number of context lines on each side.
const CONTEXT_LINES_MAX: usize = 10_000;

/// Search the contents of files for a pattern
///
/// The pattern is a regular expression in ripgrep's syntax.
///
/// Skips files that git ignores, hidden files and binary files. Matches are ordered by path, then line; if `truncated`
/// is true, continue at `next_offset`.
#[derive(Debug, Default, clap::Args, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the request")]
pub struct Request {
    /// Regular expression to find
    #[arg(required = false, default_value_if("regexps", clap::builder::ArgPredicate::IsPresent, ""))]
    #[schemars(extend("x-aliases" = ["regex", "query", "search", "search_pattern"]))]
    pub pattern: String,
    /// Files or folders to search; the current folder by default
    #[serde(default)]
    #[schemars(schema_with = "one_or_many", extend("x-aliases" = ["paths", "dir_path", "directory", "file_path", "absolute_path"]))]
    pub path: Vec<PathBuf>,
    /// Only files that match one of these globs; !GLOB excludes
    #[arg(long, short = 'g', value_name = "GLOB", aliases = ["glob"], allow_hyphen_values = true)]
    #[serde(default)]
    #[schemars(schema_with = "one_or_many", extend("x-aliases" = ["glob", "globs", "include_pattern", "file_pattern"]))]
    pub include: Vec<String>,
    /// Exclude files that match one of these globs
    #[arg(long, value_name = "GLOB")]
    #[serde(default)]
    #[schemars(schema_with = "one_or_many", extend("x-aliases" = ["exclude_pattern", "exclude_patterns"]))]
    pub exclude: Vec<String>,
    /// Only files of these types (ripgrep's), such as rust, py, ts
    #[arg(long, short = 't', value_name = "TYPE")]
    #[serde(default)]
    #[schemars(schema_with = "one_or_many", extend("x-aliases" = ["types", "file_type"]))]
    pub r#type: Vec<String>,
    /// Exclude files of these types
    #[arg(long, short = 'T', value_name = "TYPE")]
    #[serde(default)]
    #[schemars(schema_with = "one_or_many")]
    pub type_not: Vec<String>,
    /// Leave out lines that match this regular expression too, as the tool of Gemini does
    #[arg(skip)]
    #[schemars(extend("x-hidden" = true))]
    pub exclude_lines: Option<String>,
    /// Options for reading the pattern.
    #[command(flatten)]
    #[serde(flatten)]
    pub reading: PatternOptions,
    /// Show lines that do not match
    #[arg(long, short = 'v', aliases = ["invert-match"])]
    #[schemars(extend("x-aliases" = ["invert_match", "-v"]))]
    pub invert: bool,
    /// Show only the matching part of each line
    #[arg(long, short = 'o')]
    #[schemars(extend("x-aliases" = ["-o"]))]
    pub only_matching: bool,
    /// Lines to show before each match
    #[arg(long, short = 'B', value_name = "LINES", aliases = ["before-context"])]
    #[schemars(extend("x-aliases" = ["-B", "before_context", "lines_before"]))]
    pub before: Option<usize>,
    /// Lines to show after each match
    #[arg(long, short = 'A', value_name = "LINES", aliases = ["after-context"])]
    #[schemars(extend("x-aliases" = ["-A", "after_context", "lines_after"]))]
    pub after: Option<usize>,
    /// Lines to show before and after each match
    #[arg(long, short = 'C', value_name = "LINES")]
    #[schemars(extend("x-aliases" = ["-C", "context_lines"]))]
    pub context: Option<usize>,
    /// Matching lines, paths of files with matches, or a count of matching lines (or of matches) in each file
    #[arg(long, value_name = "MODE")]
    #[schemars(extend("x-values" = ["files_with_matches"]))]
    pub output_mode: Option<OutputMode>,
    /// Maximum number of matches, files or counts, 250 by default; 0 for all
    #[arg(long, value_name = "NUMBER")]
    #[schemars(extend("x-aliases" = ["head_limit", "max_results", "total_max_matches"]))]
    pub limit: Option<u64>,
    /// Matches, files or counts to skip
    #[arg(long, value_name = "NUMBER")]
    pub offset: Option<u64>,
    /// Maximum number of matching lines per file
    #[arg(long, short = 'm', value_name = "NUMBER")]
    #[schemars(extend("x-aliases" = ["max_matches_per_file"], "x-not-zero" = true))]
    pub max_count: Option<u64>,
    /// Maximum depth: 1 searches the folder itself only
    #[arg(long, short = 'd', value_name = "LEVELS", alias = "max-depth")]
    #[schemars(range(min = 1), extend("x-aliases" = ["max_depth"]))]
    pub depth: Option<usize>,
    /// Include hidden files
    #[arg(long, short = '.')]
    pub hidden: bool,
    /// Include files that git ignores
    #[arg(long)]
    pub no_ignore: bool,
    /// Include binary files (with NUL bytes), searched as text
    #[arg(long, short = 'a')]
    pub binary: bool,
    /// Maximum bytes of a line, around the match, 500 by default; 0 for no limit
    #[arg(long, short = 'M', value_name = "BYTES")]
    pub max_columns: Option<usize>,
    /// Maximum bytes of payload, 24576 by default; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<u64>,
    /// Count all matches, also those after the last one shown
    #[arg(long)]
    pub total: bool,
    /// Order of the files: path, or mtime with the newest first
    #[arg(long, value_name = "ORDER")]
    pub sort: Option<FileOrder>,
    /// Group matches by file
    #[arg(long)]
    pub group: bool,
    /// Return each file's sha256 and mark the lines shown as read, so that they can be edited
    #[arg(long)]
    pub mark: bool,
    /// Time limit in milliseconds, 30000 by default; 0 for no limit
    #[arg(long, value_name = "MS")]
    #[schemars(extend("x-aliases" = ["timeout"]))]
    pub timeout_ms: Option<u64>,
    /// Accepted and without effect: line numbers are always shown
    #[arg(long, short = 'n', hide = true, overrides_with = "line_number")]
    #[arg(short_aliases = ['r', 'R', 'H', 'E', 'I', 's', 'N', 'p', 'P'])]
    #[arg(aliases = [
        "recursive", "with-filename", "no-filename", "no-line-number", "extended-regexp", "regexp-extended",
        "no-messages", "heading", "no-heading", "column", "no-column", "line-buffered", "block-buffered", "mmap",
        "no-mmap", "no-config", "crlf", "no-stats", "no-ignore-messages", "perl-regexp", "pcre2",
    ])]
    #[schemars(extend("x-hidden" = true, "x-aliases" = ["-n", "line_numbers", "-r", "recursive"]))]
    pub line_number: bool,
    /// Another pattern; any of them may match
    #[arg(long = "regexp", short = 'e', value_name = "PATTERN", allow_hyphen_values = true)]
    #[serde(skip)]
    pub regexps: Vec<String>,
    /// Short for `--output-mode files`
    #[arg(long, short = 'l', conflicts_with = "output_mode")]
    #[serde(skip)]
    pub files_with_matches: bool,
    /// Short for `--output-mode count`
    #[arg(long, short = 'c', conflicts_with = "output_mode")]
    #[serde(skip)]
    pub count: bool,
    /// Short for `--output-mode count_matches`
    #[arg(long, conflicts_with_all = ["output_mode", "count"])]
    #[serde(skip)]
    pub count_matches: bool,
    /// Once for --no-ignore, twice to add --hidden, three times to add --binary
    #[arg(long, short = 'u', action = clap::ArgAction::Count)]
    #[serde(skip)]
    pub unrestricted: u8,
    /// Print nothing; exit with 1 if nothing matched
    #[arg(long, short = 'q', aliases = ["silent"], conflicts_with = "output_mode")]
    #[serde(skip)]
    pub quiet: bool,
    /// Accepted and without effect
    #[arg(long, short = 'j', hide = true, value_name = "NUMBER")]
    #[serde(skip)]
    pub threads: Option<usize>,
    /// Accepted and without effect
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, value_name = "WHEN", alias = "colour")]
    #[serde(skip)]
    pub color: Option<Option<String>>,
}

/// Content of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum OutputMode {
    /// Matching lines
    Content,
    /// Paths of files with matches
    Files,
    /// Matching lines of each file
    Count,
    /// Matches in each file
    CountMatches,
    /// Same as files
    #[value(hide = true)]
    #[schemars(skip)]
    FilesWithMatches,
}

/// Order of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum FileOrder {
    /// By path, component by component
    Path,
    /// By time of change, newest first
    Mtime,
}

impl Request {
    /// Returns the patterns; with `-e` the first positional argument is a path.
    pub(super) fn take_patterns(&mut self) -> Vec<String> {
        if self.regexps.is_empty() {
            return vec![self.pattern.clone()];
        }
        if !self.pattern.is_empty() {
            self.path.insert(0, PathBuf::from(&self.pattern));
        }
        std::mem::take(&mut self.regexps)
    }

    /// Returns the requested content of a response.
    pub(super) fn wanted(&self) -> MatchDetail {
        match self.output_mode.unwrap_or(OutputMode::Content) {
            _ if self.count || self.count_matches => MatchDetail::Number,
            _ if self.files_with_matches || self.quiet => MatchDetail::Presence,
            OutputMode::Content => MatchDetail::Lines,
            OutputMode::Files | OutputMode::FilesWithMatches => MatchDetail::Presence,
            OutputMode::Count | OutputMode::CountMatches => MatchDetail::Number,
        }
    }

    /// Returns the search options.
    pub(super) fn manner(&self, patterns: &[String], policy: &Policy) -> Result<SearchOptions, Error> {
        let Pattern { matcher, line_ending } = compile(patterns, &self.reading)?;
        let bytes_max = self.bytes_max(policy);
        let wanted = self.wanted();
        let context = |lines: Option<usize>| {
            let lines = lines.or(self.context).unwrap_or(0).min(CONTEXT_LINES_MAX);
            if wanted == MatchDetail::Lines && !self.only_matching { lines } else { 0 }
        };
        let reading = PatternOptions { ignore_case: self.reading.ignore_case, ..PatternOptions::default() };
        let excluded = self.exclude_lines.as_ref().filter(|excluded| !excluded.is_empty());
        let excluded =
            excluded.map(|excluded| compile(std::slice::from_ref(excluded), &reading)).transpose()?;
        Ok(SearchOptions {
            matcher,
            excluded: excluded.map(|excluded| excluded.matcher),
            line_ending,
            style: MatchStyle {
                wanted,
                // Each match in a line counts separately.
                only_matching: self.only_matching
                    || self.count_matches
                    || self.output_mode == Some(OutputMode::CountMatches),
                invert: self.invert,
                line_bytes_max: lesser(self.max_columns.unwrap_or(policy.size(Key::MaxColumns)), bytes_max),
                match_bytes_max: bytes_max,
                keeps_cr: !line_ending.is_crlf(),
            },
            multiline: self.reading.multiline,
            before: context(self.before),
            after: context(self.after),
            per_file_max: self.max_count.filter(|&count| count > 0),
            hash: self.mark,
            binary: self.binary || self.unrestricted >= 3,
        })
    }

    /// Returns the size limit of one match, in bytes; 0 for no limit.
    fn bytes_max(&self, policy: &Policy) -> usize {
        match self.max_bytes.unwrap_or(policy.number(Key::MaxBytes)) {
            0 => 0,
            bytes => usize::try_from(bytes.max(ENTRY_BYTES)).unwrap_or(usize::MAX),
        }
    }

    /// Returns the selection of files.
    pub(super) fn selection(&self, engine: &Engine) -> Result<EntrySelection, Error> {
        let [include, exclude] =
            [&self.include, &self.exclude].map(|globs| globs::all_with_names(&engine.workspace, globs));
        Ok(EntrySelection {
            hidden: self.hidden || self.unrestricted >= 2,
            no_ignore: self.no_ignore || self.unrestricted >= 1,
            depth: self.depth,
            overrides: globs::overrides(engine.workspace.base(), &include, &exclude)?,
            dot_folders: globs::dot_folders(
                include.iter().map(|glob| glob.trim_start_matches("./").trim_start_matches('/')),
                false,
            ),
            types: globs::types(&self.r#type, &self.type_not)?,
            ..EntrySelection::of(&[EntryType::File])
        })
    }

    /// Returns the part of the result to show.
    pub(super) fn window(&self, policy: &Policy) -> PageWindow {
        let limit = if self.quiet { Some(1) } else { self.limit };
        PageWindow::of(policy, self.offset, (limit, Key::GrepLimit), self.max_bytes)
    }
}

/// Returns the smaller of two limits, where 0 means no limit.
const fn lesser(one: usize, other: usize) -> usize {
    match (one, other) {
        (0, bound) | (bound, 0) => bound,
        (one, other) if one < other => one,
        (_, other) => other,
    }
}
