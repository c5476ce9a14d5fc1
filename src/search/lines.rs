//! What matches look like in an answer.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use super::matched::{Entries, Match};
use super::packed::Piece;
use crate::sha256::Sha256;

/// The matches of one file.
#[derive(Debug)]
pub struct FileMatches {
    /// The file, as answers show it.
    pub path: String,
    /// All its bytes, where they are wanted and known.
    pub sha256: Option<Box<Sha256>>,
    /// Its matches.
    pieces: Vec<Piece>,
}

impl FileMatches {
    /// A file of which nothing is shown yet.
    #[must_use]
    pub fn new(path: String) -> Self {
        Self { path, sha256: None, pieces: Vec::new() }
    }

    /// Adds matches.
    pub fn push(&mut self, piece: Piece) {
        // Nearly every file has a single piece.
        self.pieces.reserve_exact(1);
        self.pieces.push(piece);
    }

    /// Its matches, without the name of the file.
    pub fn entries(&self) -> impl Iterator<Item = Match<'_>> {
        self.pieces.iter().flat_map(|piece| Entries::of(piece))
    }

    /// Its matches, each with the name of the file.
    fn named_entries(&self) -> impl Iterator<Item = Match<'_>> {
        let mut sha256 = self.sha256.as_deref();
        self.entries().map(move |entry| Match { path: Some(&self.path), sha256: sha256.take(), ..entry })
    }
}

/// Matches in a flat list, by file and line.
#[derive(Debug, Default)]
pub struct Matches(pub Vec<FileMatches>);

impl Serialize for Matches {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().flat_map(FileMatches::named_entries))
    }
}

impl JsonSchema for Matches {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Matches".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<Match<'_>>::json_schema(generator)
    }
}

/// Matches in a list for each file.
#[derive(Debug, Default)]
pub struct Groups(pub Vec<FileMatches>);

/// The matches of one file, named once.
#[derive(Serialize, JsonSchema)]
struct Group<'p> {
    /// The file
    path: &'p str,
    /// With `mark`, all bytes of the file
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<&'p Sha256>,
    /// Its matches
    #[serde(serialize_with = "entries_of")]
    #[schemars(with = "Vec<Match<'_>>")]
    matches: &'p FileMatches,
}

/// Writes the matches of a file.
fn entries_of<S: Serializer>(file: &FileMatches, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(file.entries())
}

impl Serialize for Groups {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|file| Group {
            path: &file.path,
            sha256: file.sha256.as_deref(),
            matches: file,
        }))
    }
}

impl JsonSchema for Groups {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Groups".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<Group<'_>>::json_schema(generator)
    }
}

/// How many matches one file has.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Count {
    /// The file
    pub path: String,
    /// Its matching lines, or its matches with `only_matching`
    pub count: u64,
}

/// A file of an answer, with the bytes that were searched.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Marked {
    /// The file
    pub path: String,
    /// All its bytes
    pub sha256: Sha256,
}
