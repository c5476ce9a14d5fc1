//! Every setting of the policy, each stated once: its key, its form, its default, and what a
//! workspace's own file may do to it.

use std::borrow::Cow;

use crate::engine::snapshot::{BRANCH_DEFAULT, Bounds, FILE_BYTES_MAX};

/// A setting, as code asks for it. In the order of [`SETTINGS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// What a change without proof is.
    Gate,
    /// What proves a hunk.
    PatchGate,
    /// The default of the `match` field of `edit`.
    Match,
    /// What becomes of a file with several names.
    HardLinks,
    /// What is never written.
    Protect,
    /// The default of `max_bytes`.
    MaxBytes,
    /// The default of `limit` of `read`.
    ReadLimit,
    /// The default of `limit` of `grep`.
    GrepLimit,
    /// The default of `limit` of `glob`.
    GlobLimit,
    /// The default of `limit` of `ls`.
    LsLimit,
    /// The default of `limit` of `log`.
    LogLimit,
    /// The default of `limit` of `audit`.
    AuditLimit,
    /// The default of `max_columns` of `grep`.
    MaxColumns,
    /// The default of `timeout_ms` of searches.
    SearchMs,
    /// The largest file that is changed.
    FileBytes,
    /// How long one holder may keep a lock.
    LockSeconds,
    /// Whether there are snapshots.
    SnapshotEnabled,
    /// The branch that they are put on.
    SnapshotBranch,
    /// Whether a change without a snapshot counts as failed.
    SnapshotRequire,
    /// The largest file that enters one.
    SnapshotFileBytes,
    /// The git folders elsewhere that serve.
    GitDirs,
    /// How long a full scan may take.
    ScanSeconds,
    /// How many files that differ it takes in.
    ScanFiles,
    /// How many bytes it takes in.
    ScanBytes,
    /// How long everything is kept.
    KeepDays,
    /// How much is kept.
    KeepBytes,
}

/// The form of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One of these words, the strictest first.
    Choice(&'static [&'static str]),
    /// A whole number from `min` to `max`, both included.
    Number {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
        /// What it counts.
        unit: &'static str,
        /// What 0 stands for, where that is not the number.
        zero: Option<&'static str>,
    },
    /// `true`, which is the stricter, or `false`.
    Switch,
    /// A list of globs.
    Globs,
    /// A list of absolute paths of folders.
    Folders,
    /// The short name of a branch.
    Branch,
}

/// What a workspace's own file may do to a setting. It comes with what was cloned, so it may not
/// take away what its user relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByWorkspace {
    /// Anything.
    Freely,
    /// Only make it stricter than its default; what the user has set stays where it is stricter.
    MoreStrictly,
    /// Nothing.
    Never,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A word or a name.
    Text(Cow<'static, str>),
    /// A number.
    Number(u64),
    /// On or off.
    Switch(bool),
    /// Globs.
    Globs(Vec<String>),
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// As code asks for it.
    pub key: Key,
    /// Its name in a file: `key`, or `table.key`.
    pub name: &'static str,
    /// The form of its value.
    pub form: Form,
    /// Its value where nothing says otherwise.
    pub default: Value,
    /// What a workspace's own file may do to it.
    pub workspace: ByWorkspace,
    /// What it is for: a sentence or two.
    pub about: &'static str,
}

impl Setting {
    /// The environment variable that sets it: `LBX_`, and its name in upper case.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("LBX_{}", self.name.to_ascii_uppercase().replace('.', "_"))
    }
}

/// The setting of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// A number of things shown, where 0 shows all.
const fn shown(max: u64, unit: &'static str) -> Form {
    Form::Number { min: 0, max, unit, zero: Some("all") }
}

/// A number.
const fn number(min: u64, max: u64, unit: &'static str) -> Form {
    Form::Number { min, max, unit, zero: None }
}

/// One setting that a workspace may set as it likes.
const fn free(key: Key, name: &'static str, form: Form, default: Value, about: &'static str) -> Setting {
    Setting { key, name, form, default, workspace: ByWorkspace::Freely, about }
}

/// One setting that a workspace may only make stricter.
const fn strict(key: Key, name: &'static str, form: Form, default: Value, about: &'static str) -> Setting {
    Setting { key, name, form, default, workspace: ByWorkspace::MoreStrictly, about }
}

/// A word as a default.
const fn word(text: &'static str) -> Value {
    Value::Text(Cow::Borrowed(text))
}

/// Every setting, in the order in which `config` and the documentation show them.
pub static SETTINGS: [Setting; 26] = [
    free(
        Key::Gate,
        "gate",
        Form::Choice(&["strict", "warn", "off"]),
        word("strict"),
        "What a change is whose caller has not seen the current bytes: refused, let through with a \
         warning, or let through. An expected_sha256 that is given is checked all the same.",
    ),
    free(
        Key::PatchGate,
        "patch_gate",
        Form::Choice(&["marks", "context"]),
        word("marks"),
        "What proves a hunk of patch: that the file was read, or also its old lines, found exactly and \
         in one place. Under the name apply_patch, context is the default.",
    ),
    free(
        Key::Match,
        "match",
        Form::Choice(&["exact", "flexible"]),
        word("exact"),
        "How edit finds old_string where the request does not say.",
    ),
    strict(
        Key::HardLinks,
        "hard_links",
        Form::Choice(&["refuse", "replace"]),
        word("replace"),
        "What a change of a file with several names is: refused, or made under the one name, while \
         the others keep the old bytes.",
    ),
    strict(
        Key::Protect,
        "protect",
        Form::Globs,
        Value::Globs(Vec::new()),
        "Paths from the root that no tool writes, with all below them, in any letter case; a glob \
         without a slash matches at any depth. The lists of all sources count together.",
    ),
    free(
        Key::MaxBytes,
        "limits.max_bytes",
        number(1024, 1_000_000, "bytes"),
        Value::Number(24_576),
        "Payload of an answer where the request does not say.",
    ),
    free(
        Key::ReadLimit,
        "limits.read",
        shown(100_000_000, "lines"),
        Value::Number(2000),
        "Lines that read shows where the request does not say.",
    ),
    free(
        Key::GrepLimit,
        "limits.grep",
        shown(100_000_000, "matches"),
        Value::Number(250),
        "Matches that grep shows where the request does not say.",
    ),
    free(
        Key::GlobLimit,
        "limits.glob",
        shown(100_000_000, "paths"),
        Value::Number(1000),
        "Paths that glob shows where the request does not say.",
    ),
    free(
        Key::LsLimit,
        "limits.ls",
        shown(100_000_000, "entries"),
        Value::Number(1000),
        "Entries that ls shows where the request does not say.",
    ),
    free(
        Key::LogLimit,
        "limits.log",
        shown(100_000_000, "snapshots"),
        Value::Number(20),
        "Snapshots that log shows where the request does not say.",
    ),
    free(
        Key::AuditLimit,
        "limits.audit",
        shown(100_000_000, "records"),
        Value::Number(50),
        "Records that audit shows where the request does not say.",
    ),
    free(
        Key::MaxColumns,
        "limits.max_columns",
        shown(100_000_000, "bytes"),
        Value::Number(500),
        "Bytes of a line that grep shows where the request does not say.",
    ),
    free(
        Key::SearchMs,
        "limits.search_ms",
        Form::Number { min: 0, max: 86_400_000, unit: "milliseconds", zero: Some("no limit") },
        Value::Number(30_000),
        "Time of a grep, glob or ls where the request does not say.",
    ),
    free(
        Key::FileBytes,
        "limits.file_bytes",
        number(1, 4 << 30, "bytes"),
        Value::Number(512 << 20),
        "The largest file that is changed; larger ones are read and searched.",
    ),
    free(
        Key::LockSeconds,
        "limits.lock_seconds",
        number(1, 3600, "seconds"),
        Value::Number(10),
        "How long one other call may keep a lock before this one gives up.",
    ),
    strict(
        Key::SnapshotEnabled,
        "snapshot.enabled",
        Form::Switch,
        Value::Switch(true),
        "Whether each change becomes a commit on the snapshot branch. Without them undo still works.",
    ),
    strict(
        Key::SnapshotBranch,
        "snapshot.branch",
        Form::Branch,
        word(BRANCH_DEFAULT),
        "The branch for the snapshots, which must be new or hold snapshots. A workspace may name only \
         one that begins with lbx- or lbx/.",
    ),
    strict(
        Key::SnapshotRequire,
        "snapshot.require",
        Form::Switch,
        Value::Switch(false),
        "Whether a change that gets no snapshot counts as failed, as with --require-snapshot.",
    ),
    strict(
        Key::SnapshotFileBytes,
        "snapshot.file_bytes",
        number(1, 1 << 30, "bytes"),
        Value::Number(FILE_BYTES_MAX),
        "The largest file that enters a snapshot; an answer names what was left out.",
    ),
    Setting {
        key: Key::GitDirs,
        name: "snapshot.git_dirs",
        form: Form::Folders,
        default: Value::Globs(Vec::new()),
        workspace: ByWorkspace::Never,
        about: "Git folders outside the workspace, as absolute paths, that snapshots may go to where .git \
                leads there and they do not point back, as after git init --separate-git-dir.",
    },
    strict(
        Key::ScanSeconds,
        "snapshot.scan_seconds",
        number(1, 3600, "seconds"),
        Value::Number(60),
        "Time of a scan of the whole work tree, during which other changes wait.",
    ),
    strict(
        Key::ScanFiles,
        "snapshot.scan_files",
        number(1, 10_000_000, "files"),
        Value::Number(Bounds::FULL.paths_max as u64),
        "Files that differ and that one scan takes in; more are refused.",
    ),
    strict(
        Key::ScanBytes,
        "snapshot.scan_bytes",
        number(1, 64 << 30, "bytes"),
        Value::Number(Bounds::FULL.bytes_max),
        "Bytes in the files that one scan takes in; more are refused.",
    ),
    strict(
        Key::KeepDays,
        "gc.keep_days",
        number(0, 36_500, "days"),
        Value::Number(30),
        "Age up to which gc keeps backups, history and trash.",
    ),
    strict(
        Key::KeepBytes,
        "gc.keep_bytes",
        Form::Number { min: 0, max: 1 << 50, unit: "bytes", zero: Some("no bound") },
        Value::Number(0),
        "Size beyond which gc removes the oldest even if it is younger, save what is younger than a day.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_the_order_of_its_keys_and_names_each_once() {
        for (place, setting) in SETTINGS.iter().enumerate() {
            assert_eq!(setting.key as usize, place, "{}", setting.name);
            assert_eq!(SETTINGS.iter().filter(|other| other.name == setting.name).count(), 1);
            assert_eq!(SETTINGS.iter().filter(|other| other.variable() == setting.variable()).count(), 1);
            assert!(setting.about.ends_with('.'), "{}", setting.name);
        }
    }
}
