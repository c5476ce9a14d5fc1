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
    /// What only the user's own file loosens.
    Pinned,
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
    /// What confines commands.
    BashBackend,
    /// Whether commands have the network.
    BashNetwork,
    /// Folders outside the workspace that commands may write.
    BashWritable,
    /// Paths that commands do not see.
    BashHidden,
    /// Variables that commands get from the caller's environment.
    BashEnv,
    /// The default of `timeout_ms` of `bash`.
    BashMs,
    /// Memory of each process of a command.
    BashMemory,
    /// Processes of a command.
    BashProcesses,
    /// The largest file that a command writes.
    BashFileBytes,
    /// The most output of a command that is kept.
    BashOutputBytes,
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
    /// A list of the names of settings.
    Settings,
    /// A list of these, which may be anything.
    Items(&'static str),
    /// The short name of a branch.
    Branch,
}

/// What a workspace's own file may do to a setting. It comes with what was cloned, so it may not
/// take away what its user relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByWorkspace {
    /// Anything that its form takes.
    Freely,
    /// A number from the least of its form to this one, and none that lifts a bound: what comes with a
    /// clone must not use up the time or the memory of whoever works in it.
    UpTo(u64),
    /// Only make it stricter than its default; what the user has set stays where it is stricter.
    MoreStrictly,
    /// The same, up to this number.
    MoreStrictlyUpTo(u64),
    /// Nothing.
    Never,
    /// Nothing, and neither may the environment or flags: the user's own file alone sets it.
    UserOnly,
}

impl ByWorkspace {
    /// Whether a looser value than the default is refused.
    #[must_use]
    pub const fn is_strict(self) -> bool {
        match self {
            Self::Freely | Self::UpTo(_) => false,
            Self::MoreStrictly | Self::MoreStrictlyUpTo(_) | Self::Never | Self::UserOnly => true,
        }
    }

    /// The largest number, where it is less than that of the form.
    #[must_use]
    pub const fn at_most(self) -> Option<u64> {
        match self {
            Self::UpTo(most) | Self::MoreStrictlyUpTo(most) => Some(most),
            Self::Freely | Self::MoreStrictly | Self::Never | Self::UserOnly => None,
        }
    }
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
    /// Globs, or names of settings.
    List(Vec<String>),
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

/// One setting that a workspace may set up to a number.
const fn up_to(
    most: u64,
    key: Key,
    name: &'static str,
    form: Form,
    default: Value,
    about: &'static str,
) -> Setting {
    Setting { key, name, form, default, workspace: ByWorkspace::UpTo(most), about }
}

/// One setting that a workspace may only make stricter, up to a number.
const fn strict_up_to(
    most: u64,
    key: Key,
    name: &'static str,
    form: Form,
    default: Value,
    about: &'static str,
) -> Setting {
    Setting { key, name, form, default, workspace: ByWorkspace::MoreStrictlyUpTo(most), about }
}

/// One setting that a workspace may only make stricter.
const fn strict(key: Key, name: &'static str, form: Form, default: Value, about: &'static str) -> Setting {
    Setting { key, name, form, default, workspace: ByWorkspace::MoreStrictly, about }
}

/// One setting that a workspace may not set.
const fn own(key: Key, name: &'static str, form: Form, default: Value, about: &'static str) -> Setting {
    Setting { key, name, form, default, workspace: ByWorkspace::Never, about }
}

/// A word as a default.
const fn word(text: &'static str) -> Value {
    Value::Text(Cow::Borrowed(text))
}

/// Every setting, in the order in which `config` and the documentation show them.
pub static SETTINGS: [Setting; 37] = [
    free(
        Key::Gate,
        "gate",
        Form::Choice(&["strict", "warn", "off"]),
        word("strict"),
        "What to do when the caller has not read the current bytes: refuse the change, warn, or allow \
         it. An expected_sha256 is always checked.",
    ),
    free(
        Key::PatchGate,
        "patch_gate",
        Form::Choice(&["marks", "context"]),
        word("marks"),
        "What proves a hunk of a patch: a read of the file, or also its old lines if they match exactly \
         and once. Under the name apply_patch, context is the default.",
    ),
    free(
        Key::Match,
        "match",
        Form::Choice(&["exact", "flexible"]),
        word("exact"),
        "Default of the match field of edit.",
    ),
    strict(
        Key::HardLinks,
        "hard_links",
        Form::Choice(&["refuse", "replace"]),
        word("replace"),
        "What to do with a file that has several hard links: refuse the change, or replace this name, \
         while the others keep the old bytes.",
    ),
    strict(
        Key::Protect,
        "protect",
        Form::Globs,
        Value::List(Vec::new()),
        "Paths from the root that no tool writes, with all below them, in any letter case; a glob \
         without a slash matches at any depth. The lists of all sources are combined, and those of \
         workspaces further up count here too.",
    ),
    Setting {
        key: Key::Pinned,
        name: "pinned",
        form: Form::Settings,
        default: Value::List(Vec::new()),
        workspace: ByWorkspace::UserOnly,
        about: "Settings that neither a workspace nor the environment nor a flag can loosen, such as \
                \"gate\". Only the user's own file sets it.",
    },
    free(
        Key::MaxBytes,
        "limits.max_bytes",
        number(1024, 1_000_000, "bytes"),
        Value::Number(24_576),
        "Default bound on the payload of an answer.",
    ),
    free(
        Key::ReadLimit,
        "limits.read",
        shown(100_000_000, "lines"),
        Value::Number(2000),
        "Default number of lines that read shows.",
    ),
    free(
        Key::GrepLimit,
        "limits.grep",
        shown(100_000_000, "matches"),
        Value::Number(250),
        "Default number of matches that grep shows.",
    ),
    free(
        Key::GlobLimit,
        "limits.glob",
        shown(100_000_000, "paths"),
        Value::Number(1000),
        "Default number of paths that glob shows.",
    ),
    free(
        Key::LsLimit,
        "limits.ls",
        shown(100_000_000, "entries"),
        Value::Number(1000),
        "Default number of entries that ls shows.",
    ),
    free(
        Key::LogLimit,
        "limits.log",
        shown(100_000_000, "snapshots"),
        Value::Number(20),
        "Default number of snapshots that log shows.",
    ),
    free(
        Key::AuditLimit,
        "limits.audit",
        shown(100_000_000, "records"),
        Value::Number(50),
        "Default number of records that audit shows.",
    ),
    free(
        Key::MaxColumns,
        "limits.max_columns",
        shown(100_000_000, "bytes"),
        Value::Number(500),
        "Default number of bytes that grep shows of a line.",
    ),
    up_to(
        600_000,
        Key::SearchMs,
        "limits.search_ms",
        Form::Number { min: 0, max: 86_400_000, unit: "milliseconds", zero: Some("no limit") },
        Value::Number(30_000),
        "Default time limit for grep, glob and ls.",
    ),
    up_to(
        1 << 30,
        Key::FileBytes,
        "limits.file_bytes",
        number(1, 4 << 30, "bytes"),
        Value::Number(512 << 20),
        "Largest file that can be changed; larger ones can be read and searched.",
    ),
    up_to(
        60,
        Key::LockSeconds,
        "limits.lock_seconds",
        number(1, 3600, "seconds"),
        Value::Number(10),
        "How long to wait for a lock that one other call holds.",
    ),
    strict(
        Key::SnapshotEnabled,
        "snapshot.enabled",
        Form::Switch,
        Value::Switch(true),
        "Whether each change becomes a commit on the snapshot branch. Undo works without them.",
    ),
    strict(
        Key::SnapshotBranch,
        "snapshot.branch",
        Form::Branch,
        word(BRANCH_DEFAULT),
        "Branch for the snapshots; must be new or hold snapshots. A workspace can name only one that \
         begins with lbx- or lbx/.",
    ),
    strict(
        Key::SnapshotRequire,
        "snapshot.require",
        Form::Switch,
        Value::Switch(false),
        "Whether a change without a snapshot counts as failed, as with --require-snapshot.",
    ),
    strict_up_to(
        256 << 20,
        Key::SnapshotFileBytes,
        "snapshot.file_bytes",
        number(1, 1 << 30, "bytes"),
        Value::Number(FILE_BYTES_MAX),
        "Largest file that enters a snapshot; the answer names files left out.",
    ),
    Setting {
        key: Key::GitDirs,
        name: "snapshot.git_dirs",
        form: Form::Folders,
        default: Value::List(Vec::new()),
        workspace: ByWorkspace::Never,
        about: "Git folders outside the workspace, as absolute paths, that snapshots may go to where .git \
                leads there and they do not point back, as after git init --separate-git-dir.",
    },
    strict_up_to(
        600,
        Key::ScanSeconds,
        "snapshot.scan_seconds",
        number(1, 3600, "seconds"),
        Value::Number(60),
        "Time limit for a scan of the whole work tree; other changes wait meanwhile.",
    ),
    strict_up_to(
        1_000_000,
        Key::ScanFiles,
        "snapshot.scan_files",
        number(1, 10_000_000, "files"),
        Value::Number(Bounds::FULL.paths_max as u64),
        "Number of changed files that one scan accepts; more are refused.",
    ),
    strict_up_to(
        4 << 30,
        Key::ScanBytes,
        "snapshot.scan_bytes",
        number(1, 64 << 30, "bytes"),
        Value::Number(Bounds::FULL.bytes_max),
        "Bytes in the changed files that one scan accepts; more are refused.",
    ),
    strict(
        Key::KeepDays,
        "gc.keep_days",
        number(0, 36_500, "days"),
        Value::Number(30),
        "How long gc keeps backups, history and trash.",
    ),
    strict(
        Key::KeepBytes,
        "gc.keep_bytes",
        Form::Number { min: 0, max: 1 << 50, unit: "bytes", zero: Some("no bound") },
        Value::Number(0),
        "Size beyond which gc removes the oldest even if younger, but nothing younger than a day.",
    ),
    own(
        Key::BashBackend,
        "bash.backend",
        Form::Choice(&["auto", "bubblewrap", "namespaces", "none"]),
        word("auto"),
        "What confines the commands of bash: auto takes the first of the others that works, and never \
         none, which confines nothing.",
    ),
    strict(
        Key::BashNetwork,
        "bash.network",
        Form::Choice(&["deny", "request", "allow"]),
        word("deny"),
        "Whether commands have the network: never, where the request asks for it, or unless the \
         request says no.",
    ),
    own(
        Key::BashWritable,
        "bash.writable",
        Form::Items("folders"),
        Value::List(Vec::new()),
        "Folders outside the workspace that commands may write, such as ~/.cargo/registry. The lists of \
         all sources count together.",
    ),
    strict(
        Key::BashHidden,
        "bash.hidden",
        Form::Items("paths"),
        Value::List(Vec::new()),
        "Paths that commands do not see, beside those where programs are known to keep secrets, such as \
         ~/.ssh. The lists of all sources count together.",
    ),
    own(
        Key::BashEnv,
        "bash.env",
        Form::Items("names of variables"),
        Value::List(Vec::new()),
        "Variables that commands get from the caller's environment, beside those that every program \
         needs. The lists of all sources count together.",
    ),
    up_to(
        3_600_000,
        Key::BashMs,
        "bash.timeout_ms",
        number(1, 86_400_000, "milliseconds"),
        Value::Number(120_000),
        "Time limit of a command where the request does not say.",
    ),
    up_to(
        64 << 30,
        Key::BashMemory,
        "bash.memory_bytes",
        Form::Number { min: 0, max: 1 << 50, unit: "bytes", zero: Some("no limit") },
        Value::Number(16 << 30),
        "Memory that each process of a command may fill.",
    ),
    up_to(
        65_536,
        Key::BashProcesses,
        "bash.processes",
        Form::Number { min: 0, max: 1 << 22, unit: "processes and threads", zero: Some("no limit") },
        Value::Number(4096),
        "Processes and threads of a command at once.",
    ),
    up_to(
        64 << 30,
        Key::BashFileBytes,
        "bash.file_bytes",
        Form::Number { min: 0, max: 1 << 50, unit: "bytes", zero: Some("no limit") },
        Value::Number(8 << 30),
        "The largest file that a command may write.",
    ),
    up_to(
        1 << 30,
        Key::BashOutputBytes,
        "bash.output_bytes",
        number(1 << 20, 16 << 30, "bytes"),
        Value::Number(64 << 20),
        "Output of a command that is kept in a file where the answer does not hold it all.",
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
