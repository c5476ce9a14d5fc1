//! Power failures: a file system that loses everything that was not synced.
//!
//! An ext4 (and an xfs, if one can be made) in a file is mounted for the test and shut down by `FS_IOC_SHUTDOWN`. Then
//! it is mounted again, as after a reboot. Needs root.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::skip::can_trace;
use crate::common::{Workspace, skipped, state};
use crate::inject::{Point, is_thorough, kill_at, points, sample, traced};
use crate::judge::{Sides, files_below, must_be_tidy, must_equal_tip};
use crate::scenarios::{self, Scenario};

/// Points tried in each scenario, unless all are.
const POINTS: usize = 3;
/// System calls before which the power fails.
const CALLS: &[&str] = &[
    "write",
    "pwrite64",
    "rename",
    "renameat",
    "renameat2",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "fsync",
    "fdatasync",
    "syncfs",
    "exit_group",
];
/// Shuts the file system down: everything that is not on disk is lost (2), or the journal is written first, with names
/// whose bytes never were written (1).
const SHUT_DOWN: &str = "import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', int(sys.argv[2])))";

/// A file system in a file, removed when the test ends, however it ends.
pub struct Disk {
    /// Folder of the image and the mount point.
    _folder: tempfile::TempDir,
    /// Image file.
    image: PathBuf,
    /// Mount point.
    pub mounted: PathBuf,
}

impl Disk {
    /// Creates an empty disk; returns `None`, with a message, if that is not possible.
    pub fn new(kind: &str, mebibytes: u32) -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !succeeds("python3", &["-c", "import fcntl"]) {
            skipped("the power fails for root alone, by python3");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("lbx-disk-").tempdir().unwrap();
        let (image, mounted) = (folder.path().join("image"), folder.path().join("disk"));
        std::fs::create_dir(&mounted).unwrap();
        std::fs::File::create(&image).unwrap().set_len(u64::from(mebibytes) << 20).unwrap();
        let quiet = if kind.starts_with("ext") { "-F" } else { "-f" };
        if !succeeds(&format!("mkfs.{kind}"), &["-q", quiet, image.to_str().unwrap()]) {
            skipped(format!("no mkfs.{kind}"));
            return None;
        }
        let disk = Self { _folder: folder, image, mounted };
        if disk.mount() {
            return Some(disk);
        }
        skipped("no file system may be mounted here");
        None
    }

    /// Mounts it; the loop device is released with the mount.
    fn mount(&self) -> bool {
        succeeds("mount", &["-o", "loop", self.image.to_str().unwrap(), self.mounted.to_str().unwrap()])
    }

    /// Syncs everything to disk.
    pub fn sync(&self) {
        assert!(succeeds("sync", &["-f", self.mounted.to_str().unwrap()]));
    }

    /// Lets the power fail, and restores it.
    pub fn lose_power(&self, mode: &str) {
        let mounted = self.mounted.to_str().unwrap();
        assert!(succeeds("python3", &["-c", SHUT_DOWN, mounted, mode]), "no shutdown");
        // A mount namespace that another program created in the meantime holds the mount too: then the second mount is
        // still the one without power.
        for _ in 0..200 {
            assert!(succeeds("umount", &[mounted]), "still in use");
            assert!(self.mount(), "cannot be mounted again");
            if self.has_power() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("another program holds the disk");
    }

    /// Returns true if it can be written.
    fn has_power(&self) -> bool {
        let probe = self.mounted.join("probe");
        std::fs::create_dir(&probe).and_then(|()| std::fs::remove_dir(&probe)).is_ok()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = succeeds("umount", &["-l", self.mounted.to_str().unwrap()]);
    }
}

/// Returns true if a program succeeds; its output is ignored.
fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns the disks that can be made here.
fn disks() -> Vec<(&'static str, Disk)> {
    let kinds = [("ext4", 64), ("xfs", 320)];
    kinds.into_iter().filter_map(|(kind, size)| Some((kind, Disk::new(kind, size)?))).collect()
}

/// One change of each kind, in order.
const CHANGES: &[&[&str]] = &[
    &["write", "n/m/new.txt", "--content", "new\n"],
    &["write", "a.txt", "--content", "one\ntwo\n"],
    &["edit", "a.txt", "--old-string", "two", "--new-string", "2"],
    &["append", "ignored.key", "--content", "secret\n"],
    &[
        "patch",
        "--patch",
        "*** Begin Patch\n*** Update File: a.txt\n@@\n-2\n+two\n*** Delete File: b.txt\n*** Add File: c/d.txt\n+d\n*** End Patch\n",
    ],
    &["move", "d", "x/y"],
    &["delete", "x", "--recursive"],
    &["restore", "x"],
    &["undo", "--steps", "3"],
    &["redo", "--steps", "2"],
    &["insert", "a.txt", "1", "--content", "between\n"],
    &["prepend", "a.txt", "--content", "zero\n"],
];

#[test]
fn acknowledged_change_survives_a_power_failure() {
    for (kind, disk) in disks() {
        for mode in ["2", "1"] {
            let ws = Workspace::within(
                &disk.mounted,
                &[("b.txt", "b\n"), ("d/e/f.txt", "f\n"), (".gitignore", "*.key\n")],
            );
            ws.lbx(&["read", "b.txt"]).ok();
            let first = ws.tree();
            disk.sync();
            for (number, change) in CHANGES.iter().enumerate() {
                let answer = ws.lbx(change).success();
                let (tree, snapshots) = (ws.tree(), ws.snapshots());
                disk.lose_power(mode);
                let what = format!("{kind}, mode {mode}, {change:?}");
                assert!(ws.tree() == tree, "{what}: {:?}", ws.tree());
                assert_eq!(ws.snapshots(), snapshots, "{what}");
                must_be_whole(&ws, &what);
                if let Some(id) = answer["snapshot"].as_str() {
                    ws.git(&["merge-base", "--is-ancestor", id, "lbx-snapshots"]);
                }
                // The read records of the session may be lost, which a call then reports; so read again.
                let _ = ws.lbx(&["read", "a.txt"]).envelope();
                let next = ws.lbx(&["append", "log", "--content", "x\n", "--session", "next"]).success();
                assert_eq!(next.get("warnings"), None, "{what}");
                must_be_tidy(&ws).unwrap_or_else(|left| panic!("{what}: {left}"));
                let audit = ws.lbx(&["audit", "--verify", "--limit", "0"]).ok();
                assert_eq!(audit["verified"], true, "{what}");
                assert_eq!(audit["total"], 2 * (number + 1), "{what}: a record is lost, or stands twice");
            }
            must_equal_tip(&ws).unwrap();
            // No old bytes are lost, though their backups are not synced: the journal has them too.
            let _ = ws.lbx(&["undo", "--steps", "100"]).success();
            let mut undone = ws.tree();
            undone.remove(Path::new("log"));
            assert!(undone == first, "{kind}, mode {mode}: {undone:?}");
        }
    }
}

/// Checks that no file is empty by accident, and that git finds no problem.
pub fn must_be_whole(ws: &Workspace, what: &str) {
    let folders = [".git/objects", ".git/refs", &state("journal")].map(|name| ws.path(name));
    for file in folders.iter().filter(|folder| folder.is_dir()).flat_map(|folder| files_below(folder)) {
        let is_empty = std::fs::metadata(&file).unwrap().len() == 0;
        assert!(!is_empty, "{what}: {} is empty", file.display());
    }
    let output = ws.git_command(&["fsck", "--strict", "--no-dangling"]).output().unwrap();
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A file system without a log may write the names in one folder before those in another.
#[test]
fn without_a_log_objects_have_durable_names_before_the_branch_moves() {
    if !can_trace() {
        return;
    }
    let Some(disk) = Disk::new("ext2", 64) else { return };
    let ws = Workspace::within(&disk.mounted, &[("a.txt", "a\n")]);
    ws.lbx(&["append", "a.txt", "--content", "b\n"]).ok();
    let log = ws.outside.join("strace.log");
    let arguments = ["-y", "-e", "trace=fsync,syncfs,renameat,renameat2", "-o"].map(Into::into);
    let arguments = [&arguments[..], &[log.clone().into()]].concat();
    assert!(traced(&ws, &arguments, &["append", "a.txt", "--content", "c\n"]).status.success());
    let calls = std::fs::read_to_string(&log).unwrap();
    let before: Vec<&str> = calls.lines().take_while(|call| !call.contains("\"lbx-snapshots\"")).collect();
    let last = |name: &str, folder: &str| {
        before.iter().rposition(|call| call.contains(name) && call.contains(folder))
    };
    // The file system may be synced as a whole; then a second sync has the disk empty its cache.
    let (named, whole) = (last("rename", ".git/objects/"), last("syncfs", ""));
    let synced = last("fsync", ".git/objects>").max(whole.filter(|_| whole < last("fsync", "/tmp_lbx_ref_")));
    assert!(before.len() < calls.lines().count() && named.is_some() && named < synced, "{calls}");
}

#[test]
fn power_failure_leaves_all_old_or_all_new() {
    if !can_trace() {
        return;
    }
    let Some(disk) = Disk::new("ext4", 64) else { return };
    let (mut tried, mut wrong) = (0, Vec::new());
    for scenario in scenarios::all() {
        let sides = Sides::of(&scenario.before, &scenario.arguments());
        let all = points(&scenario.before.copy(), CALLS, &scenario.arguments());
        for point in sample(all, POINTS) {
            let modes: &[&str] = if is_thorough() { &["2", "1"] } else { &["2"] };
            for mode in modes {
                tried += 1;
                if let Err(what) = check(&disk, &scenario, &sides, &point, mode) {
                    let at = format!("{} at {} {}, mode {mode}", scenario.name, point.call, point.number);
                    eprintln!("{at}: {what}");
                    wrong.push(format!("{at}: {what}"));
                }
            }
        }
    }
    eprintln!("{tried} power failures");
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Lets the power fail during a call, and checks what is left.
fn check(disk: &Disk, scenario: &Scenario, sides: &Sides, point: &Point, mode: &str) -> Result<(), String> {
    let ws = scenario.before.copy_within(&disk.mounted);
    disk.sync();
    let output = kill_at(&ws, point, &scenario.arguments());
    let was_acknowledged = output.stdout.starts_with(b"{\"ok\":true");
    disk.lose_power(mode);
    // A file that is written in place is whole again after the next call.
    if !scenario.name.ends_with("in place") && scenario.name != "append" {
        sides.must_be_whole(&ws)?;
    }
    let is_done = sides.must_be_settled(&ws)?;
    if was_acknowledged && !is_done {
        return Err("an acknowledged change is gone".to_owned());
    }
    if is_done {
        let envelope: Value = ws.lbx(scenario.back).envelope();
        if envelope["ok"] != true {
            return Err(format!("{:?} answers {envelope}", scenario.back));
        }
    }
    std::fs::remove_dir_all(Path::new(&ws.outside)).map_err(|error| error.to_string())
}
