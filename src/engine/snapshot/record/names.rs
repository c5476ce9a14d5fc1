//! Names of paths: which may enter a snapshot, which hold rules.

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::validate::path::component;

use crate::engine::snapshot::store::tree::DEPTH_MAX;
use crate::engine::workspace::protect::names::is_held;

/// The files that hold rules, in every folder.
pub const RULE_FILES: [&[u8]; 2] = [b".gitignore", b".gitattributes"];

/// What the names of a snapshot are held to. Device names of Windows are none of git's business.
const NAMES: component::Options =
    component::Options { protect_windows: false, protect_hfs: true, protect_ntfs: true };

/// The folder of lbx's own files, wherever it is.
const STATE_FOLDER: &[u8] = b".lbx";
/// The one file in it that may enter.
const STATE_FILE: &[u8] = b"config.toml";

/// Whether git takes every part of the path, and none is lbx's own folder: of that, only the policy
/// enters, which git sees too.
pub fn is_name(path: &[u8], is_link: bool) -> bool {
    let is_own = path.split(|byte| *byte == b'/').any(|name| name == b".lbx");
    let last = path.rsplit(|byte| *byte == b'/').next();
    may_enter(path)
        && !(is_own && is_link)
        && path.split(|byte| *byte == b'/').all(|name| {
            let mode = (is_link && Some(name) == last).then_some(component::Mode::Symlink);
            // Git reads a backslash as a separator where it checks a repository.
            let parts_ok = name.split(|byte| *byte == b'\\').filter(|part| !part.is_empty());
            !name.contains(&0)
                && gix::validate::path::component(BStr::new(name), mode, NAMES).is_ok()
                && parts_ok.into_iter().all(|part| {
                    matches!(part, b"." | b"..")
                        || gix::validate::path::component(BStr::new(part), None, NAMES).is_ok()
                })
        })
}

/// Whether a path is no file of lbx's own, or the one among them that is the developer's to keep. A
/// repository that lbx moved aside is in no snapshot.
pub fn may_enter(path: &[u8]) -> bool {
    if path.split(|byte| *byte == b'/').any(is_held) {
        return false;
    }
    let is_own =
        |path: &[u8]| path.split(|byte| *byte == b'/').any(|name| name.eq_ignore_ascii_case(STATE_FOLDER));
    let folder =
        path.strip_suffix(STATE_FILE).filter(|folder| may_hold_policy(folder.trim_end_with(|c| c == '/')));
    !is_own(path) || folder.is_some_and(|folder| folder.ends_with(b"/"))
}

/// Whether a path is the folder of lbx's own files, and in no other such folder.
pub fn may_hold_policy(folder: &[u8]) -> bool {
    let parent = folder.strip_suffix(STATE_FOLDER);
    parent.is_some_and(|parent| (parent.is_empty() || parent.ends_with(b"/")) && may_enter(parent))
}

/// Whether a path lies deeper than a snapshot goes.
#[must_use]
pub fn is_too_deep(path: &[u8]) -> bool {
    memchr::memchr_iter(b'/', path).nth(DEPTH_MAX).is_some()
}

/// Every folder on the way to `path`, the root (empty) first.
pub fn folders(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    std::iter::once(0).chain(slashes).filter_map(|at| path.get(..at))
}

/// The path of `name` in `folder`.
pub fn joined(folder: &[u8], name: &[u8]) -> BString {
    let mut path = BString::from(folder);
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_lbx_only_the_policy_may_enter() {
        let paths: [(&[u8], bool); 10] = [
            (b"a/b", true),
            (b".lbx/config.toml", true),
            (b"sub/.lbx/config.toml", true),
            (b".LBX/config.toml", false),
            (b".lbx/state.json", false),
            (b".lbx/xconfig.toml", false),
            (b".lbx/config.toml/x", false),
            (b".lbx/trash/.lbx/config.toml", false),
            (b".lbx", false),
            (b"x.lbx/config.toml", true),
        ];
        for (path, may) in paths {
            assert_eq!(may_enter(path), may, "{}", path.as_bstr());
        }
    }
}
