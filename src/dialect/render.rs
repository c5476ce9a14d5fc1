//! Texts that several families share.

use std::borrow::Cow;
use std::path::Path;

use serde_json::{Map, Value};

use super::native::Native;
use crate::error::Error;
use crate::text::escaped;
use crate::tools::read;

/// Lines of context round a change in a snippet.
const SNIPPET_CONTEXT: u64 = 4;

/// A request for a native tool, without the fields that are absent.
#[macro_export]
#[doc(hidden)]
macro_rules! native_request {
    ($($name:literal: $value:expr),* $(,)?) => {
        $crate::dialect::render::without_nulls(serde_json::json!({ $($name: $value),* }))
    };
}
pub(super) use native_request;

/// An object without its null fields.
pub fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// A text field of an answer.
pub fn text<'v>(data: &'v Value, field: &str) -> &'v str {
    data.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The path of an entry, as people see it.
pub fn shown(entry: &Value) -> Cow<'_, str> {
    escaped::name(text(entry, "path"))
}

/// An absolute path, as people see it.
pub fn shown_path(path: &Path) -> String {
    escaped::name(&path.to_string_lossy()).into_owned()
}

/// The paths in a list of an answer, as people see them, one a line.
pub fn shown_lines(data: &Value, field: &str) -> String {
    texts(data, field).into_iter().map(escaped::name).collect::<Vec<_>>().join("\n")
}

/// A number field of an answer.
pub fn number(data: &Value, field: &str) -> u64 {
    data.get(field).and_then(Value::as_u64).unwrap_or_default()
}

/// A field that is true or false.
pub fn flag(data: &Value, field: &str) -> bool {
    data.get(field).and_then(Value::as_bool).unwrap_or_default()
}

/// A list of an answer; empty where it is absent.
pub fn list<'v>(data: &'v Value, field: &str) -> &'v [Value] {
    data.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The texts in a list of an answer.
pub fn texts<'v>(data: &'v Value, field: &str) -> Vec<&'v str> {
    list(data, field).iter().filter_map(Value::as_str).collect()
}

/// Each line of what `read` answered, with its number as `form` writes it.
pub fn numbered(data: &Value, form: impl Fn(u64, &str) -> String) -> String {
    let first = number(data, "start_line");
    let lines = text(data, "content").lines().zip(first..);
    lines.map(|(line, number)| form(number, line)).collect::<Vec<_>>().join("\n")
}

/// Which lines of a file an answer of `read` shows.
pub struct LinesShown {
    /// The first.
    pub first: u64,
    /// The last; one less than the first where there is none.
    pub last: u64,
    /// Lines in the file.
    pub total: u64,
    /// Those of which only the start is shown.
    clipped: Vec<u64>,
}

impl LinesShown {
    /// Those of an answer.
    pub fn of(data: &Value) -> Self {
        let mut clipped: Vec<u64> = list(data, "clipped").iter().map(|line| number(line, "line")).collect();
        let cut = data.get("next_column").map(|_| number(data, "next_offset") + 1);
        clipped.extend(cut.filter(|line| !clipped.contains(line)));
        let [first, last, total] = ["start_line", "end_line", "total_lines"].map(|field| number(data, field));
        Self { first, last, total, clipped }
    }

    /// A line of the file that is counted from its end where it is negative.
    pub fn line(&self, line: i64) -> u64 {
        u64::try_from(line).unwrap_or_else(|_| (self.total + 1).saturating_sub(line.unsigned_abs()))
    }

    /// Whether lines are left out that were asked for: those up to `asked_last`, or all where that is none.
    pub fn stop_early(&self, asked_last: Option<u64>) -> bool {
        self.last < self.total && asked_last.is_none_or(|asked| self.last < asked)
    }

    /// In a sentence, of which lines only the start is shown.
    pub fn clipped(&self) -> Option<String> {
        let numbers = self.clipped.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self.clipped.len() {
            0 => None,
            1 => Some(format!("Only the start of line {numbers} is shown.")),
            _ => Some(format!("Only the starts of lines {numbers} are shown.")),
        }
    }

    /// What is left out of what was asked for, in sentences; `how` says how the family reads the rest.
    pub fn left_out(&self, asked_last: Option<u64>, how: &str) -> Option<String> {
        let Self { first, last, total, .. } = self;
        let rest = self
            .stop_early(asked_last)
            .then(|| format!("Lines {first} to {last} of {total} are shown. {how} to read the rest."));
        let sentences: Vec<String> = rest.into_iter().chain(self.clipped()).collect();
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }
}

/// Takes back the warning of `read` that the lines wanted are past the end: the family's own text says so.
pub fn says_past_end(lbx: &mut Native<'_>, data: &Value) {
    let LinesShown { first, total, .. } = LinesShown::of(data);
    let warning = read::past_end(first, text(data, "path"), total);
    lbx.outcome.warnings.retain(|known| *known != warning);
}

/// The last line of a request for so many lines from `first` on; none where it asks for all that fit.
pub fn last_asked(first: u64, limit: Option<u64>) -> Option<u64> {
    limit.filter(|limit| *limit > 0).map(|limit| first.saturating_add(limit - 1))
}

/// A number and its noun, in the plural where it is not one.
pub fn counted(count: u64, noun: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { noun } else { plural })
}

/// The lines of a file round its first changed place, numbered as `cat -n` does.
///
/// # Errors
/// Where the file cannot be read again.
pub fn snippet(lbx: &mut Native<'_>, path: &str, changed: (u64, u64)) -> Result<String, Error> {
    let start = changed.0.saturating_sub(SNIPPET_CONTEXT).max(1);
    let end = changed.1.max(changed.0).saturating_add(SNIPPET_CONTEXT);
    let data =
        lbx.call::<read::Read>(serde_json::json!({ "path": path, "start_line": start, "end_line": end }))?;
    Ok(numbered(&data, cat_n))
}

/// A line as `cat -n` prints it.
pub fn cat_n(number: u64, line: &str) -> String {
    format!("{number:6}\t{line}")
}

/// The lines of the first replacement in an answer of `edit`.
pub fn first_replacement(data: &Value) -> (u64, u64) {
    let first = list(data, "replacements").first();
    let line = |field| first.map_or(1, |place| number(place, field));
    (line("start_line"), line("end_line"))
}

/// Globs that match a path or any part of it, as `ignore` lists of these families do.
///
/// # Errors
/// `invalid_request` for a pattern that is not a glob.
pub fn globs(patterns: &[String]) -> Result<globset::GlobSet, Error> {
    let mut set = globset::GlobSetBuilder::new();
    for pattern in patterns {
        let bare = pattern.trim_end_matches('/');
        for form in [bare.to_owned(), format!("**/{bare}"), format!("**/{bare}/**")] {
            let glob = globset::Glob::new(&form)
                .map_err(|error| Error::invalid(format!("{pattern:?} is not a glob: {}", error.kind())))?;
            set.add(glob);
        }
    }
    set.build()
        .map_err(|error| Error::invalid(format!("the globs cannot be used together: {}", error.kind())))
}

/// Globs that match a whole path, seen from a folder; `*` stays within a name.
///
/// # Errors
/// `invalid_request` for a pattern that is not a glob.
pub fn relative_globs(patterns: impl IntoIterator<Item = String>) -> Result<globset::GlobSet, Error> {
    let mut set = globset::GlobSetBuilder::new();
    for pattern in patterns {
        let glob = globset::GlobBuilder::new(&pattern).literal_separator(true).build();
        set.add(
            glob.map_err(|error| Error::invalid(format!("{pattern:?} is not a glob: {}", error.kind())))?,
        );
    }
    set.build()
        .map_err(|error| Error::invalid(format!("the globs cannot be used together: {}", error.kind())))
}
