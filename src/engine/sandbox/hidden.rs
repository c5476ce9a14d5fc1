//! Paths that a command does not see, since programs of this user keep keys, tokens and passwords there.
//!
//! Also lbx's own folders of this user, if a command could write them: the policy, the names of sandboxes, the id of
//! the state. That is so if the workspace is the home folder.
//!
//! Such a folder is read-only or hidden. The folders above it are pinned (mounted in place), so that no command moves
//! them away and makes others with the same names.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};

use super::outside::{self, expanded};
use super::plan::HiddenPath;
use crate::engine::workspace::path::LinkFollower;
use crate::error::{Error, ErrorKind};

/// Paths in a home folder that hold secrets.
pub const IN_HOME: [&str; 47] = [
    ".aws",
    ".azure",
    ".bash_history",
    ".boto",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".composer/auth.json",
    ".config/chromium",
    ".config/containers/auth.json",
    ".config/doctl",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/glab-cli",
    ".config/google-chrome",
    ".config/hub",
    ".config/op",
    ".config/pip",
    ".config/rclone",
    ".docker",
    ".fly",
    ".gem/credentials",
    ".git-credentials",
    ".gnupg",
    ".gradle/gradle.properties",
    ".kube",
    ".local/share/keyrings",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".mozilla",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".password-store",
    ".pgpass",
    ".pki",
    ".pypirc",
    ".s3cfg",
    ".ssh",
    ".terraform.d",
    ".terraformrc",
    ".vault-token",
    ".vscode-server/data",
    ".yarnrc.yml",
    ".zsh_history",
];
/// Other paths that hold secrets; only root can read them.
pub const OF_SYSTEM: [&str; 6] = [
    "/etc/gshadow",
    "/etc/shadow",
    "/etc/ssl/private",
    "/etc/sudoers.d",
    "/var/lib/docker",
    "/var/spool/cron",
];

/// Finds the existing paths among these and `more`, without those in `readable`; `~` is the home folder.
#[expect(
    clippy::disallowed_methods,
    reason = "where secrets of the user and of the system lie; nothing of them is read"
)]
pub fn find(
    home: Option<&Path>,
    more: &[String],
    readable: &[String],
    follower: &mut LinkFollower,
) -> Vec<HiddenPath> {
    let readable: BTreeSet<PathBuf> =
        readable.iter().filter_map(|path| outside::canonical_of_policy(home, path)).collect();
    let in_home = home.into_iter().flat_map(|home| IN_HOME.iter().map(|path| home.join(path)));
    let of_system = OF_SYSTEM.iter().map(PathBuf::from);
    // With the name of a state, a command could fake one that lbx trusts.
    let of_lbx = state_home(home).map(|folder| folder.join("lbx"));
    let more = more.iter().map(|path| expanded(home, path));
    // Links are followed: their targets would be readable by their own names.
    let mut follow = |path: PathBuf| follower.follow(&path);
    let mut there: BTreeSet<PathBuf> = in_home.chain(of_system).filter_map(&mut follow).collect();
    there.retain(|path| !readable.contains(path));
    there.extend(of_lbx.into_iter().chain(more).filter_map(follow));
    let hidden = |path: PathBuf| {
        let is_folder = fs::metadata(&path).ok()?.is_dir();
        Some(HiddenPath { path: path.into_os_string(), is_folder })
    };
    there.into_iter().filter_map(hidden).collect()
}

/// Returns the user's state folder.
fn state_home(home: Option<&Path>) -> Option<PathBuf> {
    let named = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| Some(home?.join(".local/state")))
}

/// Returns the home folder of this user.
pub fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| home.is_absolute() && home.parent().is_some())
}

/// Mode of a folder that lbx creates before a command could.
const OWN_MODE: u32 = 0o700;

/// A file or folder of lbx.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LbxPlace {
    /// Its absolute path.
    pub path: PathBuf,
    /// True if it is a folder.
    pub is_folder: bool,
}

/// Paths that a command must not replace.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct LbxPaths {
    /// Canonical paths that stay read-only.
    pub settled: Vec<OsString>,
    /// Canonical folders above them, outermost first.
    pub pinned: Vec<OsString>,
}

impl LbxPaths {
    /// Finds the `places` below one of the `writable` folders, which are canonical. Creates a missing folder there:
    /// else a command could create it.
    ///
    /// # Errors
    /// Fails with `command_denied` if a folder cannot be kept from the command: a link leads to it, or it is writable
    /// itself.
    pub fn find(writable: &[&Path], places: &[LbxPlace]) -> Result<Self, Error> {
        let mut own = Self::default();
        for place in places {
            if let Some(found) = canonical_below(writable, place)? {
                own.add(writable, &found);
            }
        }
        own.pinned.sort();
        own.pinned.dedup();
        Ok(own)
    }

    /// Adds a path with the folders above it.
    fn add(&mut self, writable: &[&Path], path: &Path) {
        self.settled.push(path.as_os_str().to_owned());
        let above = path.ancestors().skip(1);
        let is_inner = |path: &&Path| {
            writable.iter().any(|top| path.starts_with(top)) && !writable.iter().any(|top| top == path)
        };
        self.pinned.extend(above.filter(is_inner).map(|path| path.as_os_str().to_owned()));
    }
}

/// Returns the canonical path of a place below a writable folder; `None` if it is elsewhere.
#[expect(clippy::disallowed_methods, reason = "the user's own folders, by the path that lbx itself takes")]
fn canonical_below(writable: &[&Path], place: &LbxPlace) -> Result<Option<PathBuf>, Error> {
    let is_below = |path: &Path| writable.iter().any(|top| path.starts_with(top));
    let mut at = PathBuf::from("/");
    for part in place.path.components().filter(|part| matches!(part, Component::Normal(_))) {
        let next = at.join(part);
        let look_at = |source| Error::io("look at", next.display().to_string(), source);
        let mut followed = next.clone();
        match fs::symlink_metadata(&next) {
            Ok(found) if found.is_symlink() && is_below(&at) => {
                return Err(denied(&next, "is a link in a folder that commands can write"));
            }
            Ok(found) if found.is_symlink() => followed = fs::canonicalize(&next).map_err(look_at)?,
            Ok(_) => {}
            // No command can create it.
            Err(_) if !is_below(&at) => return Ok(None),
            Err(_) if !place.is_folder => return Err(denied(&next, "is missing")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let made = fs::DirBuilder::new().mode(OWN_MODE).create(&next);
                made.map_err(|source| Error::io("make", next.display().to_string(), source))?;
            }
            Err(source) => return Err(look_at(source)),
        }
        at = followed;
    }
    if writable.contains(&at.as_path()) {
        return Err(denied(&at, "is itself a folder that commands can write"));
    }
    Ok(is_below(&at).then_some(at))
}

/// Returns the error if a folder cannot be kept from a command.
fn denied(path: &Path, why: &str) -> Error {
    Error::new(
        ErrorKind::CommandDenied,
        format!(
            "{} leads to lbx's own files of this user and {why}: a command could replace them",
            path.display()
        ),
    )
    .suggest("Name a smaller workspace with --workspace.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lbx_directory_below_a_writable_one_is_pinned() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        let (state, config) = (home.join(".local/state/lbx"), home.join(".config/lbx"));
        let at = |path: &Path, is_folder| LbxPlace { path: path.to_owned(), is_folder };
        let find = |top: &Path, folder: &Path| LbxPaths::find(&[top], &[at(folder, true)]);
        // A missing folder is created if its parent is writable, not elsewhere.
        assert_eq!(find(&home.join("project"), &config).unwrap(), LbxPaths::default());
        assert!(!config.exists());
        let own = find(&home, &state).unwrap();
        assert_eq!(own.settled, std::slice::from_ref(&state));
        assert_eq!(own.pinned, [home.join(".local"), home.join(".local/state")]);
        assert!(state.is_dir());
        // A command could replace a link on the path, and a writable folder is not settled.
        fs::create_dir_all(home.join("dotfiles/lbx")).unwrap();
        std::os::unix::fs::symlink("dotfiles", home.join(".config")).unwrap();
        assert!(find(&home, &config).is_err());
        assert!(find(&state, &state).is_err());
        // A missing file is not created.
        assert!(LbxPaths::find(&[&home], &[at(&home.join("policy.toml"), false)]).is_err());
    }
}
