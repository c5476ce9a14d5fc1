//! In a repository that several accounts share, lbx makes files and folders with the permissions that git gives them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::common::{LBX, Workspace};

/// Returns everything that is stored in the git folder, with its permissions.
fn stored(ws: &Workspace) -> BTreeMap<PathBuf, u32> {
    let mut found = BTreeMap::new();
    let mut folders = ["objects", "refs", "logs"].map(|name| ws.path(".git").join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            found.insert(path.clone(), fs::metadata(&path).unwrap().permissions().mode());
            folders.extend(path.is_dir().then_some(path));
        }
    }
    found
}

/// Returns the permissions of what is new since `before`, by kind.
fn new_modes(ws: &Workspace, before: &BTreeMap<PathBuf, u32>) -> BTreeMap<String, BTreeSet<String>> {
    let mut modes: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (path, mode) in stored(ws).into_iter().filter(|(path, _)| !before.contains_key(path)) {
        let below = path.strip_prefix(ws.path(".git")).unwrap().to_str().unwrap();
        let (part, _) = below.split_once('/').unwrap();
        let end = path.extension().map_or("", |end| end.to_str().unwrap());
        if end != "rev" {
            modes.entry(format!("{part} {end}")).or_default().insert(format!("{mode:o}"));
        }
    }
    modes
}

#[test]
fn objects_and_references_are_shared_as_git_shares_them() {
    for (value, umask) in [
        ("group", "077"),
        ("true", "027"),
        ("1", "077"),
        ("all", "077"),
        ("everybody", "022"),
        ("0640", "000"),
        ("0600", "022"),
        ("umask", "077"),
        ("false", "027"),
        ("0", "002"),
    ] {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        ws.user_policy("snapshot.branch = \"by-lbx/work\"\n");
        for (key, value) in [("core.sharedRepository", value), ("user.name", "S"), ("user.email", "s@s")] {
            ws.git(&["config", key, value]);
        }
        let run = |script: &str| {
            let mut command = Command::new("sh");
            ws.surround(&mut command);
            let ran = command.args(["-e", "-c", &format!("umask {umask}; {script}"), LBX]).output().unwrap();
            assert!(ran.status.success(), "{value}: {script}: {ran:?}");
        };
        let before = stored(&ws);
        run("$0 write b.txt --content 2; $0 append b.txt --content 3");
        // So many objects become a pack.
        (0..120).for_each(|number| ws.write(&format!("many/{number}"), format!("{number}\n")));
        run("$0 snapshot");
        let by_lbx = new_modes(&ws, &before);
        let before = stored(&ws);
        (0..20).for_each(|number| ws.write(&format!("more/{number}"), format!("more {number}\n")));
        run("git add more; git commit -qm more; git branch by-git/work; git repack -q");
        let by_git = new_modes(&ws, &before);
        assert_eq!(by_lbx, by_git, "{value}, umask {umask}");
        assert_eq!(
            by_lbx.keys().map(String::as_str).collect::<Vec<_>>(),
            ["logs ", "objects ", "objects idx", "objects pack", "refs "]
        );
        let index = ws.mode(".git/index");
        run("$0 squash -m all");
        assert_eq!(ws.mode(".git/index"), index, "{value}, umask {umask}");
    }
}

#[test]
fn workspace_of_a_group_has_state_that_its_group_can_use() {
    // Mode and group of the root, and the modes of the state. Only root may give a file to any group.
    let own = rustix::process::getegid().as_raw();
    let other = if rustix::process::geteuid().is_root() { 7777 } else { own };
    for (root, group, shared) in [
        (0o770, own, [0o770, 0o660, 0o660]),
        (0o750, own, [0o700, 0o600, 0o600]),
        (0o770, other, if other == own { [0o770, 0o660, 0o660] } else { [0o700, 0o600, 0o600] }),
    ] {
        let ws = Workspace::with(&[("a.txt", "one\n")]);
        std::os::unix::fs::chown(&ws.root, None, Some(group)).unwrap();
        ws.chmod("", root);
        let mut command = Command::new("sh");
        ws.surround(&mut command);
        let ran = command.args(["-c", "umask 077; $0 append a.txt --content 2", LBX]).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        let modes = [".lbx", ".lbx/lock", ".lbx/.gitignore"].map(|path| ws.mode(path));
        assert_eq!(modes, shared, "{root:o}, group {group}");
        // Another name of the user's own file keeps its mode.
        std::fs::write(ws.path("secret"), "").unwrap();
        ws.chmod("secret", 0o600);
        std::fs::remove_file(ws.path(".lbx/lock")).unwrap();
        std::fs::hard_link(ws.path("secret"), ws.path(".lbx/lock")).unwrap();
        ws.lbx(&["mkdir", "d"]).ok();
        assert_eq!(ws.mode("secret"), 0o600);
    }
}
