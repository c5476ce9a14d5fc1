//! The picture, with changes made by hand.

use std::path::Path;

use super::*;
use crate::sha256::Sha256;

/// A path.
fn path(text: &str) -> WorkspacePath {
    WorkspacePath::new(Path::new(text)).unwrap()
}

/// A version; none for an empty text.
fn version(text: &str) -> Option<Version> {
    let version =
        Version { sha256: Sha256::of(text.as_bytes()), size: text.len() as u64, mode: 0o644, identity: None };
    (!text.is_empty()).then_some(version)
}

/// A change of bytes.
fn file(name: &str, before: &str, after: &str) -> JournalEntry {
    let mut entry = JournalEntry::new("id".to_owned(), "s", "write", 1, 0);
    let (before, after) = (version(before), version(after));
    entry.files.push(FileEntry { path: path(name), before, after });
    entry
}

/// A change of a name.
fn moved(from: &str, to: &str) -> JournalEntry {
    let mut entry = JournalEntry::new("id".to_owned(), "s", "move", 1, 0);
    entry.moves.push(MoveEntry::new(path(from), path(to)));
    entry
}

/// What changes come to, as text: `real>at` for what moves, `real>at=` for what is rewritten too,
/// `-real` for what goes.
fn comes_to(standing: &[&str], entries: &[JournalEntry], direction: Direction) -> Vec<String> {
    let stands = |wanted: &WorkspacePath| {
        let kind = |known: &WorkspacePath| if known == wanted { Kind::Other } else { Kind::Folder };
        standing
            .iter()
            .map(|known| path(known))
            .find(|known| known.is_within(wanted))
            .map(|known| kind(&known))
    };
    let mut replay = Replay::new(&stands, BTreeSet::new());
    for entry in entries {
        replay.play(entry, direction).unwrap();
    }
    let outcome = replay.outcome();
    let name = |real: &Option<WorkspacePath>| real.as_ref().map_or_else(String::new, ToString::to_string);
    let mut all: Vec<String> =
        outcome.pieces.iter().map(|piece| format!("{}>{}", piece.real, piece.at)).collect();
    all.extend(outcome.lives.iter().map(|live| format!("{}>{}=", name(&live.real), live.at)));
    all.extend(outcome.gone.iter().map(|gone| format!("-{}", name(&gone.real))));
    all.extend(outcome.made.iter().map(|folder| format!("{}/", folder.path)));
    all.sort();
    all
}

#[test]
fn many_changes_come_to_one() {
    /// A name, what stands, the changes, the newest first, as they are taken back, and what they
    /// come to.
    type Case = (&'static str, &'static [&'static str], Vec<JournalEntry>, &'static [&'static str]);
    let cases: &[Case] = &[
        ("edits of one file", &["a"], vec![file("a", "2", "3"), file("a", "1", "2")], &["a>a="]),
        ("a new file, edited", &["a"], vec![file("a", "1", "2"), file("a", "", "1")], &["-a"]),
        ("moved, then edited", &["b"], vec![file("b", "1", "2"), moved("a", "b")], &["b>a="]),
        ("edited, then moved", &["b"], vec![moved("a", "b"), file("a", "1", "2")], &["b>a="]),
        ("made, then moved", &["b"], vec![moved("a", "b"), file("a", "", "1")], &["-b"]),
        ("there and back", &["a"], vec![moved("b", "a"), moved("a", "b")], &[]),
        ("a way round", &["c"], vec![moved("b", "c"), moved("a", "b")], &["c>a"]),
        (
            "edited in a folder before and after it moved",
            &["e/x", "e/y"],
            vec![file("e/x", "1", "2"), moved("d", "e"), file("d/y", "1", "2")],
            &["e/x>d/x=", "e/y>d/y=", "e>d"],
        ),
        (
            "out of a folder, which then moved",
            &["e/y", "z"],
            vec![moved("d", "e"), moved("d/x", "z")],
            &["e>d", "z>d/x"],
        ),
        (
            "two names exchanged",
            &["a", "b"],
            vec![moved("t", "b"), moved("b", "a"), moved("a", "t")],
            &["a>b", "b>a"],
        ),
        (
            "another file in the old place",
            &["a", "b"],
            vec![file("a", "", "2"), moved("a", "b")],
            &["-a", "b>a"],
        ),
        (
            "another in the old place, both edited",
            &["a", "b"],
            vec![file("b", "1", "2"), file("a", "", "2"), moved("a", "b")],
            &["-a", "b>a="],
        ),
        (
            "a file became a folder",
            &["d/x"],
            vec![file("d/x", "", "2"), file("d", "1", "")],
            &["-d/x", ">d="],
        ),
        ("deleted and made anew", &["a"], vec![file("a", "", "2"), file("a", "1", "")], &["a>a="]),
    ];
    for (name, standing, entries, wanted) in cases {
        assert_eq!(comes_to(standing, entries, Direction::Undo), *wanted, "{name}");
    }
    let mut first = file("d/x", "", "1");
    first.folders.push(path("d"));
    let forth = [first, moved("d", "e"), file("e/x", "1", "2")];
    assert_eq!(comes_to(&[], &forth, Direction::Redo), [">e/x=", "e/"]);
}

#[test]
fn what_does_not_fit_is_named() {
    let play = |standing: &[&str], entries: &[JournalEntry]| {
        let stands = |wanted: &WorkspacePath| {
            standing.iter().find(|known| path(known) == *wanted).map(|_| Kind::Other)
        };
        let mut replay = Replay::new(&stands, BTreeSet::new());
        let played = entries.iter().try_for_each(|entry| replay.play(entry, Direction::Undo));
        played.map(|()| replay.outcome().interleaved.into_iter().collect::<Vec<_>>())
    };
    // Every such file, not the first alone.
    let between = play(
        &["a", "b"],
        &[file("a", "2", "3"), file("b", "2", "3"), file("a", "1", "other"), file("b", "1", "other")],
    );
    assert_eq!(between, Ok(vec![path("a"), path("b")]));
    assert_eq!(play(&[], &[moved("a", "b")]), Err(ReplayConflict::Missing(path("b"))));
    assert_eq!(play(&["b"], &[file("a", "1", ""), moved("a", "b")]), Err(ReplayConflict::Taken(path("a"))));
}
