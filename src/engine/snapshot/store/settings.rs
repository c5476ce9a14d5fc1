//! Git's configuration: of the system, the user and the repository, each file read once.
//!
//! Ignores all `GIT_*` variables. Trusts the repository's settings, since lbx never runs anything that they name.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::config::file::includes;
use gix::config::file::init::Options;
use gix::config::file::{Metadata, includes::conditional};
use gix::config::tree::{Core, Extensions};
use gix::config::{File, Source, path::interpolate};
use gix::filter::plumbing::pipeline::{self, CrlfRoundTripCheck};
use gix::filter::plumbing::{Driver, eol};
use gix::refs::FullName;
use gix::zlib::Compression;
use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;

use super::dir::{Dir, Sharing};
use super::preflight;
use super::preflight::{CONFIG_BYTES_MAX, parse_config};
use super::{ErrorContext as _, SnapshotError};
use crate::engine::workspace::fs;
use crate::engine::workspace::stat_cache::FileCache;
use crate::limits::ANY_REF_BYTES_MAX;

/// Extensions that a repository of format 1 may use, in lower case.
///
/// Any other extension changes the meaning of the repository's files, so lbx must not write there. `refStorage` and
/// `objectFormat` are checked separately.
const EXTENSIONS_KNOWN: [&str; 10] = [
    "noop",
    "noop-v1",
    "objectformat",
    "partialclone",
    "preciousobjects",
    "refstorage",
    "relativeworktrees",
    "submodulepathconfig",
    "worktreeconfig",
    "compatobjectformat",
];

/// Settings that name a file of rules.
const RULE_SETTINGS: [&str; 2] = ["core.excludesFile", "core.attributesFile"];

/// Setting that says who may use what is made in the repository.
const SHARING: &str = "core.sharedRepository";

/// The settings of a repository.
#[derive(Debug)]
pub struct RepositorySettings {
    /// All settings; later ones take precedence.
    file: File,
    /// Hash function of object ids.
    hash: gix::hash::Kind,
}

impl RepositorySettings {
    /// Reads the settings of the repository `common` and the worktree `own`.
    ///
    /// # Errors
    /// Fails if a file cannot be read or is not in git's format, or if lbx would misread the repository.
    pub fn read(common: &Dir, own: &Dir) -> Result<Self, SnapshotError> {
        let bytes = common.read("config", CONFIG_BYTES_MAX);
        let bytes = bytes.context(|| "its configuration cannot be read".into())?.unwrap_or_default();
        Self::of(&bytes, common, own, &[])
    }

    /// Returns these settings, given the bytes of the repository's configuration. `overrides`, each `key=value`, take
    /// precedence.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn of(bytes: &[u8], common: &Dir, own: &Dir, overrides: &[BString]) -> Result<Self, SnapshotError> {
        let opening = || format!("the repository `{}` cannot be opened", own.path().display());
        preflight::check_includes(&common.path().join("config"), bytes)?;
        let mut local = parse_config(bytes, Source::Local, common.path().join("config"))
            .context_redacted(|| "its configuration is not in git's format".into())?;
        check_extensions(&local)?;
        let hash = hash_of(&local).context_redacted(opening)?;
        if local.boolean(Extensions::WORKTREE_CONFIG).ok().flatten().unwrap_or(false) {
            let path = own.path().join("config.worktree");
            let bytes = own.read("config.worktree", CONFIG_BYTES_MAX).context(opening)?.unwrap_or_default();
            preflight::check_includes(&path, &bytes)?;
            local.append(parse_config(&bytes, Source::Worktree, path).context(opening)?).context(opening)?;
        }
        let mut file = of_user(common.files().map(Arc::as_ref)).context(opening)?;
        file.append(local).context(opening)?;
        if file.sections().any(|section| preflight::is_include(section.header().name())) {
            follow_includes(&mut file, own).context(opening)?;
        }
        file.append(lbx_settings(overrides).context(opening)?).context(opening)?;
        let settings = Self { file, hash };
        settings.check_partial()?;
        Ok(settings)
    }

    /// Returns the hash function of object ids.
    pub fn object_hash(&self) -> gix::hash::Kind {
        self.hash
    }

    /// Returns a boolean; `None` if it is not set or not a boolean.
    pub fn boolean(&self, key: &str) -> Option<bool> {
        self.file.boolean(key).ok().flatten()
    }

    /// Returns a string.
    pub fn string(&self, key: &str) -> Option<BString> {
        self.file.string(key)
    }

    /// Returns the file that a setting names, relative to `root`; `None` if it names none, or an optional one that is
    /// missing.
    ///
    /// # Errors
    /// Fails if the path cannot be resolved.
    pub fn path(&self, root: &Path, key: &str) -> gix::error::Result<Option<PathBuf>> {
        let Some(path) = self.file.path(key).filter(|path| !path.is_empty()) else { return Ok(None) };
        let home = home();
        let is_optional = path.is_optional;
        let path = root.join(path.interpolate(interpolation(home.as_deref()))?);
        Ok(if is_optional && !preflight::is_there(&path) { None } else { Some(path) })
    }

    /// Returns the file of rules that a setting names, or else the user's file `name`; `None` if this account may not enter
    /// the folder of another one that holds it, as for git.
    ///
    /// # Errors
    /// As [`Self::path`].
    pub fn users_rules(&self, root: &Path, key: &str, name: &str) -> gix::error::Result<Option<PathBuf>> {
        let file = self.path(root, key)?.or_else(|| users_file(name));
        Ok(file.filter(|file| !is_closed_by_others(file)))
    }

    /// Returns the compression level of loose objects.
    pub fn loose_compression(&self) -> Compression {
        let level = |key: &str| {
            let level = self.file.integer(key).ok().flatten()?;
            if level == -1 {
                Some(Compression::DEFAULT)
            } else {
                Compression::new(i32::try_from(level).ok()?)
            }
        };
        let own = level("core.looseCompression").or_else(|| level("core.compression"));
        own.unwrap_or(Compression::BEST_SPEED)
    }

    /// Returns who may use what is made in the repository. A value with which git fails counts as none.
    pub fn sharing(&self) -> Sharing {
        let (group, everybody) = (Sharing::AtLeast(0o660), Sharing::AtLeast(0o664));
        let value = self.string(SHARING).unwrap_or_default();
        let value = value.to_str_lossy();
        match (&*value, u32::from_str_radix(&value, 8)) {
            ("group", _) | (_, Ok(1)) => group,
            ("all" | "world" | "everybody", _) | (_, Ok(2)) => everybody,
            (_, Ok(mode)) if mode & 0o600 == 0o600 => Sharing::Exactly(mode & 0o666),
            (_, Err(_)) if self.boolean(SHARING) == Some(true) => group,
            _ => Sharing::Umask,
        }
    }

    /// Returns how line endings and encodings are stored. Contains no programs.
    ///
    /// # Errors
    /// Fails if a setting has an invalid value.
    pub fn conversions(&self) -> gix::error::Result<pipeline::Options> {
        let of = |key: &str| self.file.string(key);
        let auto_crlf = of("core.autocrlf").and_then(|value| Core::AUTO_CRLF.try_into_autocrlf(value).ok());
        let eol = of("core.eol").map(|value| Core::EOL.try_into_eol(value)).transpose()?;
        let encodings =
            Core::CHECK_ROUND_TRIP_ENCODING.try_into_encodings(of("core.checkRoundtripEncoding"))?;
        Ok(pipeline::Options {
            drivers: Vec::<Driver>::new(),
            eol_config: eol::Configuration { auto_crlf: auto_crlf.unwrap_or_default(), eol },
            encodings_with_roundtrip_check: encodings,
            crlf_roundtrip_check: CrlfRoundTripCheck::Skip,
        })
    }

    /// Returns the names of the filters that run a program when a file is stored.
    pub fn filter_programs(&self) -> BTreeSet<BString> {
        let filters = self.file.sections_by_name("filter").into_iter().flatten();
        let runs = filters.filter(|it| it.value("clean").is_some() || it.value("process").is_some());
        runs.filter_map(|it| it.header().subsection_name().map(BStr::to_owned)).collect()
    }

    /// Fails if a rule file in these settings is not a file, or is too large.
    ///
    /// # Errors
    /// Names the setting.
    pub fn check_rules(&self, root: &Path) -> Result<(), SnapshotError> {
        for setting in RULE_SETTINGS {
            let Ok(Some(path)) = self.path(root, setting) else { continue };
            preflight::check_rules_at(&path, setting)?;
        }
        Ok(())
    }

    /// Fails for a partial clone without trees, since lbx fetches nothing.
    fn check_partial(&self) -> Result<(), SnapshotError> {
        let remotes = self.file.sections_by_name("remote").into_iter().flatten();
        let treeless = remotes
            .filter_map(|remote| remote.value("partialclonefilter"))
            .any(|filter| filter.starts_with(b"tree:"));
        if treeless {
            return Err(SnapshotError::new("the repository is a partial clone without its trees"));
        }
        Ok(())
    }
}

/// Returns the user's git file `name`, in the folder of their git configuration.
fn users_file(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| home().map(|home| home.join(".config")))?;
    Some(folder.join("git").join(name))
}

/// Returns true if a file lies in a folder that another account has closed, such as its `HOME`. In a folder of this
/// account's own that is closed for now, rules may hide secrets.
fn is_closed_by_others(file: &Path) -> bool {
    let found = |folder: &Path| rustix::fs::stat(folder).ok().map(|stat| (folder.to_owned(), stat));
    let is_closed = |(folder, stat): (PathBuf, _)| {
        let entered = rustix::fs::accessat(CWD, &folder, Access::EXEC_OK, AtFlags::EACCESS);
        entered == Err(Errno::ACCESS) && !fs::is_own(&stat)
    };
    rustix::fs::lstat(file).err() == Some(Errno::ACCESS)
        && file.ancestors().skip(1).find_map(found).is_some_and(is_closed)
}

/// Returns the user's home folder.
fn home() -> Option<PathBuf> {
    gix::path::env::home_dir()
}

/// Returns an environment variable that locates the user's configuration.
fn variable(name: &str) -> Option<OsString> {
    if matches!(name, "HOME" | "XDG_CONFIG_HOME") { std::env::var_os(name) } else { None }
}

/// Returns the path of the system-wide attributes.
pub fn systems_attributes() -> Option<PathBuf> {
    gix::attrs::Source::System.storage_location(&mut variable)
}

/// Returns how to expand paths in settings.
fn interpolation(home: Option<&Path>) -> interpolate::Context<'_> {
    interpolate::Context {
        git_install_dir: None,
        home_dir: home,
        home_for_user: Some(interpolate::home_for_user),
    }
}

/// Returns the settings of the system and the user; skips unreadable files.
fn of_user(files: Option<&FileCache>) -> gix::error::Result<File> {
    let mut all = File::new(Metadata::from(Source::System));
    for source in [Source::System, Source::Git, Source::User] {
        let Some(path) = source.storage_location(&mut variable) else { continue };
        let Ok(bytes) = preflight::read_followed(&path, files) else { continue };
        all.append(parse_config(&bytes, source, path)?)?;
    }
    Ok(all)
}

/// Adds the included files, if their conditions on folder and branch hold.
fn follow_includes(file: &mut File, own: &Dir) -> gix::error::Result {
    let head = own.read("HEAD", ANY_REF_BYTES_MAX).ok().flatten().unwrap_or_default();
    let branch = head.strip_prefix(b"ref:").and_then(|name| FullName::try_from(name.trim().as_bstr()).ok());
    let home = home();
    let context = conditional::Context {
        git_dir: Some(own.path()),
        branch_name: branch.as_ref().map(FullName::as_ref),
    };
    file.resolve_includes(Options {
        lossy: true,
        ignore_io_errors: true,
        includes: includes::Options::follow(interpolation(home.as_deref()), context),
    })
}

/// Returns lbx's own settings, each `key=value`.
fn lbx_settings(overrides: &[BString]) -> gix::error::Result<File> {
    let mut file = File::new(Metadata::api());
    for setting in overrides {
        let Some((key, value)) = setting.split_once_str("=") else { continue };
        file.set_raw_value(key.to_str_lossy().as_ref(), value.as_bstr())?;
    }
    Ok(file)
}

/// Returns the repository's hash function.
fn hash_of(config: &File) -> gix::error::Result<gix::hash::Kind> {
    let format = config.integer(Core::REPOSITORY_FORMAT_VERSION)?.unwrap_or(0);
    match config.string(Extensions::OBJECT_FORMAT) {
        Some(named) if format == 1 => Extensions::OBJECT_FORMAT.try_into_object_format(named),
        // Git refuses it too.
        Some(_) => Err(gix::error::message("objectFormat needs format 1").into()),
        None => Ok(gix::hash::Kind::Sha1),
    }
}

/// Fails for a reference storage, format or extension that lbx would misread.
fn check_extensions(config: &File) -> Result<(), SnapshotError> {
    let format = config.integer("core.repositoryFormatVersion").ok().flatten().unwrap_or(0);
    if !(0..=1).contains(&format) {
        return Err(SnapshotError::new(format!("the format {format} of the repository is not known")));
    }
    for section in config.sections_by_name("extensions").into_iter().flatten() {
        for name in section.value_names() {
            let name = name.to_ascii_lowercase();
            let value = section.value(&name).unwrap_or_default();
            if name == "refstorage" && value != "files" {
                return Err(SnapshotError::new(
                    "the repository stores its references in a form, such as reftable, that lbx cannot write",
                ));
            }
            if format == 1 && !EXTENSIONS_KNOWN.contains(&name.as_str()) {
                return Err(SnapshotError::new(format!(
                    "the extension `{name}` of the repository is not known"
                )));
            }
        }
    }
    Ok(())
}
