//! A record of the audit log, as JSON, and how it is chained to the one before.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::sha256::{Hasher, Sha256};

/// Longest reason in a record, in characters; the snapshot has all of it.
const WHY_CHARS_MAX: usize = 1000;
/// Paths in a record; beyond these only their number.
pub const PATHS_MAX: usize = 1000;

/// A file that a call changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditFile {
    /// Its path from the root.
    pub path: String,
    /// SHA-256 of its bytes before; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_sha256: Option<Sha256>,
    /// SHA-256 of its bytes after; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_sha256: Option<Sha256>,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// When, RFC 3339 with milliseconds, UTC.
    pub time: String,
    /// Whose call.
    pub session: String,
    /// The tool.
    pub tool: String,
    /// `ok`, or the kind of the refusal.
    pub outcome: String,
    /// The files concerned.
    pub files: Vec<AuditFile>,
    /// The commit that holds the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The change's own name, by which a record is known to be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// What the policy made of the change, `warn` or `off`, where its caller had not seen the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// Why the caller made the change, where that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What was wrong, of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// A time as a record has it, always as long: RFC 3339 with milliseconds, UTC.
#[must_use]
pub fn time_text(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// A reason as a record has it.
#[must_use]
pub fn short_why(why: &str) -> String {
    let why = why.trim();
    if why.chars().count() <= WHY_CHARS_MAX {
        return why.to_owned();
    }
    why.chars().take(WHY_CHARS_MAX - 1).chain(['…']).collect()
}

/// A record's value for the answer.
#[must_use]
pub fn as_value(record: &AuditRecord) -> Value {
    serde_json::to_value(record).unwrap_or_default()
}

/// A record as it stands in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Chained {
    /// The call.
    #[serde(flatten)]
    pub(super) record: AuditRecord,
    /// Hash of the record before; empty in the first.
    pub(super) prev: String,
    /// Hash of this record and of `prev`.
    pub(super) hash: String,
}

/// What the chain takes from a record; the rest may be long.
#[derive(Deserialize)]
pub(super) struct Link {
    /// The change's own name.
    #[serde(default)]
    pub(super) change: Option<String>,
    /// Hash of the record.
    pub(super) hash: String,
}

/// A record as JSON.
pub(super) fn json_of(record: &AuditRecord) -> Result<String, Error> {
    serde_json::to_string(record).map_err(|error| Error::internal(error.to_string()))
}

/// The hash of a record, as JSON, after another.
fn hash_of(json: &str, prev: &str) -> String {
    let mut hasher = Hasher::default();
    [prev, "\n", json].into_iter().for_each(|part| hasher.update(part.as_bytes()));
    hasher.finish().to_hex()
}

/// The line of a record, as JSON, after another, and its hash: [`Chained`] as JSON.
pub(super) fn line_of(mut json: String, prev: &str) -> Result<(String, String), Error> {
    #[derive(Serialize)]
    struct Rest<'a> {
        prev: &'a str,
        hash: &'a str,
    }
    let hash = hash_of(&json, prev);
    let rest = serde_json::to_string(&Rest { prev, hash: &hash });
    let rest = rest.map_err(|error| Error::internal(error.to_string()))?;
    // The brace that closes the record and the one that opens the rest become a comma.
    json.pop();
    json.push(',');
    json.push_str(rest.trim_start_matches('{'));
    Ok((json, hash))
}

/// What the chain takes from the record in a line.
pub(super) fn parse(line: &[u8]) -> Option<Link> {
    serde_json::from_slice(line).ok()
}

/// A line of the log, and whether it is whole and follows the one before.
pub(super) fn check(line: &[u8], prev: Option<&str>) -> (Option<Chained>, Result<(), String>) {
    let Ok(chained) = serde_json::from_slice::<Chained>(line) else {
        return (None, Err("no whole record".to_owned()));
    };
    // Fields that this version does not know would be lost in the hash: the line must be just ours.
    let is_whole = serde_json::to_string(&chained).is_ok_and(|text| text.as_bytes() == line);
    let is_ours = |json: String| hash_of(&json, &chained.prev) == chained.hash;
    let outcome = if !is_whole || !json_of(&chained.record).is_ok_and(is_ours) {
        Err("this record was altered".to_owned())
    } else if prev.unwrap_or_default() != chained.prev {
        Err("the record before it was removed or altered".to_owned())
    } else {
        Ok(())
    };
    (Some(chained), outcome)
}
