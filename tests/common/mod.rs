//! A workspace for one test, and calls of the real binary in it.
//!
//! ```ignore
//! let ws = Workspace::with(&[("greet.txt", "hello\n")]);
//! ws.lbx(&["read", "greet.txt"]).ok();
//! let error = ws.lbx(&["edit", "none.txt", "--old-string", "a", "--new-string", "b"]).error("not_found");
//! ```
//! The methods of an [`Answer`] check it: exactly one JSON object on stdout, nothing on stderr, and the documented
//! exit status of the kind of error.

mod answer;
mod call;
mod git_env;
#[path = "../../src/random.rs"]
pub mod random;
pub mod skip;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use lbx::sha256::Sha256;
use serde_json::Value;
use tempfile::TempDir;

pub use answer::{Answer, EXIT_STATUS, exit_status};
#[allow(unused_imports, reason = "not every test needs the binary's path itself")]
pub use call::LBX;
pub use call::{Call, PATH_FIXED, kill};
pub use git_env::GIT_FAST;
#[allow(unused_imports, reason = "not every test may be skipped")]
pub use skip::{can_trace, is_installed, is_root, skipped};

/// Id of lbx's state in every test workspace.
pub const STATE_ID: &str = "5ca1ab1e0ddba11c0ffee15badc0de42";

/// The user's policy in every test workspace: it lets flags set the backends and workspaces under test.
pub const LOOSEN: &str = "loosen = [\"gate\", \"patch_gate\", \"hard_links\", \"bash.backend\", \"bash.network\", \
                          \"bash.readable\", \"bash.writable\", \"gc.keep_days\", \"gc.keep_bytes\", \"durable\", \
                          \"snapshot.enabled\", \"snapshot.git_dirs\", \"snapshot.scan_seconds\", \"bash.caches\", \
                          \"workspace\", \"content\", \"exec\"]\n";

/// Changes a JSON file of lbx's state, and the digest at its end if it has one.
#[allow(dead_code, reason = "not every test changes the state")]
pub fn change_state_file(path: &Path, change: impl FnOnce(&mut Value)) {
    let text = fs::read_to_string(path).unwrap();
    let (line, digest) = text.split_once('\n').unwrap_or((&text, ""));
    let mut json = serde_json::from_str(line).unwrap();
    change(&mut json);
    let mut changed = json.to_string();
    if !digest.is_empty() {
        let digest = Sha256::of(changed.as_bytes());
        changed = format!("{changed}\n{digest}\n");
    }
    fs::write(path, changed).unwrap();
}

/// Returns the path of a file of lbx's state, from the workspace root.
#[allow(dead_code, reason = "not every test looks into the state")]
pub fn state(path: &str) -> String {
    format!(".lbx/{STATE_ID}/{path}").trim_end_matches('/').to_owned()
}

/// A folder of files, mostly a git repository, and a separate home folder.
pub struct Workspace {
    /// Temporary folder, removed when the test ends.
    _folder: TempDir,
    /// Workspace root.
    pub root: PathBuf,
    /// Parent folder, which is outside the workspace.
    pub outside: PathBuf,
}

/// Entry at a path: its type, its permission bits, and its bytes or a link's target.
pub type Standing = (char, u32, Vec<u8>);

impl Workspace {
    /// Creates a git repository whose first commit holds `files`.
    pub fn with(files: &[(&str, &str)]) -> Self {
        Self::within(&std::env::temp_dir(), files)
    }

    /// Creates a git repository in the folder `parent`, which may be on another disk.
    pub fn within(parent: &Path, files: &[(&str, &str)]) -> Self {
        let ws = Self::bare_in(parent, files);
        // git's own template without its fifteen sample hooks, which take longer than the commit.
        ws.git(&["init", "-q", "-b", "main", "--template="]);
        fs::create_dir(ws.path(".git/hooks")).unwrap();
        ws.write(".git/info/exclude", "# patterns of this repository\n");
        ws.git(&["add", "-A"]);
        ws.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
        ws
    }

    /// Creates a folder with `files` and no git repository.
    pub fn bare(files: &[(&str, &str)]) -> Self {
        Self::bare_in(&std::env::temp_dir(), files)
    }

    /// Creates a folder with `files` in the folder `parent`.
    fn bare_in(parent: &Path, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::Builder::new().prefix("lbx-").tempdir_in(parent).unwrap();
        let outside = folder.path().canonicalize().unwrap();
        let root = outside.join("ws");
        fs::create_dir(&root).unwrap();
        let kept = outside.join("home/.local/state/lbx");
        fs::create_dir_all(&kept).unwrap();
        fs::write(kept.join("id"), format!("{STATE_ID}\n")).unwrap();
        let ws = Self { _folder: folder, root, outside };
        ws.user_policy(LOOSEN);
        for (path, text) in files {
            ws.write(path, text);
        }
        ws
    }

    /// Writes the user's own policy file.
    pub fn user_policy(&self, policy: &str) {
        let folder = self.outside.join("home/.config/lbx");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.toml"), policy).unwrap();
    }

    /// Copies the workspace, lbx's state included.
    pub fn copy(&self) -> Self {
        self.copy_within(&std::env::temp_dir())
    }

    /// Copies the workspace into the folder `parent`.
    pub fn copy_within(&self, parent: &Path) -> Self {
        let folder = tempfile::Builder::new().prefix("lbx-").tempdir_in(parent).unwrap();
        let outside = folder.path().canonicalize().unwrap();
        let copied = Command::new("cp").args(["-a", "."]).arg(&outside).current_dir(&self.outside).status();
        assert!(copied.unwrap().success());
        Self { _folder: folder, root: outside.join("ws"), outside }
    }

    /// Calls `lbx` with arguments, at the root, with nothing on stdin.
    pub fn lbx(&self, arguments: &[&str]) -> Answer {
        self.call(arguments).run()
    }

    /// Calls `lbx` with `text` on stdin.
    pub fn lbx_stdin(&self, arguments: &[&str], text: impl AsRef<[u8]>) -> Answer {
        self.call(arguments).stdin(text).run()
    }

    /// Calls a tool with a request as JSON.
    pub fn json(&self, tool: &str, request: &Value) -> Answer {
        self.lbx(&[tool, "--json", &request.to_string()])
    }

    /// Prepares a call.
    pub fn call<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Call {
        Call::new(&self.root, &self.outside.join("home")).arguments(arguments)
    }

    /// Prepares a call by a user whom file modes restrict; `None` if that is not possible.
    pub fn call_unprivileged<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Option<Call> {
        Some(Call::unprivileged(&self.root, &self.outside.join("home"))?.arguments(arguments))
    }

    /// Returns the paths in lbx's state that have no permissions, each with a newline.
    #[allow(dead_code, reason = "not every test looks for them")]
    pub fn closed(&self) -> String {
        let found = Command::new("find").arg(self.path(".lbx")).args(["-perm", "0"]).output().unwrap();
        String::from_utf8(found.stdout).unwrap()
    }

    /// Returns the absolute path of a file.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Writes a file as another program would, with its folders.
    pub fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Makes a symlink.
    pub fn link(&self, target: impl AsRef<Path>, path: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    /// Returns the bytes of a file.
    pub fn read_bytes(&self, path: &str) -> Vec<u8> {
        fs::read(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Checks the bytes of a file.
    #[track_caller]
    pub fn holds(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let (found, wanted) = (self.read_bytes(path), bytes.as_ref());
        assert!(
            found == wanted,
            "{path}\n found: {:?}\nwanted: {:?}",
            String::from_utf8_lossy(&found),
            String::from_utf8_lossy(wanted)
        );
    }

    /// Sets permission bits.
    pub fn chmod(&self, path: &str, mode: u32) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Returns the permission bits of a file.
    pub fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.path(path)).unwrap().mode() & 0o7777
    }

    /// Returns everything in the workspace except the state of git and lbx.
    pub fn tree(&self) -> BTreeMap<PathBuf, Standing> {
        let mut tree = BTreeMap::new();
        self.add_to_tree(&self.root, &mut tree);
        tree
    }

    /// Adds what `folder` holds.
    fn add_to_tree(&self, folder: &Path, tree: &mut BTreeMap<PathBuf, Standing>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&self.root).unwrap().to_owned();
            if name == Path::new(".git") || name == Path::new(".lbx") {
                continue;
            }
            let stat = fs::symlink_metadata(&path).unwrap();
            let kind = stat.file_type();
            let (letter, bytes) = if kind.is_dir() {
                self.add_to_tree(&path, tree);
                ('d', Vec::new())
            } else if kind.is_symlink() {
                ('l', fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes())
            } else if kind.is_file() {
                ('f', fs::read(&path).unwrap())
            } else {
                ('o', Vec::new())
            };
            tree.insert(name, (letter, stat.mode() & 0o7777, bytes));
        }
    }

    /// Checks that `calls` leave the tree as it is.
    #[track_caller]
    pub fn unchanged<T>(&self, calls: impl FnOnce() -> T) -> T {
        let before = self.tree();
        let outcome = calls();
        let after = self.tree();
        let differing: Vec<&PathBuf> =
            before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
        assert!(differing.is_empty(), "changed: {differing:?}");
        outcome
    }

    /// Returns the output of git without the last newline; fails if git fails.
    #[track_caller]
    pub fn git(&self, arguments: &[&str]) -> String {
        let output = self.git_command(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()
    }

    /// Creates a folder outside with lbx in it, as a user has it on PATH.
    #[allow(dead_code, reason = "not every test starts lbx by its name")]
    pub fn with_program(&self) -> PathBuf {
        let folder = self.outside.join("bin");
        fs::create_dir_all(&folder).unwrap();
        fs::copy(LBX, folder.join("lbx")).unwrap();
        folder
    }

    /// Creates a folder outside with git and a shell only: a PATH without lbx, on a machine that has lbx too.
    #[allow(dead_code, reason = "not every test starts lbx by its name")]
    pub fn without_program(&self) -> PathBuf {
        let folder = self.outside.join("bin-without");
        if fs::create_dir(&folder).is_ok() {
            for program in ["git", "sh"] {
                let found = PATH_FIXED
                    .split(':')
                    .map(|place| Path::new(place).join(program))
                    .find(|path| path.exists());
                std::os::unix::fs::symlink(found.unwrap(), folder.join(program)).unwrap();
            }
        }
        folder
    }

    /// Sets the root as the folder of a command, and clears the caller's environment.
    #[allow(dead_code, reason = "most tests call lbx itself")]
    pub fn surround(&self, command: &mut Command) {
        command.current_dir(&self.root).env_clear();
        command.env("LBX_STATE_ID", STATE_ID).env("PATH", PATH_FIXED).env("HOME", self.outside.join("home"));
    }

    /// Returns a git command at the root with a fixed environment.
    pub fn git_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(&self.root).stdin(Stdio::null());
        command
            .env_clear()
            .env("LBX_STATE_ID", STATE_ID)
            .env("PATH", PATH_FIXED)
            .env("HOME", self.outside.join("home"));
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command.envs(GIT_FAST);
        for role in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{role}_NAME"), "Someone")
                .env(format!("GIT_{role}_EMAIL"), "s@example.org");
        }
        command
    }

    /// Returns the subjects of the snapshots, newest first.
    pub fn snapshots(&self) -> Vec<String> {
        let known = self.git_command(&["rev-parse", "-q", "--verify", "lbx-snapshots"]).output().unwrap();
        if !known.status.success() {
            return Vec::new();
        }
        let log = self.git(&["log", "--format=%s", "lbx-snapshots", "--not", "HEAD"]);
        log.lines().map(str::to_owned).collect()
    }

    /// Returns the id of the tree that `git add -A` would make of the work tree, with a separate index.
    pub fn tree_id(&self) -> String {
        let index = self.outside.join("index-of-tree");
        let git = |arguments: &[&str]| {
            let output = self.git_command(arguments).env("GIT_INDEX_FILE", &index).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
        };
        git(&["add", "-A"]);
        git(&["write-tree"])
    }

    /// Returns the only file of lbx's state whose name contains `part`.
    pub fn state_file(&self, part: &str) -> PathBuf {
        let mut found = Vec::new();
        let mut folders = vec![self.path(".lbx")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.to_string_lossy().contains(part) {
                    found.push(path);
                }
            }
        }
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }
}

/// Calls `work` for each item, on four threads: calls wait for the disk longer than they compute. Returns the results in
/// the order of the items.
#[allow(dead_code, reason = "not every test has many cases")]
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take_items = || {
        let take = || {
            let at = next.fetch_add(1, Ordering::Relaxed);
            items.get(at).map(|item| (at, work(item)))
        };
        std::iter::from_fn(take).collect::<Vec<_>>()
    };
    // `skipped` reports the name of the thread.
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let start =
            |_| std::thread::Builder::new().name(name.clone()).spawn_scoped(scope, take_items).unwrap();
        let threads: Vec<_> = (0..4).map(start).collect();
        let end = |thread: ScopedJoinHandle<'_, Vec<(usize, R)>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(end).collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Makes a FIFO, as `mkfifo` does.
pub fn make_fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

/// Returns the SHA-256 of `bytes` as hex, from coreutils.
pub fn sha256(bytes: &[u8]) -> String {
    use std::io::Write;
    let mut child = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}
