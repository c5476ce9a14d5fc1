//! What a command does not see: where programs of this user keep keys, tokens and passwords.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::outside::{self, expanded};
use super::plan::Hidden;

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
/// Other paths that hold secrets; only root can read them at all.
pub const OF_SYSTEM: [&str; 6] = [
    "/etc/gshadow",
    "/etc/shadow",
    "/etc/ssl/private",
    "/etc/sudoers.d",
    "/var/lib/docker",
    "/var/spool/cron",
];

/// Finds what exists of these paths and of `more`, except for what `readable` names; `~` is the home folder.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "where secrets of the user and of the system lie; nothing of them is read"
)]
pub fn find(home: Option<&Path>, more: &[String], readable: &[String]) -> Vec<Hidden> {
    let readable: BTreeSet<PathBuf> = readable.iter().filter_map(|path| outside::named(home, path)).collect();
    let in_home = home.into_iter().flat_map(|home| IN_HOME.iter().map(|path| home.join(path)));
    let of_system = OF_SYSTEM.iter().map(PathBuf::from);
    // Whoever knows the name of a state could make up one that lbx trusts.
    let of_lbx = state_home(home).map(|folder| folder.join("lbx"));
    let more = more.iter().map(|path| expanded(home, path));
    // Links are followed: what they lead to would be readable by its own name. Most are not there, which
    // one call tells.
    let canonical = |path: PathBuf| fs::symlink_metadata(&path).and_then(|_| fs::canonicalize(&path)).ok();
    let there: BTreeSet<PathBuf> = in_home
        .chain(of_system)
        .filter_map(canonical)
        .filter(|path| !readable.contains(path))
        .chain(of_lbx.into_iter().chain(more).filter_map(canonical))
        .collect();
    let hidden = |path: PathBuf| {
        let is_folder = fs::metadata(&path).ok()?.is_dir();
        Some(Hidden { path: path.into_os_string(), is_folder })
    };
    there.into_iter().filter_map(hidden).collect()
}

/// The user's state folder.
fn state_home(home: Option<&Path>) -> Option<PathBuf> {
    let named = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| Some(home?.join(".local/state")))
}

/// The home folder of this user.
#[must_use]
pub fn home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| home.is_absolute() && home.parent().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_by_its_true_name() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        fs::create_dir(home.join("keys")).unwrap();
        std::os::unix::fs::symlink("keys", home.join(".ssh")).unwrap();
        fs::write(home.join(".netrc"), "").unwrap();
        fs::write(home.join(".pgpass"), "").unwrap();
        fs::write(home.join("mine"), "").unwrap();
        let found = find(Some(&home), &["~/mine".to_owned(), "~/none".to_owned()], &["~/.pgpass".to_owned()]);
        let found: Vec<(PathBuf, bool)> = found
            .into_iter()
            .map(|hidden| (PathBuf::from(hidden.path), hidden.is_folder))
            .filter(|(path, _)| path.starts_with(&home))
            .collect();
        assert_eq!(
            found,
            [(home.join(".netrc"), false), (home.join("keys"), true), (home.join("mine"), false)]
        );
        assert!(IN_HOME.is_sorted() && OF_SYSTEM.is_sorted());
    }
}
