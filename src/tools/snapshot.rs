//! `snapshot` and `squash`: commits of the workspace, one by one or combined.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{reject_if, time_now};
use super::targets;
use super::{Effect, Stdin, Text, Tool};
use crate::engine::Engine;
use crate::engine::change::{record, so_far};
use crate::engine::journal::GitLocksMark;
use crate::engine::snapshot::squash::{Author, MergeOverlap, Squash as Order, SquashCommit, SquashResult};
use crate::engine::snapshot::{EXTERNAL, PathChange, SessionPart, SnapshotError, Store};
use crate::engine::workspace::fs;
use crate::engine::workspace::path::WorkspacePath;
use crate::error::{Error, ErrorKind};
use crate::text::escaped;
use crate::text::escaped::plural;

/// Commit all changes in the work tree to the snapshot branch
///
/// Checks every file that git does not ignore. HEAD, the index and the work tree stay as they are. Makes no snapshot if
/// nothing has changed since the newest. The changes it finds were not made through lbx and belong to no session:
/// `external`.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct Request {
    /// Message of the snapshot; its first line becomes the subject
    #[arg(value_name = "MESSAGE")]
    #[schemars(extend("x-aliases" = ["why", "description", "summary"]))]
    pub message: Option<String>,
}

/// Result of `snapshot`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Response {
    /// Commit; absent if nothing had changed
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Size of the change.
    #[serde(flatten)]
    pub size: SnapshotStat,
    /// Paths left out, with reasons
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<SkippedPathRow>,
}

/// Path that could not be included.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SkippedPathRow {
    /// Path from the root
    pub path: String,
    /// Reason
    pub reason: String,
}

/// `snapshot` tool.
pub struct Snapshot;

impl Tool for Snapshot {
    const NAME: &'static str = "snapshot";
    const EFFECT: Effect = Effect::Adds;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    type Request = Request;
    type Response = Response;

    fn run(engine: &mut Engine, request: Request) -> Result<Response, Error> {
        let message = request.message.unwrap_or_default();
        let (first, rest) = message.trim().split_once('\n').unwrap_or((message.trim(), ""));
        // Changes found by a scan were not made through lbx, whoever records them.
        let subject = (!first.is_empty()).then(|| format!("{EXTERNAL}: {first}"));
        let why = Some(rest.trim()).filter(|rest| !rest.is_empty());
        let locked = engine.lock()?;
        let recorded = so_far::scan(engine, &locked.state, subject, why)?;
        drop(locked);
        recorded.warnings.into_iter().for_each(|warning| engine.warn(warning));
        let size = recorded.id.as_deref().map(|id| stat_of(engine, id)).transpose()?.unwrap_or_default();
        if let Some(id) = &recorded.id {
            engine.set_snapshot(id.clone());
        }
        let left_out = |left: crate::engine::snapshot::SkippedPath| SkippedPathRow {
            path: left.path,
            reason: left.reason.to_string(),
        };
        Ok(Response {
            id: recorded.id,
            size,
            left_out: recorded.left_out.into_iter().map(left_out).collect(),
        })
    }

    fn text(response: &Response, text: &mut Text) {
        let line = match &response.id {
            Some(id) => format!(
                "snapshot {id}: {}, +{} -{}",
                plural(response.size.files, "file"),
                response.size.insertions,
                plural(response.size.deletions, "line")
            ),
            None => "snapshot: nothing has changed".to_owned(),
        };
        text.entry(&line);
        for left in &response.left_out {
            text.note(format!("left out: {} ({})", left.path, left.reason));
        }
    }
}

/// Size of a snapshot; the lines are those of the files that were compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SnapshotStat {
    /// Changed files
    pub files: usize,
    /// Lines added
    pub insertions: usize,
    /// Lines removed
    pub deletions: usize,
}

impl SnapshotStat {
    /// Returns the size of `snapshot`.
    pub fn of(snapshot: &crate::engine::snapshot::Snapshot) -> Self {
        let files = &snapshot.files;
        Self {
            files: files.len(),
            insertions: files.iter().filter_map(|file| file.insertions).sum(),
            deletions: files.iter().filter_map(|file| file.deletions).sum(),
        }
    }
}

/// Returns the size of the snapshot `id`.
fn stat_of(engine: &Engine, id: &str) -> Result<SnapshotStat, Error> {
    let store = record::find(engine)?;
    let found = store.map(|store| store.one(id)).transpose();
    let found = found?.flatten();
    Ok(found.as_ref().map(SnapshotStat::of).unwrap_or_default())
}

/// Largest number of conflicts that an error names.
const CONFLICTS_NAMED: usize = 20;
/// Prefix of default branches.
const BRANCHES: &str = "lbx/";

/// Commit the changes of a session, as one commit by the developer on a branch of their own
///
/// Takes the net change of the session, without changes by others meanwhile or uncommitted changes before it. The
/// author is the one that git would use. A new branch begins at HEAD. Changes that the branch has already are not
/// committed again. HEAD, index and work tree stay as they are: `git reset BRANCH` then sets your own branch to that
/// branch's state, and keeps the files. Runs no hooks.
#[derive(Debug, clap::Args, Deserialize, JsonSchema)]
pub struct SquashRequest {
    /// Commit message; its first line is the subject
    #[arg(long, short = 'm', value_name = "TEXT")]
    pub message: String,
    /// Branch to commit on [default: lbx/SESSION]
    #[arg(long, value_name = "BRANCH")]
    #[schemars(extend("x-aliases" = ["branch"]))]
    pub onto: Option<String>,
    /// Commit on the branch that is checked out, and update the index for the files committed
    #[arg(long)]
    pub checked_out: bool,
    /// Only these files and folders
    #[arg(value_name = "PATH")]
    #[serde(default)]
    #[schemars(extend("x-aliases" = ["path"]))]
    pub paths: Vec<PathBuf>,
    /// Add a Co-authored-by line
    #[arg(long, value_name = "NAME <EMAIL>")]
    #[schemars(extend("x-aliases" = ["co_authored_by"]))]
    pub co_author: Option<String>,
    /// Make one commit per file
    #[arg(long)]
    pub per_file: bool,
    /// Keep each change as a commit, and join them to the branch by a merge commit with the message
    #[arg(long, conflicts_with = "per_file")]
    pub keep_history: bool,
    /// Show what would be committed without committing anything
    #[arg(long)]
    pub dry_run: bool,
}

/// Result of `squash`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SquashResponse {
    /// Session
    pub session: String,
    /// Branch
    pub branch: String,
    /// True if the branch is new
    pub created: bool,
    /// True if the branch is checked out, and the index was updated
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub checked_out: bool,
    /// Commit of the branch before, or at its start
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Commits, oldest first; none in a dry run
    pub commits: Vec<String>,
    /// Files they change
    pub files: usize,
    /// Author of the commits
    pub author: String,
}

/// `squash` tool.
pub struct Squash;

impl Tool for Squash {
    const NAME: &'static str = "squash";
    const EFFECT: Effect = Effect::Adds;
    const STDIN: Stdin = Stdin::Request;
    const SERVED: bool = false;
    const FOR_PEOPLE: bool = true;
    type Request = SquashRequest;
    type Response = SquashResponse;

    fn run(engine: &mut Engine, request: SquashRequest) -> Result<SquashResponse, Error> {
        must_be_one_form(&request)?;
        // The lock keeps out snapshots of other calls.
        let locked = engine.lock()?;
        let store = developers_repository(engine)?;
        let _mark = (!request.dry_run).then(|| GitLocksMark::leave(&locked.state)).transpose()?;
        let path_of = |path: &PathBuf| {
            let place = engine.workspace.resolve(path)?;
            let is_known = targets::is_known_path(Some(&store), &place)?;
            if is_known { Ok(place.path().clone()) } else { Err(engine.workspace.not_found(&place)) }
        };
        let paths = request.paths.iter().map(path_of).collect::<Result<Vec<_>, Error>>()?;
        let chosen = targets::current_session(engine, &store)?;
        let author = author_of(&store)?;
        // Only the environment names an author alone.
        let committer = store.developer("committer").unwrap_or_else(|| author.clone());
        let branch = branch_of(&store, &request, &chosen.session)?;
        must_be_unlocked(&store, &request)?;
        let order = {
            let part = record::changes_after(engine, &chosen.session, chosen.after);
            commits_to_make(&store, &request, &part, &paths, (&branch, &author, &committer))?
        };
        let squashed = store
            .squash(&order)
            .map_err(|error| if error.is_full() { error.into() } else { refused(&error.to_string()) })
            .map_err(|error| if request.checked_out { error.suggest(FIT_INDEX) } else { error })?;
        if !squashed.conflicts.is_empty() {
            return Err(conflict(&branch, &squashed.conflicts));
        }
        let name = |path: &Vec<u8>| escaped::name(&String::from_utf8_lossy(path)).into_owned();
        let names: Vec<String> = squashed.ignored.iter().map(name).collect();
        let ignored = (!names.is_empty()).then(|| escaped::first_names(&names));
        let ignored = ignored
            .map(|names| format!("git ignores these files by now, so they are not committed: {names}"));
        if squashed.files == 0 {
            let onto = if squashed.is_new { "HEAD" } else { &branch };
            return Err(nothing_to_squash(&chosen.session, onto, &paths, ignored));
        }
        engine.warn_if(ignored);
        engine.set_dry_run(request.dry_run);
        let SquashResult { commits, base, is_new, files, may_be_lost, index_is_old, .. } = squashed;
        engine.warn_if(may_be_lost.map(|why| format!("a power failure may take the commit: {why}")));
        engine.warn_if(
            index_is_old.map(|why| {
                format!("the commit was made, but {why}: `git reset` brings the index up to date")
            }),
        );
        if store.wants_signatures() {
            let since = base.as_deref().unwrap_or("--root");
            engine.warn(format!("commit.gpgsign is set, but lbx signs nothing: with {branch} checked out, `git rebase --autostash --rebase-merges --exec 'git commit --amend --no-edit -S' {since}` signs its new commits"));
        }
        let author = format!("{} <{}>", author.name, author.email);
        let checked_out = request.checked_out;
        Ok(SquashResponse {
            session: chosen.session,
            branch,
            created: is_new,
            checked_out,
            base,
            commits,
            files,
            author,
        })
    }

    fn text(response: &SquashResponse, text: &mut Text) {
        let SquashResponse { session, branch, files, commits, .. } = response;
        let (files, made) = (plural(*files, "file"), plural(commits.len().max(1), "commit"));
        text.change(&format!("squash: {files} of session {session} in {made} on {branch}"));
        for commit in commits {
            text.entry(commit);
        }
        if !text.is_of_a_dry_run() && !response.checked_out {
            text.note(format!("look at it with `git show {branch}`; `git reset {branch}` makes it the state of your branch and keeps the files"));
        }
    }
}

/// Rejects a request with two forms at once, an empty message, or an invalid co-author.
fn must_be_one_form(request: &SquashRequest) -> Result<(), Error> {
    let both = "per_file and keep_history exclude each other: give one of them";
    reject_if(request.per_file && request.keep_history, "keep_history", both)?;
    reject_if(request.message.trim().is_empty(), "message", "message is empty")?;
    let is_author = |text: &String| {
        let (name, email) = text.split_once(" <").unwrap_or_default();
        let is_plain = |part: &str| !part.is_empty() && !part.contains(['<', '>', '\n', '\r']);
        is_plain(name) && email.strip_suffix('>').is_some_and(is_plain)
    };
    match &request.co_author {
        Some(text) if !is_author(text) => Err(Error::invalid(format!(
            "field `co_author`: expected NAME <EMAIL>, such as Claude <noreply@anthropic.com>, got {text:?}"
        ))
        .detail("field", "co_author")),
        _ => Ok(()),
    }
}

/// Returns the developer's repository; fails if git is in the middle of an operation.
fn developers_repository(engine: &Engine) -> Result<Store, Error> {
    let found = record::find(engine)?;
    let refusal = found.as_ref().and_then(Store::warning).map(str::to_owned);
    let store = found.filter(|store| !store.is_private());
    let store = store.ok_or_else(|| no_repository(engine, refusal))?;
    if let Some(what) = store.in_progress()? {
        return Err(refused(&format!("git is in the middle of {what}"))
            .suggest("Finish or abort it with git first; nothing was committed."));
    }
    Ok(store)
}

/// Returns the error for a workspace whose snapshots are not in a repository of the developer's.
fn no_repository(engine: &Engine, refusal: Option<String>) -> Error {
    let has_one = fs::stat_at(engine.workspace.root_fd(), ".git".as_ref()).is_ok();
    // Changes so far are in the private repository, and a new one would begin without them.
    let patch = "`lbx diff -t --binary --max-bytes 0` shows the changes as a patch.";
    match refusal {
        Some(why) => refused(&why).suggest(format!("Repair what this names, or take a patch: {patch}")),
        None if has_one => Error::new(
            ErrorKind::PermissionDenied,
            "no commit was made: .git cannot be written, so snapshots go elsewhere",
        )
        .suggest(format!(
            "Give this account the right to write in .git/objects and .git/refs, or take a patch: {patch}"
        )),
        None => Error::new(ErrorKind::NotFound, "there is no git repository here that lbx could commit to")
            .suggest(format!("Take a patch: {patch} A repository made now has only the changes after it.")),
    }
}

/// Rejects a commit that would wait for another git in vain.
fn must_be_unlocked(store: &Store, request: &SquashRequest) -> Result<(), Error> {
    let Some(lock) = store.index_lock().filter(|_| request.checked_out) else { return Ok(()) };
    let message = format!("no commit was made: git's index is locked by `{}`", lock.display());
    Err(Error::new(ErrorKind::LockTimeout, message)
        .suggest("Wait until the other git ends, or remove that file if none runs; then repeat the call."))
}

/// Returns the branch to commit on.
fn branch_of(store: &Store, request: &SquashRequest, session: &str) -> Result<String, Error> {
    let head = store.checked_out()?;
    let onto = request.onto.clone();
    match (request.checked_out, head, onto) {
        (false, head, onto) => {
            let branch = onto.unwrap_or_else(|| format!("{BRANCHES}{session}"));
            if head.as_ref() == Some(&branch) || branch == "HEAD" {
                let why = format!("the branch `{}` is checked out", head.unwrap_or(branch));
                return Err(refused(&why).suggest("Name another branch with onto, or set checked_out to commit on this one: the index then follows for the files committed, and the work tree stays as it is."));
            }
            Ok(branch)
        }
        (true, None, _) => Err(refused("HEAD is detached: no branch is checked out")
            .suggest("Name a branch with onto, without checked_out; or check one out with git switch.")),
        (true, Some(head), Some(onto)) if onto != head && onto != "HEAD" => Err(Error::invalid(format!(
            "field `checked_out`: `{head}` is checked out, not `{onto}`"
        ))
        .suggest("Leave out onto to commit on the branch that is checked out, or checked_out to commit on the one named.")
        .detail("field", "checked_out")),
        (true, Some(head), _) => Ok(head),
    }
}

/// Returns the error for a branch that has all changes at these paths already, except those that `ignored` names.
fn nothing_to_squash(session: &str, branch: &str, paths: &[WorkspacePath], ignored: Option<String>) -> Error {
    if let Some(ignored) = ignored {
        return Error::new(ErrorKind::NotFound, ignored)
            .suggest("`git add --force` makes git track a file that it ignores.");
    }
    let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
    let within =
        if paths.is_empty() { String::new() } else { format!(" in {}", escaped::first_names(&paths)) };
    let why = format!("{branch} already has everything that session {session} changed{within}");
    Error::new(ErrorKind::NotFound, why).suggest("`diff` shows what the session changed.")
}

/// Returns the developer as the author.
fn author_of(store: &Store) -> Result<Author, Error> {
    store.developer("author").ok_or_else(|| {
        refused("git has no name and address for you")
            .suggest("Set it with git config user.name NAME and git config user.email ADDRESS, or by GIT_AUTHOR_NAME and GIT_AUTHOR_EMAIL.")
    })
}

/// Suggestion if the commit failed that the index would have followed.
const FIT_INDEX: &str = "Leave out `checked_out` to commit on another branch. For this one, commit or stash what is staged, end a merge, join a split index by `git update-index --no-split-index`, and fill a sparse one by `git sparse-checkout reapply --no-sparse-index`.";

/// Returns an error for a state of git that prevents the commit.
fn refused(why: &str) -> Error {
    Error::invalid(format!("no commit was made: {why}"))
}

/// Returns the commits to make.
fn commits_to_make<'a>(
    store: &Store,
    request: &SquashRequest,
    part: &SessionPart<'_>,
    paths: &[WorkspacePath],
    (branch, author, committer): (&'a str, &'a Author, &'a Author),
) -> Result<Order<'a>, Error> {
    let message = message_of(request);
    let refused = |error: SnapshotError| refused(&error.to_string());
    let is_wanted = |change: &PathChange| {
        paths.is_empty() || paths.iter().any(|path| super::targets::is_in(&change.path, path))
    };
    let mut order = Order {
        branch,
        checked_out: request.checked_out,
        author,
        committer,
        seconds: time_now(),
        steps: Vec::new(),
        merge: request.keep_history.then(|| message.clone()),
        dry_run: request.dry_run,
    };
    if request.keep_history {
        let missing = store.missing_on(branch, part).map_err(refused)?;
        let steps = missing.steps.into_iter();
        order.steps = steps
            .map(|step| {
                let why = step.snapshot.why.map(|why| format!("\n\n{why}")).unwrap_or_default();
                let changes = step.paths.into_iter().filter(is_wanted).collect();
                SquashCommit { message: format!("{}{why}\n", step.snapshot.subject), changes }
            })
            .collect();
        return Ok(order);
    }
    let mut changes = store.net_missing_on(branch, part).map_err(refused)?;
    changes.retain(is_wanted);
    if !request.per_file {
        order.steps = vec![SquashCommit { message, changes }];
        return Ok(order);
    }
    let deltas = store.deltas(&changes)?;
    for delta in deltas {
        let sides = [&delta.before, &delta.after].into_iter().flatten().map(|(path, _)| path.clone());
        let sides: Vec<Vec<u8>> = sides.collect();
        let (own, rest) = changes.into_iter().partition(|change| sides.contains(&change.path));
        changes = rest;
        let message = format!("{}: {message}", escaped::name(&String::from_utf8_lossy(delta.path())));
        order.steps.push(SquashCommit { message, changes: own });
    }
    Ok(order)
}

/// Returns the whole message of the commit.
fn message_of(request: &SquashRequest) -> String {
    let message = request.message.trim();
    match &request.co_author {
        None => format!("{message}\n"),
        Some(author) => {
            // A line below other trailers belongs to them.
            let last = message.rsplit("\n\n").next().filter(|last| *last != message);
            let is_trailer = |line: &str| line.split_once(": ").is_some_and(|(key, _)| !key.contains(' '));
            let gap = if last.is_some_and(|last| last.lines().all(is_trailer)) { "\n" } else { "\n\n" };
            format!("{message}{gap}Co-authored-by: {author}\n")
        }
    }
}

/// Returns the error for changes that conflict with the branch.
fn conflict(branch: &str, conflicts: &[MergeOverlap]) -> Error {
    let name = |overlap: &MergeOverlap| escaped::name(&String::from_utf8_lossy(&overlap.path)).into_owned();
    let first = conflicts.first().map(|first| format!("{}: {}", name(first), first.why)).unwrap_or_default();
    let more = conflicts.len().saturating_sub(1);
    let more = if more > 0 { format!(", and {} more", plural(more, "file")) } else { String::new() };
    let listed: Vec<serde_json::Value> = conflicts
        .iter()
        .take(CONFLICTS_NAMED)
        .map(|overlap| {
            serde_json::json!({
                "path": String::from_utf8_lossy(&overlap.path),
                "reason": overlap.why,
                "conflicts": overlap.conflicts,
            })
        })
        .collect();
    Error::new(ErrorKind::PatchConflict, format!("does not fit on {branch}: {first}{more}"))
        .suggest("Name another branch with onto, or the files that fit with paths; what was uncommitted before the session can be committed first.")
        .detail("conflicts", listed)
}
