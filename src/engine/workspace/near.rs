//! The names that a caller may have meant.

use std::fmt::Write as _;
use std::path::Path;

use super::Workspace;
use super::path::WorkspacePath;
use super::resolve::ResolvedPath;
use crate::error::{Error, ErrorKind};
use crate::text::likeness;

/// Near names in an answer.
const NEAR_MAX: usize = 3;
/// Files looked at in search of the same name elsewhere: about 20 ms on a warm disk.
const FILES_LOOKED_AT_MAX: usize = 20_000;
/// How alike two names must be, 0 to 1.
const LIKENESS_MIN: f32 = 0.6;
/// How alike their stems must be.
const STEM_LIKENESS_MIN: f32 = 0.5;

/// A name as a reader can tell it from another that looks the same: with the numbers of what is not ASCII.
fn told_apart(name: &str) -> String {
    if name.is_ascii() {
        return name.to_owned();
    }
    let escape = |character: char| match character {
        character if character.is_ascii() => character.to_string(),
        character => character.encode_utf16(&mut [0; 2]).iter().fold(String::new(), |mut text, unit| {
            // Writing into a text cannot fail.
            let _ = write!(text, "\\u{unit:04x}");
            text
        }),
    };
    format!("{name} (in JSON \"{}\")", name.chars().map(escape).collect::<String>())
}

impl Workspace {
    /// `not_found` for a place where nothing stands, with up to three near paths.
    #[must_use]
    pub fn not_found(&self, place: &ResolvedPath) -> Error {
        let mut near = self.near(place.path());
        // The name that was given may be a link to a missing file of a like name.
        near.retain(|path| path != place.shown());
        let error =
            Error::new(ErrorKind::NotFound, format!("no such file: {}", place.shown())).at(place.shown());
        match near.as_slice() {
            [] => error,
            // A question and no order: a guess may be a file that nobody meant.
            near_ones => {
                let told: Vec<String> = near_ones.iter().map(|near| told_apart(near)).collect();
                error.suggest(format!("Did you mean {}?", told.join(", "))).detail("near", near)
            }
        }
    }

    /// Up to three paths like `missing`: in its own folder, else of the same name elsewhere.
    fn near(&self, missing: &WorkspacePath) -> Vec<String> {
        let Some(name) = missing.name().and_then(|name| name.to_str()) else {
            return Vec::new();
        };
        let mut near = Vec::new();
        if let Some(folder) = missing.parent() {
            let siblings = self.siblings(&folder);
            let names: Vec<&str> = siblings.iter().map(String::as_str).collect();
            near = similar_names(name, &names)
                .into_iter()
                .map(|sibling| self.shown(&folder.join(std::ffi::OsStr::new(&sibling))))
                .collect();
        }
        for path in self.of_the_same_name(missing, name) {
            if near.len() < NEAR_MAX && !near.contains(&path) {
                near.push(path);
            }
        }
        near
    }

    /// The names in a folder.
    fn siblings(&self, folder: &WorkspacePath) -> Vec<String> {
        let Ok(opened) = self.open_folder(folder) else {
            return Vec::new();
        };
        let Ok(entries) = rustix::fs::Dir::new(opened) else {
            return Vec::new();
        };
        entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| name != "." && name != ".." && name != ".git" && name != ".lbx")
            .take(FILES_LOOKED_AT_MAX)
            .collect()
    }

    /// Files that git does not ignore and that end in the same components, the most alike first.
    fn of_the_same_name(&self, missing: &WorkspacePath, name: &str) -> Vec<String> {
        let mut found: Vec<(usize, WorkspacePath)> = ignore::WalkBuilder::new(self.root())
            .build()
            .take(FILES_LOOKED_AT_MAX)
            .flatten()
            .filter(|entry| entry.file_name().eq_ignore_ascii_case(name))
            .filter_map(|entry| WorkspacePath::new(entry.path().strip_prefix(self.root()).ok()?))
            .map(|path| (shared_ending(path.as_path(), missing.as_path()), path))
            .collect();
        found.sort_unstable_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        found.into_iter().take(NEAR_MAX).map(|(_, path)| self.shown(&path)).collect()
    }
}

/// How many components two paths share at their ends.
fn shared_ending(one: &Path, other: &Path) -> usize {
    one.iter().rev().zip(other.iter().rev()).take_while(|(mine, theirs)| mine == theirs).count()
}

/// Whether two names are alike without their extension: that of a short name would make all files of a kind
/// alike.
fn has_similar_stem(name: &str, candidate: &str) -> bool {
    let stem = |name| Path::new(name).file_stem().and_then(|stem| stem.to_str()).unwrap_or(name);
    likeness::ratio(stem(name), stem(candidate), None) >= STEM_LIKENESS_MIN
}

/// Names like `name`: the same but for case first, then the most alike.
fn similar_names(name: &str, candidates: &[&str]) -> Vec<String> {
    let mut near: Vec<String> = candidates
        .iter()
        .filter(|candidate| candidate.eq_ignore_ascii_case(name))
        .map(|candidate| (*candidate).to_owned())
        .collect();
    for candidate in likeness::nearest(name, candidates, NEAR_MAX, LIKENESS_MIN) {
        if near.len() < NEAR_MAX
            && has_similar_stem(name, candidate)
            && !near.iter().any(|known| known == candidate)
        {
            near.push(candidate.to_owned());
        }
    }
    near
}
