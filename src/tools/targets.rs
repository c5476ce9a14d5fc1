//! Targets of requests: paths, snapshots and sessions.

use std::ffi::OsString;
use std::path::Path;

use crate::engine::Engine;
use crate::engine::change::record;
use crate::engine::history::stacks::{self, MovedPath};
use crate::engine::journal::ChangeNumbers;
use crate::engine::snapshot::{Query, Store};
use crate::engine::store::id::StateId;
use crate::engine::store::session::{self, SessionId};
use crate::engine::store::state::{STATE_FOLDER, State};
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::resolve::ResolvedPath;
use crate::error::{Error, ErrorKind, text};
use crate::limits::NAMED_SESSIONS_MAX;
use crate::text::similarity;

/// Detail of an error with the new path of a moved file.
pub const MOVED_TO: &str = "moved_to";

/// Adds the new path to `not_found` if this session has moved the file; returns other errors unchanged.
pub fn or_moved(engine: &Engine, error: Error) -> Error {
    let is_open = error.kind() == ErrorKind::NotFound && !error.details().contains_key(MOVED_TO);
    let Some(shown) = error.path().filter(|_| is_open).map(str::to_owned) else { return error };
    let Some(moved) = moved_from(engine, &shown) else { return error };
    let to = engine.workspace.display(&moved.to);
    error
        .add_to_message(format!("; this session moved {shown} to {to} in change #{}", moved.seq))
        .suggest(format!("Did you mean {to}?"))
        .detail(MOVED_TO, to)
}

/// Returns the path to which this session has moved a file, for display, if it is still there.
fn moved_from(engine: &Engine, shown: &str) -> Option<MovedPath> {
    let place = engine.workspace.resolve_entry(Path::new(shown)).ok()?;
    let state = State::find(&engine.workspace).ok()?.filter(|_| place.stat().is_none())?;
    let moved = stacks::moved_from(&state, engine.session().as_str(), place.path()).ok()??;
    engine.workspace.place_of(&moved.to).ok()?.stat()?;
    Some(moved)
}

/// Returns true if a path is one of these places or lies below one, or if there are no places.
pub fn is_in_any(path: &[u8], places: &[ResolvedPath]) -> bool {
    places.is_empty() || places.iter().any(|place| is_in(path, place.path()))
}

/// Returns true if a path is `folder` or lies below it.
pub fn is_in(path: &[u8], folder: &WorkspacePath) -> bool {
    let rest = path.strip_prefix(folder.as_bytes());
    folder.is_root() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Meaning of an argument that is a path or a revision.
pub enum PathOrRevisions {
    /// Path that exists, or existed once.
    Path(Box<ResolvedPath>),
    /// Snapshots.
    Revisions(Revisions),
}

/// Returns the meaning of `path`: an existing path, else a revision, else a path that existed once.
///
/// # Errors
/// Returns `not_found` for any other text.
pub fn path_or_revision(engine: &Engine, store: &Store, path: &Path) -> Result<PathOrRevisions, Error> {
    let place = engine.workspace.resolve(path);
    if place.as_ref().is_ok_and(|place| place.stat().is_some()) {
        return place.map(|place| PathOrRevisions::Path(Box::new(place)));
    }
    if let Some(text) = path.to_str()
        && let Some(revisions) = Revisions::of(store, text)?
    {
        return Ok(PathOrRevisions::Revisions(revisions));
    }
    let place = place?;
    is_known(engine, Some(store), &place, path)?;
    Ok(PathOrRevisions::Path(Box::new(place)))
}

/// Rejects a path that does not exist and never did in any snapshot.
///
/// # Errors
/// Returns `not_found` with similar names.
pub fn path_must_be_known(
    engine: &Engine,
    store: Option<&Store>,
    path: &Path,
) -> Result<ResolvedPath, Error> {
    let place = engine.workspace.resolve(path)?;
    is_known(engine, store, &place, path)?;
    Ok(place)
}

/// Returns true if a path exists, or existed once.
///
/// # Errors
/// Returns the OS error, or that of a snapshot that cannot be read.
pub fn is_known_path(store: Option<&Store>, place: &ResolvedPath) -> Result<bool, Error> {
    let is_there = place.stat().is_some();
    let Some(store) = store.filter(|_| !is_there) else { return Ok(is_there) };
    let query = Query { path: Some(place.path().as_bytes()), limit: 1, ..Query::default() };
    Ok(!store.log(&query)?.snapshots.is_empty() || store.has_at_head(place.path().as_bytes())?)
}

/// Rejects a path that does not exist and never did.
fn is_known(
    engine: &Engine,
    store: Option<&Store>,
    place: &ResolvedPath,
    written: &Path,
) -> Result<(), Error> {
    if is_known_path(store, place)? {
        return Ok(());
    }
    let written = written.display().to_string();
    let mut error = engine.workspace.not_found(place);
    if store.is_some() {
        error = error.add_to_message(", nor a snapshot of that name");
    }
    let near = store.map(|store| store.near(&written)).unwrap_or_default();
    let looks_like_id = written.len() >= 4 && written.bytes().all(|byte| byte.is_ascii_hexdigit());
    if looks_like_id { Err(no_snapshot(&written, "path", &near)) } else { Err(error) }
}

/// Meaning of a revision in place of a path.
pub enum Revisions {
    /// Changes of this snapshot.
    Snapshot(String),
    /// Changes since this commit.
    Since(String),
    /// Differences between these two commits.
    Between(String, String),
}

impl Revisions {
    /// Returns true if it names two commits.
    pub const fn is_range(&self) -> bool {
        matches!(self, Self::Between(..))
    }

    /// Returns the commit, or the first one.
    pub fn commit_or_first(self) -> String {
        match self {
            Self::Snapshot(id) | Self::Since(id) | Self::Between(id, _) => id,
        }
    }

    /// Returns the revisions that `text` names; `None` if it names none.
    ///
    /// # Errors
    /// Returns `not_found` for a range of unknown commits, or fails if the repository cannot be read.
    pub fn of(store: &Store, text: &str) -> Result<Option<Self>, Error> {
        if let Some((from, to)) = text.split_once("..")
            && !from.is_empty()
            && !from.contains('/')
        {
            if let Some(to) = to.strip_prefix('.') {
                let to = if to.is_empty() { "HEAD" } else { to };
                return Err(Error::invalid(format!("{text}: diff looks for no merge base"))
                    .suggest(format!("Put what `git merge-base {from} {to}` prints before two dots."))
                    .detail("field", "path"));
            }
            let to = if to.is_empty() { store.branch() } else { to.to_owned() };
            return Ok(Some(Self::Between(
                commit_named(store, from, "from")?,
                commit_named(store, &to, "to")?,
            )));
        }
        let Some(id) = store.resolve(text)? else {
            return Ok(None);
        };
        let is_snapshot = store.time_of_foreign(&id)?.is_none();
        Ok(Some(if is_snapshot { Self::Snapshot(id) } else { Self::Since(id) }))
    }
}

/// Returns the error for a range of commits as the path of a tool that takes one.
pub fn takes_no_range(tool: &str, from: &str, to: &str) -> Error {
    Error::invalid(format!("{from}..{to} is for diff: {tool} takes one snapshot")).detail("field", "path")
}

/// Returns the commit that a request names.
///
/// # Errors
/// Returns `not_found` with similar snapshots, or fails if the repository cannot be read.
pub fn commit_named(store: &Store, name: &str, field: &str) -> Result<String, Error> {
    if let Some(id) = store.resolve(name)? {
        return Ok(id);
    }
    Err(no_snapshot(name, field, &store.near(name)))
}

/// Returns the error for an unknown snapshot.
pub fn no_snapshot(name: &str, field: &str, near: &[String]) -> Error {
    let error = Error::new(ErrorKind::NotFound, format!("no such snapshot: {name}")).detail("field", field);
    if near.is_empty() {
        return error.suggest("There is no snapshot yet: the first change makes one.");
    }
    error
        .suggest(text!(
            "Name a snapshot by its id or a unique beginning of it, such as {}; `log` lists them.",
            near.join(", ")
        ))
        .detail("near", near)
}

/// Number of names to suggest for an unknown one: the most similar, or the newest.
const NEAR_NAMED: usize = 3;

/// Advice if a session has nothing to undo. It names no other session: their changes are others' work.
pub const LOG_SHOWS: &str = "`log` shows the changes of all sessions.";

/// Session of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenSession {
    /// Name of the session.
    pub session: String,
    /// Number of its last change before it ended and restarted; 0 if it never did.
    pub after: u64,
}

/// Returns a note if the snapshots have changes of the caller's session that are missing in lbx's state.
pub fn lost_state(engine: &Engine) -> Option<String> {
    let session = engine.session();
    let store = record::find(engine).ok()??;
    let newest = store.newest().ok()??;
    let shown = store.session_at(&newest, Some(session.as_str())).ok()??.seq;
    let state = State::find(&engine.workspace).ok()?;
    let numbers = state.as_ref().and_then(|state| ChangeNumbers::of(state, session.as_str()).ok());
    if numbers.as_ref().is_some_and(|numbers| numbers.is_number_used(shown)) {
        return None;
    }
    let recorded = numbers.and_then(|numbers| numbers.newest().ok()?);
    let counted =
        state.as_ref().and_then(|state| session::load_for_display(state, session)).map(|known| known.seq);
    (recorded.max(counted).unwrap_or(0) < shown).then(|| {
        let why = match another_state(engine, state.as_ref()) {
            Some(other) => format!(
                "are not in this state: {STATE_FOLDER}/{other} may have them. A state belongs to one HOME, or to one LBX_STATE_ID: call lbx with the same"
            ),
            None => format!("are gone: {STATE_FOLDER} was removed since, as `git clean -xdf` does"),
        };
        format!(
            "the snapshots show changes of session {session} up to number {shown}, but their records and the trash {why}"
        )
    })
}

/// Returns the name of a state that is not the caller's `own`.
fn another_state(engine: &Engine, own: Option<&State>) -> Option<String> {
    let folder = WorkspacePath::root().join(STATE_FOLDER.as_ref());
    let folder = fs::open_beneath(engine.workspace.root_fd(), &folder, fs::FOLDER).ok()?;
    let own = own.and_then(|state| state.path().name());
    let names = fs::names_in(&folder).ok()?;
    let is_state = |name: &&OsString| StateId::parse(&name.to_string_lossy()).is_some();
    let other = names.iter().filter(is_state).find(|name| Some(name.as_os_str()) != own)?;
    Some(other.to_string_lossy().into_owned())
}

/// Returns the session of this name.
///
/// # Errors
/// Returns the OS error.
pub fn session_named(engine: &Engine, session: &SessionId) -> Result<ChosenSession, Error> {
    let known = State::find(&engine.workspace)?.and_then(|state| session::load_for_display(&state, session));
    let after = known.and_then(|known| known.after()).map_or(0, |ended| ended.seq);
    Ok(ChosenSession { session: session.to_string(), after })
}

/// Returns the session of the call, which must have changed something.
///
/// # Errors
/// Returns `not_found`, with the sessions that have changed something.
pub fn current_session(engine: &Engine, store: &Store) -> Result<ChosenSession, Error> {
    let chosen = session_named(engine, engine.session())?;
    let has_changed = store.newest_change_of(&chosen.session)? > chosen.after;
    if has_changed { Ok(chosen) } else { Err(has_changed_nothing(all_sessions(store)?, &chosen.session)) }
}

/// Returns the session of the call, else the one with the latest change: for calls that only read. A change counts
/// without a snapshot too.
///
/// # Errors
/// Returns `not_found` if no session has changed anything.
pub fn current_or_newest_session(
    engine: &Engine,
    store: Option<&Store>,
    state: &State,
) -> Result<ChosenSession, Error> {
    let has_changed = |session: &SessionId| -> Result<bool, Error> {
        let chosen = session_named(engine, session)?;
        let newest = ChangeNumbers::of(state, &chosen.session)?.newest()?;
        let recorded = store.map_or(Ok(0), |store| store.newest_change_of(&chosen.session))?;
        Ok(newest.unwrap_or(0).max(recorded) > chosen.after)
    };
    let own = engine.session();
    if has_changed(own)? {
        return session_named(engine, own);
    }
    let recorded = store.map_or(Ok(Vec::new()), all_sessions)?;
    if engine.named_session().is_none() {
        let recorded = recorded.iter().filter_map(|session| session.parse::<SessionId>().ok());
        for session in recorded.chain(session::list(state)?.into_iter().map(|known| known.id)) {
            if has_changed(&session)? {
                return session_named(engine, &session);
            }
        }
    }
    Err(has_changed_nothing(recorded, own.as_str()))
}

/// Returns the sessions that changed something, latest first.
///
/// # Errors
/// Fails if the snapshots cannot be read.
pub fn all_sessions(store: &Store) -> Result<Vec<String>, Error> {
    Ok(store.sessions()?)
}

/// Rejects an unknown session: one with neither state nor snapshots. The call then counts for no session.
///
/// # Errors
/// Returns `not_found`, with the most similar names, else the newest.
pub fn session_must_be_known(engine: &mut Engine, session: &SessionId) -> Result<(), Error> {
    let state = State::find(&engine.workspace)?;
    let listed = state.as_ref().map(session::list).transpose()?.unwrap_or_default();
    let mut names: Vec<String> = listed.iter().map(|known| known.id.to_string()).collect();
    let wanted = session.as_str();
    if names.iter().any(|name| name == wanted) {
        return Ok(());
    }
    let of_snapshots =
        record::find(engine)?.map(|store| all_sessions(&store)).transpose()?.unwrap_or_default();
    if of_snapshots.iter().any(|name| name == wanted) {
        return Ok(());
    }
    names.extend(
        of_snapshots.into_iter().filter(|name| !listed.iter().any(|known| known.id.as_str() == name)),
    );
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let alike = similarity::nearest(wanted, &all, NEAR_NAMED, 0.6);
    let (near, advice) = if alike.is_empty() {
        let newest: Vec<&str> = all.iter().copied().take(NEAR_NAMED).collect();
        let advice = match newest.as_slice() {
            [] => "No session has done anything in this workspace.".to_owned(),
            newest => format!("Sessions used last: {}.", newest.join(", ")),
        };
        (newest, advice)
    } else {
        let advice = format!("Did you mean {}?", alike.join(", "));
        (alike, advice)
    };
    engine.exclude_from_counts();
    Err(Error::new(ErrorKind::NotFound, format!("no such session: {wanted}"))
        .suggest(advice)
        .on_command_line("`lbx session list` lists them.")
        .detail("near", near))
}

/// Returns the error for a session that changed nothing; `others` are all that did.
fn has_changed_nothing(mut others: Vec<String>, session: &str) -> Error {
    others.retain(|other| other != session);
    others.truncate(NAMED_SESSIONS_MAX);
    let error = Error::new(ErrorKind::NotFound, format!("session {session} has changed nothing"));
    if others.is_empty() {
        return error.suggest("No session has a snapshot here.");
    }
    let suggestion = format!("Name one of those that have: {}.", others.join(", "));
    error.suggest(suggestion).detail("sessions", others)
}
