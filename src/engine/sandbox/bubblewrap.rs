//! The backend that leaves the namespaces to `bwrap`, which systems that restrict user namespaces
//! often let through.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;
use std::process::Command;

use super::backend::{Backend, INTERNAL, SELF};
use super::caches::View;
use super::mounts::{RUNTIME, STATE_SHOWN, TEMPORARY, TEMPORARY_BYTES};
use super::network::Network;
use super::outside::Outside;
use super::plan::{Hidden, Reach};
use crate::engine::workspace::programs;

/// Its program.
const PROGRAM: &str = "bwrap";
/// Where lbx itself is in the sandbox.
const OWN_PLACE: &str = "/run/lbx";
/// What root keeps, as the other backend has it.
const KEPT_BY_ROOT: [&str; 6] =
    ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_SETGID", "CAP_SETUID"];
/// What of `/proc` tells of or changes the whole machine, and only root could write.
const PROC_READ_ONLY: [&str; 3] = ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq"];

/// The backend.
pub struct Bubblewrap;

impl Backend for Bubblewrap {
    fn name(&self) -> &'static str {
        "bubblewrap"
    }

    fn about(&self) -> &'static str {
        "the same by the program bwrap, where it is installed"
    }

    fn command(&self, reach: &Reach) -> Result<Command, String> {
        let writable: Vec<&Path> =
            std::iter::once(&reach.root).chain(&reach.writable).map(Path::new).collect();
        let program = programs::find(PROGRAM, &writable)?;
        #[expect(clippy::disallowed_methods, reason = "this program, by its link in /proc")]
        let own = fs::canonicalize(SELF).map_err(|error| format!("lbx does not find itself: {error}"))?;
        let root = Path::new(&reach.root);
        let is_link = |path: &&OsString| rustix::fs::readlink(root.join(path), Vec::new()).is_ok();
        if let Some(link) = reach.protected.iter().find(is_link) {
            return Err(format!("bwrap cannot protect {}, which is a link", link.display()));
        }
        let mut command = Command::new(program);
        command.args(arguments(reach, &own)?).env_clear();
        Ok(command)
    }
}

/// Its arguments, in the order in which it mounts.
#[expect(clippy::disallowed_methods, reason = "folders of the system, by fixed names")]
fn arguments(reach: &Reach, own: &Path) -> Result<Vec<OsString>, String> {
    let mut list = Arguments(Vec::new());
    list.words(&["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--as-pid-1"]);
    list.words(&["--die-with-parent", "--new-session"]);
    if rustix::process::geteuid().is_root() {
        list.words(&["--cap-drop", "ALL"]);
        KEPT_BY_ROOT.iter().for_each(|capability| list.words(&["--cap-add", capability]));
    } else {
        list.words(&["--unshare-user"]);
    }
    if !reach.network.is_shared() {
        list.words(&["--unshare-net"]);
    }
    list.words(&["--proc", "/proc", "--dev", "/dev"]);
    for path in PROC_READ_ONLY.iter().filter(|path| Path::new(path).exists()) {
        list.paths("--ro-bind", &[path, path]);
    }
    list.memory("/dev/shm");
    list.words(&["--remount-ro", "/dev"]);
    list.temporary(reach);
    list.outside(&reach.outside);
    reach.caches.iter().for_each(|view| list.cache(view, &reach.network));
    list.0.extend(["--ro-bind".into(), own.into(), OWN_PLACE.into()]);
    let (above, others): (Vec<&Hidden>, Vec<&Hidden>) =
        reach.hidden.iter().partition(|hidden| reach.is_above_own(Path::new(&hidden.path)));
    above.iter().for_each(|hidden| list.paths("--tmpfs", &[&hidden.path]));
    for folder in reach.own_folders() {
        let bind = if reach.is_read_only(&folder) { "--ro-bind" } else { "--bind" };
        list.paths(bind, &[&folder, &folder]);
    }
    for path in &reach.pinned {
        list.paths("--bind", &[path, path]);
    }
    for path in &reach.settled {
        list.paths("--ro-bind", &[path, path]);
    }
    others.into_iter().for_each(|hidden| list.hide(hidden));
    reach.channels()?.into_iter().for_each(|path| list.hide(&Hidden { path, is_folder: false }));
    for path in reach.folders_above_protected()? {
        let path = Path::new(&reach.root).join(path);
        list.paths("--bind-try", &[&path, &path]);
    }
    for path in &reach.protected {
        let path = Path::new(&reach.root).join(path);
        list.paths("--ro-bind-try", &[&path, &path]);
    }
    for path in &reach.states {
        let path = Path::new(&reach.root).join(path);
        list.paths("--tmpfs", &[&path]);
        for name in STATE_SHOWN {
            let file = path.join(name);
            list.paths("--ro-bind-try", &[&file, &file]);
        }
        list.paths("--remount-ro", &[&path]);
    }
    reach.outside.links.iter().for_each(|(link, target)| list.paths("--symlink", &[target, link]));
    list.words(&["--remount-ro", "/", "--chdir", "/", "--", OWN_PLACE, INTERNAL, "prepared"]);
    Ok(list.0)
}

/// Arguments that grow.
struct Arguments(Vec<OsString>);

impl Arguments {
    /// Adds words.
    fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    /// Adds an option with its paths.
    fn paths<P: AsRef<OsStr>>(&mut self, option: &str, paths: &[P]) {
        self.0.push(option.into());
        self.0.extend(paths.iter().map(|path| path.as_ref().to_owned()));
    }

    /// Adds what is seen of the outside.
    fn outside(&mut self, outside: &Outside) {
        // A folder that bwrap makes for a mount point is closed to other users.
        let shown = outside.shown.iter().map(Path::new);
        let mut folders: BTreeSet<&Path> = shown.filter_map(Path::parent).collect();
        folders.extend(outside.home.iter().map(Path::new).chain([Path::new(RUNTIME)]));
        folders.extend(outside.links.iter().filter_map(|(link, _)| Path::new(link).parent()));
        folders.iter().for_each(|folder| self.paths("--dir", &[folder]));
        outside.shown.iter().for_each(|path| self.paths("--ro-bind-try", &[path, path]));
    }

    /// Adds the folders that replace a cache.
    #[expect(clippy::disallowed_methods, reason = "folders of the session, in lbx's own state")]
    fn cache(&mut self, view: &View, network: &Network) {
        for (plain, place) in view.plain(network) {
            // Without its cache a command still runs.
            if fs::create_dir_all(&plain).is_ok() {
                self.paths("--bind", &[plain, place]);
            }
        }
    }

    /// Adds the folders for temporary files.
    fn temporary(&mut self, reach: &Reach) {
        for path in TEMPORARY {
            match &reach.temporary {
                Some(folder) => self.paths("--bind", &[folder.as_os_str(), OsStr::new(path)]),
                None => self.memory(path),
            }
        }
    }

    /// Adds a folder for temporary files in memory.
    fn memory(&mut self, path: &str) {
        self.words(&["--perms", "1777", "--size", &TEMPORARY_BYTES.to_string(), "--tmpfs", path]);
    }

    /// Adds what makes a path appear empty.
    fn hide(&mut self, hidden: &Hidden) {
        if hidden.is_folder {
            self.paths("--tmpfs", &[&hidden.path]);
            self.paths("--remount-ro", &[&hidden.path]);
        } else {
            self.0.extend(["--ro-bind".into(), "/dev/null".into(), hidden.path.clone()]);
        }
    }
}
