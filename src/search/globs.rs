//! Globs, compiled and bounded, and the paths at which a search starts.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use rustix::fs::{Access, AtFlags};
use schemars::{Schema, SchemaGenerator, json_schema};

use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind};
use crate::limits::SEARCH_PATHS_MAX;
use crate::search::entry::WalkRoot;
use crate::text::escaped::plural;
use crate::text::similarity;

/// Longest glob, in bytes.
const GLOB_BYTES_MAX: usize = 4096;
/// Most globs in one request.
const GLOBS_MAX: usize = 1000;
/// Most similar type names in an error.
const NEAR_TYPES_MAX: usize = 5;
/// Smallest similarity of a suggested type name, 0 to 1.
const TYPE_LIKENESS_MIN: f32 = 0.5;

/// One pattern for whole paths, for `glob`.
#[derive(Debug, Clone)]
pub struct PathGlob {
    /// The compiled pattern.
    set: GlobSet,
    /// Folders above matches whose dot the pattern names.
    dot_folders: GlobSet,
    /// Literal components that every match begins with.
    literal: Vec<Vec<u8>>,
    /// Most components of a match, if the pattern limits them.
    components_max: Option<usize>,
}

impl PathGlob {
    /// Compiles `pattern`; without a slash, even one in `./`, it matches at any depth.
    ///
    /// # Errors
    /// Returns `invalid_request`, with the position if known.
    pub fn new(pattern: &str, ignore_case: bool) -> Result<Self, Error> {
        must_be_bounded(pattern)?;
        let (above, last) = pattern.rsplit_once('/').unwrap_or(("", pattern));
        // As in a path, these mean the folder itself.
        let above = above.split('/').filter(|component| !matches!(*component, "" | "."));
        let text: String = above.flat_map(|component| [component, "/"]).chain([last]).collect();
        if pattern.starts_with('/') || text.split('/').any(|component| component == "..") {
            return Err(Error::invalid(format!("the pattern {pattern} must lie below path"))
                .suggest("Give the folder as `path` and the pattern relative to it."));
        }
        if text.is_empty() {
            return Err(Error::invalid("pattern is empty").suggest("Use `**` to find every file."));
        }
        let full = match text.strip_suffix('/') {
            Some(folder) => format!("{folder}/**"),
            None if pattern.contains('/') => text,
            None => format!("**/{text}"),
        };
        let glob = GlobBuilder::new(&full)
            .literal_separator(true)
            .case_insensitive(ignore_case)
            .backslash_escape(true)
            .empty_alternates(true)
            .build()
            .map_err(|error| glob_error(pattern, &error.kind().to_string()))?;
        let set = GlobSetBuilder::new()
            .add(glob)
            .build()
            .map_err(|error| glob_error(pattern, &error.kind().to_string()))?;
        let literal = if ignore_case { Vec::new() } else { literal_components(&full) };
        let dot_folders = dot_folders([full.as_str()], ignore_case);
        Ok(Self { set, dot_folders, literal, components_max: components_max(&full) })
    }

    /// Returns true if the path, relative to the start of the search, matches.
    pub fn matches(&self, path: &[u8]) -> bool {
        self.set.is_match_candidate(&Candidate::new(Path::new(OsStr::from_bytes(path))))
    }

    /// Returns true if it names the dot at the beginning of the last name of a path: that of a folder above its matches,
    /// or of a match, which would be none with a letter before the dot.
    pub fn names_dot(&self, path: &[u8]) -> bool {
        let name = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
        let with_letter = || path.split_at_checked(name).map(|(folder, name)| [folder, b"x", name].concat());
        self.dot_folders.is_match(Path::new(OsStr::from_bytes(path)))
            || self.matches(path) && with_letter().is_some_and(|path| !self.matches(&path))
    }

    /// Returns true if something below the folder at this path may match.
    pub fn may_lie_below(&self, folder: &[u8]) -> bool {
        let mut components = 0;
        for (index, component) in folder.split(|&byte| byte == b'/').enumerate() {
            components = index + 1;
            if self.literal.get(index).is_some_and(|literal| literal != component) {
                return false;
            }
        }
        self.components_max.is_none_or(|most| components < most)
    }
}

/// Returns the beginnings of some globs that end in a component with a literal dot: folders that hide no match of them.
pub fn dot_folders<'g>(globs: impl IntoIterator<Item = &'g str>, ignore_case: bool) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let beginnings = glob.match_indices('/').filter_map(|(slash, _)| glob.get(..slash));
        for folder in
            beginnings.filter(|folder| folder.rsplit('/').next().unwrap_or_default().starts_with('.'))
        {
            let mut builder = GlobBuilder::new(folder);
            builder.literal_separator(true).case_insensitive(ignore_case).backslash_escape(true);
            // A beginning that ends inside braces is no glob.
            if let Ok(folder) = builder.build() {
                set.add(folder);
            }
        }
    }
    set.build().unwrap_or_default()
}

/// Returns the leading components of `pattern` without wildcards, except the last component.
fn literal_components(pattern: &str) -> Vec<Vec<u8>> {
    let is_literal =
        |component: &&str| !component.is_empty() && !component.contains(['*', '?', '[', '{', '\\']);
    let Some((folders, _)) = pattern.rsplit_once('/') else {
        return Vec::new();
    };
    folders.split('/').take_while(is_literal).map(|component| component.as_bytes().to_vec()).collect()
}

/// Returns the number of components of a match of `pattern`, if it is fixed.
fn components_max(pattern: &str) -> Option<usize> {
    let bounded = !pattern.contains("**") && !pattern.contains(['{', '[', '\\']);
    bounded.then(|| pattern.split('/').count())
}

/// Splits a list of globs, as some clients' tools take them: at commas and blanks outside braces.
pub fn split(text: &str) -> Vec<String> {
    let (mut globs, mut glob, mut depth) = (Vec::new(), String::new(), 0_u32);
    for character in text.chars() {
        match character {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (character == ',' || character.is_whitespace()) {
            globs.push(std::mem::take(&mut glob));
        } else {
            glob.push(character);
        }
    }
    globs.push(glob);
    globs.retain(|glob| !glob.is_empty());
    globs
}

/// Characters with a meaning in a glob.
const SPECIAL: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];
/// Special characters that no longer match themselves.
const OPENING: [char; 3] = ['[', '{', '\\'];

/// Returns a glob with its special characters escaped if they belong to an existing name, as in `[id]/page.tsx`: a
/// pattern that is a path means that path.
pub fn with_names<'g>(workspace: &Workspace, folder: &WorkspacePath, glob: &'g str) -> Cow<'g, str> {
    if !glob.contains(OPENING) {
        return Cow::Borrowed(glob);
    }
    let (mark, rest) = glob.strip_prefix('!').map_or(("", glob), |rest| ("!", rest));
    let mut at = Some(folder.clone());
    let components = rest.split('/').map(|component| {
        let path = at.take().map(|folder| match component {
            "" | "." => folder,
            name => folder.join(name.as_ref()),
        });
        at = path.filter(|path| workspace.place_of(path).is_ok_and(|place| place.stat().is_some()));
        match at {
            Some(_) if component.contains(OPENING) => escaped(component),
            _ => component.to_owned(),
        }
    });
    let components: Vec<String> = components.collect();
    Cow::Owned(format!("{mark}{}", components.join("/")))
}

/// Returns a name as a glob that means itself.
fn escaped(name: &str) -> String {
    let mut glob = String::with_capacity(name.len());
    for character in name.chars() {
        if SPECIAL.contains(&character) {
            glob.push('\\');
        }
        glob.push(character);
    }
    glob
}

/// Applies [`with_names`] to several globs, relative to the caller's folder.
pub fn all_with_names(workspace: &Workspace, globs: &[String]) -> Vec<String> {
    globs.iter().map(|glob| with_names(workspace, workspace.base(), glob).into_owned()).collect()
}

/// Compiles the globs that a search includes and excludes, as in `rg -g`: relative to `base`, with precedence over the
/// ignore rules; one that begins with `!` excludes.
///
/// # Errors
/// Returns `invalid_request` for a bad glob.
pub fn overrides(base: &WorkspacePath, include: &[String], exclude: &[String]) -> Result<Override, Error> {
    if include.len() + exclude.len() > GLOBS_MAX {
        return Err(Error::invalid(format!("more than {GLOBS_MAX} globs")));
    }
    let mut builder = OverrideBuilder::new(OsStr::from_bytes(base.as_bytes()));
    let left_out = exclude.iter().map(|glob| format!("!{}", glob.strip_prefix('!').unwrap_or(glob)));
    for glob in include.iter().cloned().chain(left_out) {
        must_be_bounded(&glob)?;
        let written = glob.strip_prefix('!').unwrap_or(&glob);
        let anchored =
            written.strip_prefix("./").map_or_else(|| written.to_owned(), |rest| format!("/{rest}"));
        if anchored.is_empty() {
            return Err(Error::invalid("a glob of include or exclude is empty"));
        }
        let glob = if glob.starts_with('!') { format!("!{anchored}") } else { anchored };
        builder.add(&glob).map_err(|error| glob_error(written, &reason_of(&error)))?;
    }
    builder.build().map_err(|error| Error::invalid(format!("bad glob: {error}")))
}

/// Returns the reason why a glob is invalid, without the glob itself.
fn reason_of(error: &ignore::Error) -> String {
    match error {
        ignore::Error::Glob { err, .. } => err.clone(),
        other => other.to_string(),
    }
}

/// Compiles the included and excluded file types, by their names in ripgrep's table.
///
/// # Errors
/// Returns `invalid_request` with similar names for an unknown one.
pub fn types(names: &[String], not: &[String]) -> Result<Types, Error> {
    if names.is_empty() && not.is_empty() {
        return Ok(Types::empty());
    }
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    for name in names {
        builder.select(name);
    }
    for name in not {
        builder.negate(name);
    }
    builder.build().map_err(|_| unknown_type(&builder, &[names, not].concat()))
}

/// Returns the error for a type that is not in the table.
fn unknown_type(builder: &TypesBuilder, names: &[String]) -> Error {
    let definitions = builder.definitions();
    let known: Vec<&str> = definitions.iter().map(ignore::types::FileTypeDef::name).collect();
    let unknown = names.iter().find(|name| !known.contains(&name.as_str())).map_or("", String::as_str);
    let extension = format!("*.{}", unknown.trim_start_matches('.').to_ascii_lowercase());
    let mut near: Vec<&str> = definitions
        .iter()
        .filter(|definition| definition.globs().contains(&extension))
        .map(ignore::types::FileTypeDef::name)
        .collect();
    for name in similarity::nearest(unknown, &known, NEAR_TYPES_MAX, TYPE_LIKENESS_MIN) {
        if near.len() < NEAR_TYPES_MAX && !near.contains(&name) {
            near.push(name);
        }
    }
    let unknown = crate::request::quoted(unknown);
    let message = if near.is_empty() {
        format!("unknown type: {unknown}")
    } else {
        format!("unknown type: {unknown} (similar: {})", near.join(", "))
    };
    Error::invalid(message)
        .suggest("Use one of ripgrep's types, such as rust, py or ts, or a glob in `include`.")
        .on_command_line("`rg --type-list` lists them.")
        .detail("near", near)
}

/// Fails if a glob is too long.
fn must_be_bounded(glob: &str) -> Result<(), Error> {
    if glob.len() > GLOB_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a glob has {} bytes; the limit is {GLOB_BYTES_MAX}",
            glob.len()
        )));
    }
    Ok(())
}

/// Returns the error for a bad glob, with the position of the fault.
fn glob_error(glob: &str, reason: &str) -> Error {
    let error = match fault_of(glob) {
        Some(column) => Error::invalid(format!("bad glob {glob} at column {column}: {reason}"))
            .detail("column", column as u64),
        None => Error::invalid(format!("bad glob {glob}: {reason}")),
    };
    error.suggest("Escape a literal bracket or brace with a backslash, or close it.")
}

/// Returns the 1-based column of an unmatched bracket or brace, or of a lone backslash.
fn fault_of(glob: &str) -> Option<usize> {
    let mut open_braces = Vec::new();
    let mut open_class = None;
    let mut escaped = None;
    for (index, byte) in glob.bytes().enumerate() {
        if escaped.take().is_some() {
            continue;
        }
        match (byte, open_class) {
            (b'\\', None) => escaped = Some(index),
            (b']', Some(start)) if index > start + 1 => open_class = None,
            (b'[', None) => open_class = Some(index),
            (b'{', None) => open_braces.push(index),
            (b'}', None) if open_braces.pop().is_none() => return Some(index + 1),
            _ => {}
        }
    }
    open_class.or(open_braces.first().copied()).or(escaped).map(|index| index + 1)
}

/// Suggested action for a glob that was given as a path.
const GLOB_AS_PATH: &str =
    "A path has no wildcards: give the folder as `path` and the glob as `include` or `pattern`.";

/// Types of paths at which a search can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartTypes {
    /// Only folders.
    Folders,
    /// Folders and regular files.
    Searchable,
    /// Anything.
    Anything,
}

/// Returns the roots for `paths`; the current folder if there are none.
///
/// # Errors
/// Returns `not_found` with similar names, `outside_workspace`, or an error for a path of the wrong type.
pub fn roots(
    workspace: &Workspace,
    paths: &[PathBuf],
    beginning: StartTypes,
) -> Result<Vec<WalkRoot>, Error> {
    if paths.len() > SEARCH_PATHS_MAX {
        return Err(Error::invalid(format!(
            "{}; the limit is {SEARCH_PATHS_MAX}",
            plural(paths.len(), "path")
        )));
    }
    if paths.is_empty() {
        return Ok(vec![root(workspace, Path::new("."), beginning)?]);
    }
    paths.iter().map(|path| root(workspace, path, beginning)).collect()
}

/// Returns the root for one path.
fn root(workspace: &Workspace, path: &Path, beginning: StartTypes) -> Result<WalkRoot, Error> {
    let place = workspace.resolve(path)?;
    let Some(stat) = place.stat() else {
        let error = workspace.not_found(&place);
        let is_glob = path.to_string_lossy().contains(['*', '?', '{']);
        return Err(if is_glob { error.suggest(GLOB_AS_PATH) } else { error });
    };
    let is_folder = fs::is_folder(stat);
    let refusal = match beginning {
        StartTypes::Folders if !is_folder => Some((ErrorKind::NotADirectory, "is not a directory")),
        StartTypes::Searchable if !is_folder && !fs::is_regular(stat) => {
            Some((ErrorKind::NotARegularFile, "is neither a regular file nor a directory"))
        }
        _ => None,
    };
    if let Some((kind, what)) = refusal {
        return Err(Error::new(kind, format!("{} {what}", place.display())).at(place.display()));
    }
    if is_folder || fs::is_regular(stat) {
        let path = place.path().as_path();
        rustix::fs::accessat(workspace.root_fd(), path, Access::READ_OK, AtFlags::EACCESS)
            .map_err(|errno| Error::io("read", place.display(), errno))?;
    }
    Ok(WalkRoot { path: place.path().clone(), is_folder })
}

/// Returns the schema of a field that takes one string or several.
pub fn one_or_many(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "array"], "items": { "type": "string" } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_prunes_directories_that_cannot_match() {
        let glob = PathGlob::new("src/engine/**/*.rs", false).unwrap();
        assert!(glob.may_lie_below(b"src") && glob.may_lie_below(b"src/engine/deep"));
        assert!(!glob.may_lie_below(b"tests") && !glob.may_lie_below(b"src/tools"));
        assert!(glob.matches(b"src/engine/fs.rs") && !glob.matches(b"src/lib.rs"));
        let flat = PathGlob::new("src/*.rs", false).unwrap();
        assert!(flat.may_lie_below(b"src") && !flat.may_lie_below(b"src/engine"));
        let anywhere = PathGlob::new("*.{rs,toml}", false).unwrap();
        assert!(anywhere.matches(b"a/b/c.rs") && anywhere.matches(b"Cargo.toml"));
    }

    #[test]
    fn glob_list_splits_at_commas_and_spaces() {
        for (text, globs) in [
            ("*.go,*.ts", &["*.go", "*.ts"][..]),
            (" *.{go, ts}  src/** ", &["*.{go, ts}", "src/**"]),
            ("", &[]),
        ] {
            assert_eq!(split(text), globs, "{text}");
        }
    }

    #[test]
    fn invalid_glob_is_an_error_with_a_column() {
        for (glob, column) in [("a[b", 2), ("{a,b", 1), ("a}b", 2)] {
            let error = PathGlob::new(glob, false).unwrap_err();
            assert_eq!(error.details().get("column"), Some(&column.into()), "{glob}: {error}");
        }
        assert!(PathGlob::new("../x", false).is_err());
        assert!(PathGlob::new("", false).is_err());
        assert!(PathGlob::new(&"{a,".repeat(3000), false).is_err());
    }
}
