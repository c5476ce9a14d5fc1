//! A hostile workspace changes nothing outside, runs nothing, leaks nothing and blocks nothing, and calls on other
//! files work.
//!
//! A real `.lbx` and a real `.git` are damaged in one place at a time: each file and folder becomes a link, a FIFO, a
//! folder, a sparse terabyte, garbage, or a well-formed text with other content. Then every tool is called. A run takes
//! a sample, by a seed that it prints. `LBX_HOSTILE_ALL=1` tries all, `LBX_SEED=N` another sample.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::random::Random;
use crate::common::{Answer, EXIT_STATUS, Workspace, make_fifo};

/// Content of a file outside, which no answer may show.
const SECRET: &str = "TOP-SECRET-7261";
/// Number of damages that a run tries, of some thousand.
const SAMPLE: usize = 60;
/// Size of a sparse file, in bytes: larger than any memory.
const SPARSE_BYTES: u64 = 1 << 40;
/// Address space of a call, in bytes: a call that allocates the size that a file claims fails.
const MEMORY_MAX: u64 = 3 << 30;

/// Damage of one file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    /// The file is missing.
    Gone,
    /// A link to a file outside.
    LinkToFile,
    /// A link to a folder outside.
    LinkToFolder,
    /// A link to `/dev/zero`, which never ends.
    LinkToDevice,
    /// A link to nothing.
    Dangling,
    /// A FIFO without a writer.
    Fifo,
    /// An empty folder.
    Folder,
    /// An empty file.
    Empty,
    /// A sparse file of a terabyte.
    Sparse,
    /// Bytes in no known format.
    Garbage,
    /// The old content, with every number as large as possible.
    HugeNumbers,
    /// The old content, with every path replaced by one of a git hook.
    PathsToHooks,
    /// The old content, with every path replaced by one outside.
    PathsOut,
    /// The old content, as a later version would write it.
    NewerVersion,
    /// A file that sends git to other files.
    Directions,
}

/// All damages.
const DAMAGES: [Damage; 15] = [
    Damage::Gone,
    Damage::LinkToFile,
    Damage::LinkToFolder,
    Damage::LinkToDevice,
    Damage::Dangling,
    Damage::Fifo,
    Damage::Folder,
    Damage::Empty,
    Damage::Sparse,
    Damage::Garbage,
    Damage::HugeNumbers,
    Damage::PathsToHooks,
    Damage::PathsOut,
    Damage::NewerVersion,
    Damage::Directions,
];

/// One damage of one path.
#[derive(Debug, Clone)]
struct Case {
    /// Path from the workspace root.
    path: PathBuf,
    /// Damage at the path.
    damage: Damage,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.damage, self.path.display())
    }
}

/// A call of every tool; none of them may reach outside, whatever it answers.
const CALLS: &[&[&str]] = &[
    &["read", "a.txt"],
    &["session"],
    &["session", "brief"],
    &["log"],
    &["log", "a.txt"],
    &["diff"],
    &["diff", "--from", "HEAD"],
    &["audit", "--verify"],
    &["trash"],
    &["grep", "one"],
    &["glob", "**/*"],
    &["ls", "-R"],
    &["config"],
    &["edit", "a.txt", "--old-string", "one", "--new-string", "two"],
    &["write", "d/new.txt", "--content", "new\n"],
    &["append", "a.txt", "--content", "three\n"],
    &["patch", "--patch", "--- /dev/null\n+++ b/p.txt\n@@ -0,0 +1 @@\n+p\n"],
    &["move", "d/c.txt", "e/c.txt"],
    &["delete", "b.txt"],
    &["restore", "b.txt"],
    &["undo"],
    &["redo"],
    &["undo", "--steps", "3"],
    &["restore", "gone.txt"],
    &["snapshot"],
    &["gc"],
    &["trash", "purge"],
    &["session", "list"],
    &["session", "end"],
];

/// Creates a workspace with some history of git and of lbx, and files outside that must stay.
fn furnished() -> Workspace {
    let ws = Workspace::with(&[
        ("a.txt", "one\n"),
        ("b.txt", "b\n"),
        ("d/c.txt", "c\n"),
        ("gone.txt", "gone\n"),
        (".gitignore", "*.log\n"),
        (".gitattributes", "*.txt text\n"),
    ]);
    ws.git(&["tag", "first"]);
    ws.git(&["pack-refs", "--all"]);
    ws.git(&["gc", "-q"]);
    ws.git(&["commit", "-q", "--allow-empty", "-m", "second"]);
    for folder in ["precious/scan", "precious/objects/pack", "precious/refs/heads"] {
        fs::create_dir_all(ws.outside.join(folder)).unwrap();
        fs::write(ws.outside.join(folder).join("kept"), "kept\n").unwrap();
    }
    for name in ["index", "HEAD", "lock", "default.lbx"] {
        fs::write(ws.outside.join("precious").join(name), format!("{SECRET}\n")).unwrap();
    }
    fs::write(ws.outside.join("secret"), format!("{SECRET}\n[{SECRET}]\n{SECRET} = {SECRET}\n")).unwrap();
    let trap = ws.outside.join("trap.sh");
    fs::write(&trap, format!("#!/bin/sh\ntouch '{}'\ncat\n", ws.outside.join("sprung").display())).unwrap();
    fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).unwrap();
    ws.lbx(&["read", "a.txt"]).ok();
    ws.lbx(&["write", "x.txt", "--content", "x\n"]).ok();
    ws.lbx(&["append", "a.txt", "--content", "more\n"]).ok();
    ws.lbx(&["delete", "gone.txt"]).ok();
    ws.lbx(&["move", "x.txt", "y.txt"]).ok();
    ws.lbx(&["append", "y.txt", "--content", "y\n"]).ok();
    ws.lbx(&["undo"]).ok();
    ws.lbx(&["snapshot"]).success();
    ws
}

/// Returns every file and folder below a folder, itself included, with only a few objects.
fn everything_below(root: &Path, folder: &str) -> Vec<PathBuf> {
    let (mut found, mut waiting) = (Vec::new(), vec![PathBuf::from(folder)]);
    while let Some(path) = waiting.pop() {
        let Ok(stat) = fs::symlink_metadata(root.join(&path)) else { continue };
        if stat.is_dir() {
            let mut names: Vec<_> =
                fs::read_dir(root.join(&path)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            // Fan-out folders are alike, and so are objects.
            let is_many = |name: &&std::ffi::OsString| name.len() == 2 || name.len() >= 38;
            let (many, few): (Vec<_>, Vec<_>) = names.iter().partition(is_many);
            waiting.extend(few.into_iter().chain(many.into_iter().take(2)).map(|name| path.join(name)));
        }
        found.push(path);
    }
    found.sort();
    found
}

/// Returns every damage of every path.
fn cases(ws: &Workspace) -> Vec<Case> {
    let mut paths = everything_below(&ws.root, ".git");
    paths.extend(everything_below(&ws.root, ".lbx"));
    let other = [
        ".gitignore",
        ".gitattributes",
        ".ignore",
        "d/.gitignore",
        "d/.gitattributes",
        "d/.git",
        "d/.lbx",
        ".lbx/config.toml",
        ".lbx/scan",
        ".lbx/repo.git",
        ".lbx/sessions",
        ".lbx/journal",
        ".git/commondir",
        ".git/objects/info/alternates",
        ".git/info/attributes",
        ".git/config.worktree",
        ".git/shallow",
        ".git/refs/heads/lbx-snapshots",
        ".git/logs/refs/heads/lbx-snapshots",
        ".git/refs/heads/lbx-snapshots.lock",
        ".git/packed-refs.lock",
    ];
    paths.extend(other.map(PathBuf::from));
    paths.sort();
    paths.dedup();
    let both = |path: PathBuf| DAMAGES.map(|damage| Case { path: path.clone(), damage });
    paths.into_iter().flat_map(both).collect()
}

/// Applies the damage.
fn inflict(ws: &Workspace, case: &Case) {
    let path = ws.root.join(&case.path);
    let was = fs::read(&path).unwrap_or_default();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(&path).unwrap();
    } else if path.symlink_metadata().is_ok() {
        fs::remove_file(&path).unwrap();
    }
    let write = |bytes: &[u8]| fs::write(&path, bytes).unwrap();
    match case.damage {
        Damage::Gone => {}
        Damage::LinkToFile => symlink(ws.outside.join("secret"), &path).unwrap(),
        Damage::LinkToFolder => symlink(ws.outside.join("precious"), &path).unwrap(),
        Damage::LinkToDevice => symlink("/dev/zero", &path).unwrap(),
        Damage::Dangling => symlink(ws.outside.join("made-by-a-link"), &path).unwrap(),
        Damage::Fifo => make_fifo(&path),
        Damage::Folder => fs::create_dir(&path).unwrap(),
        Damage::Empty => write(b""),
        Damage::Sparse => fs::File::create(&path).unwrap().set_len(SPARSE_BYTES).unwrap(),
        Damage::Garbage => write(b"\0\xff{[\"\n\x1b]0;owned\x07 ref: \n"),
        Damage::HugeNumbers => write(&with_numbers(&was)),
        Damage::PathsToHooks => write(&with_paths(&was, ".git/hooks/pre-commit")),
        Damage::PathsOut => write(&with_paths(&was, "../precious/kept")),
        Damage::NewerVersion => {
            write(String::from_utf8_lossy(&was).replace("\"version\":1", "\"version\":99").as_bytes());
        }
        Damage::Directions => write(directions(ws, &case.path).as_bytes()),
    }
}

/// Replaces each run of digits that is a number with the largest possible number.
fn with_numbers(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text).into_owned();
    let Ok(mut value) = serde_json::from_str::<Value>(&text) else {
        return text.replace(char::is_numeric, "9").into_bytes();
    };
    change(&mut value, &|value| {
        if value.is_number() {
            *value = Value::from(u64::MAX);
        }
    });
    value.to_string().into_bytes()
}

/// Replaces each path in a text.
fn with_paths(text: &[u8], path: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(text).into_owned();
    let Ok(mut value) = serde_json::from_str::<Value>(&text) else {
        return format!("{path}\n{text}").into_bytes();
    };
    let known = ["a.txt", "b.txt", "x.txt", "y.txt", "gone.txt"];
    change(&mut value, &|value| {
        if value.as_str().is_some_and(|text| known.contains(&text) || text.contains('/')) {
            *value = Value::from(path);
        }
    });
    value.to_string().into_bytes()
}

/// Visits every value.
fn change(value: &mut Value, visit: &dyn Fn(&mut Value)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| change(item, visit)),
        Value::Object(fields) => fields.values_mut().for_each(|item| change(item, visit)),
        _ => visit(value),
    }
}

/// Returns the content that sends git or lbx to other places, by the name of the file.
fn directions(ws: &Workspace, path: &Path) -> String {
    let (outside, trap) = (ws.outside.display(), ws.outside.join("trap.sh"));
    let trap = trap.display();
    match path.file_name().and_then(|name| name.to_str()).unwrap_or_default() {
        "config" | "config.worktree" => format!(
            "[core]\nrepositoryformatversion = 0\nworktree = {outside}\nfsmonitor = {trap}\nhooksPath = {outside}\n[include]\npath = {outside}/secret\n[filter \"x\"]\nclean = {trap}\nrequired = true\n[diff]\nexternal = {trap}\n"
        ),
        ".gitattributes" | "attributes" => "* filter=x diff=x merge=x\n".into(),
        "alternates" => format!("{outside}/precious/objects\n"),
        ".git" => format!("gitdir: {outside}/precious\n"),
        "commondir" => format!("{outside}/precious\n"),
        "config.toml" => format!(
            "protect = []\n[snapshot]\nbranch = \"main\"\n[bash]\nnetwork = true\n[limits]\nfile_bytes = 9223372036854775807\n# {outside}\n"
        ),
        ".gitignore" | ".ignore" | "exclude" => "{a,b,c,d}**/[!x]*?\n".repeat(100_000) + "!*\n",
        "HEAD" => "ref: refs/heads/../../../precious/HEAD\n".into(),
        "packed-refs" => format!("# pack-refs with: peeled\n{SECRET} refs/heads/main\n"),
        _ => "ref: refs/heads/main\n".into(),
    }
}

/// Returns everything outside the workspace, except the user's own state and configuration.
fn outside(ws: &Workspace) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut waiting) = (BTreeMap::new(), vec![ws.outside.clone()]);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path == ws.root || path == ws.outside.join("home") {
                continue;
            }
            if path.is_dir() {
                waiting.push(path.clone());
                found.insert(path, Vec::new());
            } else {
                let bytes = fs::read(&path).unwrap_or_default();
                found.insert(path, bytes);
            }
        }
    }
    found
}

/// Makes one call and checks it: one answer of a known kind, without the secret.
fn judged(ws: &Workspace, case: &Case, arguments: &[&str]) -> Result<(), String> {
    let answer: Answer = ws.call(arguments).with_memory(MEMORY_MAX).run();
    let (text, said) = (answer.stdout_text(), answer.stderr());
    let shown = format!("{case}: lbx {}", arguments.join(" "));
    let Some(status) = answer.ended() else {
        return Err(format!("{shown}: ended by a signal: {said}"));
    };
    let Ok(envelope) = serde_json::from_str::<Value>(&text) else {
        return Err(format!("{shown}: no JSON: {text:?} {said:?}"));
    };
    if text.contains(SECRET) || said.contains(SECRET) {
        return Err(format!("{shown}: tells the secret: {text} {said}"));
    }
    if !said.is_empty() {
        return Err(format!("{shown}: stderr: {said:?}"));
    }
    let kind = envelope["error"]["kind"].as_str();
    let wanted = kind.map_or(Some(0), |kind| EXIT_STATUS.iter().find(|it| it.0 == kind).map(|it| it.1));
    if wanted != Some(status) || kind == Some("internal") {
        return Err(format!("{shown}: status {status}: {text}"));
    }
    Ok(())
}

/// Checks every call after one damage.
fn try_case(ws: &Workspace, case: &Case) -> Result<(), String> {
    let ws = ws.copy();
    inflict(&ws, case);
    let before = outside(&ws);
    let innocent = ws.call(&["write", "innocent.txt", "--content", "works\n"]).with_memory(MEMORY_MAX).run();
    if !may_refuse(case) && innocent.ended() != Some(0) {
        return Err(format!("{case}: the innocent call: {}", innocent.stdout_text()));
    }
    for arguments in CALLS {
        judged(&ws, case, arguments)?;
    }
    let after = outside(&ws);
    let differing: Vec<_> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    if !differing.is_empty() {
        return Err(format!("{case}: changed outside: {differing:?}"));
    }
    Ok(())
}

/// Returns true if a call that needs the damaged file may fail.
fn may_refuse(case: &Case) -> bool {
    let name = case.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // A file from a newer lbx is not guessed at. A policy that cannot be read stops every tool. If `.lbx` is not a
    // folder, the user may have moved it, and gets a message.
    let is_elsewhere = case.path == Path::new(".lbx");
    is_elsewhere
        || case.damage == Damage::NewerVersion
        // The largest number is also a newer version.
        || (case.damage == Damage::HugeNumbers && case.path.extension().is_some_and(|it| it == "lbx"))
        || (name == "config.toml" && case.damage != Damage::Gone)
}

/// Returns the cases of this run.
fn sample(mut cases: Vec<Case>) -> Vec<Case> {
    if std::env::var_os("LBX_HOSTILE_ALL").is_some() {
        return cases;
    }
    let seed = std::env::var("LBX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_122);
    println!("LBX_SEED={seed}");
    let mut random = Random::new(seed | 1);
    (0..SAMPLE.min(cases.len())).map(|_| cases.swap_remove(random.below(cases.len()))).collect()
}

#[test]
fn hostile_workspaces_change_nothing_outside_and_calls_work() {
    let ws = furnished();
    let only = std::env::var("LBX_CASE").ok();
    let cases = sample(cases(&ws));
    let wrong: Vec<String> = cases
        .iter()
        .filter(|case| only.as_ref().is_none_or(|only| case.to_string().contains(only)))
        .filter_map(|case| try_case(&ws, case).err())
        .collect();
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
