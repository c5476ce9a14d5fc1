//! The changes of a command, as responses list them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::sha256::Sha256;

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is new.
    Create,
    /// It is different.
    Modify,
    /// It is gone.
    Delete,
}

/// A file that changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Changed {
    /// Its path
    pub path: String,
    /// What became of it
    pub action: Action,
    /// SHA-256 of its bytes now, where it is a regular file
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
    /// Number of files that changed in an ignored folder
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<usize>,
    /// Number of its files that undo cannot restore
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<usize>,
}

/// A file whose new version was not applied.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Conflict {
    /// Its path
    pub path: String,
    /// Reason
    pub reason: String,
}

/// A layer that outlived its command.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names on the wire")]
pub struct Layer {
    /// Its name
    pub layer: String,
    /// The command; of a long one the beginning
    pub command: String,
    /// Session that ran it
    pub session: String,
    /// True if the layer was deleted
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
    /// True if the layer was applied
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
    /// Files that it changes, or that were changed; absent in a list, which does not look into layers
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<Vec<Changed>>,
    /// How many there are, if not all are listed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_total: Option<usize>,
    /// Files that were not applied
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    /// Unified diff from the files of now to those of the layer
    #[serde(skip_serializing_if = "String::is_empty")]
    pub diff: String,
}
