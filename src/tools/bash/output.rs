//! The output of a command.
//!
//! Saves the whole output in a file in lbx's own folder. From the end of the output come hints: which rule of lbx made
//! the command fail.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD};

use crate::engine::Engine;
use crate::engine::sandbox::outside::Network;
use crate::engine::sandbox::plan::{Access, Limits};
use crate::engine::store::lock::unique_name;
use crate::engine::store::state::State;
use crate::engine::workspace::fs;
use crate::engine::workspace::path::lexical;
use crate::limits::OUTPUT_PATH_BYTES_MAX;

/// Folder of the files.
const FOLDER: &str = "outputs";
/// Number of files that are kept.
const KEPT: usize = 20;

/// Returns a function that creates the file for the output of a command in the state of the workspace, and its path for
/// a response.
pub fn file(engine: &Engine) -> impl FnMut() -> Result<(File, String), String> + use<> {
    let state = State::open(&engine.workspace);
    let folder = state.and_then(|state| Ok((state.folder(FOLDER)?, state.path_of(FOLDER))));
    let folder = folder.map_err(|error| error.message().to_owned());
    let base = engine.workspace.base().clone();
    move || {
        let (folder, path) = folder.as_ref().map_err(Clone::clone)?;
        remove_old(folder);
        let name = format!("{}.txt", unique_name("output"));
        let file =
            fs::create_at(folder.as_fd(), OsStr::new(&name), 0o600).map_err(|errno| errno.to_string())?;
        let shown = path.join(OsStr::new(&name)).relative_to(&base).to_string_lossy().into_owned();
        Ok((file, shown))
    }
}

/// Removes all but the newest files: their names begin with the time.
fn remove_old(folder: &OwnedFd) {
    let mut names = fs::names_in(folder).unwrap_or_default();
    names.sort();
    let old = names.len().saturating_sub(KEPT - 1);
    for name in names.into_iter().take(old) {
        // Another call may have removed it.
        let _ = fs::unlink_at(folder, &name, AtFlags::empty());
    }
}

/// Message of git for an index that it may not write, which names no file.
const GIT_INDEX: &str = "could not write index";
/// Messages for a write to a read-only file system.
const READ_ONLY: [&str; 2] = ["read-only file system", "erofs"];
/// Message for a write that kernel rules forbid, as under Landlock.
const DENIED: &str = "permission denied";
/// Message for a path that cannot be removed, since something is mounted on it.
const BUSY: [&str; 1] = ["resource busy"];
/// Messages for a path of the workspace that commands may not write.
const GUARDED: [&str; 3] = [READ_ONLY[0], READ_ONLY[1], BUSY[0]];
/// Number of protected paths that a hint names.
const NAMED_MAX: usize = 3;
/// Messages of what a layer cannot do, each with a hint.
///
/// It cannot copy a file for whose owner or group the sandbox has no number, see `user_namespaces(7)`. It cannot rename a
/// folder below it: the kernel rejects overlayfs with both `userxattr` and `redirect_dir=on`, and without `userxattr` there
/// is no layer in a user namespace.
const NOT_ON_A_LAYER: [([&str; 2], &str); 2] = [
    (
        ["value too large for d", "eoverflow"],
        "a layer cannot take files of another account or group: `direct` runs the command on the files themselves",
    ),
    (
        ["cross-device link", "exdev"],
        "on a layer no program can rename a folder that existed before the command: `mv` copies it, and `direct` runs the command on the files themselves",
    ),
];
/// Messages for a missing path.
const MISSING: [&str; 5] = ["no such file", "not found", "enoent", "cannot find", "does not exist"];
/// Messages of programs that found no network.
const NO_NETWORK: [&str; 21] = [
    "could not resolve host",
    "couldn't resolve host",
    "temporary failure in name resolution",
    "name or service not known",
    "failed to lookup address",
    "network is unreachable",
    "getaddrinfo",
    "eai_again",
    "enetunreach",
    "enotfound",
    "enotcached",
    "dial tcp: lookup",
    "module lookup disabled by goproxy=off",
    "unable to resolve host address",
    "dns error",
    "dns failure",
    "network connectivity is disabled",
    "no matching distribution found",
    "offline mode",
    "offline was specified",
    "cache mode is 'only-if-cached'",
];

/// Exit status of a command that `SIGXFSZ` ended.
const FILE_TOO_LARGE_EXIT: i32 = 128 + 25;
/// Messages for a file that grew beyond its limit (`SIGXFSZ`, `EFBIG`).
const FILE_TOO_LARGE: [&str; 3] = ["file size limit exceeded", "file too large", "efbig"];
/// Messages of programs that got no memory, without those of an engine about its own heap.
const NO_MEMORY: [&str; 8] = [
    "cannot allocate memory",
    "memoryerror",
    "enomem",
    "bad_alloc",
    "memory exhausted",
    "memory allocation of",
    "out of memory!",
    "runtime: out of memory",
];

/// Returns true if a line contains one of the messages.
fn is_about(line: &str, messages: &[&str]) -> bool {
    let line = line.to_lowercase();
    messages.iter().any(|message| line.contains(message))
}

/// Returns hints if the output of a failed command shows that it reached a limit of lbx: about files, and about memory.
pub fn limits_reached(output: &[u8], limits: &Limits, exit_code: i32) -> [Option<String>; 2] {
    let output = String::from_utf8_lossy(output);
    let says = |messages: &[&str]| output.lines().any(|line| is_about(line, messages));
    let Limits { file_bytes, memory_bytes, .. } = *limits;
    let is_large = file_bytes > 0 && (exit_code == FILE_TOO_LARGE_EXIT || says(&FILE_TOO_LARGE));
    let is_full = memory_bytes > 0 && says(&NO_MEMORY);
    [
        is_large.then(|| {
            format!("a command may write files of at most {file_bytes} bytes: the setting `bash.file_bytes` allows more")
        }),
        is_full.then(|| {
            format!("a command may fill at most {memory_bytes} bytes of memory: the setting `bash.memory_bytes` allows more")
        }),
    ]
}

/// Returns hints if the output of a failed command shows that lbx denied it something.
pub fn hints(output: &[u8], reach: &Access, workdir: &Path) -> Vec<String> {
    let output = String::from_utf8_lossy(output);
    let lines = || output.lines().rev();
    let about = |messages: &'static [&str]| lines().filter(move |line| is_about(line, messages));
    let is_git = |line: &&str| {
        is_of_git(line) && (is_about(line, &GUARDED) || is_about(line, &[DENIED]))
            || is_about(line, &[GIT_INDEX])
    };
    let git = lines().find(is_git).map(|_| {
        "`.git` is read-only for commands: the developer commits the changes with `lbx squash`".to_owned()
    });
    let from = [Path::new(&reach.root), workdir];
    let guarded = about(&GUARDED).find_map(|line| guarded(line, reach, from));
    let busy = |line| channel(line, reach).or_else(|| replaced(line, reach, from));
    let guarded = guarded.or_else(|| about(&BUSY).find_map(busy));
    if git.is_some() || guarded.is_some() {
        return git.into_iter().chain(guarded).collect();
    }
    let other = about(&READ_ONLY).find_map(|line| outside_hint(line, reach));
    let other = other
        .or_else(|| {
            let has_none = reach.network == Network::None && about(&NO_NETWORK).next().is_some();
            has_none.then(|| "commands have no network here: the setting `bash.network` allows it".to_owned())
        })
        .or_else(|| {
            let mut limits = NOT_ON_A_LAYER.iter().filter(|_| reach.layer.is_some());
            let reached =
                limits.find(|(messages, _)| about(messages).any(|line| !line.contains("hard link")));
            reached.map(|(_, hint)| (*hint).to_owned())
        })
        .or_else(|| lines().find_map(|line| hidden(line, is_about(line, &MISSING), reach)));
    other.into_iter().collect()
}

/// Returns true if a line names a path in a repository's own folder.
fn is_of_git(line: &str) -> bool {
    line.split(['/', '\'', '"', ' ', ':']).any(|part| part == ".git")
}

/// Returns a hint for a line about a path of the workspace that commands may not write; relative ones count from a
/// folder of `from`.
fn guarded(line: &str, reach: &Access, from: [&Path; 2]) -> Option<String> {
    let is_in = |path: &str, guarded: &OsString| {
        let is_below =
            |from: &&Path| lexical(&from.join(path)).starts_with(Path::new(&reach.root).join(guarded));
        // A command may have gone to another folder.
        let down = Path::new(path.trim_start_matches("../"));
        from.iter().any(is_below)
            || down.is_relative() && (down.starts_with(guarded) || down.ends_with(guarded))
    };
    let is_in_any = |path: &str, list: &[OsString]| list.iter().any(|guarded| is_in(path, guarded));
    words(line).filter(|path| !is_of_git(path)).find_map(|path| {
        if is_in_any(path, &reach.states) {
            return Some(format!("{path} is read-only for commands: lbx keeps its own state there"));
        }
        let is_protected = is_in_any(path, &reach.protected);
        is_protected.then(|| format!("{path} is protected by the setting `protect`"))
    })
}

/// Returns a hint for a line about a file that a command could not put in the place of another, as of
/// `sed: cannot rename ./sedXyZ1: Device or resource busy`, which does not name the other.
fn replaced(line: &str, reach: &Access, from: [&Path; 2]) -> Option<String> {
    let folder_of = |path: &Path| lexical(path).parent().map(Path::to_owned);
    let is_near = |path: &&Path| {
        let folder = folder_of(&Path::new(&reach.root).join(path));
        let mut named = words(line).filter(|word| word.contains('/'));
        path.file_name() != Some(OsStr::new(".git"))
            && named.any(|word| from.iter().any(|from| folder_of(&from.join(word)) == folder))
    };
    let near = reach.protected.iter().map(Path::new).filter(is_near).take(NAMED_MAX);
    let near = near.map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or ");
    let is_replaced = line.contains("rename") && !near.is_empty();
    is_replaced.then(|| format!("the setting `protect` lets no command replace or remove {near}"))
}

/// Returns a hint for a line about a write elsewhere that was denied.
fn outside_hint(line: &str, reach: &Access) -> Option<String> {
    let root = Path::new(&reach.root);
    let is_outside = |path: &&str| path.contains('/') && !lexical(&root.join(path)).starts_with(root);
    words(line)
        .filter(is_outside)
        .last()
        .map(|path| format!("{path} is read-only for commands: the setting `bash.writable` opens a folder"))
}

/// Returns a hint for a line about a socket or FIFO that commands cannot use.
fn channel(line: &str, reach: &Access) -> Option<String> {
    let root = Path::new(&reach.root);
    let channels = reach.channels().unwrap_or_default();
    let is_one = |path: &&str| {
        let path = lexical(&root.join(path));
        channels.iter().any(|channel| path == Path::new(channel))
    };
    words(line).find(is_one).map(|path| {
        format!("{path} may lead to another program, so commands do not reach it: the setting `bash.readable` opens it")
    })
}

/// Returns a hint for a line about a path that exists, but is hidden from commands.
fn hidden(line: &str, is_missing: bool, reach: &Access) -> Option<String> {
    let masked = |path: &Path| reach.hidden.iter().any(|hidden| path.starts_with(&hidden.path));
    let is_outside = |path: &Path| !path.starts_with(&reach.root) && !path.starts_with("/tmp");
    let is_hidden = |path: &&Path| (is_missing && is_outside(path) && exists(path)) || masked(path);
    paths(line).find(is_hidden).map(|path| {
        format!("commands do not see {}: the setting `bash.readable` shows a path", path.display())
    })
}

/// Returns the words of a line without quotes and punctuation around them, and without the name of the shell.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let line = line.split_once(": line ").map_or(line, |(_, rest)| rest);
    let is_around = |letter: char| {
        matches!(letter, '\'' | '"' | '`' | ':' | ',' | ';' | '(' | ')' | '[' | ']' | '‘' | '’')
    };
    line.split_whitespace().map(move |word| word.trim_matches(is_around)).filter(|word| !word.is_empty())
}

/// Returns the absolute paths in a line.
fn paths(line: &str) -> impl Iterator<Item = &Path> {
    words(line).filter(|word| word.starts_with('/') && word.len() <= OUTPUT_PATH_BYTES_MAX).map(Path::new)
}

/// Returns true if something exists at a path outside the sandbox.
fn exists(path: &Path) -> bool {
    rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}
