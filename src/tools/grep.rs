//! `grep`: lines that match a pattern.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Text, Tool};
use crate::engine::Engine;
use crate::engine::policy::Policy;
use crate::engine::policy::settings::Key;
use crate::error::{Error, ErrorKind};
use crate::search::basic;
use crate::search::collect::{MatchDetail, Style};
use crate::search::content::FileToSearch;
use crate::search::file::Manner;
use crate::search::left_out::{Empty, is_small};
use crate::search::lines::{Count, Groups, Marked, Matches};
use crate::search::newest::Order;
use crate::search::page::{ENTRY_BYTES, Window};
use crate::search::pattern::{Pattern, Reading, compile};
use crate::search::query::Search;
use crate::search::results::SearchResult;
use crate::search::roots::{Beginning, one_or_many, roots};
use crate::search::selection::{Kinds, Selection};
use crate::search::walk::{Walk, WalkEntry};
use crate::search::{globs, newest};
use crate::text::counted::counted;

/// Lines of context at most, on each side.
const CONTEXT_LINES_MAX: usize = 10_000;

/// Search the contents of files for a pattern
///
/// The pattern is a regular expression in ripgrep's syntax.
///
/// Files that git ignores, hidden files and binary files are skipped. Matches are ordered by path, then line; if `truncated` is true, continue at `next_offset`.
#[derive(Debug, Default, clap::Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
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
    #[arg(long, short = 'g', value_name = "GLOB", aliases = ["glob"])]
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
    /// Treat the pattern as a literal string
    #[arg(long, short = 'F', aliases = ["fixed-strings"])]
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["fixed_strings", "literal_text", "-F"]))]
    pub literal: bool,
    /// Ignore case
    #[arg(long, short = 'i')]
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["-i", "case_insensitive", "insensitive"]))]
    pub ignore_case: bool,
    /// Ignore case, unless the pattern has an upper-case letter
    #[arg(long, short = 'S')]
    #[serde(default)]
    pub smart_case: bool,
    /// Match whole words only
    #[arg(long, short = 'w', aliases = ["word-regexp"])]
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["word_regexp", "whole_word", "-w"]))]
    pub word: bool,
    /// Match whole lines only
    #[arg(long, short = 'x', aliases = ["line-regexp"])]
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["line_regexp", "-x"]))]
    pub whole_line: bool,
    /// Let matches span lines
    #[arg(long, short = 'U')]
    #[serde(default)]
    pub multiline: bool,
    /// Show lines that do not match
    #[arg(long, short = 'v', aliases = ["invert-match"])]
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["invert_match", "-v"]))]
    pub invert: bool,
    /// Show only the matching part of each line
    #[arg(long, short = 'o')]
    #[serde(default)]
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
    #[schemars(extend("x-aliases" = ["max_matches_per_file"]))]
    pub max_count: Option<u64>,
    /// Maximum depth: 1 searches the folder itself only
    #[arg(long, short = 'd', value_name = "LEVELS", alias = "max-depth")]
    #[schemars(range(min = 1), extend("x-aliases" = ["max_depth"]))]
    pub depth: Option<usize>,
    /// Include hidden files
    #[arg(long, short = '.')]
    #[serde(default)]
    pub hidden: bool,
    /// Include files that git ignores
    #[arg(long)]
    #[serde(default)]
    pub no_ignore: bool,
    /// Include binary files (with NUL bytes), searched as text
    #[arg(long, short = 'a')]
    #[serde(default)]
    pub binary: bool,
    /// Maximum bytes of a line, around the match, 500 by default; 0 for no limit
    #[arg(long, short = 'M', value_name = "BYTES")]
    pub max_columns: Option<usize>,
    /// Maximum bytes of payload, 24576 by default; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<u64>,
    /// Count all matches, also those after the last one shown
    #[arg(long)]
    #[serde(default)]
    pub total: bool,
    /// Order of the files: path, or mtime with the newest first
    #[arg(long, value_name = "ORDER")]
    pub sort: Option<Sort>,
    /// Group matches by file
    #[arg(long)]
    #[serde(default)]
    pub group: bool,
    /// Return each file's sha256 and mark the lines shown as read, so that they can be edited
    #[arg(long)]
    #[serde(default)]
    pub mark: bool,
    /// Time limit in milliseconds, 30000 by default; 0 for no limit
    #[arg(long, value_name = "MS")]
    #[schemars(extend("x-aliases" = ["timeout"]))]
    pub timeout_ms: Option<u64>,
    /// Accepted and without effect: line numbers are always there
    #[arg(long, short = 'n', hide = true, overrides_with = "line_number")]
    #[arg(short_aliases = ['r', 'R', 'H', 'E', 'I', 's', 'N', 'p', 'P'])]
    #[arg(aliases = [
        "recursive", "with-filename", "no-filename", "no-line-number", "extended-regexp", "regexp-extended",
        "no-messages", "heading", "no-heading", "column", "no-column", "line-buffered", "block-buffered", "mmap",
        "no-mmap", "no-config", "crlf", "no-stats", "no-ignore-messages", "perl-regexp", "pcre2",
    ])]
    #[serde(default)]
    #[schemars(extend("x-hidden" = true, "x-aliases" = ["-n", "line_numbers", "-r", "recursive"]))]
    pub line_number: bool,
    /// A further pattern; any of them may match
    #[arg(long = "regexp", short = 'e', value_name = "PATTERN", allow_hyphen_values = true)]
    #[serde(skip)]
    #[schemars(skip)]
    pub regexps: Vec<String>,
    /// Short for `--output-mode files`
    #[arg(long, short = 'l', conflicts_with = "output_mode")]
    #[serde(skip)]
    #[schemars(skip)]
    pub files_with_matches: bool,
    /// Short for `--output-mode count`
    #[arg(long, short = 'c', conflicts_with = "output_mode")]
    #[serde(skip)]
    #[schemars(skip)]
    pub count: bool,
    /// Short for `--output-mode count_matches`
    #[arg(long, conflicts_with_all = ["output_mode", "count"])]
    #[serde(skip)]
    #[schemars(skip)]
    pub count_matches: bool,
    /// Once for --no-ignore, twice to add --hidden, three times to add --binary
    #[arg(long, short = 'u', action = clap::ArgAction::Count)]
    #[serde(skip)]
    #[schemars(skip)]
    pub unrestricted: u8,
    /// Print nothing; exit with 1 if nothing matched
    #[arg(long, short = 'q', aliases = ["silent"], conflicts_with = "output_mode")]
    #[serde(skip)]
    #[schemars(skip)]
    pub quiet: bool,
    /// Accepted and without effect
    #[arg(long, short = 'j', hide = true, value_name = "NUMBER")]
    #[serde(skip)]
    #[schemars(skip)]
    pub threads: Option<usize>,
    /// Accepted and without effect
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, value_name = "WHEN", alias = "colour")]
    #[serde(skip)]
    #[schemars(skip)]
    pub color: Option<Option<String>>,
}

/// What an answer holds.
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
    /// The same as files
    #[value(hide = true)]
    #[schemars(skip)]
    FilesWithMatches,
}

/// How files are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// By path, component by component
    Path,
    /// By time of change, the newest first
    Mtime,
}

/// What was found.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Response {
    /// The matches, by path, then line
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<Matches>,
    /// The same, where each file was to be named once
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Groups>,
    /// The files with matches
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
    /// How many matching lines, or matches, each file has
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Vec<Count>>,
    /// Matches in all; if `truncated` and without `total`, those found so far
    pub matched: u64,
    /// Files with matches, likewise
    pub files_matched: u64,
    /// Whether there is more
    pub truncated: bool,
    /// The `offset` that shows what comes next
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// With `mark`, the sha256 of each file of this page; its lines that `matches` shows whole now
    /// count as read
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marked: Vec<Marked>,
    /// Whether the text is empty.
    #[serde(skip)]
    #[schemars(skip)]
    pub is_quiet: bool,
}

/// Searches the contents of files.
#[derive(Debug)]
pub struct Grep;

impl Tool for Grep {
    const NAME: &'static str = "grep";
    const LISTED: &'static str =
        "pattern path include literal ignore_case word multiline context output_mode limit no_ignore";
    const CORE: bool = true;
    const EFFECT: Effect = Effect::Reads;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, mut request: Request) -> Result<Response, Error> {
        let patterns = request.take_patterns();
        let manner = request.manner(&patterns, engine.policy())?;
        let selection = request.selection(engine)?;
        let roots = roots(&engine.workspace, &request.path, Beginning::Searchable)?;
        let control = match request.timeout_ms.unwrap_or(engine.policy().number(Key::SearchMs)) {
            0 => engine.control.clone(),
            limit => engine.control.clone().within(Duration::from_millis(limit)),
        };
        let mut walk = Walk::new(&engine.workspace, roots.clone(), selection.clone(), control.clone());
        let search = Search {
            workspace: &engine.workspace,
            manner,
            window: request.window(engine.policy()),
            total: request.total,
            group: request.group,
            control: control.clone(),
        };
        let mut outcome = match request.sort {
            Some(Sort::Mtime) => {
                let files = newest::first(&mut walk, Order::Newest, |_| ())?;
                search.run(files.into_iter().map(|(path, ())| FileToSearch::At(path)))
            }
            Some(Sort::Path) | None => search.run(walk.by_ref().map(FileToSearch::Found)),
        };
        if !outcome.complete {
            return Err(ran_out(&control, &outcome));
        }
        let (left_out, mut notes) = (walk.left_out, std::mem::take(&mut walk.notes));
        notes.append(std::mem::take(&mut outcome.notes));
        if outcome.matched == 0 {
            let workspace = &engine.workspace;
            let empty = Empty { workspace, roots, selection, control, left_out };
            request
                .explain(&patterns, &search.manner, &empty)
                .into_iter()
                .for_each(|note| notes.extend(Some(note)));
        }
        if outcome.has_lossy_path() {
            notes.extend(Some("a path is not valid UTF-8: its other bytes are shown as U+FFFD".to_owned()));
        }
        notes.into_lines().into_iter().for_each(|note| engine.warn(note));
        Ok(request.response(engine, outcome))
    }

    fn text(response: &Response, text: &mut Text) {
        if !response.is_quiet {
            text::write(response, text);
        }
    }

    fn status(response: &Response) -> u8 {
        u8::from(response.matched == 0)
    }
}

impl Request {
    /// The patterns; with `-e` the first positional argument is a path.
    fn take_patterns(&mut self) -> Vec<String> {
        if self.regexps.is_empty() {
            return vec![self.pattern.clone()];
        }
        if !self.pattern.is_empty() {
            self.path.insert(0, PathBuf::from(&self.pattern));
        }
        std::mem::take(&mut self.regexps)
    }

    /// What an answer holds.
    fn wanted(&self) -> MatchDetail {
        match self.output_mode.unwrap_or(OutputMode::Content) {
            _ if self.count || self.count_matches => MatchDetail::Number,
            _ if self.files_with_matches || self.quiet => MatchDetail::Presence,
            OutputMode::Content => MatchDetail::Lines,
            OutputMode::Files | OutputMode::FilesWithMatches => MatchDetail::Presence,
            OutputMode::Count | OutputMode::CountMatches => MatchDetail::Number,
        }
    }

    /// Whether each match of a line counts by itself.
    fn is_each_match_wanted(&self) -> bool {
        self.only_matching || self.count_matches || self.output_mode == Some(OutputMode::CountMatches)
    }

    /// How files are searched.
    fn manner(&self, patterns: &[String], policy: &Policy) -> Result<Manner, Error> {
        let Pattern { matcher, line_ending } = compile(patterns, &self.reading())?;
        let bytes_max = self.bytes_max(policy);
        let wanted = self.wanted();
        let context = |lines: Option<usize>| {
            let lines = lines.or(self.context).unwrap_or(0).min(CONTEXT_LINES_MAX);
            if wanted == MatchDetail::Lines && !self.only_matching { lines } else { 0 }
        };
        Ok(Manner {
            matcher,
            line_ending,
            style: Style {
                wanted,
                only_matching: self.is_each_match_wanted(),
                invert: self.invert,
                line_bytes_max: lesser(self.max_columns.unwrap_or(policy.size(Key::MaxColumns)), bytes_max),
                match_bytes_max: bytes_max,
                keeps_cr: !line_ending.is_crlf(),
            },
            multiline: self.multiline,
            before: context(self.before),
            after: context(self.after),
            per_file_max: self.max_count.filter(|&count| count > 0),
            hash: self.mark,
            binary: self.binary || self.unrestricted >= 3,
        })
    }

    /// How the pattern is read.
    fn reading(&self) -> Reading {
        Reading {
            literal: self.literal,
            ignore_case: self.ignore_case,
            smart_case: self.smart_case,
            word: self.word,
            whole_line: self.whole_line,
            multiline: self.multiline,
        }
    }

    /// Bytes that one match may have; 0 for no bound.
    fn bytes_max(&self, policy: &Policy) -> usize {
        match self.max_bytes.unwrap_or(policy.number(Key::MaxBytes)) {
            0 => 0,
            bytes => usize::try_from(bytes.max(ENTRY_BYTES)).unwrap_or(usize::MAX),
        }
    }

    /// What may explain that nothing was found.
    fn explain(&self, patterns: &[String], manner: &Manner, empty: &Empty<'_>) -> Vec<String> {
        let left_out = empty.advice(|found| {
            let files: Vec<WalkEntry> = found.filter(is_small).collect();
            files_with_matches(manner, empty, files.into_iter())
        });
        left_out.into_iter().chain(self.basic_syntax(patterns, manner, empty)).collect()
    }

    /// What a pattern in the basic syntax of `grep` would be here, where that explains the miss.
    fn basic_syntax(&self, patterns: &[String], manner: &Manner, empty: &Empty<'_>) -> Option<String> {
        let [pattern] = patterns else { return None };
        if self.literal || !basic::is_likely(pattern) {
            return None;
        }
        let extended = basic::as_extended(pattern)?;
        let Pattern { matcher, .. } = compile(std::slice::from_ref(&extended), &self.reading()).ok()?;
        let would_match = || {
            let manner = Manner { matcher, per_file_max: Some(1), ..manner.clone() };
            files_with_matches(&manner, empty, empty.walk()) > 0
        };
        // A plain `|` is rare in what people search for.
        (basic::has_alternative(pattern) || would_match()).then(|| {
            format!(
                "a backslash before |, +, ?, {{ or ( makes it plain text here: did you mean `{extended}`?"
            )
        })
    }

    /// Which files are searched.
    fn selection(&self, engine: &Engine) -> Result<Selection, Error> {
        Ok(Selection {
            hidden: self.hidden || self.unrestricted >= 2,
            no_ignore: self.no_ignore || self.unrestricted >= 1,
            depth: self.depth,
            overrides: globs::overrides(engine.workspace.base(), &self.include, &self.exclude)?,
            types: globs::types(&self.r#type, &self.type_not)?,
            ..Selection::of(Kinds::FILES)
        })
    }

    /// How much is shown.
    fn window(&self, policy: &Policy) -> Window {
        Window {
            offset: self.offset.unwrap_or(0),
            limit: if self.quiet { 1 } else { self.limit.unwrap_or(policy.number(Key::GrepLimit)) },
            bytes_max: self.max_bytes.unwrap_or(policy.number(Key::MaxBytes)),
        }
    }

    /// The answer.
    fn response(&self, engine: &mut Engine, outcome: SearchResult) -> Response {
        let mut response = Response {
            matched: outcome.matched,
            files_matched: outcome.files_matched,
            truncated: outcome.next_offset.is_some(),
            next_offset: outcome.next_offset,
            is_quiet: self.quiet,
            ..Response::default()
        };
        match self.wanted() {
            MatchDetail::Lines if self.group => response.groups = Some(Groups(outcome.matches)),
            MatchDetail::Lines => response.matches = Some(Matches(outcome.matches)),
            MatchDetail::Presence => response.files = Some(outcome.files),
            MatchDetail::Number => response.counts = Some(outcome.counts),
        }
        for seen in outcome.seen {
            // Where no line was shown, there is nothing to have read.
            if !seen.lines.is_empty() {
                engine.mark_shown(&seen.path, seen.marked.sha256, &seen.stat, &seen.lines);
            }
            response.marked.push(seen.marked);
        }
        response
    }
}

/// How many of `files` have a match.
fn files_with_matches(
    manner: &Manner,
    empty: &Empty<'_>,
    files: impl Iterator<Item = WalkEntry> + Send,
) -> u64 {
    let style = Style { wanted: MatchDetail::Presence, ..manner.style.clone() };
    let search = Search {
        workspace: empty.workspace,
        manner: Manner { style, before: 0, after: 0, hash: false, ..manner.clone() },
        window: Window { offset: 0, limit: 0, bytes_max: 0 },
        total: false,
        group: false,
        control: empty.control.clone(),
    };
    search.run(files.map(FileToSearch::Found)).files_matched
}

/// The lesser of two bounds, where 0 is none.
const fn lesser(one: usize, other: usize) -> usize {
    match (one, other) {
        (0, bound) | (bound, 0) => bound,
        (one, other) if one < other => one,
        (_, other) => other,
    }
}

/// The refusal of a search that did not come to its end.
fn ran_out(control: &crate::control::Control, outcome: &SearchResult) -> Error {
    let how = if control.is_cancelled() { "was cancelled" } else { "ran out of time" };
    Error::new(
        ErrorKind::Timeout,
        format!(
            "the search {how} after {}, with {} so far",
            counted(outcome.files_searched, "file"),
            counted(outcome.matched, "match")
        ),
    )
    .suggest("Narrow path, include or type, or raise timeout_ms.")
    .detail("files_searched", outcome.files_searched)
    .detail("matched", outcome.matched)
}

/// The answer as `rg --heading -n` prints it.
mod text {
    use super::{Response, Text};
    use crate::search::lines::FileMatches;
    use crate::search::matched::Match;
    use crate::text::escaped;

    /// Writes the payload and the notes.
    pub fn write(response: &Response, text: &mut Text) {
        let flat = response.matches.iter().flat_map(|matches| &matches.0);
        let grouped = response.groups.iter().flat_map(|groups| &groups.0);
        for (index, file) in flat.chain(grouped).enumerate() {
            if index > 0 {
                text.out.push(b'\n');
            }
            write_file(file, text);
        }
        for file in response.files.iter().flatten() {
            text.name(file);
            text.out.push(text.separator);
        }
        for count in response.counts.iter().flatten() {
            text.line(&format!("{}:{}", escaped::name(&count.path), count.count));
        }
        if let Some(next) = response.next_offset {
            text.note(format!("more matches follow: {}", text.option("offset", next)));
        }
    }

    /// Writes the matches of one file under its name.
    fn write_file(file: &FileMatches, text: &mut Text) {
        text.name(&file.path);
        text.out.push(b'\n');
        let mut last_line = None;
        for entry in file.entries() {
            let (first, last) = entry.shown_lines();
            let has_context = !entry.before.is_empty() || !entry.after.is_empty();
            if has_context && last_line.is_some_and(|line| first > line + 1) {
                text.out.extend_from_slice(b"--\n");
            }
            write_match(&entry, text);
            last_line = Some(last);
        }
    }

    /// Writes one match with its context.
    fn write_match(entry: &Match<'_>, text: &mut Text) {
        let (first, _) = entry.shown_lines();
        write_lines(text, first, '-', entry.before.lines().map(|(line, _)| line));
        write_lines(text, entry.line, ':', entry.text.split('\n'));
        write_lines(text, entry.line + entry.lines.max(1), '-', entry.after.lines().map(|(line, _)| line));
    }

    /// Writes lines with their numbers.
    fn write_lines<'r>(text: &mut Text, first: u64, mark: char, lines: impl Iterator<Item = &'r str>) {
        for (number, line) in (first..).zip(lines) {
            text.out.extend_from_slice(format!("{number}{mark}{line}\n").as_bytes());
        }
    }
}
