//! What `patch` takes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

use crate::error::Error;
use crate::sha256::{Hasher, Sha256};
use crate::text::patch::{PatchOptions, PlanOptions, Strip};
use crate::tools::common::ContentOptions;

/// Apply a patch to several files, all or none
///
/// Takes a unified diff (plain or git's), a Codex `*** Begin Patch` envelope, or SEARCH/REPLACE
/// blocks. If a single hunk does not apply, nothing is changed, and the error says what each hunk met.
///
/// Files that it modifies or deletes must have been read in this session and be unchanged since.
/// Changes that are already applied are left alone.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// The patch
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    #[schemars(extend("x-aliases" = ["diff", "patch_text", "input", "patch_content"]))]
    pub patch: PatchText,
    /// File to patch, if the patch names none or several
    #[arg(long, value_name = "PATH")]
    #[schemars(extend("x-aliases" = ["file_path", "absolute_path", "filename", "file"]))]
    pub path: Option<PathBuf>,
    /// Leading path components to strip; a/ and b/ are stripped automatically
    #[arg(long, short = 'p', value_name = "COUNT")]
    pub strip: Option<StripCount>,
    /// SHA-256 of files as last seen, by path; empty if the file must not exist
    #[arg(
        long,
        value_name = "PATH=HEX",
        help = "SHA-256 of files as last seen, by path; empty if the file must not exist: PATH=HEX, separated by \
                commas, or a JSON object"
    )]
    pub expected_sha256_by_path: Option<ExpectedByPath>,
    /// Context lines at either end of a hunk that may differ
    #[arg(long, value_name = "LINES", default_value_t)]
    #[serde(default)]
    pub fuzz: usize,
    /// Require exact line numbers, counts and whitespace
    #[arg(long)]
    #[serde(default)]
    pub strict: bool,
    /// Apply the patch in reverse
    #[arg(long, short = 'R')]
    #[serde(default)]
    pub reverse: bool,
    /// Whether to do it, why, and how much of it to show.
    #[command(flatten)]
    #[serde(flatten)]
    pub options: ContentOptions,
}

impl Request {
    /// By what a repeated request is known.
    pub(super) fn digest(&self) -> Sha256 {
        let (path, strip, expected) = (&self.path, &self.strip, &self.expected_sha256_by_path);
        let mut hasher = Hasher::default();
        hasher.update(format!("patch {path:?} {strip:?} {} {expected:?} ", self.reverse).as_bytes());
        hasher.update(&self.patch.0);
        hasher.finish()
    }

    /// How the patch is to be understood; no file may come to more than `bytes_max` bytes.
    pub(super) fn plan_options(&self, bytes_max: usize) -> Result<PlanOptions, Error> {
        let target = match &self.path {
            Some(path) if path.as_os_str().is_empty() => {
                return Err(Error::invalid("path is empty").detail("field", "path"));
            }
            path => path.as_ref().map(|path| path.as_os_str().as_bytes().to_vec()),
        };
        let strip = self.strip.map_or(Strip::Auto, |count| count.0);
        let apply = PatchOptions {
            fuzz: self.fuzz,
            strict: self.strict,
            reverse: self.reverse,
            bytes_max: Some(bytes_max),
        };
        Ok(PlanOptions { strip, target, apply, removed: BTreeSet::new() })
    }
}

/// The text of a patch, which may hold bytes that are not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchText(pub Vec<u8>);

impl From<OsString> for PatchText {
    fn from(text: OsString) -> Self {
        Self(text.into_vec())
    }
}

impl<'de> Deserialize<'de> for PatchText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(text.into_bytes()))
    }
}

impl JsonSchema for PatchText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "PatchText".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// How many leading folders to remove; `auto` leaves it to the patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StripCount(Strip);

impl std::str::FromStr for StripCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self(Strip::Auto));
        }
        let count = text.parse().map_err(|_| format!("strip: expected a number or auto, got {text:?}"))?;
        Ok(Self(Strip::Components(count)))
    }
}

impl<'de> Deserialize<'de> for StripCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for StripCount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "StripCount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"], "minimum": 0 })
    }
}

/// The SHA-256 that each file must have, as text; empty where there must be no file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ExpectedByPath(pub BTreeMap<String, String>);

impl std::str::FromStr for ExpectedByPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text).map_err(|error| error.to_string());
        }
        let pair = |pair: &str| {
            pair.rsplit_once('=')
                .map(|(path, sha256)| (path.to_owned(), sha256.to_owned()))
                .ok_or_else(|| format!("expected PATH=HEX, got {pair:?}"))
        };
        text.split(',').map(pair).collect::<Result<_, _>>().map(Self)
    }
}
