//! What a match looks like in an answer.

use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

/// A path as answers show it, shared by the matches of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownPath(Arc<str>);

impl ShownPath {
    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for ShownPath {
    fn from(path: String) -> Self {
        Self(path.into())
    }
}

impl fmt::Display for ShownPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for ShownPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl JsonSchema for ShownPath {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Path".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// One matching line, or one match of several lines.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Match {
    /// The file; absent in a group, which names it once
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<ShownPath>,
    /// Line where the match begins, from 1
    pub line: u64,
    /// Column in bytes where the match begins, from 1
    pub column: u64,
    /// The line without its ending
    pub text: String,
    /// Column where `text` begins; only where the line was too long to be shown whole
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_column: Option<u64>,
    /// Bytes of the whole line; only where it was too long to be shown whole
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_bytes: Option<u64>,
    /// The lines before it, as far as no other match shows them
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// The lines after it, as far as no other match shows them
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// How many lines the match itself takes.
    #[serde(skip)]
    #[schemars(skip)]
    pub lines: u64,
    /// Whether all its lines are shown whole.
    #[serde(skip)]
    #[schemars(skip)]
    pub whole: bool,
}

impl Match {
    /// The first and the last line that it shows.
    #[must_use]
    pub fn shown_lines(&self) -> (u64, u64) {
        let first = self.line.saturating_sub(self.before.len() as u64).max(1);
        let last = self.line + self.lines.saturating_sub(1) + self.after.len() as u64;
        (first, last)
    }

    /// About how much memory it takes.
    #[must_use]
    pub fn weight(&self) -> usize {
        let context: usize = self.before.iter().chain(&self.after).map(String::len).sum();
        size_of::<Self>() + self.text.len() + context
    }
}

/// How many matches one file has.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Count {
    /// The file
    pub path: ShownPath,
    /// Its matching lines, or its matches with `only_matching`
    pub count: u64,
}
