//! Whole workspaces: replaces the bytes of one file of a real `.lbx`, `.git` or workspace, and calls tools.
//!
//! Damaged files are read by the production code, from an opened folder. `tests/hostile` does the same with the real
//! binary, and also puts links, FIFOs and folders in the place of a file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use lbx::app::options::Options;
use lbx::catalog;
use lbx::engine::policy::sources::Sources;
use lbx::engine::workspace::Workspace;
use lbx::envelope::ResponseFrame;
use lbx::error::{Error, ErrorKind};
use lbx::sha256::Sha256;
use lbx::tools::{Text, ToolEntry};
use serde_json::{Value, json};

use super::protocol::call;

/// Files of lbx's state. `@` is the name of the newest change, `*` the only or first name in the folder.
const STATE: [&str; 13] = [
    "sessions/default.lbx",
    "journal/done/default/00000002.lbx",
    "journal/done/default/00000003.lbx",
    "journal/done/default/00000004.lbx",
    "journal/done/default/00000008.lbx",
    "journal/open/@.lbx",
    "journal/open/.@.lbx",
    "audit/current.jsonl",
    "audit/head",
    "backups/bundles/*",
    "trash/*/entry.lbx",
    "scan/*",
    "jobs/1/record.json",
];
/// Files of git. A name without a folder is the name of an object, which is stored again with its header.
const REPOSITORY: [&str; 18] = [
    ".git/config",
    ".git/HEAD",
    ".git/index",
    ".git/packed-refs",
    ".git/refs/heads/lbx-snapshots",
    ".git/info/exclude",
    ".git/info/attributes",
    ".git/objects/info/alternates",
    ".git/objects/info/commit-graph",
    ".git/commondir",
    ".git/config.worktree",
    ".git/shallow",
    "d/.git",
    ".git/objects/pack/*.idx",
    ".git/objects/pack/*.pack",
    "lbx-snapshots",
    "lbx-snapshots^{tree}",
    "lbx-snapshots:d",
];
/// Settings files of users, and files of special formats.
const FILES: [&str; 8] = [
    ".gitignore",
    ".gitattributes",
    ".ignore",
    "d/.gitignore",
    "d/.gitattributes",
    ".lbx/config.toml",
    "a.ipynb",
    "a.png",
];

/// Damages one file of lbx's state.
pub fn state(data: &[u8]) {
    damaged(data, &STATE.map(|name| format!(".lbx/{}/{name}", state_id())));
}

/// Damages one file of a repository.
pub fn repository(data: &[u8]) {
    damaged(data, &REPOSITORY.map(str::to_owned));
}

/// Damages one of the workspace files that lbx parses.
pub fn files(data: &[u8]) {
    damaged(data, &FILES.map(str::to_owned));
}

/// Returns the groups of calls made after the damage; the input chooses one.
fn groups() -> [Vec<(&'static str, Value)>; 6] {
    [
        vec![
            ("read", json!({ "path": "a.txt" })),
            ("edit", json!({ "path": "a.txt", "old_string": "one", "new_string": "two" })),
            ("session", json!({})),
            ("undo", json!({})),
        ],
        vec![("undo", json!({ "steps": 3 })), ("redo", json!({})), ("log", json!({})), ("diff", json!({}))],
        vec![
            ("snapshot", json!({})),
            ("blame", json!({ "path": "a.txt" })),
            ("log", json!({ "path": "a.txt" })),
            ("diff", json!({ "from": "HEAD" })),
        ],
        vec![
            ("grep", json!({ "pattern": "o", "context": 1 })),
            ("glob", json!({ "pattern": "**/*" })),
            ("ls", json!({ "recursive": true, "hidden": true })),
            ("read", json!({ "paths": ["a.ipynb", "a.png", "d/c.txt"], "binary": "base64" })),
            ("config", json!({})),
        ],
        vec![
            ("audit", json!({ "verify": true })),
            ("trash", json!({})),
            ("restore", json!({ "path": "gone.txt" })),
            ("session", json!({ "action": "brief" })),
            ("stats", json!({})),
            ("gc", json!({})),
        ],
        vec![
            ("write", json!({ "path": "d/new.txt", "content": "new\n" })),
            ("delete", json!({ "path": "b.txt" })),
            ("move", json!({ "from": "d/c.txt", "to": "e/c.txt" })),
            ("rewind", json!({ "to": 1 })),
            ("squash", json!({ "message": "all", "onto": "work" })),
        ],
    ]
}

/// Puts other bytes into one of `names`, and makes the calls of a group.
///
/// The first byte chooses the file and the second the group. The third decides if the rest replaces the bytes of the
/// file or edits them.
fn damaged(data: &[u8], names: &[String]) {
    let [file, group, form, rest @ ..] = data else { return };
    let template = furnished();
    let Some(name) = names.get(usize::from(*file) % names.len()) else { return };
    template.put_back();
    template.damage(name, |was| if form % 2 == 0 { rest.to_vec() } else { changed(was, rest) });
    let groups = groups();
    let Some(calls) = groups.into_iter().nth(usize::from(*group) % 6) else { return };
    for (tool, request) in calls {
        template.judge(catalog::find(tool).expect("a tool of that name"), request);
    }
}

/// Returns the bytes with the edits of a script: operation, position, length and new bytes.
fn changed(was: &[u8], mut script: &[u8]) -> Vec<u8> {
    let mut bytes = was.to_vec();
    while let [what, high, low, count, rest @ ..] = script {
        let at = (usize::from(*high) << 8 | usize::from(*low)) % (bytes.len() + 1);
        let end = (at + usize::from(*count)).min(bytes.len());
        let given = &rest[..usize::from(*count % 32).min(rest.len())];
        script = &rest[given.len()..];
        match what % 4 {
            0 => drop(bytes.splice(at..(at + given.len()).min(bytes.len()), given.iter().copied())),
            1 => drop(bytes.splice(at..at, given.iter().copied())),
            2 => drop(bytes.drain(at..end)),
            _ => bytes.extend_from_within(at..end),
        }
    }
    bytes
}

/// Type and content found at a path.
enum Standing {
    /// A folder with its permission bits.
    Folder(u32),
    /// A file with its permission bits and bytes.
    File(u32, Vec<u8>),
    /// A symlink with its target.
    Link(PathBuf),
}

/// A workspace with some history, created once and restored before each input.
pub struct Template {
    /// Workspace root.
    root: PathBuf,
    /// All files, folders and links by path.
    all: BTreeMap<PathBuf, Standing>,
    /// Objects that may be damaged: name, path, and content with the header.
    objects: Vec<(String, PathBuf, Vec<u8>)>,
    /// Name and entry of the newest change.
    newest: (String, Vec<u8>),
}

/// Returns the id of lbx's state. The environment sets it, as it sets the home folder, so that the user's own state is
/// never touched.
fn state_id() -> String {
    std::env::var("LBX_STATE_ID").expect("fuzz/run.sh or tests/fuzz sets LBX_STATE_ID and HOME")
}

/// Returns the JSON of a journal entry, without the digest at its end.
fn json_of(entry: &[u8]) -> &[u8] {
    entry.split(|byte| *byte == b'\n').next().unwrap_or_default()
}

/// Returns the file of a journal entry with this JSON.
fn sealed(mut json: Vec<u8>) -> Vec<u8> {
    let digest = Sha256::of(&json);
    json.extend(format!("\n{digest}\n").into_bytes());
    json
}

/// Returns the workspace of this process.
pub fn furnished() -> &'static Template {
    static TEMPLATE: LazyLock<Template> = LazyLock::new(Template::furnish);
    &TEMPLATE
}

impl Template {
    /// Creates the workspace.
    fn furnish() -> Self {
        // A panic within a call becomes an `internal` error, which fails the check. libFuzzer's hook would also end the
        // process for panics of gix that are caught on purpose.
        drop(std::panic::take_hook());
        std::panic::set_hook(Box::new(|_| {}));
        let root = PathBuf::from(std::env::var_os("HOME").expect("see state_id")).join("workspace");
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("d")).expect("the home folder can be written");
        let files = [
            ("a.txt", "one\n"),
            ("b.txt", "b\n"),
            ("d/c.txt", "c\n"),
            ("gone.txt", "gone\n"),
            ("a.ipynb", r#"{"cells":[{"cell_type":"code","source":["x\n"],"outputs":[]}],"nbformat":4}"#),
            (".gitignore", "*.log\n"),
            (".gitattributes", "*.txt text\n"),
        ];
        for (path, text) in files {
            fs::write(root.join(path), text).expect("the home folder can be written");
        }
        git(&root, &["init", "-q", "-b", "main"]);
        git(&root, &["add", "-A"]);
        git(&root, &["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "first"]);
        git(&root, &["gc", "-q"]);
        fs::remove_dir_all(root.join(".git/hooks")).expect("git makes examples of hooks");
        let mut made = Self { root, all: BTreeMap::new(), objects: Vec::new(), newest: Default::default() };
        for (tool, request) in history() {
            made.judge(catalog::find(tool).expect("a tool of that name"), request);
        }
        made.objects = REPOSITORY[15..].iter().map(|name| made.object(name)).collect();
        let done = made.root.join(format!(".lbx/{}/journal/done/default/00000008.lbx", state_id()));
        let entry = fs::read(done).expect("the history has eight changes");
        let value: Value = serde_json::from_slice(json_of(&entry)).expect("an entry is JSON");
        made.newest = (value["id"].as_str().unwrap_or_default().to_owned(), entry);
        let mut all = BTreeMap::new();
        take(&made.root, Path::new(""), &mut all);
        made.all = all;
        made
    }

    /// Returns an object by its git name.
    fn object(&self, name: &str) -> (String, PathBuf, Vec<u8>) {
        let id = git(&self.root, &["rev-parse", name]);
        let id = String::from_utf8_lossy(id.trim_ascii()).into_owned();
        let kind = git(&self.root, &["cat-file", "-t", &id]);
        let kind = String::from_utf8_lossy(kind.trim_ascii()).into_owned();
        let data = git(&self.root, &["cat-file", &kind, &id]);
        let (folder, file) = id.split_at(2);
        let whole = [format!("{kind} {}\0", data.len()).as_bytes(), &data].concat();
        (name.to_owned(), format!(".git/objects/{folder}/{file}").into(), whole)
    }

    /// Restores everything.
    pub fn put_back(&self) {
        for entry in fs::read_dir(&self.root).expect("the root is there").flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                fs::remove_dir_all(&path).expect("what a call leaves can be removed");
            } else {
                fs::remove_file(&path).expect("what a call leaves can be removed");
            }
        }
        for (path, standing) in &self.all {
            let path = self.root.join(path);
            match standing {
                Standing::Folder(mode) => {
                    fs::create_dir(&path).expect("an empty root");
                    fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).expect("an own folder");
                }
                Standing::File(mode, bytes) => {
                    fs::write(&path, bytes).expect("an empty root");
                    fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).expect("an own file");
                }
                Standing::Link(target) => symlink(target, &path).expect("an empty root"),
            }
        }
    }

    /// Puts other bytes into the file with that name.
    fn damage(&self, name: &str, other: impl Fn(&[u8]) -> Vec<u8>) {
        if let Some((_, path, whole)) = self.objects.iter().find(|object| object.0 == name) {
            return self.put(path, &stored(&other(whole)));
        }
        if let Some(open) = name.contains('@').then(|| name.replace('@', &self.newest.0)) {
            return self.put(Path::new(&open), &sealed(other(json_of(&self.newest.1))));
        }
        let Some(path) = self.path_of(name) else { return };
        let was = match self.all.get(&path) {
            Some(Standing::File(_, bytes)) => bytes.as_slice(),
            _ => &[],
        };
        // A wrong digest would hide all other damage of an entry.
        let bytes = if name.contains("/journal/") { sealed(other(json_of(was))) } else { other(was) };
        self.put(&path, &bytes);
    }

    /// Returns the path of a name in which `*` matches any one name.
    fn path_of(&self, name: &str) -> Option<PathBuf> {
        let Some((before, after)) = name.split_once('*') else { return Some(name.into()) };
        let is_meant = |path: &&PathBuf| {
            let middle = path.to_str().and_then(|path| path.strip_prefix(before)?.strip_suffix(after));
            middle.is_some_and(|middle| !middle.contains('/'))
        };
        self.all.keys().find(is_meant).cloned()
    }

    /// Writes a file, and creates missing folders.
    fn put(&self, path: &Path, bytes: &[u8]) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&self.root)).expect("a folder");
        let _ = fs::remove_file(&path);
        fs::write(&path, bytes).expect("a file of our own");
    }

    /// Returns the options of a call.
    pub fn options() -> Options {
        let policy = Sources { user_file: None, environment: Vec::new(), flags: Vec::new() };
        Options { policy, ..Options::default() }
    }

    /// Opens the workspace.
    ///
    /// # Errors
    /// Fails if the root is refused.
    pub fn workspace(&self) -> Result<Workspace, Error> {
        Workspace::open(&self.root)
    }

    /// Makes a call and checks its answer: no `internal` error, and all output is valid JSON and text.
    pub fn judge(&self, tool: &'static ToolEntry, request: Value) {
        let shown = request.to_string();
        let called = call(self, tool, request);
        let frame = ResponseFrame { tool: tool.name, id: None, outcome: &called.outcome, pretty: false };
        match &called.answered {
            Ok(reply) => {
                let mut json = Vec::new();
                reply.json(&frame, &mut json).expect("an answer is JSON");
                reply.text(&mut Text::new(false));
            }
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::Internal, "{} {shown}: {}", tool.name, error.message());
                let _ = frame.failure(error);
            }
        }
    }
}

/// Returns the calls that the template's session has made.
fn history() -> Vec<(&'static str, Value)> {
    let many: String = (0..20).map(|number| format!("*** Add File: m/{number}\n+{number}\n")).collect();
    let change: String =
        (0..20).map(|number| format!("*** Update File: m/{number}\n@@\n-{number}\n+n{number}\n")).collect();
    let patch = |body: &str| json!({ "patch": format!("*** Begin Patch\n{body}*** End Patch\n") });
    vec![
        ("read", json!({ "path": "a.txt" })),
        ("write", json!({ "path": "x.txt", "content": "x\n" })),
        ("append", json!({ "path": "a.txt", "content": "more\n" })),
        ("delete", json!({ "path": "gone.txt" })),
        ("move", json!({ "from": "x.txt", "to": "d/y.txt" })),
        ("append", json!({ "path": "d/y.txt", "content": "y\n" })),
        ("undo", json!({})),
        ("patch", patch(&many)),
        ("patch", patch(&change)),
        ("edit", json!({ "path": "a.txt", "old_string": "more", "new_string": "less" })),
        ("snapshot", json!({})),
    ]
}

/// Adds everything in a folder.
fn take(root: &Path, folder: &Path, all: &mut BTreeMap<PathBuf, Standing>) {
    let mut names: Vec<OsString> =
        fs::read_dir(root.join(folder)).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        let path = folder.join(name);
        let stat = fs::symlink_metadata(root.join(&path)).expect("what was listed");
        let mode = stat.permissions().mode() & 0o7777;
        if stat.is_dir() {
            all.insert(path.clone(), Standing::Folder(mode));
            take(root, &path, all);
        } else if stat.is_symlink() {
            all.insert(path.clone(), Standing::Link(fs::read_link(root.join(&path)).expect("a link")));
        } else {
            all.insert(path.clone(), Standing::File(mode, fs::read(root.join(&path)).expect("a file")));
        }
    }
}

/// Returns the output of git.
fn git(root: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("git").args(arguments).current_dir(root).output().expect("git is installed");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Returns bytes in zlib format (RFC 1950), uncompressed.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let mut blocks = bytes.chunks(0xffff).peekable();
    if bytes.is_empty() {
        out.extend([1, 0, 0, 0xff, 0xff]);
    }
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).expect("a block of 65,535 bytes at most");
        out.push(u8::from(blocks.peek().is_none()));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    let (mut one, mut two) = (1_u32, 0_u32);
    for byte in bytes {
        one = (one + u32::from(*byte)) % 65_521;
        two = (two + one) % 65_521;
    }
    out.extend((two << 16 | one).to_be_bytes());
    out
}
