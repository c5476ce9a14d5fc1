//! Checks the whole result of a change before any of it is written, and in a dry run.
//!
//! The tools check each path as they reach it. This module checks the combined result of all paths, and of an undo or a
//! restore: no protected path, no folder that git would take for a repository, and no link that gives a protected path
//! another name.
//!
//! It also checks the new text of every tool against the old: odd characters, line endings.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::path::Path;

use globset::GlobBuilder;

use super::Change;
use super::open::LockedFile;
use super::plan::FilePlan;
use crate::engine::history::replay::Piece;
use crate::engine::store::state::path_in;
use crate::engine::store::trash;
use crate::engine::workspace::path::WorkspacePath;
use crate::engine::workspace::protect::{
    HEAD, HEAD_BYTES_READ, HeadFile, PARTS, head_at, is_repository_with,
};
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind};
use crate::limits::ATTRIBUTES_BYTES_MAX;
use crate::text::content::{Content, EncodingGuess, looks_binary};
use crate::text::escaped;
use crate::text::lines::LineEnding;

/// Folders that a change may turn into a repository, each with the parts that it adds there.
type Candidates = BTreeMap<WorkspacePath, BTreeSet<OsString>>;

impl Change<'_> {
    /// Fails if the result of a change would bypass the protection.
    ///
    /// # Errors
    /// Returns `protected_path`.
    pub(in crate::engine) fn check_result(&self) -> Result<(), Error> {
        for path in self.touched() {
            self.must_be_writable_at(&path)?;
        }
        let result = ResultTree::of(self);
        for (folder, spelled) in result.candidates() {
            if result.is_repository(&folder, &spelled) {
                return Err(makes_repository(&self.engine.workspace.display(&folder)));
            }
        }
        result.links().try_for_each(|link| self.must_be_free_below(link))
    }

    /// Returns every path that the change itself names, except those in lbx's own trash.
    fn touched(&self) -> impl Iterator<Item = WorkspacePath> {
        let trash = path_in(self.state.as_ref(), trash::FOLDER);
        let files = self.files.iter().map(|file| file.seen.current.place.path());
        let moves = self.pieces.iter().flat_map(|moved| [moved.real, moved.at]);
        let modes = self.entry.modes.iter().map(|folder| &folder.path);
        let all = files.chain(self.named_folders()).chain(modes).cloned().chain(moves);
        all.filter(move |path| !path.is_within(&trash))
    }

    /// Fails for a canonical path that no tool writes, or that the policy protects.
    fn must_be_writable_at(&self, path: &WorkspacePath) -> Result<(), Error> {
        let shown = self.engine.workspace.display(path);
        self.protection.check(&self.engine.workspace, path, &shown)?;
        self.must_be_unprotected(path, None, &shown)
    }

    /// Fails for a link at a path below which the policy protects something: the link would put other bytes under the
    /// protected path.
    ///
    /// # Errors
    /// Returns `protected_path`.
    pub(in crate::engine) fn must_be_free_below(&self, link: &WorkspacePath) -> Result<(), Error> {
        let workspace = &self.engine.workspace;
        let by_name = self.engine.policy().protects_below(workspace, link);
        match by_name.or_else(|| self.protected_links().protects_below(link)) {
            None => Ok(()),
            Some(why) => {
                let shown = workspace.display(link);
                let message =
                    format!("{shown} cannot be a symlink, since what lies below it is protected: {why}");
                Err(Error::new(ErrorKind::ProtectedPath, message)
                    .at(shown)
                    .suggest("Leave it as it is and tell the user what you would change there."))
            }
        }
    }
}

/// Returns the error for a change that would make a repository.
fn makes_repository(shown: &str) -> Error {
    let message = format!(
        "the change would make {shown} a folder that git takes for a repository, whose configuration can run programs"
    );
    Error::new(ErrorKind::ProtectedPath, message)
        .at(shown)
        .suggest("Leave out HEAD or give it another name; only the user makes repositories, with git init.")
}

/// The tree after the change, as an overlay of the one on disk.
struct ResultTree<'c> {
    /// Workspace.
    workspace: &'c Workspace,
    /// Files to write, by path.
    puts: BTreeMap<&'c WorkspacePath, &'c FilePlan>,
    /// Files to remove.
    removed: BTreeSet<WorkspacePath>,
    /// Entries to rename.
    moves: Vec<Piece>,
    /// Folders to make.
    folders: Vec<WorkspacePath>,
    /// Path of lbx's own trash.
    trash: WorkspacePath,
}

impl<'c> ResultTree<'c> {
    /// Returns the tree after a change.
    fn of(change: &'c Change<'_>) -> Self {
        Self {
            workspace: &change.engine.workspace,
            puts: change
                .files
                .iter()
                .filter(|file| file.after.is_some())
                .map(|file| (file.seen.current.place.path(), file))
                .collect(),
            removed: change.removed_paths(),
            moves: change.pieces.iter().collect(),
            folders: change.wanted_folders(),
            trash: path_in(change.state.as_ref(), trash::FOLDER),
        }
    }

    /// Returns every new path.
    fn new_paths(&self) -> impl Iterator<Item = &WorkspacePath> {
        let moved = self.moves.iter().map(|moved| &moved.at).filter(|at| !at.is_within(&self.trash));
        self.puts.keys().copied().chain(moved).chain(&self.folders)
    }

    /// Returns the folders that get a part of a repository, in any letter case.
    fn candidates(&self) -> Candidates {
        let mut candidates = Candidates::new();
        for path in self.new_paths() {
            for (depth, name) in path.components().enumerate() {
                if PARTS.iter().any(|part| name.eq_ignore_ascii_case(part)) {
                    let folder =
                        path.components().take(depth).fold(WorkspacePath::root(), |to, name| to.join(name));
                    candidates.entry(folder).or_default().insert(name.to_owned());
                }
            }
        }
        candidates
    }

    /// Returns true if git would take a folder for a repository; `spelled` are names in it, spelled as in the change.
    fn is_repository(&self, folder: &WorkspacePath, spelled: &BTreeSet<OsString>) -> bool {
        let at = |part: &str| {
            let others = spelled.iter().filter(move |name| name.eq_ignore_ascii_case(part));
            let names = others.map(OsString::as_os_str).chain([OsStr::new(part)]);
            names.map(|name| folder.join(name)).collect::<Vec<_>>()
        };
        let stands = |part: &str| at(part).iter().any(|path| self.will_exist(path));
        at(HEAD).iter().any(|path| is_repository_with(&self.head_at(path), stands))
    }

    /// Returns true if the path will exist.
    fn will_exist(&self, path: &WorkspacePath) -> bool {
        self.new_paths().any(|appearing| appearing.is_within(path))
            || self.on_disk(path).is_some_and(|real| {
                let root = self.workspace.root_fd();
                fs::stat_beneath(root, &real).is_ok()
            })
    }

    /// Returns the present path of the entry that will be at a path without being written there; `None` if there will
    /// be no such entry.
    fn on_disk(&self, path: &WorkspacePath) -> Option<WorkspacePath> {
        if let Some(moved) = self.moves.iter().find(|moved| path.is_within(&moved.at)) {
            return Some(path.rebased(&moved.at, &moved.real));
        }
        let leaves =
            self.removed.contains(path) || self.moves.iter().any(|moved| path.is_within(&moved.real));
        (!leaves).then(|| path.clone())
    }

    /// Returns the bytes that git would read at a path.
    fn head_at(&self, path: &WorkspacePath) -> HeadFile {
        if let Some(file) = self.puts.get(path) {
            let bytes = file.after.iter().flat_map(|after| after.bytes.iter().take(HEAD_BYTES_READ));
            let bytes = bytes.copied().collect();
            return if is_link(file) { HeadFile::Link(bytes) } else { HeadFile::File(bytes) };
        }
        let Some(real) = self.on_disk(path) else {
            return HeadFile::Absent;
        };
        let Some(name) = real.name().map(OsStr::to_owned) else {
            return HeadFile::Absent;
        };
        match self.workspace.find_folder(&real.parent().unwrap_or_default()) {
            Ok(Some(folder)) => head_at(folder.as_fd(), &name),
            Ok(None) => HeadFile::Absent,
            Err(_) => HeadFile::Unknown,
        }
    }

    /// Returns the new links; those in moved folders are found when the folders are searched.
    fn links(&self) -> impl Iterator<Item = &WorkspacePath> {
        let put = self.puts.iter().filter(|(_, file)| is_link(file)).map(|(path, _)| *path);
        let is_link = |moved: &&Piece| {
            let looked = fs::stat_beneath(self.workspace.root_fd(), &moved.real);
            looked.is_ok_and(|stat| fs::is_symlink(&stat))
        };
        let moved = self.moves.iter().filter(|moved| !moved.at.is_within(&self.trash)).filter(is_link);
        put.chain(moved.map(|moved| &moved.at))
    }
}

/// Returns true if a symlink is written.
fn is_link(file: &FilePlan) -> bool {
    let origin = file.origin.as_ref().map(|origin| fs::recorded_mode(&origin.original.stat));
    let kept = || origin.or_else(|| file.seen.current.mode());
    file.after.as_ref().and_then(|after| after.mode).or_else(kept).is_some_and(fs::is_symlink_mode)
}

/// Most odd characters that a warning names.
const CHARACTERS_NAMED: usize = 4;

impl Change<'_> {
    /// Warns about parts of a new text that its writer may not have intended.
    pub(super) fn warn_of_misfit(&mut self, current: &LockedFile, bytes: &[u8]) {
        let old = current.exists().then(|| current.bytes());
        if current.is_symlink()
            || matches!(EncodingGuess::of(bytes), EncodingGuess::Utf16(_) | EncodingGuess::Utf32)
        {
            return;
        }
        // A binary file may hold any characters.
        let is_binary =
            old.is_some_and(looks_binary) || (self.entry.tool.ends_with("patch") && looks_binary(bytes));
        if is_binary {
            return;
        }
        let shown = current.place().display().to_owned();
        let body = Content::of(bytes, None).map(|view| view.body).unwrap_or_default();
        let found = escaped::odd_characters(old.unwrap_or_default(), &body, CHARACTERS_NAMED);
        for odd in &found {
            let number = u32::from(odd.character);
            self.engine.warn(format!(
                "{shown} has a character that nobody types in line {}: U+{number:04X}",
                odd.line
            ));
        }
        if let Some(line) = escaped::end_of_call(old.unwrap_or_default(), &body) {
            self.engine.warn(format!("{shown} ends in {line}, which closes a tool call"));
        }
        if let Some(what) = escaped::odd_line_endings(old, bytes) {
            self.engine.warn(format!("{shown} {what}"));
        } else if old.is_none() {
            self.warn_of_rules(current.place().path(), &shown, LineEnding::of(bytes));
        }
    }

    /// Warns if the project's rules require other line endings for a new file.
    fn warn_of_rules(&mut self, path: &WorkspacePath, shown: &str, endings: LineEnding) {
        let name = |endings| match endings {
            LineEnding::Lf => Some("LF"),
            LineEnding::Crlf => Some("CRLF"),
            _ => None,
        };
        let Some(is) = name(endings) else { return };
        let Some((wanted, file)) = self.wanted_ending(path) else { return };
        if wanted != endings
            && let Some(wanted) = name(wanted)
        {
            self.engine.warn(format!("{shown} has {is} line endings, and {file} wants {wanted}"));
        }
    }

    /// Returns the line ending that the nearest rule requires for a file, and the file of the rule.
    fn wanted_ending(&self, path: &WorkspacePath) -> Option<(LineEnding, String)> {
        let mut folder = path.parent();
        while let Some(at) = folder {
            for (name, ending_in) in
                [(".gitattributes", by_attributes as Rules), (".editorconfig", by_editorconfig)]
            {
                let rules = at.join(name.as_ref());
                let Some(text) = self.rules_at(&rules) else { continue };
                let inner = path.rebased(&at, &WorkspacePath::root());
                if let Some(ending) = ending_in(&text, inner.as_path()) {
                    return Some((ending, self.engine.workspace.display(&rules)));
                }
            }
            folder = at.parent();
        }
        None
    }

    /// Returns the text of a rule file, if it exists.
    fn rules_at(&self, path: &WorkspacePath) -> Option<String> {
        let opened = fs::open_beneath(self.engine.workspace.root_fd(), path, fs::READ).ok()?;
        let stat = rustix::fs::fstat(&opened).ok().filter(fs::is_regular)?;
        let bytes =
            fs::read_to_end(std::fs::File::from(opened), fs::size_of(&stat), ATTRIBUTES_BYTES_MAX).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Returns the line ending that a text of rules requires for a path relative to its folder.
type Rules = fn(&str, &Path) -> Option<LineEnding>;

/// Returns the line ending that a `.gitattributes` requires (gitattributes(5), `eol`): the last matching line counts.
fn by_attributes(text: &str, path: &Path) -> Option<LineEnding> {
    let mut wanted = None;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(pattern) = words.next().filter(|pattern| !pattern.starts_with(['#', '"', '!'])) else {
            continue;
        };
        let ending = words.rev().find_map(|word| match word {
            "eol=crlf" => Some(Some(LineEnding::Crlf)),
            "eol=lf" => Some(Some(LineEnding::Lf)),
            "binary" | "-text" | "!eol" => Some(None),
            _ => None,
        });
        if let Some(ending) = ending.filter(|_| matches(pattern, path)) {
            wanted = ending;
        }
    }
    wanted
}

/// Returns the line ending that an `.editorconfig` requires (editorconfig.org, `end_of_line`): the last matching
/// section counts.
fn by_editorconfig(text: &str, path: &Path) -> Option<LineEnding> {
    let (mut wanted, mut is_ours) = (None, false);
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_ours = matches(section, path);
        } else if let Some((key, value)) = line.split_once('=').filter(|_| is_ours)
            && key.trim().eq_ignore_ascii_case("end_of_line")
        {
            wanted = match value.trim().to_ascii_lowercase().as_str() {
                "crlf" => Some(LineEnding::Crlf),
                "lf" => Some(LineEnding::Lf),
                _ => None,
            };
        }
    }
    wanted
}

/// Returns true if a pattern matches a path: one without a slash matches in all folders below.
fn matches(pattern: &str, path: &Path) -> bool {
    let form = match pattern.strip_prefix('/') {
        Some(rooted) => rooted.to_owned(),
        None if pattern.contains('/') => pattern.to_owned(),
        None => format!("**/{pattern}"),
    };
    let glob = GlobBuilder::new(&form).literal_separator(true).build();
    glob.is_ok_and(|glob| glob.compile_matcher().is_match(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_matching_line_ending_rule_wins() {
        let attributes = "* text=auto\n*.bat text eol=crlf\n# *.sh eol=crlf\n/top.bat eol=lf\nd/*.txt eol=lf\n*.bin -text\n";
        for (path, wanted) in [
            ("a.bat", Some(LineEnding::Crlf)),
            ("d/e/a.bat", Some(LineEnding::Crlf)),
            ("top.bat", Some(LineEnding::Lf)),
            ("d/a.txt", Some(LineEnding::Lf)),
            ("e/d/a.txt", None),
            ("a.sh", None),
            ("a.bin", None),
        ] {
            assert_eq!(by_attributes(attributes, Path::new(path)), wanted, "{path}");
        }
        let config = "root = true\n[*]\nend_of_line = lf\n[*.{bat,cmd}]\nindent_size = 2\nEnd_Of_Line=CRLF\n[docs/**]\nend_of_line = unset\n";
        for (path, wanted) in
            [("a.cmd", Some(LineEnding::Crlf)), ("x/a.c", Some(LineEnding::Lf)), ("docs/a/b", None)]
        {
            assert_eq!(by_editorconfig(config, Path::new(path)), wanted, "{path}");
        }
    }
}
