//! The client's own file tools: gated before they run, and recorded afterwards.

use std::path::PathBuf;

use rustix::fs::Stat;

use super::client::{HookClient, ToolKind};
use super::event::{Event, Verdict};

use crate::engine::Engine;
use crate::engine::change::external_changes::{Backups, ClientFile, VersionBytes};
use crate::engine::change::gate::Needs;
use crate::engine::change::record::{self, EarlierFiles};
use crate::engine::change::{Change, LockedFile};
use crate::engine::history::client_calls::ConcurrentChanges;
use crate::engine::history::client_calls::{ClientCall, ClosingEvent, FileBefore};
use crate::engine::history::replay::is_same;
use crate::engine::journal::{FolderEntry, Version};
use crate::engine::policy::settings::Key;
use crate::engine::store::state::State;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};
use crate::sha256::Sha256;
use crate::text::lines;
use crate::tools::common::subject;

/// Most lines that a client puts before the text of a file.
const HEADER_LINES_MAX: usize = 32;

/// Checks a call that is about to change files, and notes what is there.
///
/// # Errors
/// Fails if the state cannot be written.
pub fn before(engine: &mut Engine, client: &HookClient, event: &Event) -> Result<Verdict, Error> {
    let paths = workspace_paths(engine, event);
    if paths.is_empty() {
        return Ok(Verdict::Silent);
    }
    let session = engine.session().to_string();
    let gate = engine.policy().word(Key::GuardGate).to_owned();
    let change = engine.begin(&event.tool, &[], false)?;
    let Some(state) = change.state() else { return Ok(Verdict::Silent) };
    let mut call = ClientCall::begin(state, &session, &event.tool)?;
    let others = ClientCall::calls_of_others(state, &session)?;
    let (mut backups, mut doubts) = (Backups::new(state), Vec::new());
    for (path, is_whole) in &paths {
        let current = match change.open_current(path) {
            Ok(current) => current,
            Err(error) if error.kind() == ErrorKind::ProtectedPath => {
                return Ok(Verdict::Deny(format!("{}.\n{}", error.message(), error.suggested_action())));
            }
            // The client's tool fails as well, and says why.
            Err(_) => continue,
        };
        doubts.extend(refusal_reason(&change, client, event, (&current, *is_whole)));
        let at = current.place().path();
        let other = others.iter().find(|other| other.commands.is_none() && other.names(at));
        doubts.extend(other.map(|other| {
            format!(
                "session {} is changing {} now: wait, read it again, then repeat the call",
                other.session,
                current.place().display()
            )
        }));
        let version = version_of(&change, &current);
        if let Some((version, bytes)) = &version {
            backups.add(bytes, version)?;
        }
        call.missing.extend(missing_above(&change, at));
        let old = version.as_ref().map_or(&[][..], |(_, bytes)| bytes);
        let outcome = outcome_of(event, &paths, old);
        let version = version.map(|(version, _)| version);
        call.files.push(FileBefore { path: at.clone(), version, outcome });
    }
    if gate == "deny" && !doubts.is_empty() {
        return Ok(Verdict::Deny(doubts.join("\n")));
    }
    call.save(state, &event.call())?;
    Ok(if gate == "warn" && !doubts.is_empty() {
        Verdict::Context(doubts.join("\n"))
    } else {
        Verdict::Silent
    })
}

/// Records what a call has changed.
///
/// # Errors
/// Fails if the state cannot be written.
pub fn after(engine: &mut Engine, event: &Event) -> Result<(), Error> {
    let session = engine.session().to_string();
    let change = engine.begin(&event.tool, &[], false)?;
    let Some(state) = change.state() else { return Ok(()) };
    let name = event.call();
    let Some(mut call) = ClientCall::find(state, &session, &name)? else {
        let (call, lost) = unannounced(&change, event)?;
        return record(change, (&call, Some(&name)), lost, event.kind == ToolKind::Write);
    };
    // A hook that is killed from here on leaves the change for the next one.
    call.has_ended = true;
    call.save(state, &name)?;
    record(change, (&call, Some(&name)), Vec::new(), event.kind == ToolKind::Write)?;
    forget(engine, &name)
}

/// Forgets a call of the session, once its changes are recorded.
fn forget(engine: &Engine, name: &str) -> Result<(), Error> {
    let Some(state) = State::find(&engine.workspace)? else { return Ok(()) };
    ClientCall::forget(&state, engine.session().as_str(), name)
}

/// Returns the hash of the text that a call makes of a file, if it names no other and says so in its arguments.
fn outcome_of(event: &Event, paths: &[(PathBuf, bool)], old: &[u8]) -> Option<Sha256> {
    let old = std::str::from_utf8(old).ok().filter(|_| paths.len() == 1)?;
    event.outcome(old).map(|text| text_hash(text.as_bytes()))
}

/// Returns the hash of a text, whatever its line endings: the client keeps those of the file.
fn text_hash(bytes: &[u8]) -> Sha256 {
    Sha256::of(&bytes.iter().copied().filter(|byte| *byte != b'\r').collect::<Vec<u8>>())
}

/// Records the changes of calls of the session whose end was not reported: the user rejected them, the client was killed,
/// or its hook, or they still run. A file that the call is not known to have changed is the user's: what is different
/// there becomes an external change.
///
/// # Errors
/// Fails if the state cannot be written.
pub fn record_unreported(engine: &mut Engine, closing: ClosingEvent) -> Result<(), Error> {
    let session = engine.session().to_string();
    let Some(state) = State::find(&engine.workspace)? else { return Ok(()) };
    for (name, mut call) in ClientCall::all(&state)? {
        if call.session != session || call.commands.is_some() {
            continue;
        }
        let change = engine.begin(&call.tool, &[], false)?;
        let hash =
            |path: &WorkspacePath| change.open_canonical(path).ok().map(|current| text_hash(current.bytes()));
        let has_ended = call.has_ended;
        call.files.retain(|file| has_ended || closing.is_of_call(file.outcome, hash(&file.path)));
        let is_over = closing != ClosingEvent::Command;
        record(change, (&call, is_over.then_some(name.as_str())), Vec::new(), false)?;
        if is_over {
            forget(engine, &name)?;
        }
    }
    Ok(())
}

/// Marks the lines that a client's tool has shown.
pub fn mark_shown(engine: &mut Engine, client: &HookClient, event: &Event) {
    engine.finish_dead_calls();
    for (path, _) in workspace_paths(engine, event) {
        let Ok(place) = engine.workspace.resolve(&path) else { continue };
        let Ok((file, stat)) = engine.workspace.open_regular(place.path(), place.display()) else { continue };
        let size = fs::size_of(&stat);
        let Ok(bytes) = fs::read_to_end(file, size, engine.policy().number(Key::FileBytes)) else { continue };
        if let Some(lines) = lines_shown(client, event, &bytes) {
            engine.mark_shown(place.path(), Sha256::of(&bytes), &stat, &lines);
        }
    }
}

/// Returns the paths of a call that lie in the workspace, each with true if the call replaces the whole file.
fn workspace_paths(engine: &Engine, event: &Event) -> Vec<(PathBuf, bool)> {
    let paths = event.paths().into_iter();
    paths.filter(|(path, _)| engine.workspace.resolve(path).is_ok()).collect()
}

/// Returns the reason why a call should not change a file: the session has not seen its present bytes.
fn refusal_reason(
    change: &Change<'_>,
    client: &HookClient,
    event: &Event,
    (current, is_whole): (&LockedFile, bool),
) -> Option<String> {
    let needs = match event.kind {
        _ if is_whole => Needs::All,
        ToolKind::Patch => return None,
        _ => Needs::Any,
    };
    let error = change.refusal(current, needs)?;
    let shown = current.place().display();
    let cure = match client.read_tool() {
        Some(tool) => format!("Read {shown} with {tool}, then repeat the call."),
        None => format!("Look at {shown}, and update it instead of adding it."),
    };
    let diff = error.details().get("diff").and_then(serde_json::Value::as_str);
    let diff = diff.map_or_else(String::new, |diff| format!("\nSince then it has changed:\n{diff}"));
    Some(format!("{}.\n{cure}{diff}", error.message()))
}

/// Returns the version of a file with its bytes; `None` if there is no file.
fn version_of(change: &Change<'_>, current: &LockedFile) -> Option<VersionBytes> {
    let (bytes, identity) = (current.bytes().to_vec(), current.identity(change.workspace()));
    let (sha256, size, mode) = (current.sha256(), bytes.len() as u64, current.mode()?);
    Some((Version { sha256, size, mode, identity }, bytes))
}

/// Returns the folders above a path that do not exist, outermost first.
fn missing_above(change: &Change<'_>, path: &WorkspacePath) -> Vec<WorkspacePath> {
    let above =
        std::iter::successors(path.parent(), WorkspacePath::parent).filter(|folder| !folder.is_root());
    let mut missing: Vec<_> = above.take_while(|folder| folder_at(change, folder).is_none()).collect();
    missing.reverse();
    missing
}

/// Returns the stat of a folder; `None` if it does not exist.
fn folder_at(change: &Change<'_>, path: &WorkspacePath) -> Option<Stat> {
    let place = change.workspace().place_of(path).ok()?;
    place.stat().copied().filter(fs::is_folder)
}

/// Returns the call of an event that nothing came before, and its files without a known old version. The newest
/// snapshot has the others; nobody knows if a file that it does not have is new.
fn unannounced(change: &Change<'_>, event: &Event) -> Result<(ClientCall, Vec<WorkspacePath>), Error> {
    let engine = change.engine_ref();
    let Some(state) = change.state() else { return Ok(Default::default()) };
    let mut call = ClientCall::begin(state, engine.session().as_str(), &event.tool)?;
    let mut lost = Vec::new();
    let tip = record::find(engine)?.map(|store| store.newest()).transpose()?.flatten();
    let snapshot = EarlierFiles::new(engine, tip.as_deref(), 0);
    let mut backups = Backups::new(state);
    for (path, _) in workspace_paths(engine, event) {
        let Ok(current) = change.open_current(&path) else { continue };
        let Some((now, bytes)) = version_of(change, &current) else { continue };
        let at = current.place().path();
        let Some((_, bytes)) = tip.as_ref().and_then(|_| snapshot.version(at, &bytes)) else {
            lost.push(at.clone());
            continue;
        };
        let version = Version { sha256: Sha256::of(&bytes), size: bytes.len() as u64, ..now };
        // No object has these bytes if the line endings of the file are other ones.
        backups.add(&bytes, &version)?;
        call.files.push(FileBefore { path: at.clone(), version: Some(version), outcome: None });
    }
    Ok((call, lost))
}

/// Records the changes of a call, and those files that it changed without a known old version; the call has a name if it
/// is over. `is_whole` is true if the client wrote all of the files.
fn record(
    change: Change<'_>,
    (call, over): (&ClientCall, Option<&str>),
    mut lost: Vec<WorkspacePath>,
    is_whole: bool,
) -> Result<(), Error> {
    let Some(state) = change.state() else { return Ok(()) };
    let theirs = ConcurrentChanges::of(call.heads.since(state)?, None);
    let mut running = ClientCall::all(state)?;
    running.retain(|(name, it)| it.session != call.session || Some(name.as_str()) != over);
    let (mut files, mut backups) = (Vec::new(), Backups::new(state));
    for FileBefore { path, version, .. } in &call.files {
        // What others recorded meanwhile is theirs.
        let before = theirs.files.get(path).map_or(version, |(_, last)| last);
        let Ok(current) = change.open_canonical(path) else {
            lost.push(path.clone());
            continue;
        };
        let after = version_of(&change, &current);
        if theirs.is_theirs(path) || is_same(before.as_ref(), after.as_ref().map(|(version, _)| version)) {
            continue;
        }
        // Another call goes on from these bytes, which may be in no snapshot.
        if let Some((version, bytes)) =
            after.as_ref().filter(|_| running.iter().any(|(_, it)| it.names(path)))
        {
            backups.add(bytes, version)?;
        }
        let bytes = before.as_ref().map(|version| change.bytes_seen(path, version.sha256));
        let before = match (before, bytes) {
            (Some(version), Some(Some(bytes))) => Some((version.clone(), bytes)),
            (None, _) => None,
            (Some(_), _) => {
                lost.push(path.clone());
                continue;
            }
        };
        files.push(ClientFile { path: path.clone(), before, after, is_whole });
    }
    if files.is_empty() && lost.is_empty() {
        return Ok(());
    }
    let is_new = |folder: &&WorkspacePath| !theirs.folders.contains(*folder);
    let made = call.missing.iter().filter(is_new).filter_map(|path| {
        let mode = Some(fs::recorded_mode(&folder_at(&change, path)?));
        Some(FolderEntry { path: path.clone(), mode, identity: None })
    });
    let made: Vec<_> = made.collect();
    let paths: Vec<WorkspacePath> = files.iter().map(|file| &file.path).chain(&lost).cloned().collect();
    let subject = subject(&call.tool, &paths);
    change.record_files(&files, made, lost, subject)
}

/// Returns the ranges of lines that a read has shown of a text; `None` if it showed none of the present lines.
fn lines_shown(client: &HookClient, event: &Event, bytes: &[u8]) -> Option<Vec<(u64, u64)>> {
    let total = lines::count(bytes);
    let number =
        |of: &serde_json::Value, names: &[&str]| names.iter().find_map(|name| of.get(name)?.as_u64());
    let shown = event.output.get("file").unwrap_or(&event.output);
    let range = |at: usize| event.input.get("view_range")?.get(at)?.as_u64();
    let first = number(shown, &["startLine", "start_line"])
        .or_else(|| number(&event.input, &["offset", "start_line", "startLine", "StartLine"]))
        .or_else(|| range(0))
        .unwrap_or(1)
        .max(1);
    let count = number(shown, &["numLines", "num_lines"]).or_else(|| number(&event.input, &["limit"]));
    let most = first.saturating_add(count.unwrap_or(client.reads.lines)).saturating_sub(1);
    let named = number(&event.input, &["end_line", "endLine", "EndLine"]).or_else(|| range(1));
    let last = named.map_or(most, |last| last.min(most)).min(total);
    if total == 0 {
        return Some(vec![(1, 0)]); // all of an empty file
    }
    if first > last {
        return None;
    }
    let now: Vec<&[u8]> = lines::lines(bytes).skip(usize::try_from(first - 1).ok()?).collect();
    // The client may have read before another program wrote.
    if let Some(text) = shown.get("content").and_then(serde_json::Value::as_str) {
        let was = lines::lines(text.as_bytes());
        let plain = lines::without_ending;
        let mut pairs = was.enumerate();
        let is_same = pairs.all(|(at, line)| now.get(at).is_some_and(|now| plain(now) == plain(line)));
        // A client that counts its lines may leave out the ending of the last one, which may be empty.
        let is_joined = count.is_some() && (text.is_empty() || text.ends_with('\n'));
        let shown = lines::count(text.as_bytes()) + u64::from(is_joined);
        let last = last.min((first + shown).saturating_sub(1));
        return (is_same && first <= last).then(|| vec![(first, last)]);
    }
    if event.output.get("file").is_some() {
        // The cells of a notebook, which are not its lines; or nothing, if the client has shown the file before.
        return shown.get("cells").map(|_| Vec::new());
    }
    if let Some(text) = event.shown_text() {
        let found = lines_within(text.as_bytes(), first, &now);
        return (!found.is_empty()).then(|| ranges(found));
    }
    let mut left = client.reads.bytes;
    let numbered = (first..=last).zip(now).take_while(|(_, line)| {
        let is_within = left >= line.len();
        left = left.saturating_sub(line.len());
        is_within
    });
    let numbers = numbered.filter(|(_, line)| line.len() <= client.reads.line_bytes);
    let ranges = ranges(numbers.map(|(number, _)| number));
    (!ranges.is_empty()).then_some(ranges)
}

/// Returns the numbers of the lines that a client's text shows, below a header and perhaps behind their numbers; `now` are
/// the lines of the file from `first` on. To some clients, the first line has the number 0.
fn lines_within(text: &[u8], first: u64, now: &[&[u8]]) -> Vec<u64> {
    let is_line = |(shown, line): &(&[u8], &&[u8])| {
        let before = lines::without_ending(shown).strip_suffix(lines::without_ending(line));
        let is_number = |it: char| it.is_ascii_digit() || " \t|:.→".contains(it);
        before.is_some_and(|before| std::str::from_utf8(before).is_ok_and(|it| it.chars().all(is_number)))
    };
    let found = |(header, skipped): (usize, usize)| -> Vec<u64> {
        let pairs = lines::lines(text).skip(header).zip(now.iter().skip(skipped));
        let numbered = (first + skipped as u64..).zip(pairs);
        numbered.filter(|(_, pair)| is_line(pair)).map(|(number, _)| number).collect()
    };
    let places = (0..HEADER_LINES_MAX).map(|header| (header, 0)).chain([(0, 1)]);
    places.map(found).max_by_key(Vec::len).unwrap_or_default()
}

/// Returns the ranges of ascending numbers.
fn ranges(numbers: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut().filter(|(_, last)| last + 1 == number) {
            Some((_, last)) => *last = number,
            None => ranges.push((number, number)),
        }
    }
    ranges
}
