//! `gc`: removes data for undo and restore that lbx no longer needs.

use crate::control::seconds_now;
use crate::engine::store::lock::unique_name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::journal::gc;
use crate::engine::journal::gc::{ByKind, Collected, Tally};
use crate::engine::policy::settings::Key;
use crate::error::Error;
use crate::text::plural::plural;

/// Seconds in a day.
pub(super) const DAY: u64 = 24 * 60 * 60;
/// Largest number of failed names in the warning.
const FAILED_NAMED: usize = 3;

/// Free the space of old backups, history and trash
///
/// Removes everything older than `keep_days`, and the oldest beyond `keep_bytes`: undoable changes, the backups that no
/// younger change needs, trash entries, and files left by killed calls. This cannot be undone; the snapshots in git
/// stay, and their loose objects are packed. `dry_run` shows how much would be removed.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Show what would change without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Number of days to keep everything, 30 unless the policy says otherwise
    #[arg(long, value_name = "DAYS")]
    pub keep_days: Option<u64>,
    /// Maximum bytes to keep: beyond it the oldest is removed, but nothing younger than a day; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub keep_bytes: Option<u64>,
}

/// Kept and removed data.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// Kept data
    pub kept: Tally,
    /// Removed data
    pub removed: Tally,
    /// Bytes that this freed, or would free
    pub freed_bytes: u64,
    /// Removed data by kind
    pub by_kind: ByKind,
    /// Loose objects of snapshots that were packed
    #[serde(skip_serializing_if = "is_none")]
    pub packed: usize,
}

/// Returns true if there are none to report.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_none(count: &usize) -> bool {
    *count == 0
}

/// `gc` tool.
pub struct Gc;

impl Tool for Gc {
    const NAME: &'static str = "gc";
    const EFFECT: Effect = Effect::Writes;
    const STDIN: Stdin = Stdin::Ignored;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let now = seconds_now();
        let asked = [
            (Key::KeepDays, "keep_days", request.keep_days),
            (Key::KeepBytes, "keep_bytes", request.keep_bytes),
        ];
        for (key, field, value) in asked {
            value.map_or(Ok(()), |value| engine.policy().must_not_loosen(key, field, value))?;
        }
        let keep_days = request.keep_days.unwrap_or(engine.policy().number(Key::KeepDays));
        let keep_bytes = request.keep_bytes.unwrap_or(engine.policy().number(Key::KeepBytes));
        let before = now.saturating_sub(keep_days.saturating_mul(DAY));
        let mut change = engine.begin(Self::NAME, &[], request.dry_run)?;
        let collected = match change.state() {
            Some(state) => {
                let before = match keep_bytes {
                    0 => before,
                    most => gc::bound_for(state, before..now.saturating_sub(DAY), most)?,
                };
                gc::collect(state, before, request.dry_run)?
            }
            None => Collected::default(),
        };
        if !collected.failed.is_empty() {
            let named: Vec<&str> = collected.failed.iter().take(FAILED_NAMED).map(String::as_str).collect();
            change.engine().warn(format!(
                "{} could not be removed, {} among them",
                plural(collected.failed.len(), "file"),
                named.join(", ")
            ));
        }
        let packed = if request.dry_run { 0 } else { record::pack(change.engine()) };
        let (kept, removed, by_kind) = (collected.kept, collected.removed.sum(), collected.removed);
        if removed.files > 0 {
            change.engine().note_changed([], Some(&unique_name(Self::NAME)));
        }
        Ok(Response { kept, removed, freed_bytes: removed.bytes, by_kind, packed })
    }

    fn text(response: &Response, text: &mut Text) {
        let line = format!(
            "gc: {} of {} removed, {} of {} kept",
            plural(response.removed.files, "file"),
            plural(response.removed.bytes, "byte"),
            plural(response.kept.files, "file"),
            plural(response.kept.bytes, "byte")
        );
        text.change(&line);
    }
}
