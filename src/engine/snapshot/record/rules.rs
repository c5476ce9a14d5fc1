//! Git's rules for paths: which are ignored, how line endings are stored, and obstacles to applying the rules. Runs no
//! program.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::attrs::search::MetadataCollection;
use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::filter::plumbing::Pipeline;
use gix::filter::plumbing::pipeline::convert::{ToGitOutcome, ToWorktreeOutcome, to_worktree};
use gix::glob::pattern::Case;
use gix::index::State;
use gix::index::entry::{Flags, Mode, Stat};
use gix::objs::Find as _;
use gix::objs::tree::EntryKind;
use gix::worktree::stack::state::{attributes, ignore};
use gix::worktree::{Stack, stack};
use rustix::io::Errno;

use super::SkipReason;
use crate::engine::snapshot::store::preflight;
use crate::engine::snapshot::store::repo::Repo;
use crate::engine::snapshot::store::settings;
use crate::engine::snapshot::store::tree::{Lookup, RULE_FILES, Trees, folders, joined};
use crate::engine::snapshot::store::{ErrorContext as _, SnapshotError};
use crate::engine::workspace::fs::{self, is_folder, is_regular, is_symlink, size_of};
use crate::engine::workspace::git_files;
use crate::limits::{PATH_RULES_BYTES_MAX, RULE_FILE_BYTES_MAX};

/// Attributes file in git's folder.
const INFO_ATTRIBUTES: &str = "info/attributes";
/// Ignore file in git's folder.
const INFO_EXCLUDE: &str = "info/exclude";
/// Most folders with cached findings.
const SEEN_MAX: usize = 10_000;

/// Rules of one repository, as its work tree has them now.
pub struct RepoRules<'repo> {
    /// The repository.
    repo: &'repo Repo,
    /// Tree that rule files are taken from which the work tree lacks.
    trees: Trees,
    /// These rule files, by path.
    index: State,
    /// Folders already examined, up to a bound.
    seen: HashMap<Vec<u8>, FolderFinding>,
    /// True once a folder had something by the name of a rule file: then the work tree is searched for them.
    has_files: bool,
    /// Rule files that the repository does not have as objects.
    objects: RuleObjects<'repo>,
    /// Rules of the folders above the last paths.
    stacks: RuleStacks,
    /// Names of the configured filter programs.
    programs: BTreeSet<BString>,
}

impl<'repo> RepoRules<'repo> {
    /// Returns the rules of the work tree.
    ///
    /// A `.gitattributes` in the tree `root` counts if the work tree does not have it, as in git, which reads it from the
    /// index: a sparse checkout needs it, and there the same is true of `.gitignore`.
    pub fn new(repo: &'repo Repo, root: ObjectId) -> Self {
        let programs = repo.settings().filter_programs();
        let objects = RuleObjects { repo, read: BTreeMap::new() };
        let (trees, index) = (Trees::of(root), State::new(repo.object_hash()));
        let (seen, stacks) = (HashMap::new(), RuleStacks::default());
        Self { repo, trees, index, seen, has_files: false, objects, stacks, programs }
    }

    /// Adds a rule file that was or will be in the work tree: `path` from the root.
    pub fn learn(&mut self, path: &[u8], bytes: &[u8]) -> Result<(), SnapshotError> {
        let id = gix::objs::compute_hash(self.repo.object_hash(), gix::objs::Kind::Blob, bytes)
            .context(|| format!("cannot hash `{}`", path.to_str_lossy()))?;
        self.objects.read.insert(id, bytes.to_vec());
        self.add(path, id, Flags::SKIP_WORKTREE | Flags::EXTENDED);
        Ok(())
    }

    /// Adds a rule file that the work tree lacks.
    fn add(&mut self, path: &[u8], id: ObjectId, flags: Flags) {
        self.index.dangerously_push_entry(Stat::default(), id, flags, Mode::FILE, BStr::new(path));
        self.index.sort_entries();
        self.stacks = RuleStacks::default();
    }

    /// Returns the folder and the reason if something on the way to `path` prevents applying rules. Examines each folder
    /// about once.
    ///
    /// A nested repository has rules and snapshots of its own. Reading a rule file that is a FIFO would block, and one
    /// of many megabytes would fill the memory; git reads none that is a link.
    pub fn obstacle<'p>(&mut self, path: &'p [u8]) -> Result<Option<(&'p [u8], SkipReason)>, SnapshotError> {
        let mut above = 0;
        for folder in folders(path) {
            let finding = if let Some(known) = self.seen.get(folder) {
                known.clone()
            } else {
                let finding = self.examine(folder, above)?;
                if self.seen.len() >= SEEN_MAX {
                    self.seen.clear();
                }
                self.seen.insert(folder.to_vec(), finding.clone());
                finding
            };
            match finding {
                FolderFinding::Barred(reason) => return Ok(Some((folder, reason))),
                FolderFinding::Rules(bytes) => above = bytes,
            }
        }
        Ok(None)
    }

    /// Examines one folder below folders whose rule files have `above` bytes.
    fn examine(&mut self, folder: &[u8], above: u64) -> Result<FolderFinding, SnapshotError> {
        let path = gix::path::from_byte_slice(folder).unwrap_or(Path::new("."));
        // A missing folder, or one behind a link, has no rules of its own.
        let root = self.repo.work_tree();
        let doing = || format!("the rules in `{}` cannot be read", path.display());
        let below =
            if folder.is_empty() { None } else { fs::found(root.folder(path)).context(doing)?.flatten() };
        let opened = if folder.is_empty() { Some(root) } else { below.as_ref() };
        let stat_of = |name: &[u8]| opened.map_or(Ok(None), |opened| opened.stat(name.to_path_lossy()));
        match stat_of(b".git") {
            // Its names may be read, but nothing in it may be examined.
            Err(Errno::ACCESS | Errno::PERM) => return Ok(FolderFinding::Barred(SkipReason::Unreadable)),
            Ok(Some(_)) if !folder.is_empty() => {
                let at = folder.to_str_lossy().into_owned();
                return Ok(FolderFinding::Barred(SkipReason::NestedRepository(at)));
            }
            _ => {}
        }
        let mut bytes = above;
        for name in RULE_FILES {
            let found = fs::found(stat_of(name)).context(doing)?.flatten();
            if found.is_some() && !std::mem::replace(&mut self.has_files, true) {
                self.stacks = RuleStacks::default();
            }
            match (found, opened) {
                (Some(stat), _) if is_symlink(&stat) || is_folder(&stat) => {}
                (Some(stat), Some(opened))
                    if is_regular(&stat) && git_files::read(opened, name).context(doing)?.is_some() =>
                {
                    bytes += size_of(&stat);
                }
                (Some(_), _) => {
                    return Ok(FolderFinding::Barred(SkipReason::Rules(joined(folder, name).to_string())));
                }
                (None, _) => self.add_committed(folder, name)?,
            }
        }
        Ok(if bytes > PATH_RULES_BYTES_MAX {
            FolderFinding::Barred(SkipReason::Rules(joined(folder, b".gitignore").to_string()))
        } else {
            FolderFinding::Rules(bytes)
        })
    }

    /// Adds the rule file `name` of a folder from the tree, if it counts though the work tree lacks it.
    fn add_committed(&mut self, folder: &[u8], name: &[u8]) -> Result<(), SnapshotError> {
        let is_sparse = || self.repo.settings().boolean("core.sparseCheckout").unwrap_or(false);
        let flags = match name {
            b".gitattributes" => Flags::empty(),
            _ if is_sparse() => Flags::SKIP_WORKTREE | Flags::EXTENDED,
            _ => return Ok(()),
        };
        let path = joined(folder, name);
        if let Lookup::Entry(found) = self.trees.look_up(self.repo, &path)?
            && found.kind == EntryKind::Blob
            && self.index.entry_by_path(path.as_bstr()).is_none()
        {
            let is_small = self.repo.header(found.id)?.1 <= RULE_FILE_BYTES_MAX;
            if !is_small || !git_files::is_few(&self.repo.find_blob(found.id)?) {
                return Err(SnapshotError::new(format!("`{path}` has more rules than are read")));
            }
            self.add(&path, found.id, flags);
        }
        Ok(())
    }

    /// Returns true if git would ignore the file `path` if it were untracked. A file with too many rules may be a
    /// secret, and counts as ignored.
    pub fn ignores(&mut self, path: &[u8]) -> Result<bool, SnapshotError> {
        self.excludes(path, Mode::FILE)
    }

    /// Returns true if git would ignore the folder `path` with all its contents if they were untracked.
    pub fn ignores_folder(&mut self, path: &[u8]) -> Result<bool, SnapshotError> {
        self.excludes(path, Mode::DIR)
    }

    /// Returns the reason why rules on the way to `path` cannot be read, if they cannot.
    pub fn bar(&mut self, path: &[u8]) -> Result<Option<String>, SnapshotError> {
        let barred = self.obstacle(path)?.map(|(_, reason)| reason);
        Ok(barred.filter(|reason| matches!(reason, SkipReason::Rules(_))).map(|reason| reason.to_string()))
    }

    /// Returns true if something of the type `mode` is ignored at `path`.
    fn excludes(&mut self, path: &[u8], mode: Mode) -> Result<bool, SnapshotError> {
        match self.obstacle(path)? {
            Some((_, SkipReason::Rules(_))) => return Ok(true),
            // What snapshots have of it stays.
            Some((_, SkipReason::Unreadable)) => return Ok(false),
            _ => {}
        }
        let (stack, _) = self.stacks.stack_above(self.repo, &self.index, self.has_files, path)?;
        let platform = stack
            .at_path(BStr::new(path), Some(mode), &self.objects)
            .context(|| format!("the ignore rules for `{}` cannot be read", path.to_str_lossy()))?;
        Ok(platform.is_excluded())
    }

    /// Returns the reason why lbx cannot convert a file as git would: a filter program is configured for it, or it has an
    /// encoding of which lbx reads some bytes otherwise than git.
    pub fn cannot_convert(&mut self, path: &[u8]) -> Result<Option<SkipReason>, SnapshotError> {
        if !self.programs.is_empty()
            && let Some(name) = self.attribute("filter", path)?.filter(|name| self.programs.contains(name))
        {
            return Ok(Some(SkipReason::Filter(name.to_string())));
        }
        let is_unlike =
            |name: &BString| !is_one_of(name.as_ref(), &SAME_ENCODINGS) && !is_one_of(name.as_ref(), &LATIN1);
        let encoding = self.attribute(ENCODING, path)?.filter(is_unlike);
        Ok(encoding.map(|name| SkipReason::Encoding(name.to_string())))
    }

    /// Returns true if a file is in [`LATIN1`].
    fn is_latin1(&mut self, path: &[u8]) -> Result<bool, SnapshotError> {
        Ok(self.attribute(ENCODING, path)?.is_some_and(|name| is_one_of(name.as_ref(), &LATIN1)))
    }

    /// Returns the value of an attribute of a file.
    fn attribute(&mut self, name: &'static str, path: &[u8]) -> Result<Option<BString>, SnapshotError> {
        self.obstacle(path)?;
        let (stack, _) = self.stacks.stack_above(self.repo, &self.index, self.has_files, path)?;
        let mut found = stack.selected_attribute_matches([name]);
        let platform = stack
            .at_path(BStr::new(path), Some(Mode::FILE), &self.objects)
            .context(|| format!("the attributes of `{}` cannot be read", path.to_str_lossy()))?;
        platform.matching_attributes(&mut found);
        Ok(found.iter_selected().find_map(|matched| match matched.assignment.state {
            gix::attrs::StateRef::Value(value) => Some(value.as_bstr().to_owned()),
            _ => None,
        }))
    }

    /// Returns the bytes that git would store for a file; `stored` is the present entry. Bytes that cannot be converted
    /// stay as they are.
    pub fn stored_form<'b>(
        &mut self,
        path: &[u8],
        bytes: &'b [u8],
        stored: Option<ObjectId>,
    ) -> Result<Cow<'b, [u8]>, SnapshotError> {
        let Some(converted) = self.converted(path, bytes, stored)? else { return Ok(Cow::Borrowed(bytes)) };
        let is_latin1 = !converted.is_ascii() && self.is_latin1(path)?;
        Ok(Cow::Owned(if is_latin1 { with_controls(&converted).into_bytes() } else { converted }))
    }

    /// Returns the converted bytes, if that changes them.
    fn converted(
        &mut self,
        path: &[u8],
        bytes: &[u8],
        stored: Option<ObjectId>,
    ) -> Result<Option<Vec<u8>>, SnapshotError> {
        self.obstacle(path)?;
        let objects = &self.objects;
        let context = || format!("the attributes of `{}` cannot be read", path.to_str_lossy());
        let (stack, pipeline) = self.stacks.stack_above(self.repo, &self.index, self.has_files, path)?;
        let platform = stack.at_path(BStr::new(path), Some(Mode::FILE), objects).context(context)?;
        let name = gix::path::from_byte_slice(path).context(context)?;
        let converted = pipeline.convert_to_git(
            bytes,
            name,
            &mut |_, found| {
                platform.matching_attributes(found);
            },
            &mut |buffer| match stored {
                Some(id) => Ok(objects.try_find(&id, buffer)?.map(|_| ())),
                None => Ok(None),
            },
        );
        Ok(match converted {
            Ok(ToGitOutcome::Buffer(buffer)) => Some(buffer.to_vec()),
            Ok(ToGitOutcome::Unchanged(_) | ToGitOutcome::Process(_)) | Err(_) => None,
        })
    }

    /// Returns the bytes that a checkout would write for a stored file.
    pub fn checked_out_form(&mut self, path: &[u8], stored: &[u8]) -> Result<Vec<u8>, SnapshotError> {
        self.obstacle(path)?;
        let letters =
            if !stored.is_ascii() && self.is_latin1(path)? { Some(with_letters(stored)) } else { None };
        let stored = letters.as_ref().map_or(stored, String::as_bytes);
        let context = || format!("the attributes of `{}` cannot be read", path.to_str_lossy());
        let (stack, pipeline) = self.stacks.stack_above(self.repo, &self.index, self.has_files, path)?;
        let platform = stack.at_path(BStr::new(path), Some(Mode::FILE), &self.objects).context(context)?;
        let converted = pipeline.convert_to_worktree(
            stored,
            BStr::new(path),
            &mut |_, found| {
                platform.matching_attributes(found);
            },
            to_worktree::Options::default(),
        );
        Ok(match converted.context(context)? {
            ToWorktreeOutcome::Buffer(buffer) => buffer.to_vec(),
            ToWorktreeOutcome::Unchanged(_) | ToWorktreeOutcome::Process(_) => stored.to_vec(),
        })
    }
}

/// Attribute that names the encoding of a file on disk.
const ENCODING: &str = "working-tree-encoding";
/// Encodings that lbx, by the tables of the web, and git, by those of iconv, read as the same characters.
const SAME_ENCODINGS: [&str; 38] = [
    "UTF-8",
    "UTF8",
    "UTF-16",
    "UTF-16LE",
    "UTF-16BE",
    "GBK",
    "KOI8-R",
    "CP866",
    "WINDOWS-1250",
    "WINDOWS-1251",
    "WINDOWS-1252",
    "WINDOWS-1253",
    "WINDOWS-1254",
    "WINDOWS-1255",
    "WINDOWS-1256",
    "WINDOWS-1257",
    "WINDOWS-1258",
    "CP1250",
    "CP1251",
    "CP1252",
    "CP1253",
    "CP1254",
    "CP1255",
    "CP1256",
    "CP1257",
    "CP1258",
    "ISO-8859-2",
    "ISO-8859-3",
    "ISO-8859-4",
    "ISO-8859-5",
    "ISO-8859-6",
    "ISO-8859-7",
    "ISO-8859-8",
    "ISO-8859-10",
    "ISO-8859-13",
    "ISO-8859-14",
    "ISO-8859-15",
    "ISO-8859-16",
];
/// Names of the encoding that is so but for 32 control characters, which the web reads as these letters.
const LATIN1: [&str; 2] = ["ISO-8859-1", "LATIN1"];
/// These letters, from U+0080 on.
const LETTERS: &str = "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ";

/// Returns true if an encoding is one of these.
fn is_one_of(encoding: &BStr, known: &[&str]) -> bool {
    known.iter().any(|known| encoding.eq_ignore_ascii_case(known.as_bytes()))
}

/// Returns a text of [`LATIN1`] with the control characters for the letters, as git reads it.
fn with_controls(text: &[u8]) -> String {
    let control = |letter| ('\u{80}'..).zip(LETTERS.chars()).find(|pair| pair.1 == letter);
    text.to_str_lossy().chars().map(|letter| control(letter).map_or(letter, |pair| pair.0)).collect()
}

/// Returns it with the letters for the control characters.
fn with_letters(text: &[u8]) -> String {
    let letter = |control| ('\u{80}'..).zip(LETTERS.chars()).find(|pair| pair.0 == control);
    text.to_str_lossy().chars().map(|control| letter(control).map_or(control, |pair| pair.1)).collect()
}

/// Rules of the folders above a path.
///
/// A stack caches the rules of its last path. A moved folder is walked under two paths in turn, so there are two
/// stacks: a single one would read all rule files again for each file.
#[derive(Default)]
struct RuleStacks {
    /// The stacks, each with the folder of its last path, and with what converts line endings, encodings and `$Id$`:
    /// that knows an attribute by its number in this stack.
    stacks: [Option<(Vec<u8>, Stack, Pipeline)>; 2],
    /// Index of the stack used last.
    last: usize,
}

impl RuleStacks {
    /// Returns the stack whose last folder is above `path`, else the one not used last.
    fn stack_above(
        &mut self,
        repo: &Repo,
        index: &State,
        has_files: bool,
        path: &[u8],
    ) -> Result<(&mut Stack, &mut Pipeline), SnapshotError> {
        let folder = folders(path).last().unwrap_or_default();
        let is_below = |above: &[u8]| {
            above.is_empty() || folder.strip_prefix(above).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
        };
        let fits =
            |it: &Option<(Vec<u8>, Stack, Pipeline)>| it.as_ref().is_some_and(|(above, ..)| is_below(above));
        self.last = self.stacks.iter().position(fits).unwrap_or(1 - self.last);
        let slot = self.stacks.get_mut(self.last).ok_or_else(|| SnapshotError::new("no such stack"))?;
        let (stack, pipeline) = match slot.take() {
            Some((_, stack, pipeline)) => (stack, pipeline),
            None => (stack_of(repo, index, has_files)?, pipeline_of(repo)?),
        };
        let (_, stack, pipeline) = slot.insert((folder.to_vec(), stack, pipeline));
        Ok((stack, pipeline))
    }
}

/// Returns what converts the bytes of files.
fn pipeline_of(repo: &Repo) -> Result<Pipeline, SnapshotError> {
    let options = repo.settings().conversions();
    let options = options.context(|| "the settings for line endings cannot be read".into())?;
    Ok(Pipeline::new(gix::command::Context::default(), repo.object_hash(), options))
}

/// Returns the rules of a repository; `index` replaces those that the work tree lacks, which are all unless `has_files`.
fn stack_of(repo: &Repo, index: &State, has_files: bool) -> Result<Stack, SnapshotError> {
    let settings = repo.settings();
    let folds = settings.boolean("core.ignoreCase").unwrap_or(false);
    let case = if folds { Case::Fold } else { Case::Sensitive };
    let mut buffer = Vec::new();
    let attributes = attributes_of(repo, has_files, &mut buffer)?;
    let ignored = ignored_of(repo, has_files)?;
    let state = stack::State::AttributesAndIgnoreStack { attributes, ignore: ignored };
    let ids = state.id_mappings_from_index(index, index.path_backing(), case);
    Ok(Stack::new(repo.root(), state, case, buffer, ids))
}

/// Returns the attributes that apply everywhere.
fn attributes_of(
    repo: &Repo,
    has_files: bool,
    buffer: &mut Vec<u8>,
) -> Result<stack::state::Attributes, SnapshotError> {
    let context = || "the attributes cannot be read".into();
    let own =
        repo.settings().users_rules(repo.root(), "core.attributesFile", "attributes").context(context)?;
    let files = settings::systems_attributes().into_iter().chain(own);
    let mut collection = MetadataCollection::default();
    let globals = gix::attrs::Search::new_globals(files, buffer, &mut collection).context(context)?;
    let info = repo.common().path().join(INFO_ATTRIBUTES);
    let info = preflight::rules(repo.common(), INFO_ATTRIBUTES)?.map(|_| info);
    let source =
        if has_files { attributes::Source::WorktreeThenIdMapping } else { attributes::Source::IdMapping };
    Ok(stack::state::Attributes::new(globals, info, source, collection))
}

/// Returns ignore rules in which a pattern for any name matches no empty one: the library would match it with the root,
/// and then ignore everything, whatever later patterns say.
fn of_names(rules: &[u8]) -> Vec<u8> {
    let any: [&[u8]; 6] = [b"*", b"/*", b"*/", b"/*/", b"**", b"**/"];
    let lines = rules.split_inclusive(|byte| *byte == b'\n');
    let of_line = |line: &[u8]| {
        if any.contains(&line.trim_end()) { line.replacen("*", "?*", 1) } else { line.to_vec() }
    };
    lines.flat_map(of_line).collect()
}

/// Returns the ignore rules that apply everywhere.
#[expect(clippy::disallowed_methods, reason = "what a configuration names may lie anywhere, as for git")]
fn ignored_of(repo: &Repo, has_files: bool) -> Result<stack::state::Ignore, SnapshotError> {
    use std::io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    let context = || "the ignore rules cannot be read".into();
    let settings = repo.settings();
    let own = settings.users_rules(repo.root(), "core.excludesFile", "ignore").context(context)?;
    let support_precious = settings.boolean("gitoxide.parsePrecious").unwrap_or(false);
    let parse = gix::ignore::search::Ignore { support_precious };
    let mut globals = gix::ignore::Search::default();
    let read = |file: PathBuf| match std::fs::read(&file) {
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | IsADirectory) => Ok(None),
        read => read.map(|rules| Some((rules, file))),
    };
    let own = own.map(read).transpose().context(context)?.flatten();
    let info = preflight::rules(repo.common(), INFO_EXCLUDE)?;
    let info = info.map(|rules| (rules, repo.common().path().join(INFO_EXCLUDE)));
    for (rules, path) in own.into_iter().chain(info) {
        globals.add_patterns_buffer(&of_names(&rules), path, None, parse).context(context)?;
    }
    let source =
        if has_files { ignore::Source::WorktreeThenIdMappingIfNotSkipped } else { ignore::Source::IdMapping };
    Ok(stack::state::Ignore::new(gix::ignore::Search::default(), globals, None, source, parse))
}

/// Finds rule files as objects, including those that the repository does not have.
struct RuleObjects<'repo> {
    /// The repository.
    repo: &'repo Repo,
    /// Rule files by their ids.
    read: BTreeMap<ObjectId, Vec<u8>>,
}

impl gix::objs::Find for RuleObjects<'_> {
    fn try_find<'b>(
        &self,
        id: &gix::hash::oid,
        buffer: &'b mut Vec<u8>,
    ) -> gix::error::Result<Option<gix::objs::Data<'b>>> {
        let Some(bytes) = self.read.get(id) else {
            return self.repo.try_find(id, buffer);
        };
        buffer.clear();
        buffer.extend_from_slice(bytes);
        Ok(Some(gix::objs::Data { kind: gix::objs::Kind::Blob, object_hash: id.kind(), data: buffer }))
    }
}

/// Finding about one folder and the folders above it.
#[derive(Debug, Clone)]
enum FolderFinding {
    /// Bytes of the rule files that apply in it.
    Rules(u64),
    /// Reason why rules cannot be applied in it.
    Barred(SkipReason),
}
