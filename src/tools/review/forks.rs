//! `review --forks`: several forks of one task, next to each other. And HTML as both pages write it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::engine::Engine;
use crate::engine::sandbox::fork::{self, ForkFolder, Forks};
use crate::engine::store::sandboxes;
use crate::engine::store::state::State;
use crate::engine::workspace::protect::protected_component;
use crate::error::{Error, ErrorKind};
use crate::limits::REVIEWED_CHANGES_MAX;
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::escaped;
use crate::text::escaped::plural;
use crate::tools::common::is_zero;
use crate::tools::diff::FileStat;
use crate::tools::fork::{change_lines, log, time_of, warn_of};
use crate::tools::fork_changes::{ForkChanges, ForkDelta};
use crate::tools::merge::no_forks;
use crate::tools::{Paint, Text};

/// Several forks, compared.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ForkReview {
    /// Forks, in the order of their names
    pub forks: Vec<ReviewedFork>,
    /// Files that several of them changed, by path
    pub shared: Vec<SharedFile>,
    /// HTML page that was written
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// True if files or diffs were left out
    pub truncated: bool,
}

/// A fork.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReviewedFork {
    /// Name
    pub name: String,
    /// Time of its creation, as RFC 3339
    pub created: String,
    /// Reason
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Lines added
    pub insertions: usize,
    /// Lines removed
    pub deletions: usize,
    /// Files that it changed since it began, or since its last merge
    pub files: Vec<FileStat>,
    /// Number of further files
    #[serde(skip_serializing_if = "is_zero")]
    pub more_files: usize,
    /// Newest changes in it, with their times
    pub changes: Vec<String>,
}

/// A file that several forks changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SharedFile {
    /// Path
    pub path: String,
    /// The change of each fork
    pub sides: Vec<SharedSide>,
}

/// Change of one fork.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SharedSide {
    /// Name of the fork
    pub fork: String,
    /// True if its version is that of an earlier fork in the list
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub same: bool,
    /// The diff, in git's form
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// Compares forks; all, if none is named. Diffs are left out if `stat` is set, or there is no room.
///
/// # Errors
/// Fails with `sandbox_not_found` if there is no such fork, or returns the OS error.
pub fn review(
    engine: &mut Engine,
    names: &[String],
    (stat, mut room): (bool, AnswerRoom),
) -> Result<ForkReview, Error> {
    let state = State::find(&engine.workspace)?.ok_or_else(no_forks)?;
    let names: Vec<String> = names.iter().map(|name| sandboxes::slug(name)).collect::<Result<_, _>>()?;
    let mut all = ForkFolder::list(&engine.workspace, &state)?;
    for name in &names {
        if !all.iter().any(|fork| fork.record.name == *name) {
            return Err(fork::not_found(name));
        }
    }
    all.retain(|fork| names.is_empty() || names.contains(&fork.record.name));
    if all.is_empty() {
        return Err(no_forks());
    }
    let lock = Forks::lock(&engine.workspace, &state)?;
    let mut read = Vec::new();
    for fork in &all {
        match ForkChanges::read(engine, (&state, &lock), fork) {
            Ok(changes) => {
                warn_of(engine, &changes, &fork.record.name);
                read.push((fork, changes));
            }
            // The others can be compared without one that is gone.
            Err(error) if names.is_empty() && error.kind() == ErrorKind::NotFound => {
                engine.warn(format!("the fork {}: {}", fork.record.name, error.message()));
            }
            Err(error) => return Err(error),
        }
    }
    drop(lock);
    let mut review = ForkReview { forks: Vec::new(), shared: Vec::new(), html: None, truncated: false };
    for (fork, changes) in &read {
        let fork = reviewed(engine, fork, changes, &mut room)?;
        review.truncated |= fork.more_files > 0;
        review.forks.push(fork);
    }
    for (path, forks) in shared_paths(&read) {
        let size = TextSize::of(&path);
        if !room.holds(size) {
            review.truncated = true;
            break;
        }
        room = room.room_after(size);
        let sides = read.iter().filter(|(fork, _)| forks.contains(fork.record.name.as_str()));
        let (shared, is_whole) = compared(&path, sides, (stat, &mut room))?;
        review.truncated |= !is_whole;
        review.shared.push(shared);
    }
    Ok(review)
}

/// Returns the changes of one file in several forks, with true if no diff was left out for want of room.
fn compared<'f>(
    path: &[u8],
    forks: impl Iterator<Item = &'f (&'f ForkFolder, ForkChanges<'f>)>,
    (stat, room): (bool, &mut AnswerRoom),
) -> Result<(SharedFile, bool), Error> {
    let (mut sides, mut versions, mut is_whole) = (Vec::new(), BTreeSet::new(), true);
    for (fork, changes) in forks {
        let mut diff = Vec::new();
        let of_path = |delta: &&ForkDelta| delta.paths().any(|known| known == path);
        for delta in changes.deltas.iter().filter(of_path) {
            changes.write(delta, &mut diff)?;
        }
        let same = !versions.insert(diff.clone());
        let size = TextSize::of(&diff);
        let is_shown = !stat && !same && room.holds(size);
        is_whole &= stat || same || is_shown;
        if is_shown {
            *room = room.room_after(size);
        }
        let diff = is_shown.then(|| String::from_utf8_lossy(&diff).into_owned());
        sides.push(SharedSide { fork: fork.record.name.clone(), same, diff });
    }
    Ok((SharedFile { path: String::from_utf8_lossy(path).into_owned(), sides }, is_whole))
}

/// Returns the paths that several forks changed, with the names of these.
fn shared_paths<'f>(read: &'f [(&'f ForkFolder, ForkChanges<'f>)]) -> BTreeMap<Vec<u8>, BTreeSet<&'f str>> {
    let mut paths: BTreeMap<Vec<u8>, BTreeSet<&str>> = BTreeMap::new();
    for (fork, changes) in read {
        for path in changes.deltas.iter().flat_map(ForkDelta::paths) {
            paths.entry(path.clone()).or_default().insert(&fork.record.name);
        }
    }
    paths.retain(|_, forks| forks.len() > 1);
    paths
}

/// Returns one fork for the response.
fn reviewed(
    engine: &Engine,
    fork: &ForkFolder,
    changes: &ForkChanges<'_>,
    room: &mut AnswerRoom,
) -> Result<ReviewedFork, Error> {
    let (mut files, mut more_files, mut insertions, mut deletions) = (Vec::new(), 0, 0, 0);
    for delta in &changes.deltas {
        let file = changes.write(delta, &mut Vec::new())?;
        insertions += file.insertions.unwrap_or_default();
        deletions += file.deletions.unwrap_or_default();
        if more_files == 0 && room.holds(file.size()) {
            *room = room.room_after(file.size());
            files.push(file);
        } else {
            more_files += 1;
        }
    }
    let record = &fork.record;
    // A fork without a history, or one that is in the way, still has its files.
    let log = log(engine, &record.name).unwrap_or_default();
    let mut newest = change_lines(&log);
    newest.truncate(REVIEWED_CHANGES_MAX);
    Ok(ReviewedFork {
        name: record.name.clone(),
        created: time_of(record),
        why: record.why.clone(),
        insertions,
        deletions,
        files,
        more_files,
        changes: newest,
    })
}

/// Adds the comparison to `text`.
pub fn add_comparison(review: &ForkReview, text: &mut Text) {
    if let Some(path) = &review.html {
        text.name(path);
        text.out.push(text.separator);
        return;
    }
    for fork in &review.forks {
        let name = text.paint(Paint::Bold, &format!("fork {}", fork.name));
        let files = plural(fork.files.len() + fork.more_files, "file");
        let (came, went) = (fork.insertions, fork.deletions);
        text.styled(&format!("{name}: {files} (+{came} -{went}), since {}", fork.created));
        if let Some(why) = &fork.why {
            why.lines().for_each(|line| text.line(&format!("    {line}")));
        }
        fork.files.iter().for_each(|file| text.line(&format!("  {}", file.line())));
        fork.changes.iter().for_each(|change| text.line(&format!("    {change}")));
    }
    for file in &review.shared {
        let forks: Vec<&str> = file.sides.iter().map(|side| side.fork.as_str()).collect();
        text.out.push(b'\n');
        let heading = format!("{} in {}", escaped::name(&file.path), forks.join(", "));
        let heading = text.paint(Paint::Bold, &heading);
        text.styled(&heading);
        for side in &file.sides {
            let same = if side.same { ": as before" } else { "" };
            let name = text.paint(Paint::Yellow, &format!("fork {}{same}", side.fork));
            text.styled(&name);
            side.diff.iter().for_each(|diff| text.diff(diff.as_bytes()));
        }
    }
    if review.truncated {
        text.note(format!("files or diffs were left out: {}", text.option("max_bytes", 0)));
    }
}

/// Style sheet of the page.
const STYLE: &str = include_str!("forks.css");

/// Returns the page of a comparison in the workspace `name`. It has no script.
pub fn page(review: &ForkReview, name: &str) -> String {
    let title = markup(&format!("Forks of {name}"));
    let policy = format!("default-src 'none'; style-src {}", hash(STYLE));
    let mut page = String::from_utf8_lossy(BEGINNING).into_owned();
    // Writing to a text cannot fail.
    let _ = write!(
        page,
        "<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title><style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n<div class=\"row\">\n"
    );
    for fork in &review.forks {
        let _ = writeln!(
            page,
            "<section><h2>{}</h2><p>{}, +{} -{}, since {}</p>",
            markup(&fork.name),
            plural(fork.files.len() + fork.more_files, "file"),
            fork.insertions,
            fork.deletions,
            markup(&fork.created)
        );
        if let Some(why) = &fork.why {
            let _ = writeln!(page, "<p class=\"why\">{}</p>", markup(&visible_text(why)));
        }
        for (heading, lines) in [
            ("Files", fork.files.iter().map(FileStat::line).collect()),
            ("Newest changes", fork.changes.clone()),
        ] {
            if !lines.is_empty() {
                let items: String =
                    lines.iter().map(|line| format!("<li>{}</li>", markup(&visible_text(line)))).collect();
                let _ = writeln!(page, "<h3>{heading}</h3><ul>{items}</ul>");
            }
        }
        page.push_str("</section>\n");
    }
    page.push_str("</div>\n");
    for file in &review.shared {
        let _ = write!(
            page,
            "<h2 class=\"file\">{}</h2>\n<div class=\"row\">\n",
            markup(&visible_text(&file.path))
        );
        for side in &file.sides {
            let diff = side.diff.as_deref().map(diff_markup);
            let diff = diff.unwrap_or_else(|| if side.same { "as before" } else { "not shown" }.to_owned());
            let _ = writeln!(page, "<section><h3>{}</h3><pre>{diff}</pre></section>", markup(&side.fork));
        }
        page.push_str("</div>\n");
    }
    page.push_str("</body></html>\n");
    page
}

/// Returns a diff with a mark on each added and removed line.
fn diff_markup(diff: &str) -> String {
    let line = |line: &str| {
        let text = markup(&visible_text(line));
        match line.as_bytes().first() {
            Some(b'+') => format!("<ins>{text}</ins>\n"),
            Some(b'-') => format!("<del>{text}</del>\n"),
            _ => format!("{text}\n"),
        }
    };
    diff.lines().map(line).collect()
}

/// Returns a text with its controls visible: no change of direction hides what a line says.
fn visible_text(text: &str) -> String {
    text.split_inclusive('\n').map(escaped::visible_controls).collect()
}

/// First bytes of every page of a review: no other file is overwritten.
pub const BEGINNING: &[u8] = b"<!doctype html>\n<!-- lbx review -->\n";

/// Writes the page to `path`, and returns that path. Replaces an older page of a review.
///
/// # Errors
/// Fails with `already_exists` if another file is there, or with `protected_path` in git's or lbx's own folders and in
/// those of the user's lbx files, or returns the OS error.
pub fn write(engine: &Engine, path: &Path, page: &str) -> Result<String, Error> {
    let shown = path.display().to_string();
    if protected_component(path).is_some() {
        return Err(Error::new(ErrorKind::ProtectedPath, format!("{shown} lies in a folder of git or lbx"))
            .at(&shown));
    }
    let io = |error: std::io::Error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
            Error::new(ErrorKind::AlreadyExists, format!("{shown} is a symlink")).at(&shown)
        }
        _ => Error::io("write", &shown, error),
    };
    engine.policy().must_be_no_own_place(&std::path::absolute(path).map_err(io)?)?;
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits();
    let flags = i32::try_from(no_follow | rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    #[expect(clippy::disallowed_methods, reason = "the developer names the file, which may be anywhere")]
    let mut file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(flags)
        .open(path)
        .map_err(io)?;
    if !is_replaceable(&mut file).map_err(io)? {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            format!("{shown} exists and is not a page of lbx review"),
        )
        .at(&shown)
        .suggest("Name another file."));
    }
    file.set_len(0).and_then(|()| std::io::Seek::rewind(&mut file)).map_err(io)?;
    file.write_all(page.as_bytes()).map_err(io)?;
    Ok(shown)
}

/// Returns true if a file is new, or an older page.
fn is_replaceable(file: &mut std::fs::File) -> std::io::Result<bool> {
    use std::io::Read as _;
    let size = file.metadata()?;
    if !size.is_file() {
        return Ok(false);
    }
    let mut beginning = Vec::new();
    file.take(BEGINNING.len() as u64).read_to_end(&mut beginning)?;
    Ok(beginning.is_empty() || beginning == BEGINNING)
}

/// Returns JSON that neither ends nor begins an HTML element, whatever its content.
pub fn harmless(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}

/// Returns a text escaped for HTML.
pub fn markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the hash of a part of the page, for its security policy.
pub fn hash(text: &str) -> String {
    let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!("'sha256-{digest}'")
}
