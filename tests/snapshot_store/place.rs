//! A scratch workspace for the store and the real git.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use lbx::engine::snapshot::{
    self, BRANCH_DEFAULT, CommitInfo, FileChange, FileState, RecordResult, SnapshotError, Store,
};
use lbx::engine::workspace::stat_cache;
use tempfile::TempDir;

use crate::git_env::GIT_FAST;

/// Owned form of a [`FileState`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    Regular(bool, Vec<u8>),
    Link(Vec<u8>),
}

impl Kept {
    pub fn at(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        if metadata.is_symlink() {
            return Some(Self::Link(fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec()));
        }
        let executable = metadata.permissions().mode() & 0o100 != 0;
        metadata.is_file().then(|| Self::Regular(executable, fs::read(path).unwrap()))
    }

    pub fn state(&self) -> FileState<'_> {
        match self {
            Self::Regular(executable, bytes) => FileState::Regular { executable: *executable, bytes },
            Self::Link(target) => FileState::Symlink { target },
        }
    }
}

pub struct Place {
    _dir: TempDir,
    pub root: PathBuf,
    pub home: PathBuf,
}

impl Place {
    /// Creates a workspace without a repository.
    pub fn bare_folder() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (root, home) = (base.join("work"), base.join("home"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&home).unwrap();
        let place = Self { _dir: dir, root, home };
        place.make_state();
        place
    }

    /// Creates a repository without a commit.
    pub fn unborn(options: &[&str]) -> Self {
        let place = Self::bare_folder();
        place.git(&[&["init", "-q", "-b", "main"], options].concat());
        place.configure();
        place
    }

    /// Creates a repository with these files committed.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let place = Self::unborn(&[]);
        place.commit(files);
        place
    }

    /// Returns this place seen from another root.
    pub fn at(&self, root: PathBuf) -> Self {
        let place = Self { _dir: tempfile::tempdir().unwrap(), root, home: self.home.clone() };
        place.make_state();
        place
    }

    fn make_state(&self) {
        fs::create_dir_all(self.root.join(".lbx")).unwrap();
        fs::write(self.root.join(".lbx/.gitignore"), "*\n").unwrap();
    }

    pub fn configure(&self) {
        self.git(&["config", "user.name", "Dev"]);
        self.git(&["config", "user.email", "dev@example.org"]);
        self.git(&["config", "gc.auto", "0"]);
        self.git(&["config", "maintenance.auto", "false"]);
    }

    pub fn commit(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            self.write(path, text);
        }
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "a commit"]);
    }

    pub fn try_git(&self, args: &[&str]) -> Output {
        Command::new("git")
            .args(args)
            .current_dir(&self.root)
            .env("HOME", &self.home)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(GIT_FAST)
            .output()
            .unwrap()
    }

    pub fn git(&self, args: &[&str]) -> String {
        let output = self.try_git(args);
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn open(&self) -> Store {
        opened(&self.root, BRANCH_DEFAULT).unwrap()
    }

    /// Scans the work tree.
    pub fn scan(
        &self,
        scan: &snapshot::Scan<'_>,
        control: &lbx::control::Control,
    ) -> Result<RecordResult, SnapshotError> {
        self.open().scan(scan, control)
    }

    /// Runs `work` on the work tree and records its changes to `paths`.
    pub fn change(&self, paths: &[&str], work: impl FnOnce()) -> RecordResult {
        self.try_change(paths, work).unwrap()
    }

    pub fn try_change(&self, paths: &[&str], work: impl FnOnce()) -> Result<RecordResult, SnapshotError> {
        let paths: Vec<&[u8]> = paths.iter().map(|path| path.as_bytes()).collect();
        self.try_change_bytes(&paths, work)
    }

    pub fn try_change_bytes(
        &self,
        paths: &[&[u8]],
        work: impl FnOnce(),
    ) -> Result<RecordResult, SnapshotError> {
        let look = |path: &&[u8]| Kept::at(&self.root.join(OsStr::from_bytes(path)));
        let before: Vec<_> = paths.iter().map(look).collect();
        work();
        let after: Vec<_> = paths.iter().map(look).collect();
        let files = paths
            .iter()
            .zip(before.iter().zip(&after))
            .map(|(path, (before, after))| FileChange {
                path,
                before: before.as_ref().map(Kept::state),
                after: after.as_ref().map(Kept::state),
            })
            .collect();
        let subject = format!("write: {}", String::from_utf8_lossy(paths[0]));
        record(&mut self.open(), &subject, files)
    }

    /// Writes one file and records it.
    pub fn put(&self, path: &str, text: impl AsRef<[u8]>) -> RecordResult {
        self.change(&[path], || self.write(path, text))
    }

    /// Returns everything in the git folder that snapshots must not change.
    pub fn frozen(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let common = self.git(&["rev-parse", "--path-format=absolute", "--git-common-dir"]);
        let mut files = BTreeMap::new();
        collect(Path::new(&common), &mut files);
        files.retain(|path, _| {
            let path = path.strip_prefix(&common).unwrap().to_string_lossy();
            let ours = path.starts_with("refs/heads/lbx-snapshots")
                || path.starts_with("logs/refs/heads/lbx-snapshots");
            !ours && !path.starts_with("objects/")
        });
        files
    }

    /// Returns the subjects of the snapshots, newest first.
    pub fn subjects(&self) -> Vec<String> {
        let log =
            self.git(&["log", "--first-parent", "--format=%s", "--author=lbx@localhost", "lbx-snapshots"]);
        log.lines().map(str::to_owned).collect()
    }

    /// Returns the content of `path` on the snapshot branch.
    pub fn shown(&self, path: &str) -> String {
        self.git(&["show", &format!("lbx-snapshots:{path}")])
    }

    /// Returns the files of the snapshot branch.
    pub fn listed(&self) -> Vec<String> {
        let list = self.git(&["-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", "lbx-snapshots"]);
        list.lines().map(str::to_owned).collect()
    }

    pub fn fsck(&self) {
        let output = self.try_git(&["fsck", "--strict", "--full"]);
        let said =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
        assert!(!said.contains("error") && !said.contains("warning"), "{said}");
    }
}

/// Opens the snapshots of the workspace `root`.
pub fn opened(root: &Path, branch: &str) -> Result<Store, SnapshotError> {
    Store::open(
        &snapshot::RepositoryPaths {
            root,
            root_fd: None,
            state: &root.join(".lbx"),
            state_fd: None,
            git_dirs: &[],
            kept: &stat_cache::StatCache::default(),
        },
        branch,
    )
}

fn collect(folder: &Path, into: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, into);
        } else {
            into.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
}

pub fn record(
    store: &mut Store,
    subject: &str,
    files: Vec<FileChange<'_>>,
) -> Result<RecordResult, SnapshotError> {
    store.record(&CommitInfo {
        subject: subject.to_owned(),
        why: Some("because"),
        session: "tester",
        tool: "write",
        seq: 3,
        gate: None,
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        files,
        folders: Vec::new(),
        blobs: &[],
    })
}
