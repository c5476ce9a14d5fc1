//! The backend of macOS: a profile for `sandbox-exec`, in which a later rule overrides an earlier one.
//!
//! It allows and denies by path, so a command sees that files outside exist, but neither their content nor a way to
//! change them. A protected path stays as it is, and so do the folders above it: moving one would move the rule's
//! subject away.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::outside::Network;
use super::plan::Access;

/// The program of the system.
#[cfg(target_os = "macos")]
const PROGRAM: &str = "/usr/bin/sandbox-exec";
/// Rules that every command needs to start.
const START: &str = "(version 1)
(deny default)
(allow process-fork)
(allow process-exec)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow mach-lookup (global-name \"com.apple.system.opendirectoryd.libinfo\"))
(allow file-read-metadata)
(allow file-read* (literal \"/\"))
(allow file-read* file-write-data file-ioctl (literal \"/dev/null\") (literal \"/dev/zero\") (literal \"/dev/tty\"))
(allow file-read* (literal \"/dev/random\") (literal \"/dev/urandom\") (subpath \"/dev/fd\"))
";
/// Folders of the system that programs need, besides the paths that are shown everywhere.
const OF_SYSTEM: [&str; 6] = [
    "/System",
    "/Library/Apple",
    "/Library/Developer",
    "/private/var/db/dyld",
    "/private/var/select",
    "/private/etc/ssl",
];

/// Returns the profile of a command; `program` is lbx itself, which starts it.
///
/// # Errors
/// Returns the reason if a profile cannot confine a command to this access.
pub fn profile(reach: &Access, program: &str) -> Result<String, String> {
    if let Network::Hosts(_) = reach.network {
        return Err("Seatbelt cannot limit the network to a list of hosts".to_owned());
    }
    let mut rules = ProfileText(START.to_owned());
    rules.add("allow file-read*", "literal", OsStr::new(program))?;
    for path in OF_SYSTEM.iter().map(OsStr::new).chain(reach.outside.shown.iter().map(AsRef::as_ref)) {
        rules.add("allow file-read*", "subpath", path)?;
    }
    for path in &reach.hidden {
        rules.add("deny file-read*", "subpath", &path.path)?;
    }
    for folder in reach.visible_folders() {
        rules.add("allow file-read*", "subpath", folder.as_os_str())?;
    }
    for folder in reach.writable_folders() {
        rules.add("allow file-write*", "subpath", folder.as_os_str())?;
    }
    for path in reach.hidden.iter().filter(|path| !reach.is_above_own(Path::new(&path.path))) {
        rules.add("deny file-read* file-write*", "subpath", &path.path)?;
    }
    for path in reach.settled.iter().map(PathBuf::from).chain(reach.below_root(&reach.protected)) {
        rules.add("deny file-write*", "subpath", path.as_os_str())?;
    }
    for path in reach.channels()?.into_iter().map(PathBuf::from).chain(reach.below_root(&reach.states)) {
        rules.add("deny file-read* file-write* network*", "subpath", path.as_os_str())?;
    }
    let above = reach.below_root(reach.folders_above_protected()?);
    for path in reach.pinned.iter().map(Into::into).chain(above) {
        rules.add("deny file-write-unlink", "literal", path.as_os_str())?;
    }
    if let Some(folder) = &reach.temporary {
        rules.add("allow file-read* file-write*", "subpath", folder)?;
    }
    if reach.network.is_shared() {
        rules.0.push_str("(allow network*)\n(allow system-socket)\n");
    }
    Ok(rules.0)
}

/// Growing text of a profile.
struct ProfileText(String);

impl ProfileText {
    /// Adds a rule for a path.
    fn add(&mut self, rule: &str, filter: &str, path: &OsStr) -> Result<(), String> {
        let text = path.to_str().filter(|text| !text.contains(char::is_control));
        let text = text.ok_or_else(|| format!("Seatbelt cannot name {}", path.display()))?;
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        // Writing to a text does not fail.
        let _ = writeln!(self.0, "({rule} ({filter} \"{quoted}\"))");
        Ok(())
    }
}

/// Returns the process of `sandbox-exec`.
///
/// # Errors
/// As [`profile`].
#[cfg(target_os = "macos")]
pub fn command(reach: &Access) -> Result<std::process::Command, String> {
    let own = crate::platform::process::program_path();
    let mut command = std::process::Command::new(PROGRAM);
    command.args(["-p", &profile(reach, own)?, own, super::backend::INTERNAL, "seatbelt"]).env_clear();
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::super::plan::HiddenPath;
    use super::*;

    #[test]
    fn profile_protects_repositories_and_hides_secrets() {
        let reach = Access {
            root: "/Users/me/work".into(),
            protected: vec![".git".into(), "in/ner/.git".into()],
            states: vec![".lbx".into()],
            hidden: vec![HiddenPath { path: "/Users/me/.ssh".into(), is_folder: true }],
            temporary: Some("/Users/me/work/.lbx/id/tmp/s/files".into()),
            ..Access::default()
        };
        let profile = profile(&reach, "/opt/lbx").unwrap();
        let at = |rule: &str| profile.find(rule).unwrap_or_else(|| panic!("{rule}\n{profile}"));
        let writable = at("(allow file-write* (subpath \"/Users/me/work\"))");
        // A later rule overrides an earlier one.
        assert!(writable < at("(deny file-write* (subpath \"/Users/me/work/.git\"))"));
        assert!(writable < at("(deny file-read* file-write* network* (subpath \"/Users/me/work/.lbx\"))"));
        assert!(
            at("/.lbx\"))")
                < at("(allow file-read* file-write* (subpath \"/Users/me/work/.lbx/id/tmp/s/files\"))")
        );
        at("(deny file-read* file-write* (subpath \"/Users/me/.ssh\"))");
        at("(deny file-write-unlink (literal \"/Users/me/work/in/ner\"))");
        assert!(!profile.contains("(allow network"), "{profile}");
    }

    #[test]
    fn names_cannot_end_a_rule() {
        let reach = Access { root: "/a\")(allow default)(\\".into(), ..Access::default() };
        let profile = profile(&reach, "/opt/lbx").unwrap();
        assert!(profile.contains("(subpath \"/a\\\")(allow default)(\\\\\")"), "{profile}");
        let reach = Access { root: "/a\nb".into(), ..Access::default() };
        assert!(super::profile(&reach, "/opt/lbx").unwrap_err().starts_with("Seatbelt cannot name"));
    }
}
