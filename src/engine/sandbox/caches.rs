//! Private, writable views of the caches of toolchains.
//!
//! A view lies over the user's own cache: the command reads what is there, and what it writes goes into a folder of the
//! session. Programs in the folder stay read-only. Without a layer a command that can download has empty folders at
//! first, and another one the user's own caches, read-only.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::network::Network;
use super::outside::{Outside, is_toolchain};
use crate::engine::workspace::links::Follower;

/// The word for no views.
pub const NONE: &str = "none";
/// The folder in a view's own one that takes what commands write over the user's cache.
pub const UPPER: &str = "upper";
/// The folder that overlayfs needs with it.
pub const WORK: &str = "work";
/// The folder with programs next to some caches.
pub const PROGRAMS: &str = "bin";
/// The folder that takes the place of a cache without a layer.
pub const PLAIN: &str = "plain";

/// A cache of a toolchain.
struct Cache {
    /// Its name in the policy.
    name: &'static str,
    /// The variable that names its folder.
    variable: Option<&'static str>,
    /// The folder, below the home folder, if the variable does not.
    folder: &'static str,
    /// The folders in it that are caches; empty if all of it is one.
    parts: &'static [&'static str],
    /// True if commands need the folder even where the user has none.
    is_needed: bool,
    /// True if the user's own holds more than caches, so that no command sees it.
    is_private: bool,
}

/// Every cache that is known; a folder comes before those in it.
const CACHES: [Cache; 16] = [
    Cache::of("bun", ".bun", &["install/cache"]),
    Cache { is_private: true, ..Cache::needed("other", ".cache") },
    Cache::of("ccache", ".cache/ccache", &[]),
    Cache::of("composer", ".cache/composer", &[]),
    Cache::of("deno", ".cache/deno", &[]),
    Cache { variable: Some("GOCACHE"), ..Cache::of("go", ".cache/go-build", &[]) },
    Cache::of("pip", ".cache/pip", &[]),
    Cache::of("uv", ".cache/uv", &[]),
    Cache::of("yarn", ".cache/yarn", &[]),
    Cache { variable: Some("CARGO_HOME"), ..Cache::of("cargo", ".cargo", &["git", "registry"]) },
    Cache::of("gradle", ".gradle", &["caches", "daemon", "native", "wrapper"]),
    Cache::of("pnpm", ".local/share/pnpm", &["store"]),
    Cache::of("maven", ".m2", &["repository"]),
    Cache::needed("npm", ".npm"),
    Cache::of("nuget", ".nuget/packages", &[]),
    Cache { variable: Some("GOPATH"), parts: &["pkg"], ..Cache::needed("go", "go") },
];

/// A view of a cache.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct View {
    /// The canonical folder of the user.
    pub place: OsString,
    /// True if the user has it, and commands see what it holds.
    pub exists: bool,
    /// True if it holds programs.
    pub has_programs: bool,
    /// True if it lies in another view. What a command left there must lead no mount elsewhere.
    pub is_inner: bool,
    /// The folders in it that are caches; empty if all of it is one.
    pub parts: Vec<String>,
    /// The session's own folder for it, with [`UPPER`], [`WORK`] and [`PLAIN`].
    pub own: OsString,
}

impl Cache {
    /// A cache that only users of a toolchain have.
    const fn of(name: &'static str, folder: &'static str, parts: &'static [&'static str]) -> Self {
        Self { name, variable: None, folder, parts, is_needed: false, is_private: false }
    }

    /// A folder that commands need to write.
    const fn needed(name: &'static str, folder: &'static str) -> Self {
        Self { is_needed: true, ..Self::of(name, folder, &[]) }
    }

    /// Returns the name of its own folder in a session.
    fn own_name(&self) -> String {
        self.folder.trim_start_matches('.').replace(['/', '.'], "-")
    }
}

impl View {
    /// Returns the folders that replace the cache without a layer, each with its place. A place in what the user
    /// has must exist.
    #[must_use]
    pub fn plain(&self, network: &Network) -> Vec<(PathBuf, PathBuf)> {
        let (place, own) = (Path::new(&self.place), Path::new(&self.own).join(PLAIN));
        if self.is_inner || (self.exists && *network == Network::None) {
            return Vec::new();
        }
        if self.parts.is_empty() || !self.exists {
            return vec![(own, place.to_owned())];
        }
        let parts = self.parts.iter().map(|part| (own.join(part), place.join(part)));
        parts.filter(|(_, place)| rustix::fs::stat(place).is_ok()).collect()
    }
}

/// Finds the caches that a command needs: those of `wanted`, or all that the user has if nothing is wanted. `own` are
/// the command's folders, in which a cache is as it is; `make` makes the session's own folder of a name, for a layer if
/// that is true.
pub fn find(
    home: Option<&Path>,
    wanted: &[String],
    (outside, own): (&mut Outside, &[&Path]),
    make: &mut dyn FnMut(&str, bool) -> Option<PathBuf>,
) -> Vec<View> {
    let mut follower = Follower::default();
    let Some(home) = home.and_then(|home| follower.follow(home)) else { return Vec::new() };
    let is_wanted = |cache: &&Cache| wanted.is_empty() || wanted.iter().any(|name| name == cache.name);
    let mut views: Vec<View> = Vec::new();
    for cache in CACHES.iter().filter(is_wanted) {
        let named = cache.variable.and_then(std::env::var_os).map(PathBuf::from);
        let named = named.filter(|path| path.is_absolute()).and_then(|path| follower.follow(&path));
        let folder =
            named.filter(|path| is_toolchain(path, Some(&home))).unwrap_or_else(|| home.join(cache.folder));
        let found = follower.follow(&folder);
        let exists = found.is_some() && !cache.is_private;
        let place = found.filter(|_| !cache.is_private).unwrap_or(folder);
        // Where the parent is read-only, nothing can be put.
        let is_possible = exists || (cache.is_needed && !outside.shows(&place));
        let is_own = own.iter().any(|own| place.starts_with(own));
        let is_new = !views.iter().any(|view| place == Path::new(&view.place));
        if is_possible
            && !is_own
            && is_new
            && let Some(own) = make(&cache.own_name(), exists)
        {
            let has_programs = follower.follow(&place.join(PROGRAMS)).is_some();
            let parts = cache.parts.iter().map(|part| (*part).to_owned()).collect();
            let is_inner = views.iter().any(|view| place.starts_with(&view.place));
            let (place, own) = (place.into_os_string(), own.into_os_string());
            views.push(View { place, exists, has_programs, is_inner, parts, own });
        }
    }
    // A cache may be a link to another disk, where no view takes the place of the link.
    follower.links.retain(|link, _| !views.iter().any(|view| link == Path::new(&view.place)));
    outside.add_links(follower.links, own);
    views.sort_by(|one, other| Path::new(&one.place).cmp(Path::new(&other.place)));
    views
}

/// Returns the names of all caches.
pub fn names() -> impl Iterator<Item = &'static str> {
    CACHES.iter().map(|cache| cache.name)
}
