//! Layers that outlived their commands: shown, applied or dropped.

use super::changed::{Conflict, Layer};
use super::difference::Difference;
use super::layered::{Applied, LayeredCommand, Manner};
use super::request::Request;
use crate::engine::Engine;
use crate::engine::sandbox::layer;
use crate::engine::store::state::State;
use crate::error::Error;
use crate::text::answer_size::AnswerRoom;

/// Characters of a command in a response.
const COMMAND_CHARACTERS_MAX: usize = 400;

/// Shows, applies or drops a layer.
///
/// # Errors
/// Fails with `not_found` if there is no such layer, with `invalid_request` if both `apply` and `drop` are given,
/// and as for any change.
pub fn handle(engine: &mut Engine, name: &str, request: &Request) -> Result<Layer, Error> {
    if request.apply && request.drop {
        return Err(Error::invalid("give `apply` or `drop`, not both").detail("field", "drop"));
    }
    if request.command.is_some() {
        return Err(Error::invalid("`layer` runs no command: leave out `command`").detail("field", "command"));
    }
    let layered = LayeredCommand::open(engine, name)?;
    let mut response = response(engine, name, layered.record());
    let bytes_max = request.max_bytes.unwrap_or_else(|| engine.policy().max_bytes());
    if request.drop {
        layered.discard();
        response.dropped = true;
    } else if request.apply {
        let has_conflicts = !layered.record().conflicts.is_empty();
        // The caller has seen the conflicts, and wants the command's versions.
        let manner = if has_conflicts { Manner::Over } else { Manner::Partly };
        let Applied { difference, conflicts, .. } = layered.apply(engine, manner)?;
        response.applied = true;
        response.conflicts = conflicts;
        set_changed(&mut response, difference, bytes_max);
    } else {
        let difference = layered.look(engine)?;
        set_changed(&mut response, difference, bytes_max / 2);
        response.diff = layered.diff(engine, bytes_max / 2)?;
    }
    Ok(response)
}

/// Returns all layers that outlived their commands.
///
/// # Errors
/// Returns the OS error.
pub fn list(engine: &Engine) -> Result<Vec<Layer>, Error> {
    let Some(state) = State::find(&engine.workspace)? else { return Ok(Vec::new()) };
    let kept = layer::kept(&state)?;
    let shown = |layer: layer::KeptLayer| response(engine, &layer.name, &layer.record);
    Ok(kept.into_iter().map(shown).collect())
}

/// Returns a response with the facts about a layer.
fn response(engine: &Engine, name: &str, record: &layer::LayerRecord) -> Layer {
    let conflict = |conflict: &layer::LayerConflict| Conflict {
        path: engine.workspace.shown(&conflict.path),
        reason: conflict.reason.clone(),
    };
    Layer {
        layer: name.to_owned(),
        command: record.command.chars().take(COMMAND_CHARACTERS_MAX).collect(),
        session: record.session.clone(),
        dropped: false,
        applied: false,
        changed: None,
        changed_total: None,
        conflicts: record.conflicts.iter().map(conflict).collect(),
        diff: String::new(),
    }
}

/// Puts the changed files into a response, as many as fit.
fn set_changed(response: &mut Layer, mut difference: Difference, bytes_max: usize) {
    difference.shorten(AnswerRoom::new(bytes_max));
    let listed = difference.listed();
    response.changed_total = difference.total.filter(|total| *total > listed);
    response.changed = Some(difference.list.unwrap_or_default());
}
