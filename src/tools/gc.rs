//! `gc`: removes data for undo and restore that lbx no longer needs.

use crate::control::seconds_now;
use crate::engine::store::lock::unique_name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::is_zero;
use super::{Effect, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::journal::gc;
use crate::engine::journal::gc::{GcResult, RemovedFiles, Tally};
use crate::engine::journal::repack::{self, PackCounts, RepackAmount};
use crate::engine::policy::settings::Key;
use crate::engine::sandbox::fork::{ForkFolder, Forks};
use crate::engine::store::state::State;
use crate::error::Error;
use crate::text::escaped::plural;

/// Seconds in a day.
pub(super) const DAY: u64 = 24 * 60 * 60;
/// Largest number of failed names in the warning.
const FAILED_NAMED: usize = 3;

/// Free the space of old backups, history and trash
///
/// Removes everything older than `keep_days`, and the oldest beyond `keep_bytes`: undoable changes, the backups that no
/// younger change needs, trash entries, and files left by killed calls. A request keeps only more than the policy does,
/// unless the user's own file lists these settings in `loosen`. This cannot be undone; the snapshots in git
/// stay, and their loose objects are packed, as is the history that stays. Without `gc`, each 128th change of a session
/// packs some of the history that is older than a day. Forks older than `keep_days` are dropped if nothing was changed in
/// them; others are named. `dry_run` shows how much would be removed.
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
    /// Kept data, as it was before packing
    pub kept: Tally,
    /// Removed data
    pub removed: Tally,
    /// Bytes that this freed, or would free
    pub freed_bytes: u64,
    /// Removed data by kind
    pub by_kind: RemovedFiles,
    /// Loose objects of snapshots that were packed
    #[serde(skip_serializing_if = "is_zero")]
    pub packed: usize,
    /// Changes that were packed, with their backups
    #[serde(skip_serializing_if = "is_zero")]
    pub packed_changes: usize,
    /// Bytes that packing these freed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packed_bytes: Option<u64>,
    /// Forks that were dropped: older than `keep_days`, with no changes
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped_forks: Vec<String>,
    /// Forks older than `keep_days` that were kept, since they hold changes or are in use
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub old_forks: Vec<String>,
    /// Files and folders that killed calls on forks had left
    #[serde(skip_serializing_if = "is_zero")]
    pub fork_leftovers: usize,
}

/// `gc` tool.
pub struct Gc;

impl Tool for Gc {
    const NAME: &'static str = "gc";
    const EFFECT: Effect = Effect::Writes;
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
        let forks = OldForks::collect(engine, before, request.dry_run)?;
        let mut change = engine.begin(Self::NAME, &[], request.dry_run)?;
        let collected = match change.state() {
            Some(state) => {
                let before = match keep_bytes {
                    0 => before,
                    most => gc::bound_for(state, before..now.saturating_sub(DAY), most)?,
                };
                gc::collect(state, before, request.dry_run)?
            }
            None => GcResult::default(),
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
        let state = change.state().filter(|_| !request.dry_run);
        let packing = match state.map(|state| repack::pack(state, RepackAmount::All)) {
            Some(Ok(packing)) => packing,
            Some(Err(error)) => {
                change.engine().warn(format!("the history was not packed: {}", error.message()));
                PackCounts::default()
            }
            None => PackCounts::default(),
        };
        let (kept, removed, by_kind) = (collected.kept, collected.removed.sum(), collected.removed);
        if removed.files > 0 {
            change.engine().note_changed([], Some(&unique_name(Self::NAME)));
        }
        let OldForks { dropped: dropped_forks, kept: old_forks, leftovers: fork_leftovers } = forks;
        let freed_bytes = removed.bytes;
        Ok(Response {
            kept,
            removed,
            freed_bytes,
            by_kind,
            packed,
            packed_changes: packing.changes,
            packed_bytes: Some(packing.freed_bytes()).filter(|_| packing.changes > 0),
            dropped_forks,
            old_forks,
            fork_leftovers,
        })
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
        for name in &response.dropped_forks {
            text.change(&format!("gc: fork {name} dropped: nothing was changed in it"));
        }
        if !response.old_forks.is_empty() {
            let names = response.old_forks.join(", ");
            text.note(format!("old forks that hold changes: {names}; merge or drop them"));
        }
    }
}

/// Forks that are older than what is kept.
#[derive(Debug, Default)]
struct OldForks {
    /// Names of those that were dropped.
    dropped: Vec<String>,
    /// Names of those that were not.
    kept: Vec<String>,
    /// Number of files and folders that killed calls had left.
    leftovers: usize,
}

impl OldForks {
    /// Drops the forks that began before a time, in seconds since 1970, if nothing was changed in them.
    fn collect(engine: &mut Engine, before: u64, dry_run: bool) -> Result<Self, Error> {
        let mut found = Self::default();
        let Some(state) = State::find(&engine.workspace)? else { return Ok(found) };
        // Most workspaces have none, and need no lock.
        if !Forks::has_forks(&state)? {
            return Ok(found);
        }
        let forks = Forks::lock(&engine.workspace, &state)?;
        found.leftovers = if dry_run { forks.leftovers().len() } else { forks.sweep() };
        let snapshots = engine.policy().branch_reference();
        for fork in ForkFolder::list(&engine.workspace, &state)? {
            let name = fork.record.name.clone();
            if fork.record.created >= before {
                continue;
            }
            // A copy that is gone may only have been moved.
            let is_readable = fork.refresh(&engine.workspace).is_ok();
            let is_unchanged = is_readable && fork.is_unchanged(&engine.workspace, &snapshots);
            if !is_unchanged || fork.process().is_some() || (!dry_run && forks.drop(&name).is_err()) {
                found.kept.push(name);
                continue;
            }
            found.dropped.push(name);
            if !dry_run {
                engine.note_changed([], Some(&fork.record.lower));
            }
        }
        Ok(found)
    }
}
