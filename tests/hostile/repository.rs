//! A real `.git` in which each file and folder in turn is replaced.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::common::{Call, Standing, Workspace, make_fifo, state};

/// Content of a file elsewhere, which no answer may show.
const SECRET: &str = "TOP-SECRET";
/// Memory that a call may map, in bytes: a call that reads everything that it finds soon exceeds it.
const ADDRESS_SPACE: u64 = 3 << 30;
/// Size of a sparse file, in bytes.
const SPARSE: u64 = 1 << 40;
/// Number of object folders that are tried; they are all alike.
const FAN_OUTS_MAX: usize = 2;

/// Replacement of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instead {
    /// A link to the original, which was moved outside.
    LinkToItself,
    /// A link to a file that does not belong to git.
    LinkToSecret,
    /// A link to nothing.
    LinkToNothing,
    /// A FIFO.
    Fifo,
    /// An empty folder.
    Folder,
    /// A sparse file of a terabyte.
    Sparse,
    /// Meaningless bytes.
    Garbage,
}

/// All replacements.
const ALL: [Instead; 7] = [
    Instead::LinkToItself,
    Instead::LinkToSecret,
    Instead::LinkToNothing,
    Instead::Fifo,
    Instead::Folder,
    Instead::Sparse,
    Instead::Garbage,
];

impl Instead {
    /// Puts it at `path`, in the workspace whose parent folder is `outside`.
    fn put(self, path: &Path, outside: &Path) {
        let moved = outside.join("victim/moved");
        fs::rename(path, &moved).unwrap();
        let secret = outside.join("victim/secret");
        match self {
            Self::LinkToItself => symlink(&moved, path).unwrap(),
            Self::LinkToSecret => symlink(&secret, path).unwrap(),
            Self::LinkToNothing => symlink(outside.join("victim/nothing"), path).unwrap(),
            Self::Fifo => make_fifo(path),
            Self::Folder => fs::create_dir(path).unwrap(),
            Self::Sparse => fs::File::create(path).unwrap().set_len(SPARSE).unwrap(),
            Self::Garbage => {
                fs::write(path, format!("\u{0}{SECRET}\u{7f}[{SECRET}\n{SECRET} = {SECRET}")).unwrap();
            }
        }
    }
}

/// Creates a repository with loose and packed objects and refs, a linked worktree, and snapshots.
fn repository() -> Workspace {
    let ws = Workspace::with(&[("a.txt", "one\n"), ("d/b.txt", "b\n")]);
    ws.git(&["branch", "packed"]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    ws.git(&["gc", "-q"]);
    ws.git(&["branch", "loose"]);
    ws.git(&["worktree", "add", "-q", "--detach", "../other"]);
    ws.lbx(&["append", "a.txt", "--content", "three\n"]).ok();
    fs::create_dir_all(ws.path(".git/info")).unwrap();
    fs::create_dir_all(ws.path(".git/objects/info")).unwrap();
    for name in ["info/exclude", "info/attributes", "objects/info/alternates", "shallow", "config.worktree"] {
        let path = ws.path(".git").join(name);
        if !path.exists() {
            fs::write(path, "").unwrap();
        }
    }
    ws.write("d/b.txt", "uncommitted\n");
    ws
}

/// Creates a workspace without a repository, with snapshots in lbx's private one.
fn private() -> Workspace {
    let ws = Workspace::bare(&[("a.txt", "one\n"), ("d/b.txt", "b\n")]);
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    ws.lbx(&["snapshot"]).ok();
    ws.lbx(&["append", "a.txt", "--content", "three\n"]).ok();
    ws.write("d/b.txt", "uncommitted\n");
    ws
}

/// Returns every path in a folder, from the workspace root, with only a few of similar paths.
fn paths(ws: &Workspace, folder: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from(folder)];
    let mut next = 0;
    let mut fan_outs = 0;
    while let Some(path) = found.get(next).cloned() {
        next += 1;
        if !ws.root.join(&path).is_dir() {
            continue;
        }
        let mut names: Vec<_> =
            fs::read_dir(ws.root.join(&path)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        for name in names {
            let is_fan_out = path.ends_with("objects") && name.len() == 2;
            fan_outs += usize::from(is_fan_out);
            if name != "hooks" && !(is_fan_out && fan_outs > FAN_OUTS_MAX) {
                found.push(path.join(name));
            }
        }
    }
    found
}

/// Returns everything below a folder.
fn standing(folder: &Path) -> BTreeMap<PathBuf, Standing> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let bytes = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            if metadata.is_dir() {
                waiting.push(path.clone());
            }
            let kind = if metadata.is_file() { 'f' } else { 'd' };
            found.insert(
                path,
                (kind, std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()), bytes),
            );
        }
    }
    found
}

/// Makes calls in a copy of `base` with a replacement at `path`.
fn one(base: &Workspace, path: &Path, instead: Instead) {
    let ws = base.copy();
    let of = format!("{instead:?} at {}", path.display());
    let victim = ws.outside.join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("secret"), format!("{SECRET}:x:0:0\n[{SECRET}\n")).unwrap();
    instead.put(&ws.root.join(path), &ws.outside);
    let before = standing(&victim);
    for (arguments, must_work) in [
        (&["write", "new.txt", "--content", "new\n"][..], true),
        (&["append", "a.txt", "--content", "four\n"], true),
        (&["read", "a.txt"], true),
        (&["snapshot"], false),
        (&["diff"], false),
        (&["diff", "--from", "HEAD"], false),
        (&["log"], false),
        (&["undo"], true),
        (&["session"], true),
    ] {
        let answer =
            Call::bounded(&ws.root, &ws.outside.join("home"), ADDRESS_SPACE).arguments(arguments).run();
        let said = format!("{}{}", answer.stdout_text(), answer.stderr());
        assert!(!said.contains(SECRET), "{of}: {arguments:?}: {said}");
        let envelope = answer.envelope();
        assert!(!must_work || envelope["ok"] == true, "{of}: {arguments:?}: {said}");
        assert_ne!(envelope["error"]["kind"], "internal", "{of}: {arguments:?}: {said}");
    }
    assert!(standing(&victim) == before, "{of}: something outside has changed");
    ws.holds("a.txt", "one\ntwo\nthree\n");
}

/// Tries the combinations of paths in `folders` and replacements that `is_wanted` accepts by their numbers.
fn table(base: &Workspace, folders: &[&str], is_wanted: impl Fn(usize, usize) -> bool + Sync) {
    let paths: Vec<PathBuf> = folders.iter().flat_map(|folder| paths(base, folder)).collect();
    assert!(paths.len() > 15, "{paths:?}");
    let mut wanted: Vec<(&Path, Instead)> = Vec::new();
    for (place, path) in paths.iter().enumerate() {
        for (number, instead) in ALL.iter().enumerate() {
            if is_wanted(place, number) {
                wanted.push((path, *instead));
            }
        }
    }
    let share = wanted.len().div_ceil(4);
    std::thread::scope(|scope| {
        for part in wanted.chunks(share) {
            scope.spawn(|| part.iter().for_each(|(path, instead)| one(base, path, *instead)));
        }
    });
}

#[test]
fn hostile_git_files_cause_no_leak_and_no_hang() {
    table(&repository(), &[".git"], |place, number| (place + number) % 4 == 0);
}

#[test]
fn hostile_private_repository_files_cause_no_leak_and_no_hang() {
    let folders = [state("repo.git"), state("scan")];
    table(&private(), &[&folders[0], &folders[1]], |place, number| (place + number) % 3 == 0);
}

/// A function that replaces a file.
type Damage = Box<dyn Fn(&Path)>;

/// Returns damages to the parts of a repository that every snapshot reads: a path in `.git`, and the function that
/// damages it.
fn damages(ws: &Workspace) -> Vec<(&'static str, Damage)> {
    let written = |text: &'static str| -> Damage {
        Box::new(move |path| {
            let _ = fs::remove_file(path);
            fs::write(path, text).unwrap();
        })
    };
    let huge = || -> Damage { Box::new(|path| fs::File::create(path).unwrap().set_len(SPARSE).unwrap()) };
    let fifo = || -> Damage {
        Box::new(|path| {
            fs::remove_file(path).unwrap();
            make_fifo(path);
        })
    };
    let linked = || -> Damage {
        Box::new(|path| {
            fs::rename(path, path.with_extension("moved")).unwrap();
            symlink(path.with_extension("moved"), path).unwrap();
        })
    };
    let loose = |name: &str| -> &'static str {
        let id = ws.git(&["rev-parse", name]);
        format!("objects/{}/{}", &id[..2], &id[2..]).leak()
    };
    vec![
        ("HEAD", written("\u{0}\u{1}")),
        ("HEAD", written("")),
        ("HEAD", written("ref: HEAD\n")),
        ("HEAD", written("1234567890123456789012345678901234567890\n")),
        ("HEAD", huge()),
        ("refs/heads/main", written("")),
        ("refs/heads/main", fifo()),
        ("refs/heads/main", linked()),
        ("refs/heads/main", huge()),
        ("refs/heads/lbx-snapshots", written("nothing of git's\n")),
        ("refs/heads/lbx-snapshots", fifo()),
        ("refs/heads/lbx-snapshots", written("ref: refs/heads/main\n")),
        ("refs/heads", linked()),
        (loose("lbx-snapshots"), written("")),
        (loose("lbx-snapshots^{tree}"), written("")),
    ]
}

#[test]
fn damaged_repository_falls_back_to_the_private_one() {
    let base = Workspace::with(&[("a.txt", "one\n")]);
    base.lbx(&["append", "a.txt", "--content", "two\n"]).ok();
    for (number, (name, damage)) in damages(&base).iter().enumerate() {
        let ws = base.copy();
        damage(&ws.path(".git").join(name));
        let answer = ws.lbx(&["append", "a.txt", "--content", "three\n"]);
        let envelope = answer.envelope();
        let of = format!("{number}: {name}: {envelope}");
        assert!(envelope["ok"] == true && envelope["snapshot"].is_string(), "{of}");
        assert!(envelope["warnings"].to_string().contains("the private repository"), "{of}");
        ws.holds("a.txt", "one\ntwo\nthree\n");
        assert_eq!(ws.lbx(&["log"]).ok()["snapshots"][0]["id"], envelope["snapshot"], "{of}");
        ws.lbx(&["undo"]).success();
        ws.holds("a.txt", "one\ntwo\n");
    }
    // Damage that exists before the first snapshot, and is repaired later.
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.write(".git/HEAD", "");
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).warned("since HEAD cannot be read");
    ws.write(".git/HEAD", "ref: refs/heads/main\n");
    let snapshot = ws.lbx(&["append", "a.txt", "--content", "three\n"]).envelope()["snapshot"].clone();
    assert_eq!(ws.git(&["rev-parse", "lbx-snapshots"]).trim(), snapshot);
}

#[test]
fn warning_about_a_missing_snapshot_mentions_undo() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    ws.write(".git/refs/heads/lbx-snapshots.lock", "someone's\n");
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).warned("undo and redo still work");
    ws.lbx(&["undo"]).success();
    ws.holds("a.txt", "one\n");
}

#[test]
fn separate_git_dir_needs_the_users_git_dirs_setting() {
    let ws = Workspace::bare(&[("a.txt", "one\n")]);
    ws.git(&["init", "-q", "-b", "main", "--separate-git-dir", "../store.git"]);
    ws.git(&["add", "-A"]);
    ws.git(&["commit", "-q", "-m", "first"]);
    let store = ws.outside.join("store.git");
    let before = standing(&store);
    let line = format!("snapshot.git_dirs = [\"{}\"]", store.display());
    ws.lbx(&["append", "a.txt", "--content", "two\n"]).warned(&line);
    assert!(standing(&store) == before);
    ws.write(".lbx/config.toml", &line);
    ws.lbx(&["append", "a.txt", "--content", "three\n"]).error("invalid_request");
    ws.write(".lbx/config.toml", "");
    let allowed = format!("snapshot.git_dirs={}", store.display());
    ws.lbx(&["append", "a.txt", "--content", "three\n", "--set", &allowed]).ok();
    assert_eq!(ws.git(&["show", "lbx-snapshots:a.txt"]).trim(), "one\ntwo\nthree");
}

#[test]
#[ignore = "takes minutes; the test above tries a quarter of it"]
fn all_hostile_git_files_cause_no_leak_and_no_hang() {
    table(&repository(), &[".git"], |_, _| true);
    let folders = [state("repo.git"), state("scan")];
    table(&private(), &[&folders[0], &folders[1]], |_, _| true);
}

#[test]
fn huge_ignore_files_use_little_memory_and_leak_no_secret() {
    let globs: String = (0..200_000).map(|number| format!("*a*{number}*/**/b[!x]*\n")).collect();
    for name in [".gitignore", "d/.gitignore", ".gitattributes", ".git/info/exclude", ".git/info/attributes"]
    {
        let ws = Workspace::with(&[("a.txt", "one\n"), ("d/b.txt", "b\n")]);
        fs::create_dir_all(ws.path(".git/info")).unwrap();
        ws.lbx(&["append", "d/b.txt", "--content", "recorded\n"]).ok();
        ws.write(name, format!("{globs}*.key\n"));
        ws.write("d/x.key", "SECRET KEY\n");
        let call = |arguments: &[&str]| {
            Call::bounded(&ws.root, &ws.outside.join("home"), 1 << 30).arguments(arguments).run()
        };
        call(&["append", "d/b.txt", "--content", "more\n"]).success();
        let said = call(&["snapshot"]).envelope().to_string();
        assert!(said.contains(name), "{name}: {said}");
        // A file that cannot be checked stays as it was recorded.
        assert_eq!(ws.git(&["show", "lbx-snapshots:d/b.txt"]).trim(), "b\nrecorded", "{name}");
        let objects = ws.git_command(&["cat-file", "--batch-all-objects", "--batch"]).output().unwrap();
        assert!(!String::from_utf8_lossy(&objects.stdout).contains("SECRET KEY"), "{name}");
    }
}

#[test]
fn slow_ignore_pattern_is_not_matched() {
    let ws = Workspace::with(&[(".gitignore", &format!("{}q\n", "**/".repeat(30)))]);
    let deep = format!("{}f", "a/".repeat(30));
    ws.write(&deep, "one\n");
    let answer = ws.lbx(&["append", &deep, "--content", "two\n"]).warned("or too many `**` in one");
    assert_eq!(answer["lines_added"], 1);
    ws.lbx(&["snapshot"]).success();
    ws.lbx(&["undo"]).success();
    ws.holds(&deep, "one\n");
    // As many as anyone needs.
    ws.write(".gitignore", "**/a/**/build/**/*.o\n");
    ws.lbx(&["append", &deep, "--content", "two\n"]).ok();
}

#[test]
fn git_tree_bomb_is_not_walked_completely() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let make = |list: String| {
        let mut git = ws.git_command(&["mktree"]);
        git.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = git.spawn().unwrap();
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), list.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
    };
    let blob = ws.git(&["hash-object", "-w", "a.txt"]);
    let mut tree = make(format!("100644 blob {}\tf\n", blob.trim()));
    for _ in 0..10 {
        tree = make((0..10).map(|at| format!("040000 tree {tree}\td{at}\n")).collect());
    }
    let commit = ws.git(&["commit-tree", "-m", "bomb", "-p", "HEAD", &tree]);
    ws.git(&["update-ref", "refs/heads/main", commit.trim()]);
    let call = |arguments: &[&str]| {
        let call = Call::bounded(&ws.root, &ws.outside.join("home"), ADDRESS_SPACE).arguments(arguments);
        call.env("LBX_SNAPSHOT_SCAN_SECONDS", "3").run()
    };
    call(&["append", "a.txt", "--content", "two\n"]).success();
    call(&["append", "a.txt", "--content", "three\n"]).success();
    assert_eq!(call(&["snapshot"]).envelope()["ok"], false);
    for arguments in [&["diff"][..], &["diff", "--from", "HEAD~1", "--to", "HEAD"], &["log"]] {
        assert_ne!(call(arguments).envelope()["error"]["kind"], "internal");
    }
    ws.holds("a.txt", "one\ntwo\nthree\n");
}

/// Writes a tree as git never would, with the given entries: mode, name, object.
fn odd_tree(ws: &Workspace, entries: &[(&str, &str, &str)]) -> String {
    let mut bytes = Vec::new();
    for (mode, name, id) in entries {
        bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
        let digits = |at: usize| u8::from_str_radix(&id[at..at + 2], 16).unwrap();
        bytes.extend((0..id.len()).step_by(2).map(digits));
    }
    let file = ws.outside.join("tree");
    fs::write(&file, bytes).unwrap();
    ws.git(&["hash-object", "-w", "-t", "tree", "--literally", file.to_str().unwrap()])
}

#[test]
fn unsorted_git_trees_are_read_and_written_sorted() {
    let ws = Workspace::with(&[("a.txt", "a\n"), ("d/a.txt", "a\n")]);
    let blob = ws.git(&["rev-parse", "HEAD:a.txt"]);
    let file = |name| ("100644", name, blob.as_str());
    let below = odd_tree(&ws, &[file("z.txt"), file("a.txt"), file("a.txt"), file("m")]);
    let top = [file("z.txt"), ("40000", "d", &below), file("a.txt"), file("a.txt")];
    let commit = ws.git(&["commit-tree", "-m", "odd", &odd_tree(&ws, &top)]);
    ws.git(&["update-ref", "refs/heads/main", &commit]);
    ws.lbx(&["write", "d/new.txt", "--content", "new\n"]).ok();
    ws.lbx(&["append", "a.txt", "--content", "more\n"]).ok();
    ws.lbx(&["delete", "d/a.txt"]).ok();
    ws.lbx(&["log"]).ok();
    let listed = ws.git(&["ls-tree", "-r", "--name-only", "lbx-snapshots"]);
    let mut sorted: Vec<&str> = listed.lines().collect();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(listed.lines().collect::<Vec<_>>(), sorted);
    assert!(sorted.contains(&"d/new.txt") && !sorted.contains(&"d/a.txt"), "{sorted:?}");
    assert!(ws.git(&["show", "lbx-snapshots~:a.txt"]).contains("more"));
}

#[test]
fn path_too_long_to_be_opened_is_left_out_of_a_snapshot() {
    let ws = Workspace::with(&[("a.txt", "one\n")]);
    let deep = "for i in $(seq 40); do mkdir -p $(printf 'd%.0s' $(seq 200)) && cd d*; done; echo deep > f";
    let answer = ws.lbx(&["bash", "--direct", &format!("echo two >> a.txt; {deep}")]).success();
    assert_eq!(answer["data"]["changed"][0]["path"], "a.txt", "{answer:#}");
    let left_out = ws.lbx(&["snapshot"]).success()["data"]["left_out"].to_string();
    assert!(left_out.contains("folders deep, or its path is too long"), "{left_out}");
    ws.lbx(&["undo"]).success();
    ws.holds("a.txt", "one\n");
}
