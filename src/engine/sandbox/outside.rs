//! The part of the disk outside the workspace that a command sees, read-only.
//!
//! It is a list of shown paths: programs and their libraries, system settings that programs need, and the toolchains of
//! the user. Nothing else exists for the command.
//!
//! This module also has the network of a command, and the loopback device of a namespace, over which its processes
//! reach each other.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use rustix::net::{AddressFamily, SendFlags, SocketType, netlink};
use serde::{Deserialize, Serialize};

use crate::engine::workspace::path::LinkFollower;

/// System folders and files.
const OF_SYSTEM: [&str; 18] = [
    "/bin",
    "/gnu/store",
    "/home/linuxbrew/.linuxbrew",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/nix/var/nix/profiles",
    "/opt",
    "/run/booted-system",
    "/run/current-system",
    "/run/opengl-driver",
    "/sbin",
    "/sys/devices/system/cpu",
    "/usr",
    "/var/cache/fontconfig",
    "/var/lib/dpkg",
];
/// Folder of system settings.
const SETTINGS: &str = "/etc";
/// Names in it that programs need. They hold no secret and no id of the machine. Each existing name is a mount, so that
/// programs which work without a file do not get it.
const SETTINGS_SHOWN: [&str; 42] = [
    "R",
    "alternatives",
    "crypto-policies",
    "debian_version",
    "dpkg/origins",
    "fedora-release",
    "fonts",
    "ghostscript",
    "gitattributes",
    "gitconfig",
    "group",
    "hostname",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.conf",
    "localtime",
    "lsb-release",
    "maven",
    "mime.types",
    "mtab",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/ca-trust",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "profile",
    "profile.d",
    "protocols",
    "redhat-release",
    "resolv.conf",
    "services",
    "ssl/ca-bundle.pem",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "static",
    "texmf",
    "timezone",
    "xml",
];
/// Prefixes of more names in it that programs need.
const SETTINGS_PREFIXES: [&str; 3] = ["ImageMagick", "java", "php"];
/// Toolchains in a home folder, and the settings of git.
const IN_HOME: [&str; 49] = [
    ".asdf",
    ".bun",
    ".cabal/bin",
    ".cargo",
    ".conda",
    ".config/git",
    ".deno",
    ".dotnet",
    ".elan",
    ".ghcup",
    ".gitattributes",
    ".gitconfig",
    ".gitignore",
    ".gitignore_global",
    ".goenv",
    ".gradle",
    ".jenv",
    ".juliaup",
    ".local/bin",
    ".local/lib",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".local/share/virtualenvs",
    ".m2",
    ".mix",
    ".nix-profile",
    ".nodenv",
    ".npm-global",
    ".nuget/packages",
    ".nvm",
    ".opam",
    ".phpenv",
    ".pixi",
    ".proto",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".rvm",
    ".rye",
    ".sdkman",
    ".stack",
    ".volta",
    ".yarn",
    "go",
    "miniconda3",
    "miniforge3",
];
/// Environment variables of the caller that name the folder of a toolchain.
const VARIABLES: [&str; 22] = [
    "ASDF_DATA_DIR",
    "BUN_INSTALL",
    "CARGO_HOME",
    "CONDA_PREFIX",
    "DENO_DIR",
    "DOTNET_ROOT",
    "GEM_HOME",
    "GOCACHE",
    "GOMODCACHE",
    "GOPATH",
    "GOROOT",
    "GRADLE_HOME",
    "JAVA_HOME",
    "M2_HOME",
    "NVM_DIR",
    "PNPM_HOME",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "SDKMAN_DIR",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
];
/// Folders and files next to a folder of `PATH` that its programs need.
const NEXT_TO_PROGRAMS: [&str; 5] = ["include", "lib", "lib64", "libexec", "pyvenv.cfg"];
/// Folders that hold much more than a toolchain, even if a variable names them.
const NO_TOOLCHAIN: [&str; 9] = ["/etc", "/home", "/media", "/mnt", "/root", "/run", "/srv", "/sys", "/var"];
/// Folders that are the command's own.
const OF_COMMAND: [&str; 4] = ["/dev", "/proc", "/tmp", "/var/tmp"];
/// Old and new name of the folder for the sockets of system services.
const RUNTIME: (&str, &str) = ("/var/run", "/run");

/// The part of the disk outside the workspace that a command sees.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct VisibleDisk {
    /// Canonical folders and files, sorted, none below another.
    pub shown: Vec<OsString>,
    /// Links that lead to them, each with its target.
    pub links: Vec<(OsString, OsString)>,
    /// Home folder, which exists and is empty except for shown paths.
    pub home: Option<OsString>,
}

impl VisibleDisk {
    /// Finds the existing paths of the lists, of the toolchains that the caller's variables name, and of `more`. Skips
    /// paths in the command's `own` folders. The `follower` lists the home and the system settings.
    pub fn find(home: Option<&Path>, more: &[PathBuf], own: &[&Path], follower: &mut LinkFollower) -> Self {
        let home = home.and_then(|home| follower.follow(home));
        let mut shown: BTreeSet<PathBuf> = BTreeSet::new();
        home.iter().for_each(|home| drop(follower.list(home)));
        let in_home = home.iter().flat_map(|home| IN_HOME.iter().map(|name| home.join(name)));
        let settings = Path::new(SETTINGS);
        let is_shown = |name: &OsString| {
            SETTINGS_PREFIXES.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
        };
        let mut in_settings = follower.list(settings);
        in_settings.retain(is_shown);
        in_settings.extend(SETTINGS_SHOWN.map(OsString::from));
        let in_settings = in_settings.iter().map(|name| settings.join(name));
        let listed = OF_SYSTEM.iter().map(PathBuf::from).chain(in_settings).chain(in_home);
        shown.extend(listed.chain(more.iter().cloned()).filter_map(|path| follower.follow(&path)));
        let named = toolchains().into_iter().filter_map(|path| follower.follow(&path));
        shown.extend(named.filter(|path| is_toolchain(path, home.as_deref())));
        let is_own = |path: &Path| is_own(path, own);
        let mut outside = Self { home: home.map(PathBuf::into_os_string), ..Self::default() };
        for path in shown.into_iter().filter(|path| !is_own(path)) {
            // A folder comes right before the paths below it.
            if !outside.shown.last().is_some_and(|last| path.starts_with(last)) {
                outside.shown.push(path.into_os_string());
            }
        }
        follower.links.insert(RUNTIME.0.into(), RUNTIME.1.into());
        outside.add_links(std::mem::take(&mut follower.links), own);
        outside
    }

    /// Adds links that lead to a shown path; `own` are the command's folders, which have their own links.
    pub fn add_links(&mut self, links: BTreeMap<PathBuf, PathBuf>, own: &[&Path]) {
        let is_known = |link: &Path| self.links.iter().any(|(known, _)| link == Path::new(known));
        let links =
            links.into_iter().filter(|(link, _)| !is_own(link, own) && !self.shows(link) && !is_known(link));
        let links: Vec<_> = links.map(|(link, to)| (link.into_os_string(), to.into_os_string())).collect();
        self.links.extend(links);
    }

    /// Returns true if a canonical path is shown.
    pub fn shows(&self, path: &Path) -> bool {
        // Only the last path before it can be above it.
        let after = self.shown.partition_point(|shown| Path::new(shown) <= path);
        self.shown.get(..after).and_then(<[_]>::last).is_some_and(|shown| path.starts_with(shown))
    }
}

/// Returns the canonical form of a path that the policy names for commands; `~` is the home folder. Returns `None` if
/// the path is missing or relative, or the whole disk.
pub fn canonical_of_policy(home: Option<&Path>, path: &str) -> Option<PathBuf> {
    let path = expanded(home, path);
    let found = path.is_absolute().then(|| LinkFollower::default().follow(&path)).flatten();
    found.filter(|found| found.parent().is_some())
}

/// Returns true if a path is in a folder of the command's own.
fn is_own(path: &Path, own: &[&Path]) -> bool {
    path.parent().is_none()
        || own.iter().any(|own| path.starts_with(own))
        || OF_COMMAND.iter().any(|own| path == Path::new(own))
        || ["/dev", "/proc"].iter().any(|own| path.starts_with(own))
}

/// Returns a path with a leading `~` replaced by the home folder.
pub fn expanded(home: Option<&Path>, path: &str) -> PathBuf {
    match (path.strip_prefix('~'), home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(path),
    }
}

/// Returns the folders that the caller's variables name, with the companions of the folders of `PATH`.
fn toolchains() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        VARIABLES.iter().filter_map(std::env::var_os).map(PathBuf::from).collect();
    for programs in std::env::var_os("PATH").iter().flat_map(std::env::split_paths) {
        let above = programs.parent().into_iter();
        folders.extend(above.flat_map(|folder| NEXT_TO_PROGRAMS.map(|name| folder.join(name))));
        folders.push(programs);
    }
    folders.retain(|folder| folder.is_absolute());
    folders
}

/// Returns true if a canonical folder that a variable names may be a toolchain: it is not the home folder and does not
/// hold it.
pub(super) fn is_toolchain(path: &Path, home: Option<&Path>) -> bool {
    path.parent().is_some()
        && !home.is_some_and(|home| home.starts_with(path))
        && !NO_TOOLCHAIN.iter().any(|whole| path == Path::new(whole))
}

#[cfg(target_os = "linux")]
/// Message type that sets the flags of a device.
const SET_LINK: u16 = 16;
#[cfg(target_os = "linux")]
/// Flag of a request.
const REQUEST: u16 = 1;
#[cfg(target_os = "linux")]
/// Flag of a device that is up.
const UP: u32 = 1;
#[cfg(target_os = "linux")]
/// Number of the loopback device in every new namespace.
const LOOPBACK: u32 = 1;

/// The network of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// Only a loopback device of its own.
    #[default]
    None,
    /// A loopback device, and a proxy to a list of hosts (see [`super::proxy::hosts`]).
    Hosts(Vec<String>),
    /// Network of the host.
    Shared,
}

impl Network {
    /// Returns true if the command shares the network of the host.
    pub fn is_shared(&self) -> bool {
        *self == Self::Shared
    }
}

#[cfg(target_os = "linux")]
/// Brings the loopback device up. If this fails, the command has no network at all.
pub fn bring_loopback_up() {
    // Protocol 0 is NETLINK_ROUTE.
    let opened = rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, None);
    if let Ok(socket) = opened {
        let kernel = netlink::SocketAddrNetlink::new(0, 0);
        let _ = rustix::net::sendto(&socket, &message(), SendFlags::empty(), &kernel);
    }
}

/// Does nothing: only Linux has network namespaces.
#[cfg(not(target_os = "linux"))]
pub fn bring_loopback_up() {}

#[cfg(target_os = "linux")]
/// Returns the request as in rtnetlink(7): a `nlmsghdr` and an `ifinfomsg`.
fn message() -> Vec<u8> {
    let mut body = vec![0_u8; 4]; // any family, any type
    body.extend(LOOPBACK.to_ne_bytes());
    body.extend(UP.to_ne_bytes());
    body.extend(UP.to_ne_bytes()); // only this flag is to change
    let header_bytes = 16_u32;
    let length = header_bytes + u32::try_from(body.len()).unwrap_or_default();
    let mut message = Vec::new();
    message.extend(length.to_ne_bytes());
    message.extend(SET_LINK.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend(1_u32.to_ne_bytes()); // its number
    message.extend(0_u32.to_ne_bytes()); // from nobody in particular
    message.extend(body);
    message
}
