//! Checks of `doctor`. No check stops the others.

use std::path::Path;

use rustix::fs::{Access, AtFlags};

use super::{Finding, forks, hooks};
use crate::engine::Engine;
use crate::engine::change::record::{self, DAMAGED_FOLDER};
use crate::engine::journal::{self, OPEN_FOLDER, STUCK_FOLDER, gc};
use crate::engine::policy::settings::Key;
use crate::engine::sandbox::{hidden, outside};
use crate::engine::snapshot::{Damage, Store};
use crate::engine::store::id::{self, IdOrigin};
use crate::engine::store::state::{STATE_FOLDER, State, names_in};
use crate::engine::store::{audit, session, trash};
use crate::engine::workspace::fs;
use crate::error::Error;
use crate::text::escaped;
use crate::text::escaped::{first_names, plural};
use crate::tools::init::{self, StartedServer};
use crate::tools::targets::lost_state;

/// Free space below which changes may soon fail, in bytes.
const FREE_BYTES_MIN: u64 = 256 << 20;
/// Number of newest changes of the session whose records are read.
const CHANGES_LOOKED_AT: usize = 100;
/// System file with the maximum number of user namespaces.
const NAMESPACES_MAX: &str = "/proc/sys/user/max_user_namespaces";
/// Bytes per mebibyte.
const MIB: u64 = 1 << 20;

/// Runs all checks.
pub fn all(engine: &mut Engine, fix: bool) -> Vec<Finding> {
    let mut found = vec![versions(), workspace(engine)];
    found.extend(policy(engine));
    let state = State::find(&engine.workspace);
    match &state {
        Ok(_) => found.extend(of("state", identity(engine))),
        // This error affects the other check as well, and is reported once.
        Err(error) => found.push(Finding::of("state", error)),
    }
    if let Ok(Some(state)) = &state {
        found.extend(unfinished(engine, state, fix));
        found.extend(of("journal", stuck_changes(state)));
        found.extend(of("lock", lock(state)));
        found.extend(of("journal", damaged_changes(engine, state)));
        found.extend(of("trash", damaged_trash(state)));
        found.extend(of("session", session(engine, state, fix)));
        found.extend(of("audit", audit_log(state)));
        found.extend(of("size", size(engine, state)));
    }
    if let Some(lost) = lost_state(engine) {
        let remedy = "`lbx log` shows the snapshots. `.lbx` survives `git clean -xdf -e .lbx`.";
        found.push(Finding::notice("state", lost, remedy));
    }
    found.extend(of("snapshots", snapshots(engine, fix)));
    found.extend(locks_left(engine, fix));
    found.extend(repository(engine));
    found.extend(disk(engine));
    found.push(backends());
    found.extend(named_paths(engine));
    found.extend(clients(engine));
    found.extend(hooks::check(engine));
    found.extend(forks::check(engine, state.ok().flatten().as_ref(), fix));
    found
}

/// Starts the server of each client that is set up in the workspace, as the client would.
fn clients(engine: &Engine) -> Vec<Finding> {
    let root = engine.workspace.root();
    let finding = |entry: init::ServerEntry| {
        let server = format!("{}: `{}` of {}", entry.client, entry.command(), entry.file);
        let server = escaped::line(&server);
        let remedy = format!("`lbx init --client {}` writes the entry again.", entry.client);
        match entry.start(root) {
            None => Finding::notice(
                "clients",
                format!("{server} was not tried: init does not write such a server"),
                remedy,
            ),
            Some(Ok(StartedServer { tools, other: None })) => {
                Finding::ok("clients", format!("{server} starts and lists {}", plural(tools, "tool")))
            }
            Some(Ok(StartedServer { other: Some((why, _)), .. })) => {
                let remedy = "Put lbx on PATH, or the client cannot start its server.";
                Finding::notice("clients", format!("{server}: {why}"), remedy)
            }
            Some(Err(why)) => {
                let why = escaped::line(why.trim_end());
                Finding::problem("clients", format!("{server} does not start: {why}"), remedy)
            }
        }
    };
    init::entries(&engine.workspace).into_iter().map(finding).collect()
}

/// Returns the finding of a check, or the error that ended it.
fn of(check: &'static str, found: Result<impl Into<Option<Finding>>, Error>) -> Option<Finding> {
    found.map_or_else(|error| Some(Finding::of(check, &error)), Into::into)
}

/// Returns the versions of lbx and of the system.
fn versions() -> Finding {
    let system = rustix::system::uname();
    let (name, release) = (system.sysname().to_string_lossy(), system.release().to_string_lossy());
    let machine = system.machine().to_string_lossy();
    Finding::ok("version", format!("lbx {} on {name} {release} ({machine})", crate::VERSION))
}

/// Returns the path of the root, and a problem if it is not writable.
fn workspace(engine: &Engine) -> Finding {
    let root = engine.workspace.root().display().to_string();
    let is_there = |name: &str| fs::stat_at(engine.workspace.root_fd(), name.as_ref()).is_ok();
    let why = if is_there(".git") {
        "it holds .git"
    } else if is_there(STATE_FOLDER) {
        "it holds .lbx"
    } else {
        "the current folder, since no folder above it holds .git or .lbx"
    };
    match fs::may_add_to(engine.workspace.root_fd()) {
        Ok(()) => Finding::ok("workspace", format!("{root} ({why})")),
        Err(errno) => Finding::problem(
            "workspace",
            format!("{root} cannot be written: {errno}"),
            "Give this account the right to write there, or name another folder with --workspace.",
        ),
    }
}

/// Returns findings about the policy's files and variables.
fn policy(engine: &Engine) -> Vec<Finding> {
    if let Some(fault) = engine.policy_fault() {
        return vec![Finding::of("policy", fault)];
    }
    let policy = engine.policy();
    let files: Vec<&str> = policy
        .user_file()
        .into_iter()
        .chain([policy.workspace_file()])
        .filter(|file| file.exists)
        .map(|file| file.path.as_str())
        .chain(policy.outer_files())
        .collect();
    let files = if files.is_empty() { "no policy file; using defaults".to_owned() } else { files.join(", ") };
    let mut found = vec![Finding::ok("policy", files)];
    let unknown = policy.unknown_variables();
    if !unknown.is_empty() {
        let message =
            format!("{} {} nothing", unknown.join(", "), if unknown.len() == 1 { "sets" } else { "set" });
        found.push(Finding::notice(
            "policy",
            message,
            "Run lbx config --explain to see the variables there are.",
        ));
    }
    found
}

/// Returns the folder of the state and the source of its ID.
fn identity(engine: &Engine) -> Result<Option<Finding>, Error> {
    let Some((origin, id)) = State::source(&engine.workspace)? else { return Ok(None) };
    let folder = id.map_or_else(|| "none yet".to_owned(), |id| format!("{STATE_FOLDER}/{id}"));
    Ok(Some(match origin {
        IdOrigin::Environment => Finding::ok("state", format!("{folder} (id from LBX_STATE_ID)")),
        IdOrigin::User(file) => Finding::ok("state", format!("{folder} (id from {})", file.display())),
        IdOrigin::Derived if is_state_inside(engine.workspace.root()) => Finding::notice(
            "state",
            format!(
                "{folder} (id derived from machine and user: the workspace contains the folder for secrets)"
            ),
            "Another account of this machine could work the id out. Set XDG_STATE_HOME to a folder outside the workspace, or LBX_STATE_ID to 32 random hexadecimal digits.",
        ),
        IdOrigin::Derived => Finding::notice(
            "state",
            format!("{folder} (id derived from machine and user: the home folder cannot be written)"),
            "Another account of this machine could work the id out. Make the home folder writable, or set LBX_STATE_ID to 32 random hexadecimal digits.",
        ),
    }))
}

/// Returns true if the user's state folder would lie in the workspace, as it does in a home folder: then no secret is
/// kept there, since the tools could read it.
#[expect(clippy::disallowed_methods, reason = "only compares names: the user's own folder")]
fn is_state_inside(root: &Path) -> bool {
    let above = id::user_folder();
    let found =
        above.iter().flat_map(|folder| folder.ancestors()).find_map(|folder| folder.canonicalize().ok());
    found.is_some_and(|folder| folder.starts_with(root))
}

/// Returns changes that a killed call left unfinished.
fn unfinished(engine: &mut Engine, state: &State, fix: bool) -> Option<Finding> {
    if !journal::has_open_entries(state) {
        return None;
    }
    let message = format!("a call in {STATE_FOLDER}/…/{OPEN_FOLDER} is running or was killed");
    if fix {
        return Some(match engine.lock() {
            Ok(_) => Finding { fixed: true, ..Finding::notice("journal", message, "It is settled now.") },
            Err(error) => Finding::of("journal", &error),
        });
    }
    Some(Finding::notice("journal", message, "The next call settles it; lbx doctor --fix does it now."))
}

/// Returns changes that could be neither completed nor undone.
fn stuck_changes(state: &State) -> Result<Option<Finding>, Error> {
    let folder = state.find_folder(STUCK_FOLDER)?;
    let names = folder.map(|folder| names_in(&folder)).transpose()?.unwrap_or_default();
    if names.is_empty() {
        return Ok(None);
    }
    Ok(Some(Finding::notice(
        "journal",
        format!(
            "{} of earlier calls could not be settled: {}",
            plural(names.len(), "change"),
            first_names(&names)
        ),
        format!(
            "Compare the bytes in {} with your files, keep what you need, then remove them there.",
            state.display(STUCK_FOLDER)
        ),
    )))
}

/// Returns a finding if another call holds the workspace lock.
fn lock(state: &State) -> Result<Option<Finding>, Error> {
    if state.try_lock_workspace()?.is_some() {
        return Ok(None);
    }
    let holders: String = state.lock_holders().iter().map(|holder| format!(" ({holder})")).collect();
    Ok(Some(Finding::notice(
        "lock",
        format!("another call is changing the workspace{holders}"),
        "Wait for it. Where it hangs, end that process: the lock ends with it, and the next call settles what it left.",
    )))
}

/// Returns the state of the caller's session.
fn session(engine: &mut Engine, state: &State, fix: bool) -> Result<Finding, Error> {
    let id = engine.session().clone();
    let (known, warning) = session::load_unchanged(state, &id)?;
    let Some(warning) = warning else {
        return Ok(Finding::ok("session", format!("{id}: {} read", plural(known.marks_total(), "file"))));
    };
    let message = format!("{id}: {warning}");
    let again = "Read the files again that you mean to change.";
    if !fix {
        let later = "The next change sets the damaged file aside; lbx doctor --fix does it now.";
        return Ok(Finding::notice("session", message, format!("{again} {later}")));
    }
    session::update(state, &id, |_| {})?;
    Ok(Finding { fixed: true, ..Finding::notice("session", message, again) })
}

/// Checks that the audit log is intact.
fn audit_log(state: &State) -> Result<Finding, Error> {
    let mut records = 0_usize;
    let mut count = |_: &audit::AuditRecord| {
        records += 1;
        false
    };
    let (_, broken) = audit::read(state, &mut count)?;
    Ok(match broken {
        None => Finding::ok("audit", format!("{}, the chain is whole", plural(records, "record"))),
        Some(broken) => Finding::problem(
            "audit",
            format!("{}:{}: {}", broken.file, broken.line, broken.message),
            "Somebody altered the log, or a disk lost a part of it: compare it with the snapshots (lbx log).",
        ),
    })
}

/// Returns the size of the state.
fn size(engine: &Engine, state: &State) -> Result<Finding, Error> {
    let kept = gc::collect(state, 0, true)?.kept;
    let message =
        format!("{} MiB in {} for undo and restore", kept.bytes.div_ceil(MIB), plural(kept.files, "file"));
    let most = engine.policy().number(Key::KeepBytes);
    if most > 0 && kept.bytes > most {
        return Ok(Finding::notice("size", message, "lbx gc frees what the policy does not keep."));
    }
    Ok(Finding::ok("size", message))
}

/// Returns the target of the snapshots, and a problem if the newest ones are damaged.
fn snapshots(engine: &mut Engine, fix: bool) -> Result<Finding, Error> {
    if !engine.policy().has_snapshots() {
        return Ok(Finding::notice(
            "snapshots",
            "the policy has switched them off: no commit shows a change, and what bash changes cannot be undone unless it is a transaction",
            "Remove snapshot.enabled = false from the policy; lbx config shows the file.",
        ));
    }
    let by_hand = "Give this account the right to read what this names, or repair that with git. Changes can still be undone.";
    match record::damage(engine).map_err(|error| error.suggest(by_hand))? {
        None => where_snapshots_go(engine),
        Some((_, damage)) if fix => repaired(engine, &damage),
        Some((store, damage)) => Ok(damaged(engine, &store, &damage)),
    }
}

/// Returns the description of a damaged snapshot.
fn words_of(damage: &Damage, branch: &str) -> String {
    let which = if damage.is_older { "an older" } else { "the newest" };
    format!("{which} snapshot of {branch} is damaged: {}", damage.message)
}

/// Repairs damaged snapshots as far as can be proven correct.
fn repaired(engine: &mut Engine, damage: &Damage) -> Result<Finding, Error> {
    let branch = engine.policy().branch().to_owned();
    let done = record::repair(engine)?;
    let kept = State::find(&engine.workspace).ok().flatten().map(|state| state.display(DAMAGED_FOLDER));
    let mut said = Vec::new();
    if done.moved_out > 0 {
        said.push(format!("{} moved out of the repository", plural(done.moved_out, "unreadable object")));
    }
    if done.rewritten > 0 {
        said.push(format!("{} written again from your files", plural(done.rewritten, "object")));
    }
    if let Some(whole) = &done.moved_to {
        said.push(format!(
            "the branch is at {whole}, the newest whole snapshot. `lbx snapshot` records what your files have since"
        ));
    }
    if done.moved_out > 0 || done.moved_to.is_some() {
        said.extend(kept.map(|kept| format!("what was replaced is kept in {kept}")));
    }
    let said = said.iter().map(|text| capital(text) + ".").collect::<Vec<_>>().join(" ");
    Ok(match &done.left {
        None => Finding { fixed: true, ..Finding::problem("snapshots", words_of(damage, &branch), said) },
        Some(left) if left.is_older => {
            let newer = "The snapshots after it are whole, and changes can be undone; `lbx log` ends there.";
            Finding::notice("snapshots", words_of(left, &branch), format!("{said} {newer}").trim())
        }
        Some(left) => {
            let none = "No whole snapshot is known, so the branch was left as it is: move its file aside, and the next change starts it again. Changes can still be undone.";
            Finding::problem("snapshots", words_of(left, &branch), format!("{said} {none}").trim())
        }
    })
}

/// Returns `text` with a capital first letter.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Returns git's lock files that a killed call left: git would wait for them in vain.
fn locks_left(engine: &Engine, fix: bool) -> Option<Finding> {
    let store = record::find(engine).ok()??;
    let left = store.locks_left_behind(fix);
    if left.is_empty() {
        return None;
    }
    let message = format!("a killed call of lbx left {}: git refuses to work there", left.join(", "));
    Some(if fix {
        Finding { fixed: true, ..Finding::notice("lock", message, "They are removed now.") }
    } else {
        Finding::notice("lock", message, "lbx doctor --fix removes what nobody holds any more.")
    })
}

/// Returns damage in the developer's repository that git must repair.
fn repository(engine: &Engine) -> Option<Finding> {
    if !engine.policy().has_snapshots() {
        return None;
    }
    // What prevents this look is named by the check of the snapshots.
    let found = record::damage_of_git(engine).unwrap_or_default();
    (!found.is_empty()).then(|| {
        Finding::problem(
            "repository",
            found.join("; "),
            "Ask the user to repair it with git: `git fsck` names what is damaged, the files in .git/logs name earlier values of references, and without .git/index `git reset` makes a new one.",
        )
    })
}

/// Reports a newest snapshot that cannot be read. A power failure can leave one if its objects were not yet on disk.
fn damaged(engine: &Engine, store: &Store, damage: &Damage) -> Finding {
    let message = words_of(damage, &store.branch());
    let fix = "Changes can still be undone. `lbx doctor --fix` repairs what can be proven";
    if damage.is_older {
        let remedy = format!("{fix}. The snapshots after it are whole.");
        return Finding::notice("snapshots", message, remedy);
    }
    if store.is_private() {
        let folder = store.folder();
        let folder = folder.strip_prefix(engine.workspace.root()).unwrap_or(&folder).display();
        let remedy = format!("{fix}; else move {folder} aside: the next change begins a new one.");
        return Finding::problem("snapshots", message, remedy);
    }
    let reference = store.reference();
    let aside = format!("move {} aside", damage.reference);
    let by_hand = match (&damage.last_whole, damage.is_reference) {
        (Some(id), false) => format!("`git update-ref {reference} {id}` goes back to the last whole one"),
        (Some(id), true) => {
            format!("{aside}, then `git update-ref {reference} {id}` goes back to the last whole one")
        }
        (None, _) => format!("{aside}: the next change starts the branch again"),
    };
    Finding::problem("snapshots", message, format!("{fix}. By hand, in the workspace: {by_hand}."))
}

/// Returns the target of the snapshots.
fn where_snapshots_go(engine: &Engine) -> Result<Finding, Error> {
    Ok(match record::find(engine)? {
        Some(store) if store.warning().is_some() => Finding::notice(
            "snapshots",
            store.warning().unwrap_or_default(),
            "Snapshots are still made; repair or allow what this names to have them in this repository.",
        ),
        Some(store) if store.is_private() => Finding::ok(
            "snapshots",
            format!(
                "{} in a repository of lbx's own, since the workspace has none that can be written",
                store.branch()
            ),
        ),
        Some(store) => match store.closed_folders() {
            closed if closed.is_empty() => {
                Finding::ok("snapshots", format!("{} in the workspace's repository", store.branch()))
            }
            closed => Finding::problem(
                "snapshots",
                format!("this account may not write in {}, so snapshots fail", first_names(&closed)),
                format!(
                    "Where only this account uses the repository, `sudo chown -R {} {}` gives it back after a call with sudo. Accounts share one by core.sharedRepository (git-config(1)).",
                    fs::user_id(),
                    escaped::line(&store.folder().display().to_string())
                ),
            ),
        },
        None => Finding::ok("snapshots", "none yet"),
    })
}

/// Returns changes of the caller's session whose record cannot be read: an undo skips them.
fn damaged_changes(engine: &Engine, state: &State) -> Result<Option<Finding>, Error> {
    let session = engine.session().as_str();
    let damaged = journal::damaged_history(state, session, CHANGES_LOOKED_AT)?;
    if damaged.is_empty() {
        return Ok(None);
    }
    let numbers: Vec<String> = damaged.iter().map(|seq| format!("#{seq}")).collect();
    Ok(Some(Finding::notice(
        "journal",
        format!(
            "the records of {} of session {session} are damaged: {}",
            plural(damaged.len(), "change"),
            first_names(&numbers)
        ),
        "Undo stops at them. `lbx log` finds their snapshots, and `lbx diff` shows what they changed.",
    )))
}

/// Returns trash entries whose descriptions are damaged: no tool uses them.
fn damaged_trash(state: &State) -> Result<Option<Finding>, Error> {
    let ids = trash::list(Some(state))?.damaged;
    let (count, folder) = (plural(ids.len(), "trash entry"), state.display(trash::FOLDER));
    let message = format!("{count} with a damaged description: {}", first_names(&ids));
    let remedy = format!(
        "Nothing restores or removes them. Copy what you need from {folder}, where each has its bytes as `{}`.",
        trash::CONTENT
    );
    Ok((!ids.is_empty()).then(|| Finding::notice("trash", message, remedy)))
}

/// Returns a finding if there is little free space for changes.
fn disk(engine: &Engine) -> Option<Finding> {
    let stat = rustix::fs::fstatvfs(engine.workspace.root_fd()).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let message = format!("{} MiB free", free / MIB);
    let is_short_of_files = stat.f_files > 0 && stat.f_favail == 0;
    if is_short_of_files {
        let remedy = "Remove files: the file system has no room for the names of more.";
        return Some(Finding::problem("disk", format!("{message}, but no file can be added"), remedy));
    }
    if free < FREE_BYTES_MIN {
        let remedy = "Ask the user for more space: a change writes the new bytes next to the old ones. lbx gc --dry-run tells what old backups take.";
        return Some(Finding::notice("disk", message, remedy));
    }
    Some(Finding::ok("disk", message))
}

/// Returns the tools that may confine commands. Runs none of them: only `bash` runs programs.
fn backends() -> Finding {
    let has_bubblewrap = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| {
            let program = folder.join("bwrap");
            folder.is_absolute()
                && rustix::fs::accessat(rustix::fs::CWD, &program, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
        })
    });
    let namespaces = fs::read_at(rustix::fs::CWD, NAMESPACES_MAX.as_ref(), MIB).ok().flatten();
    let has_namespaces = namespaces.is_some_and(|count| !count.starts_with(b"0"));
    let found = match (has_bubblewrap, has_namespaces) {
        (true, true) => "bubblewrap is installed, and the system has user namespaces",
        (true, false) => "bubblewrap is installed",
        (false, true) => "the system has user namespaces",
        (false, false) => {
            return Finding::notice(
                "bash",
                "neither bubblewrap nor user namespaces are there to confine a command",
                "Install bubblewrap, or let users make namespaces (sysctl user.max_user_namespaces).",
            );
        }
    };
    Finding::ok("bash", format!("{found}; lbx bash --backends tries what can confine a command"))
}

/// Returns the missing ones of the outside paths that the policy names for commands.
fn named_paths(engine: &Engine) -> Option<Finding> {
    let home = hidden::home();
    let missing = |name: &str, key: Key, needs_folder: bool| {
        let exists =
            move |path: &Path| rustix::fs::stat(path).is_ok_and(|stat| !needs_folder || fs::is_folder(&stat));
        let named = engine.policy().list(key).iter();
        let named = named.filter(|path| {
            !outside::canonical_of_policy(home.as_deref(), path).is_some_and(|path| exists(&path))
        });
        named.map(|path| format!("{name} names {path:?}")).collect::<Vec<_>>()
    };
    let all = [
        missing("bash.writable", Key::BashWritable, true),
        missing("bash.readable", Key::BashReadable, false),
    ]
    .concat();
    (!all.is_empty()).then(|| {
        Finding::notice(
            "bash",
            format!("{}, which commands do not get", all.join(", ")),
            "Name a path that exists, from / or ~ on: a folder for bash.writable, and not the whole disk.",
        )
    })
}
