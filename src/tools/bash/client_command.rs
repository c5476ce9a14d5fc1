//! Commands of a client's own shell: one call of lbx looks at the workspace before a command, and another one after it.
//!
//! Several commands of a session share one look, if they run at the same time, or if the workspace is so large that
//! its changes are only looked for at the end of the turn.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Bash;
use super::command_diff::{self, ScannedTree, TreePair};
use super::direct::TreeScan;
use super::request::{body, subject};
use super::saved_untracked::{SavedUntracked, UnscannedFiles};
use crate::engine::Engine;
use crate::engine::change::external_changes::Backups;
use crate::engine::change::{Change, record};
use crate::engine::history::client_calls::{
    ClientCall, ClosingEvent, ConcurrentChanges, FileBefore, RunningCommands, Turns,
};
use crate::engine::policy::settings::Key;
use crate::engine::sandbox::repositories::{self, SearchDepth};
use crate::engine::snapshot::EXTERNAL;
use crate::engine::store::state::State;
use crate::engine::workspace::protect::is_protected;
use crate::engine::workspace::survey::{Survey, SurveyDiff};
use crate::error::Error;
use crate::tools::Tool as _;

/// Most commands whose texts are kept.
const TEXTS_MAX: usize = 20;

/// Looks at the workspace before a command; `is_background` means that it goes on after its call.
///
/// # Errors
/// Fails with `timeout`, with `command_denied` if the workspace cannot be searched, or with the OS error.
pub fn begin(engine: &mut Engine, command: &str, is_background: bool) -> Result<(), Error> {
    let session = engine.session().to_string();
    let locked = engine.lock()?;
    let state = &locked.state;
    if let Some(mut call) = ClientCall::find_commands(state, &session)?
        && let Some(commands) = &mut call.commands
    {
        commands.running += 1;
        commands.until_stop |= is_background;
        if commands.texts.len() < TEXTS_MAX {
            commands.texts.push(command.to_owned());
        }
        return call.save_commands(state, None);
    }
    let (others, writers): (Vec<_>, Vec<_>) =
        ClientCall::calls_of_others(state, &session)?.into_iter().partition(|call| call.commands.is_some());
    let survey = survey_of(engine)?;
    // What another call has written so far will be recorded as its own.
    let is_late = !others.is_empty() || !writers.is_empty();
    let Some(scanned) = TreeScan::scan(engine, state, survey.as_ref(), is_late)? else { return Ok(()) };
    let Some(survey) = survey else { return Ok(()) };
    // One look a turn is cheaper, but commands of several agents can only be told apart one by one.
    let is_large = survey.count() > engine.policy().size(Key::GuardFiles);
    let mut call = ClientCall::begin(state, &session, Bash::NAME)?;
    call.heads = scanned.heads;
    call.files = saved(&scanned.kept, &survey, &mut Backups::new(state))?;
    call.commands = Some(RunningCommands {
        texts: vec![command.to_owned()],
        running: 1,
        until_stop: is_background || (is_large && !Turns::is_other_open(state, &session)),
        is_overlapped: !others.is_empty(),
        tip: scanned.tree.tip,
    });
    for mut other in others {
        if let Some(commands) = &mut other.commands {
            commands.is_overlapped = true;
        }
        other.save_commands(state, None)?;
    }
    call.save_commands(state, Some(&survey.to_bytes()))
}

/// Records the changes of the session's commands after one of them has ended, or all of them at a `closing`; `goes_on`
/// means that the command went on in the background. Returns the number of files whose writer is unknown, since commands
/// of other sessions ran at the same time.
///
/// # Errors
/// Fails as [`begin`] does.
pub fn end(engine: &mut Engine, closing: Option<ClosingEvent>, goes_on: bool) -> Result<usize, Error> {
    let session = engine.session().to_string();
    let change = engine.begin(Bash::NAME, &[], false)?;
    let Some(state) = change.state() else { return Ok(0) };
    let Some(mut call) = ClientCall::find_commands(state, &session)? else { return Ok(0) };
    let Some(mut commands) = call.commands.clone() else { return Ok(0) };
    if closing.is_none() {
        commands.running = commands.running.saturating_sub(1);
        commands.until_stop |= goes_on;
        let goes_on = commands.running > 0 || commands.until_stop;
        call.has_ended = true;
        call.commands = Some(commands.clone());
        // A hook that is killed from here on leaves the change for the next one.
        call.save_commands(state, None)?;
        if goes_on {
            return Ok(0);
        }
    }
    // Of a command that the user rejected, the differences are the user's; the next look records them as external.
    let is_rejected = closing == Some(ClosingEvent::Prompt) && !call.has_ended;
    let files = if is_rejected {
        drop(change);
        0
    } else {
        record_differences(change, &call, &commands)?
    };
    let locked = engine.lock()?;
    // A command that has begun since goes on with the call.
    if ClientCall::find_commands(&locked.state, &session)?.as_ref() == Some(&call) {
        ClientCall::forget_commands(&locked.state, &session)?;
    }
    Ok(files)
}

/// Records what is different since commands began; returns the number of files whose writer is unknown.
fn record_differences(
    mut change: Change<'_>,
    call: &ClientCall,
    commands: &RunningCommands,
) -> Result<usize, Error> {
    let Some(state) = change.state() else { return Ok(0) };
    let before = call.survey(state)?.and_then(|bytes| Survey::from_bytes(&bytes));
    // Another session's file tool may have written, and will say so.
    let pending = ClientCall::calls_of_others(state, &call.session)?;
    let Some((before, after)) = before.zip(survey_of(change.engine())?) else { return Ok(0) };
    let mut touched = before.touched(&after, None);
    touched.retain(|touched| {
        !touched.path.components().any(|name| is_protected(name.as_encoded_bytes()))
            && !pending.iter().any(|call| call.names(&touched.path))
    });
    if touched.is_empty() {
        return Ok(0);
    }
    let theirs = ConcurrentChanges::of(call.heads.since(&State::open(change.workspace())?)?, None);
    if commands.is_overlapped {
        // File tools have said what they wrote.
        touched.retain(|touched| !theirs.files.contains_key(&touched.path));
        let only = paths_of(&touched);
        let looked = record::RecentSurvey { survey: Some(after), only: Some(&only) };
        record::scan_as(change.engine(), (None, None), EXTERNAL, 0, looked)?;
        return Ok(touched.len());
    }
    record_changes(change, call, commands, (&before, after), (&touched, &theirs))?;
    Ok(0)
}

/// Records what is touched as one change of the session.
fn record_changes(
    mut change: Change<'_>,
    call: &ClientCall,
    commands: &RunningCommands,
    (before, after): (&Survey, Arc<Survey>),
    (touched, theirs): (&[SurveyDiff], &ConcurrentChanges),
) -> Result<(), Error> {
    let text = commands.texts.join("\n");
    let (subject, body) = (subject(&text), body(&text, None));
    let only = paths_of(touched);
    let looked = record::RecentSurvey { survey: Some(Arc::clone(&after)), only: Some(&only) };
    let words = (Some(subject.clone()), body.as_deref());
    let seq = change.spend_number()?;
    let recorded = record::scan_as(change.engine(), words, Bash::NAME, seq, looked)?;
    let untracked = UnscannedFiles::of(&recorded.left_out, &recorded.ignored, Some(&after));
    if let Some(id) = recorded.id {
        change.engine().set_snapshot(id);
    }
    let kept = call.files.iter().filter(|file| touched.iter().any(|touched| touched.path == file.path));
    let kept = SavedUntracked::of(kept.filter_map(|file| {
        let bytes = change.bytes_seen(&file.path, file.version.as_ref()?.sha256)?;
        Some((file.path.clone(), bytes))
    }));
    let trees = [
        ScannedTree { untracked: UnscannedFiles::default(), tip: commands.tip.clone() },
        ScannedTree { untracked, tip: record::newest_or_head(change.engine())? },
    ];
    let sides = TreePair {
        surveys: [before, &*after],
        trees: [&trees[0], &trees[1]],
        is_overlapped: false,
        kept: &kept,
        theirs,
        held: &[],
    };
    command_diff::record(change, &sides, touched, (subject, body))?;
    Ok(())
}

/// Returns the paths that a scan is to record.
fn paths_of(touched: &[SurveyDiff]) -> BTreeSet<Vec<u8>> {
    touched.iter().map(|touched| touched.path.as_bytes().to_vec()).collect()
}

/// Surveys the workspace without the folders of repositories and of lbx; `None` if there are too many files.
fn survey_of(engine: &Engine) -> Result<Option<Arc<Survey>>, Error> {
    let (_, survey) = repositories::find(&engine.workspace, &engine.control, None, SearchDepth::AtAll)?;
    Ok(survey.map(Arc::new))
}

/// Backs up saved bytes; returns the versions.
fn saved(
    kept: &SavedUntracked,
    survey: &Survey,
    backups: &mut Backups<'_>,
) -> Result<Vec<FileBefore>, Error> {
    let mut files = Vec::new();
    for (path, bytes) in kept.iter() {
        let Some(thing) = survey.at(path) else { continue };
        let version = command_diff::version_of(bytes, thing);
        backups.add(bytes, &version)?;
        files.push(FileBefore { path: path.clone(), version: Some(version), outcome: None });
    }
    Ok(files)
}
