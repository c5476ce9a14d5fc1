//! All settings of the policy: key, form, default, and the changes that a workspace's own file may make.

use std::borrow::Cow;

use Form::{Branch, Caches, Choice, Folders, Globs, Items, Settings, Switch};
use WorkspaceRights::{
    Freely, MoreStrictly, MoreStrictlyUpTo, Never, UnlessUser, UnlessUserUpTo, UpTo, UserOnly,
};

use crate::engine::snapshot::{BRANCH_DEFAULT, ScanBounds};
use crate::limits::SNAPSHOT_FILE_BYTES_MAX;

/// The form of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One of these words, strictest first.
    Choice(&'static [&'static str]),
    /// A whole number from `min` to `max`, both included.
    Number {
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
        /// Unit of the number.
        unit: &'static str,
        /// Meaning of 0, if it is special.
        zero: Option<&'static str>,
    },
    /// `true`, the stricter value, or `false`.
    Switch,
    /// A list of globs.
    Globs,
    /// A list of absolute paths of folders.
    Folders,
    /// A list of the names of settings.
    Settings,
    /// A list of the names of caches; an empty one means all.
    Caches,
    /// A list of items of this kind, with any content.
    Items(&'static str),
    /// `deny`, a list of hosts, or `allow`.
    Network,
    /// The short name of a branch.
    Branch,
}

/// Changes that a workspace's own file may make to a setting. The file comes with a clone, so it may not remove what
/// its user relies on. The environment and flags are in the agent's hands: unless the workspace may make any change, they
/// loosen the setting only if the user's own file says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkspaceRights {
    /// Any valid value.
    Freely,
    /// A number up to this one, and no removal of a limit: a clone must not use up the time or memory of its user.
    UpTo(u64),
    /// Any valid value, but none that is looser than the user's own file says.
    UnlessUser,
    /// Any such value, and no number above this one.
    UnlessUserUpTo(u64),
    /// Only values that are stricter than the default; a stricter value of the user takes precedence.
    MoreStrictly,
    /// Only stricter values, up to this number.
    MoreStrictlyUpTo(u64),
    /// No changes.
    Never,
    /// No changes, not even by the environment or flags: only the user's own file sets it.
    UserOnly,
}

impl WorkspaceRights {
    /// Returns true if a looser value than the default is refused.
    pub const fn is_strict(self) -> bool {
        match self {
            Self::Freely | Self::UpTo(_) | Self::UnlessUser | Self::UnlessUserUpTo(_) => false,
            Self::MoreStrictly | Self::MoreStrictlyUpTo(_) | Self::Never | Self::UserOnly => true,
        }
    }

    /// Returns true if the environment and flags loosen it only where the user's own file lists it in `loosen`.
    pub const fn is_guarded(self) -> bool {
        !matches!(self, Self::Freely | Self::UpTo(_))
    }

    /// Returns the largest allowed number, if it is less than that of the form.
    pub const fn at_most(self) -> Option<u64> {
        match self {
            Self::UpTo(most) | Self::UnlessUserUpTo(most) | Self::MoreStrictlyUpTo(most) => Some(most),
            Self::Freely | Self::UnlessUser | Self::MoreStrictly | Self::Never | Self::UserOnly => None,
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

/// Act of a command line that only the user's own policy file allows: `loosen` lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Use a workspace other than that of the current folder.
    Workspace,
    /// Take a text from a file outside the workspace.
    Content,
    /// Run a program that gives access to a sandbox.
    Exec,
}

impl Permission {
    /// All permissions.
    pub const ALL: [Self; 3] = [Self::Workspace, Self::Content, Self::Exec];

    /// Returns its name in `loosen`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::Content => "content",
            Self::Exec => "exec",
        }
    }
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Key in code.
    pub key: Key,
    /// Name in a file: `key`, or `table.key`.
    pub name: &'static str,
    /// Form of the value.
    pub form: Form,
    /// Default value.
    pub default: Value,
    /// Changes that a workspace's own file may make to it.
    pub workspace: WorkspaceRights,
    /// Purpose, in a sentence or two.
    pub about: &'static str,
}

impl Setting {
    /// Returns the environment variable that sets it: `LBX_`, and its name in upper case.
    pub fn variable(&self) -> String {
        format!("LBX_{}", self.name.to_ascii_uppercase().replace('.', "_"))
    }
}

/// Returns the setting of that name.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// Returns the form of a number of shown items; 0 shows all.
const fn shown_items_form(unit: &'static str) -> Form {
    bounded(100_000_000, unit, "all")
}

/// Returns the form of a number.
const fn number(min: u64, max: u64, unit: &'static str) -> Form {
    Form::Number { min, max, unit, zero: None }
}

/// Returns the form of a number with a special meaning of 0.
const fn bounded(max: u64, unit: &'static str, zero: &'static str) -> Form {
    Form::Number { min: 0, max, unit, zero: Some(zero) }
}

/// Returns a word as a default.
const fn word(text: &'static str) -> Value {
    Value::Text(Cow::Borrowed(text))
}

/// An empty list as a default.
const NONE: Value = Value::List(Vec::new());

/// Defines the keys and the list from one table: for each setting its key, name, changes by a workspace, form, default,
/// and purpose.
macro_rules! settings {
    ($($key:ident $name:literal, $workspace:expr, $form:expr, $default:expr, $about:literal;)*) => {
        /// Key of a setting in code, in the order of [`SETTINGS`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Key {
            $(#[doc = $about] $key,)*
        }

        /// All settings, in the order of `config` and the documentation.
        pub static SETTINGS: &[Setting] = &[$(Setting {
            key: Key::$key,
            name: $name,
            form: $form,
            default: $default,
            workspace: $workspace,
            about: $about,
        },)*];
    };
}

settings! {
    Gate "gate", UnlessUser, Choice(&["strict", "warn", "off"]), word("strict"),
        "What to do when the caller has not read the current bytes: refuse the change, warn, or allow \
         it. An expected_sha256 is always checked.";
    PatchGate "patch_gate", UnlessUser, Choice(&["marks", "context"]), word("marks"),
        "What proves a hunk of a patch: a read of the file, or also its old lines if they match exactly \
         and once. Under the name apply_patch, context is the default.";
    Match "match", Freely, Choice(&["exact", "flexible"]), word("exact"),
        "Default of the match field of edit.";
    HardLinks "hard_links", MoreStrictly, Choice(&["refuse", "replace"]), word("replace"),
        "What to do with a file that has several hard links: refuse the change, or replace this name, \
         while the others keep the old bytes.";
    Durable "durable", MoreStrictly, Switch, Value::Switch(true),
        "Whether a change is on disk before its response. If false, a change still survives a killed \
         process, but a power failure or a crash of the system can lose what was written in the last half \
         minute, with its backups and snapshots: files may come back empty, and git may find damaged \
         objects on the snapshot branch.";
    Protect "protect", MoreStrictly, Globs, NONE,
        "Paths from the root that no tool writes, with all below them, in any letter case; a glob \
         without a slash matches at any depth. The lists of all sources are combined, and those of \
         workspaces further up count here too.";
    Loosen "loosen", UserOnly, Settings, NONE,
        "Settings that the environment and flags can make looser than the files do, such as \"gate\": without it \
         they only make settings stricter, except match, write.in_place, all of limits, and the limits of bash on time, \
         memory, processes, output and sizes. Three acts can be listed too: \"workspace\" lets --workspace and \
         sandbox create name another workspace than the one that the current folder lies in, once that one has \
         .lbx; \"content\" lets @FILE name files outside the workspace; \"exec\" lets sandbox create take --exec. \
         Only the user's own file sets it.";
    InPlace "write.in_place", Freely, Globs, NONE,
        "Files whose new bytes are written into the file that is there, which keeps its inode for programs that \
         hold it open, watch it or mounted it: globs as for protect. Append always adds in place, and a mount \
         point is always written so; a file that can be run never.";
    GuardGate "guard.gate", UnlessUser, Choice(&["deny", "warn", "off"]), word("deny"),
        "What a client's hooks do when the client's own tool is about to change a file whose present bytes the session \
         has not seen: deny the call, or allow it with a warning, or without one.";
    GuardBash "guard.bash", UnlessUser, Choice(&["wrap", "record", "off"]), word("record"),
        "What a client's hooks do with a command of the client's own shell: wrap makes it `lbx bash`, where the client \
         lets a hook change a call; record looks at the workspace before and after it; off leaves it alone.";
    GuardFiles "guard.files", UnlessUser, number(0, 10_000_000, "files"), Value::Number(2000),
        "Most files of a workspace that is looked at before and after each command of a client's own shell. A larger \
         one is looked at before the first command of a turn and at its end, unless another session has a turn.";
    GuardOnFailure "guard.on_failure", UnlessUser, Choice(&["closed", "open"]), word("open"),
        "What a client's hooks do with a call of the client that they cannot check, because lbx fails or takes longer \
         than guard.timeout_ms: deny it, or allow it unrecorded, which the first response says.";
    GuardMs "guard.timeout_ms", UnlessUserUpTo(10_000), number(50, 600_000, "milliseconds"), Value::Number(1000),
        "Time after which a hook gives up.";
    GuardTitles "guard.titles", Never, Switch, Value::Switch(false),
        "Whether the hooks of a client keep the first 200 characters of each prompt, as the title of its turn in log, \
         review and blame.";
    MaxBytes "limits.max_bytes", Freely, number(1024, 1_000_000, "bytes"), Value::Number(24_576),
        "Default maximum bytes of a response's payload.";
    ReadLimit "limits.read", Freely, shown_items_form("lines"), Value::Number(2000),
        "Default number of lines that read shows.";
    GrepLimit "limits.grep", Freely, shown_items_form("matches"), Value::Number(250),
        "Default number of matches that grep shows.";
    GlobLimit "limits.glob", Freely, shown_items_form("paths"), Value::Number(1000),
        "Default number of paths that glob shows.";
    LsLimit "limits.ls", Freely, shown_items_form("entries"), Value::Number(1000),
        "Default number of entries that ls shows.";
    LogLimit "limits.log", Freely, shown_items_form("snapshots"), Value::Number(20),
        "Default number of snapshots that log shows.";
    AuditLimit "limits.audit", Freely, shown_items_form("records"), Value::Number(50),
        "Default number of records that audit shows.";
    MaxColumns "limits.max_columns", Freely, shown_items_form("bytes"), Value::Number(500),
        "Default number of bytes that grep shows of a line.";
    SearchMs "limits.search_ms", UpTo(600_000), bounded(86_400_000, "milliseconds", "no limit"),
        Value::Number(30_000),
        "Default time limit for grep, glob and ls.";
    FileBytes "limits.file_bytes", UpTo(1 << 30), number(1, 4 << 30, "bytes"), Value::Number(512 << 20),
        "Largest file that can be changed; larger ones can be read and searched.";
    LockSeconds "limits.lock_seconds", UpTo(60), number(1, 3600, "seconds"), Value::Number(10),
        "How long to wait for a lock that another call holds.";
    SnapshotEnabled "snapshot.enabled", MoreStrictly, Switch, Value::Switch(true),
        "Whether each change becomes a commit on the snapshot branch. Undo works without them, except of what direct \
         commands change.";
    SnapshotBranch "snapshot.branch", MoreStrictly, Branch, word(BRANCH_DEFAULT),
        "Branch for the snapshots; must be new or hold snapshots. A full name below refs/lbx/ is no branch, so that \
         no push takes it along. A workspace can name only one that \
         begins with lbx-, lbx/ or refs/lbx/.";
    SnapshotRequire "snapshot.require", MoreStrictly, Switch, Value::Switch(false),
        "Whether a change without a snapshot counts as failed, as with --require-snapshot.";
    SnapshotFileBytes "snapshot.file_bytes", MoreStrictlyUpTo(256 << 20), number(1, 1 << 30, "bytes"),
        Value::Number(SNAPSHOT_FILE_BYTES_MAX),
        "Largest file that enters a snapshot; the response names files left out.";
    SnapshotExclude "snapshot.exclude", MoreStrictly, Globs, NONE,
        "Untracked files that stay out of the snapshots, in addition to those with names that secrets have \
         (.env*, *.pem, *.key, id_rsa and the like): globs as for protect. Neither HEAD nor the index has such a \
         file. A copy of one that the session has seen or moved, or that lies in the root, stays out too; one that \
         was changed on the way, or that a command made of another file, is not known as a copy. The response names \
         what is left out, and undo still works.";
    GitDirs "snapshot.git_dirs", Never, Folders, NONE,
        "Git folders outside the workspace, as absolute paths, that snapshots may go to where .git \
         leads there and they do not point back, as after git init --separate-git-dir.";
    ScanSeconds "snapshot.scan_seconds", MoreStrictlyUpTo(600), number(1, 3600, "seconds"), Value::Number(60),
        "Time limit for a scan of the whole work tree; other changes wait meanwhile.";
    ScanFiles "snapshot.scan_files", MoreStrictlyUpTo(1_000_000), number(1, 10_000_000, "files"),
        Value::Number(ScanBounds::FULL.paths_max as u64),
        "Number of changed files that one scan accepts; more are refused.";
    ScanBytes "snapshot.scan_bytes", MoreStrictlyUpTo(4 << 30), number(1, 64 << 30, "bytes"),
        Value::Number(ScanBounds::FULL.bytes_max),
        "Bytes in the changed files that one scan accepts; more are refused.";
    KeepDays "gc.keep_days", MoreStrictly, number(0, 36_500, "days"), Value::Number(30),
        "How long gc keeps backups, history and trash.";
    KeepBytes "gc.keep_bytes", MoreStrictly, bounded(1 << 50, "bytes", "no bound"), Value::Number(0),
        "Size beyond which gc removes the oldest even if younger, but nothing younger than a day.";
    BashBackend "bash.backend", Never, Choice(&["auto", "bubblewrap", "namespaces", "auto-landlock", "landlock", "none"]), word("auto"),
        "What confines the commands of bash: auto takes namespaces or bubblewrap, the first that works; \
         auto-landlock takes landlock too, where neither works. landlock leaves .git in the workspace \
         writable; none confines nothing.";
    BashNetwork "bash.network", MoreStrictly, Form::Network, word("deny"),
        "The hosts that commands reach: \"deny\" for none, \"allow\" for the whole network, or a list such as \
         [\"*.example.org\", \"packages.example.net:8443\"], which a proxy in lbx serves. An entry without a port \
         means the ports 80 and 443, NAME:* for all ports; *.NAME is every name below NAME, * every public name. \
         Private addresses and bare IP addresses are refused unless listed. In the environment and with --set, \
         blanks or commas separate the entries.";
    BashWritable "bash.writable", Never, Items("folders"), NONE,
        "Folders outside the workspace that commands may write, such as ~/.cargo/registry. The lists of \
         all sources count together.";
    BashReadable "bash.readable", Never, Items("paths"), NONE,
        "Folders and files outside the workspace that commands may read, in addition to programs, libraries and \
         toolchains. A file that is hidden by default, such as ~/.npmrc, is shown if it is named itself. A \
         socket or FIFO can be used. The lists of all sources count together.";
    BashCaches "bash.caches", Never, Caches, NONE,
        "Caches of toolchains that commands write in a view of their own, which ends with the session: cargo, go, \
         npm, pip, uv and others that lbx-bash(1) lists. Without names, all that the home folder has; none for no \
         views.";
    BashHidden "bash.hidden", MoreStrictly, Items("paths"), NONE,
        "Paths that commands do not see, in addition to those where programs are known to keep secrets, such as \
         ~/.ssh. The lists of all sources count together.";
    BashEnv "bash.env", Never, Items("names of variables"), NONE,
        "Variables that commands get from the caller's environment, in addition to those that every program \
         needs. The lists of all sources count together.";
    BashMs "bash.timeout_ms", UpTo(3_600_000), number(1, 86_400_000, "milliseconds"), Value::Number(120_000),
        "Default time limit of a command.";
    BashJobMs "bash.job_ms", UpTo(86_400_000), number(1, 86_400_000, "milliseconds"), Value::Number(3_600_000),
        "Default time limit of a job (bash with background).";
    BashMemory "bash.memory_bytes", UpTo(64 << 30), bounded(1 << 50, "bytes", "no limit"),
        Value::Number(16 << 30),
        "Memory that a command may fill: all its processes together where lbx can make a control group (cgroup v2), \
         else each of them.";
    BashProcesses "bash.processes", UpTo(65_536), bounded(1 << 22, "processes and threads", "no limit"),
        Value::Number(4096),
        "Processes and threads of a command at once.";
    BashFileBytes "bash.file_bytes", UpTo(64 << 30), bounded(1 << 50, "bytes", "no limit"),
        Value::Number(8 << 30),
        "The largest file that a command may write.";
    BashIgnoredFileBytes "bash.ignored_file_bytes", UpTo(64 << 20), number(0, 1 << 30, "bytes"),
        Value::Number(5 << 20),
        "Largest git-ignored file that a command changed and undo can restore.";
    BashIgnoredBytes "bash.ignored_bytes", UpTo(1 << 30), number(0, 64 << 30, "bytes"),
        Value::Number(64 << 20),
        "Bytes of the git-ignored files that one command changed and undo can restore; the response counts \
         the others.";
    BashOutputBytes "bash.output_bytes", UpTo(1 << 30), number(1 << 20, 16 << 30, "bytes"),
        Value::Number(64 << 20),
        "Maximum output of a command that is kept in a file when the response cannot hold it all.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_unique_and_in_key_order() {
        for (place, setting) in SETTINGS.iter().enumerate() {
            assert_eq!(setting.key as usize, place, "{}", setting.name);
            assert_eq!(SETTINGS.iter().filter(|other| other.name == setting.name).count(), 1);
            assert_eq!(SETTINGS.iter().filter(|other| other.variable() == setting.variable()).count(), 1);
            assert!(setting.about.ends_with('.'), "{}", setting.name);
        }
    }
}
