//! `fork`: copies of the workspace for several agents.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::reject_if;
use super::diff::{Diff, DiffWindow, FileStat, Response as Diffed};
use super::fork_changes::ForkChanges;
use super::targets::{commit_named, no_snapshot};
use super::{Effect, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::kept_for_forks::{ForkStart, is_small, keep_changes_of_others};
use crate::engine::change::{record, so_far};
use crate::engine::policy::settings::Permission;
use crate::engine::sandbox::fork::{self, ForkFolder, ForkRecord, Forks};
use crate::engine::sandbox::hidden;
use crate::engine::snapshot::EXTERNAL;
use crate::engine::store::audit;
use crate::engine::store::state::State;
use crate::engine::store::{container, sandboxes};
use crate::engine::workspace::{fs, programs};
use crate::envelope;
use crate::error::{Error, ErrorKind};
use crate::limits::FORK_FILES_COUNTED_MAX;
use crate::platform::process::program_path;
use crate::text::answer_size::AnswerRoom;
use crate::text::escaped;
use crate::text::escaped::plural;

/// Fork the workspace for another agent, as it is on disk
///
/// A fork is a sandbox: every tool takes its name as --sandbox, and it has a session, snapshots and undo of its own. It
/// begins with all files, also ignored and uncommitted ones, and takes no space until something changes. It does not see
/// what lbx changes in the workspace later. merge brings its changes into the workspace; drop deletes it with them.
#[derive(Debug, Default, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// create, list, log, diff, drop or exec; or the name of a fork to create
    #[arg(value_name = "ACTION|NAME")]
    pub action: Option<String>,
    /// Name of the fork; My App! becomes my-app
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Begin with this snapshot instead of the files on disk
    #[arg(long, value_name = "SNAPSHOT")]
    pub from: Option<String>,
    /// Copy all files to this new folder, outside the workspace, instead of a layer: for programs that lbx does not start
    #[arg(long, value_name = "DIR")]
    pub at: Option<String>,
    /// Reason, for the list
    #[arg(long)]
    pub why: Option<String>,
    /// With diff, show only line counts for each file
    #[arg(long)]
    pub stat: bool,
    /// Lines of the diff to skip, or files with stat
    #[arg(long, value_name = "COUNT", default_value_t)]
    #[serde(default)]
    pub offset: usize,
    /// Maximum bytes of the diff; 0 for no limit
    #[arg(long, value_name = "BYTES")]
    pub max_bytes: Option<usize>,
    /// Program to run in the fork, with its arguments; only on the command line
    #[arg(last = true, value_name = "COMMAND")]
    #[serde(skip)]
    pub command: Vec<OsString>,
}

/// The forks, or the one that was created or dropped.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// Forks, by name
    pub forks: Vec<ForkRow>,
    /// Newest changes in the fork, as the response of `log`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<Value>,
    /// Difference from what the fork began with, or from its last merge, as the response of `diff`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<Diffed>,
}

/// A fork.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ForkRow {
    /// Name
    pub name: String,
    /// Time of its creation, as RFC 3339
    pub created: String,
    /// Session that created it
    pub session: String,
    /// Reason
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Snapshot that it began with
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Folder of a copy
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Files in it that differ from those it began with, at most 10000
    pub files: usize,
    /// Bytes of these files
    pub bytes: u64,
    /// Id of a process that runs in it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
}

/// Name of the tool that lists changes.
const LOG: &str = "log";
/// Variable that names the session of a call.
const SESSION_VARIABLE: &str = "LBX_SESSION";

/// Action on forks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// Shows all forks.
    List,
    /// Creates one.
    Create,
    /// Deletes one.
    Drop,
    /// Shows the newest changes of one.
    Log,
    /// Shows what one changed.
    Diff,
    /// Runs a program in one.
    Exec,
}

/// `fork` tool.
pub struct Fork;

impl Tool for Fork {
    const NAME: &'static str = "fork";
    const LISTED: &'static str = "action name from why";
    // A fork is dropped with its changes.
    const EFFECT: Effect = Effect::Writes;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let (action, name) = request.requested_action()?;
        let (mut newest, mut diff) = (None, None);
        let shown = match (action, name) {
            (Action::List, _) => list(engine)?,
            (Action::Log, name) => {
                newest = Some(log(engine, &name)?);
                vec![in_use(&opened(engine, &name)?)]
            }
            (Action::Diff, name) => {
                diff = Some(difference(engine, &name, &request)?);
                vec![fork_row(&opened(engine, &name)?)]
            }
            (Action::Create, name) => vec![create(engine, &request, name)?],
            (Action::Drop, name) => vec![discard(engine, &name)?],
            (Action::Exec, name) => return Err(exec(engine, &name, &request.command)),
        };
        Ok(Response { forks: shown, log: newest, diff })
    }

    fn is_lookup(request: &Request) -> bool {
        matches!(request.requested_action(), Ok((Action::List | Action::Log | Action::Diff, _)))
    }

    fn text(response: &Response, text: &mut Text) {
        if let Some(diff) = &response.diff {
            return Diff::text(diff, text);
        }
        for fork in &response.forks {
            let changed = plural(fork.files, "file");
            let why = fork.why.as_deref().and_then(|why| why.lines().next()).unwrap_or_default();
            let line = format!("{}\t{}\t{changed}\t{}", fork.name, fork.created, escaped::line(why));
            text.entry(line.trim_end());
        }
        response.log.iter().flat_map(change_lines).for_each(|line| text.entry(&line));
    }
}

impl Request {
    /// Returns the action and the canonical name.
    fn requested_action(&self) -> Result<(Action, String), Error> {
        let missing = || Error::invalid("field `name` is missing: name the fork").detail("field", "name");
        let name = || sandboxes::slug(self.name.as_deref().ok_or_else(missing)?);
        match self.action.as_deref() {
            None if self.name.is_none() => Ok((Action::List, String::new())),
            Some("list") => Ok((Action::List, String::new())),
            None | Some("create") => Ok((Action::Create, name()?)),
            Some("drop") => Ok((Action::Drop, name()?)),
            Some("log") => Ok((Action::Log, name()?)),
            Some("diff") => Ok((Action::Diff, name()?)),
            Some("exec") => Ok((Action::Exec, name()?)),
            Some(word) if self.name.is_none() => Ok((Action::Create, sandboxes::slug(word)?)),
            Some(word) => Err(Error::invalid(format!(
                "field `action`: expected create, list, log, diff, drop or exec, got {word:?}"
            ))
            .detail("field", "action")),
        }
    }
}

/// Returns all forks; one that a dead call created is named then.
fn list(engine: &mut Engine) -> Result<Vec<ForkRow>, Error> {
    let Some(state) = State::find(&engine.workspace)? else { return Ok(Vec::new()) };
    let forks = ForkFolder::list(&engine.workspace, &state)?;
    let known = sandboxes::list()?;
    for fork in &forks {
        let name = &fork.record.name;
        let sandbox = fork.sandbox(&engine.workspace)?;
        let known = known.get(name);
        if known.is_some_and(|known| known.is_of_lost_fork() && fork.record.is_named_by(known)) {
            sandboxes::remove(name)?;
            fork.set_name(&engine.workspace)?;
            engine.warn(format!("the fork {name} has moved with its workspace: its name leads here now"));
        } else if known.is_some_and(|known| *known != sandbox) {
            engine.warn(format!(
                "the name of the fork {name} is another sandbox's: drop the fork, or remove that name"
            ));
        } else if known.is_none() {
            fork.set_name(&engine.workspace)?;
            engine.warn(format!(
                "the fork {name} had no name as a sandbox, since its call died: it has one now"
            ));
        }
    }
    for fork in &forks {
        if let Err(error) = fork.refresh(&engine.workspace) {
            engine.warn(format!("the fork {}: {}", fork.record.name, error.message()));
        }
    }
    Ok(forks.iter().map(in_use).collect())
}

/// Returns what a fork changed and no merge has brought yet.
fn difference(engine: &mut Engine, name: &str, request: &Request) -> Result<Diffed, Error> {
    let state = State::open(&engine.workspace)?;
    let fork = opened(engine, name)?;
    let lock = Forks::lock(&engine.workspace, &state)?;
    let changes = ForkChanges::read(engine, (&state, &lock), &fork)?;
    drop(lock);
    warn_of(engine, &changes, name);
    let mut response = Diffed { files: changes.deltas.len(), ..Diffed::default() };
    let write = |index: usize, out: &mut Vec<u8>| match changes.deltas.get(index) {
        Some(delta) => changes.write(delta, out),
        None => Ok(FileStat::default()),
    };
    let room = AnswerRoom::new(engine.bytes_max(request.max_bytes));
    let window = DiffWindow::new(request.offset, room);
    response.fill_with((changes.deltas.len(), &write), request.stat, window)?;
    Ok(response)
}

/// Warns of what a diff of a fork does not show, or not surely.
pub(super) fn warn_of(engine: &mut Engine, changes: &ForkChanges<'_>, name: &str) {
    let unknown = changes.unknown_bases();
    if !unknown.is_empty() {
        engine.warn(format!(
            "another program changed the workspace since the fork {name} began: it is compared with the present version of {}",
            unknown.join(", ")
        ));
    }
    let ignored = changes.ignored_files();
    if ignored > 0 {
        engine.warn(format!(
            "left out of what the fork {name} changed, since git ignores it: {}",
            plural(ignored, "file")
        ));
    }
}

/// Creates a fork.
pub(super) fn create(engine: &mut Engine, request: &Request, name: String) -> Result<ForkRow, Error> {
    let both = "`from` and `at` exclude each other: a copy begins with the files on disk";
    reject_if(request.from.is_some() && request.at.is_some(), "from", both)?;
    let target = request.from.as_deref().map(|from| snapshot_named(engine, from)).transpose()?;
    let state = State::open(&engine.workspace)?;
    let forks = Forks::lock(&engine.workspace, &state)?;
    // No change is half done while the fork begins.
    let _locked = engine.lock()?;
    // What other programs change later can be told from what they find.
    let is_scanned = is_small(engine)
        && !record::is_being_changed(engine)
        && record::scan(engine, None, None, EXTERNAL).is_ok();
    let record = ForkRecord {
        name,
        is_scanned,
        session: engine.session().to_string(),
        why: request.why.clone(),
        from: target.as_ref().map(|target| target.snapshot.clone()),
        tip: record::find(engine)?.and_then(|store| store.newest().ok()?),
        at: request.at.as_deref().map(|at| folder_for_copy(engine, at)).transpose()?,
        ..ForkRecord::default()
    };
    let reference = engine.policy().branch_reference();
    let fork = forks.create(&engine.workspace, (record, &[reference]))?;
    let set = target.map_or(Ok(()), |target| target.set(engine, &fork));
    if let Err(error) = set.and_then(|()| must_be_entered(engine, &fork)) {
        forks.drop(&fork.record.name)?;
        return Err(error);
    }
    engine.note_changed([], Some(&fork.record.lower));
    Ok(fork_row(&fork))
}

/// Fails if no process can enter a fork: the kernel may refuse its mount, as for a root of another group.
fn must_be_entered(engine: &Engine, fork: &ForkFolder) -> Result<(), Error> {
    let Some(container) = fork.sandbox(&engine.workspace)?.container else { return Ok(()) };
    let tried = container::command(&container, &[container.binary.as_str(), "--version"])
        .and_then(|mut command| programs::output(command.stdin(Stdio::null())));
    let reason = match tried {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => container::words_of(&output),
        Err(source) => source.to_string(),
    };
    Err(Error::invalid(format!("no fork is possible here: {reason}; give a folder for a copy, with `at`")))
}

/// Returns the absolute path of the folder for a copy.
fn folder_for_copy(engine: &Engine, at: &str) -> Result<String, Error> {
    let wrong = |reason: &str| Error::invalid(format!("field `at`: {reason}")).detail("field", "at");
    let path = engine.workspace.root().join(engine.workspace.base().as_path()).join(at);
    let (parent, name) = path.parent().zip(path.file_name()).ok_or_else(|| wrong("name a new folder"))?;
    #[expect(clippy::disallowed_methods, reason = "a path that the user chose, outside the workspace")]
    let parent = std::fs::canonicalize(parent)
        .map_err(|source| Error::io("open", parent.display().to_string(), source))?;
    if parent.starts_with(engine.workspace.root()) {
        return Err(wrong("a copy must be outside the workspace"));
    }
    let path = parent.join(name);
    must_start_nothing(engine, &path)?;
    path.into_os_string().into_string().map_err(|_| wrong("the path must be UTF-8"))
}

/// Fails for a copy where other programs may look for settings or programs, unless the user's own file allows it: the
/// files of the workspace would take effect there. A folder next to the workspace and named after it is no such place.
fn must_start_nothing(engine: &Engine, path: &Path) -> Result<(), Error> {
    let (policy, root) = (engine.policy(), engine.workspace.root());
    policy.must_be_no_own_place(path)?;
    let name = |path: &Path| path.file_name().unwrap_or_default().as_bytes().to_owned();
    let (own, around) = (name(path), path.parent().unwrap_or(path));
    let stat = |path: &Path| rustix::fs::stat(path).ok();
    let is_home = hidden::home().and_then(|home| stat(&home).zip(stat(around)));
    let is_home = is_home.is_some_and(|(home, around)| fs::is_same_file(&home, &around));
    let is_looked_into = is_home || around.components().any(|part| is_hidden(part.as_os_str().as_bytes()));
    let is_named_after = own.strip_prefix(name(root).as_slice()).is_some_and(is_hidden);
    let is_next = path.parent() == root.parent() && !is_hidden(&own);
    if is_next && (is_named_after || !is_looked_into && !is_on_path(path)) {
        return Ok(());
    }
    let message = format!(
        "{} is hidden, on PATH, in a home folder or not next to the workspace: other programs would use a copy there",
        path.display()
    );
    policy.must_permit(Permission::Workspace, ErrorKind::OutsideWorkspace, message)
}

/// Returns true for the name of a hidden file, or for an end that begins with a dot.
fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(b".")
}

/// Returns true if a path is, holds or lies in a folder of programs.
fn is_on_path(path: &Path) -> bool {
    let programs = std::env::var_os("PATH").unwrap_or_default();
    let mut programs = std::env::split_paths(&programs).filter(|folder| folder.is_absolute());
    programs.any(|folder| folder.starts_with(path) || path.starts_with(folder))
}

/// Deletes a fork.
fn discard(engine: &mut Engine, name: &str) -> Result<ForkRow, Error> {
    let state = State::open(&engine.workspace)?;
    // One that has lost a folder can be dropped too.
    let size = opened(engine, name).map(|fork| fork.size(FORK_FILES_COUNTED_MAX));
    let dropped = Forks::lock(&engine.workspace, &state)?.drop(name)?;
    engine.note_changed([], Some(&dropped.lower));
    Ok(shown_as(&dropped, size.unwrap_or_default()))
}

/// Becomes a program in a fork; returns only if that fails.
fn exec(engine: &mut Engine, name: &str, command: &[OsString]) -> Error {
    if command.is_empty() {
        return Error::invalid("no program is named: lbx fork exec NAME -- COMMAND")
            .suggest("On the command line, write the program and its arguments after `--`.")
            .detail("field", "command");
    }
    let place = opened(engine, name).and_then(|fork| {
        let place = fork.place(&engine.workspace)?;
        fork::prepare(&place);
        // Without it, the program sees what others changed.
        let _ = keep_changes_of_others(engine, name);
        Ok((place.for_program(), fork.record.at))
    });
    let (place, at) = match place {
        Ok(opened) => opened,
        Err(error) => return error,
    };
    // Into a layer lbx leads, in a copy it is enough to be there.
    let own = place.words().map(OsString::from);
    let words: Vec<&OsString> = own.iter().filter(|_| at.is_none()).chain(command).collect();
    let Some((first, rest)) = words.split_first() else { return Error::internal("no program is left") };
    let mut program = Command::new(first);
    program.args(rest);
    if let Some(at) = at {
        program.current_dir(at);
    }
    if std::env::var_os(SESSION_VARIABLE).is_none() {
        program.env(SESSION_VARIABLE, name);
    }
    Error::io("start", "the program in the fork", programs::exec(&mut program))
}

/// Opens a fork of the workspace.
fn opened(engine: &Engine, name: &str) -> Result<ForkFolder, Error> {
    let state = State::find(&engine.workspace)?.ok_or_else(|| fork::not_found(name))?;
    ForkFolder::open(&engine.workspace, &state, name)
}

/// Returns the changes in a response of `log`, a line each.
pub(super) fn change_lines(log: &Value) -> Vec<String> {
    let line = |change: &Value| {
        let part = |name: &str| change.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        escaped::line(&format!("{} {} {}", part("id"), part("time"), part("subject"))).into_owned()
    };
    log.get("snapshots").and_then(Value::as_array).into_iter().flatten().map(line).collect()
}

/// Returns the newest changes in a fork, as `log` there does.
pub(super) fn log(engine: &Engine, name: &str) -> Result<Value, Error> {
    let fork = opened(engine, name)?;
    let sandbox = fork.sandbox(&engine.workspace)?;
    let words = [program_path(), "--workspace", &sandbox.root, LOG];
    let io = |source: std::io::Error| Error::io("look into", "the fork", source);
    let mut command = if let Some(container) = &sandbox.container {
        container::command(container, &words).map_err(io)?
    } else {
        let mut command = Command::new(program_path());
        command.args(words.get(1..).unwrap_or_default());
        command
    };
    let output = programs::output(command.stdin(Stdio::null())).map_err(io)?;
    let mut answer: Value = serde_json::from_slice(&output.stdout).map_err(|_| {
        Error::new(
            ErrorKind::IoError,
            format!("no response from the fork {name}: {}", container::words_of(&output)),
        )
    })?;
    match answer.get("error") {
        Some(error) => Err(envelope::refused(error)),
        None => Ok(answer.get_mut("data").map(Value::take).unwrap_or_default()),
    }
}

/// Returns a fork for the response, with the process that runs in it.
fn in_use(fork: &ForkFolder) -> ForkRow {
    ForkRow { process: fork.process(), ..fork_row(fork) }
}

/// Returns a fork for the response.
fn fork_row(fork: &ForkFolder) -> ForkRow {
    shown_as(&fork.record, fork.size(FORK_FILES_COUNTED_MAX))
}

/// Returns a fork with a number of files and bytes for the response.
fn shown_as(record: &ForkRecord, (files, bytes): (usize, u64)) -> ForkRow {
    ForkRow {
        name: record.name.clone(),
        created: time_of(record),
        session: record.session.clone(),
        why: record.why.clone(),
        from: record.from.clone(),
        at: record.at.clone(),
        files,
        bytes,
        process: None,
    }
}

/// Returns the time of a fork's creation, as RFC 3339.
pub(super) fn time_of(record: &ForkRecord) -> String {
    let created = i64::try_from(record.created).ok().and_then(|it| jiff::Timestamp::from_second(it).ok());
    audit::time_text(created.unwrap_or_default())
}

/// Finds the snapshot that a fork is to begin with, and what differs from the files on disk.
fn snapshot_named(engine: &mut Engine, name: &str) -> Result<ForkStart, Error> {
    let locked = engine.lock()?;
    so_far::scan(engine, &locked.state, None, None)?;
    drop(locked);
    let store = record::find(engine)?.ok_or_else(|| no_snapshot(name, "from", &[]))?;
    let snapshot = commit_named(&store, name, "from")?;
    ForkStart::at(store, snapshot)
}
