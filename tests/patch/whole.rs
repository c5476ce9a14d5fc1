//! Whole patches on small trees, and their reports.

use std::collections::BTreeMap;
use std::sync::Arc;

use lbx::text::patch::{
    FileAction, FileForm, FileOutcome, HunkResult, LineMatch, OriginalFile, PatchOptions, PlanError,
    PlanOptions, Strip, SymlinkMode, apply, compose, parse,
};

/// A tree: each path and its text.
type Tree = BTreeMap<String, String>;

/// Returns the tree with these files.
fn tree(files: &[(&str, &str)]) -> Tree {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

/// Returns the outcomes of `patch` on `tree`.
fn outcomes(tree: &Tree, patch: &str, options: &PlanOptions) -> Result<Vec<FileOutcome>, String> {
    let patch = parse(patch.as_bytes()).map_err(|error| error.to_string())?;
    let mut read = |path: &[u8], _: SymlinkMode, _: FileForm| -> Result<Option<OriginalFile>, ()> {
        let text = tree.get(std::str::from_utf8(path).unwrap());
        Ok(text.map(|text| OriginalFile {
            bytes: Arc::new(text.clone().into_bytes().into()),
            mode: Some(0o644),
        }))
    };
    compose(patch, options, &mut read).map_err(|error| match error {
        PlanError::Read(()) => "read".to_owned(),
        PlanError::Refused { refusals, .. } => refusals
            .iter()
            .map(|refusal| format!("{}: {:?}", String::from_utf8_lossy(&refusal.path), refusal.reason))
            .collect::<Vec<_>>()
            .join("\n"),
    })
}

/// Returns the tree after `patch`, and a line for each outcome.
fn run(tree: &Tree, text: &str, options: &PlanOptions) -> Result<(Tree, Vec<String>), String> {
    let outcomes = outcomes(tree, text, options)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut after = tree.clone();
    for outcome in outcomes.iter().filter(|outcome| outcome.action == FileAction::Rename) {
        after.remove(&text(outcome.from.as_ref().unwrap()));
    }
    let mut lines = Vec::new();
    for outcome in outcomes {
        let path = text(&outcome.path);
        let from = outcome.from.as_ref().map(|from| format!(" from {}", text(from))).unwrap_or_default();
        lines.push(format!("{:?} {path}{from}", outcome.action));
        match outcome.after {
            Some(bytes) => after.insert(path, text(&bytes)),
            None => after.remove(&path),
        };
    }
    Ok((after, lines))
}

/// Checks tree and outcomes.
fn check(before: &[(&str, &str)], patch: &str, after: &[(&str, &str)], lines: &[&str]) {
    let (got, got_lines) = run(&tree(before), patch, &PlanOptions::default()).unwrap();
    assert_eq!(got, tree(after), "{patch}");
    assert_eq!(got_lines, lines, "{patch}");
}

/// Checks that the patch is refused with `part` in the refusal.
fn refused(before: &[(&str, &str)], patch: &str, part: &str) {
    let error = run(&tree(before), patch, &PlanOptions::default()).unwrap_err();
    assert!(error.contains(part), "{error}\nfor {patch}");
}

const CREATE: &str = "diff --git a/n b/n\nnew file mode 100755\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n";
const DELETE: &str =
    "diff --git a/o b/o\ndeleted file mode 100644\n--- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";
const RENAME: &str = "diff --git a/o b/n\nsimilarity index 50%\nrename from o\nrename to n\n--- a/o\n+++ b/n\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n";
const RING: &str = "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\ndiff --git a/b b/a\nsimilarity index 100%\nrename from b\nrename to a\n";

#[test]
fn patch_creates_a_file_once() {
    check(&[], CREATE, &[("n", "x\n")], &["Create n"]);
    check(&[("n", "x\n")], CREATE, &[("n", "x\n")], &["AlreadyApplied n"]);
    refused(&[("n", "y\n")], CREATE, "n: AlreadyExists");
    let plain = "--- /dev/null\n+++ b/d/n\n@@ -0,0 +1 @@\n+x\n";
    check(&[], plain, &[("d/n", "x\n")], &["Create d/n"]);
    let missing = "--- n\n+++ n\n@@ -0,0 +1 @@\n+x\n";
    check(&[], missing, &[("n", "x\n")], &["Create n"]);
    let codex = "*** Begin Patch\n*** Add File: ./d//n\n+x\n+\n*** Add File: e\n*** End Patch\n";
    check(&[], codex, &[("d/n", "x\n\n"), ("e", "")], &["Create d/n", "Create e"]);
    let block = "n\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n";
    check(&[], block, &[("n", "x\n")], &["Create n"]);
    refused(&[("n", "y\n")], block, "AlreadyExists");
}

#[test]
fn patch_outcome_states_only_new_modes() {
    let mode = |files: &[(&str, &str)], patch: &str| {
        outcomes(&tree(files), patch, &PlanOptions::default()).unwrap().remove(0)
    };
    assert_eq!(mode(&[], CREATE).mode, Some(0o100_755));
    let chmod = "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n";
    let outcome = mode(&[("f", "x")], chmod);
    assert_eq!((outcome.mode, outcome.action), (Some(0o100_755), FileAction::Modify));
    let back = "diff --git a/f b/f\nold mode 100755\nnew mode 100644\n";
    let outcome = mode(&[("f", "x")], back);
    assert_eq!((outcome.mode, outcome.action), (None, FileAction::AlreadyApplied));
    let link = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+../x\n\\ No newline at end of file\n";
    let outcome = mode(&[], link);
    assert_eq!((outcome.mode, outcome.after.unwrap()), (Some(0o120_000), b"../x".to_vec()));
}

#[test]
fn patch_deletes_only_files_with_the_expected_content() {
    check(&[("o", "x\n")], DELETE, &[], &["Delete o"]);
    refused(&[], DELETE, "NotFound");
    let known = PlanOptions { removed: [b"o".to_vec()].into(), ..PlanOptions::default() };
    assert_eq!(run(&tree(&[]), DELETE, &known).unwrap().1, ["AlreadyApplied o"]);
    refused(&[("o", "x\ny\n")], DELETE, "Remainder");
    refused(&[("o", "y\n")], DELETE, "NotFound { stated");
    let empty = "diff --git a/o b/o\ndeleted file mode 100644\nindex e69de29..0000000\n";
    check(&[("o", "")], empty, &[], &["Delete o"]);
    refused(&[("o", "x")], empty, "Remainder");
    let codex = "*** Begin Patch\n*** Delete File: o\n*** End Patch\n";
    check(&[("o", "anything")], codex, &[], &["Delete o"]);
    refused(&[], codex, "NotFound");
}

#[test]
fn patch_renames_files_and_applies_their_hunks() {
    check(&[("o", "a\nb\n")], RENAME, &[("n", "a\nB\n")], &["Rename n from o"]);
    check(&[("n", "a\nB\n")], RENAME, &[("n", "a\nB\n")], &["AlreadyApplied n"]);
    refused(&[("o", "a\nb\n"), ("n", "")], RENAME, "n: AlreadyExists");
    refused(&[("n", "a\nb\n")], RENAME, "n: AlreadyExists");
    refused(&[], RENAME, "NotFound");
    let codex = "*** Begin Patch\n*** Update File: o\n*** Move to: n\n@@\n-b\n+B\n*** End Patch\n";
    check(&[("o", "a\nb\n")], codex, &[("n", "a\nB\n")], &["Rename n from o"]);
    refused(&[("o", "a\nb\n"), ("n", "")], codex, "n: AlreadyExists");
}

#[test]
fn renames_may_form_a_cycle() {
    check(
        &[("a", "1"), ("b", "2")],
        RING,
        &[("a", "2"), ("b", "1")],
        &["Rename a from b", "Rename b from a"],
    );
}

#[test]
fn patch_copies_the_unpatched_source() {
    let patch = "diff --git a/o b/o\n--- a/o\n+++ b/o\n@@ -1 +1 @@\n-x\n+y\ndiff --git a/o b/c\nsimilarity index 100%\ncopy from o\ncopy to c\n";
    check(&[("o", "x\n")], patch, &[("o", "y\n"), ("c", "x\n")], &["Modify o", "Create c from o"]);
}

#[test]
fn envelope_steps_see_earlier_steps() {
    let patch = "*** Begin Patch\n*** Add File: n\n+a\n*** Update File: n\n@@\n-a\n+b\n*** Update File: n\n*** Move to: m\n*** End Patch\n";
    check(&[], patch, &[("m", "b\n")], &["Create m"]);
    let chain = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** Update File: b\n*** Move to: c\n@@\n-x\n+y\n*** End Patch\n";
    check(&[("a", "x\n")], chain, &[("c", "y\n")], &["Rename c from a"]);
    let gone = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** Delete File: b\n*** End Patch\n";
    check(&[("a", "x\n")], gone, &[], &["Delete a"]);
    let again = "*** Begin Patch\n*** Delete File: a\n*** Add File: a\n+y\n*** End Patch\n";
    check(&[("a", "x\n")], again, &[("a", "y\n")], &["Modify a"]);
}

#[test]
fn patch_may_change_the_same_file_twice() {
    let patch = "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n--- f\n+++ f\n@@ -1 +1 @@\n-b\n+c\n";
    check(&[("f", "a\n")], patch, &[("f", "c\n")], &["Modify f"]);
}

#[test]
fn patch_reports_all_errors_at_once() {
    let patch = format!("{CREATE}{DELETE}--- g\n+++ g\n@@ -1 +1 @@\n-a\n+b\n");
    let error = run(&tree(&[("n", "y"), ("o", "z\n")]), &patch, &PlanOptions::default()).unwrap_err();
    assert_eq!(error.lines().count(), 3, "{error}");
}

#[test]
fn prefixes_are_stripped_if_both_names_have_them() {
    let patch = |old: &str, new: &str| format!("--- {old}\n+++ {new}\n@@ -1 +1 @@\n-a\n+b\n");
    check(&[("f", "a\n")], &patch("a/f", "b/f"), &[("f", "b\n")], &["Modify f"]);
    check(&[("a/f", "a\n")], &patch("a/f", "a/f"), &[("a/f", "b\n")], &["Modify a/f"]);
    check(&[("f", "a\n")], &patch("i/f", "w/f"), &[("f", "b\n")], &["Modify f"]);
    check(&[("f", "a\n")], &patch("f.orig", "f"), &[("f", "b\n")], &["Modify f"]);
    let options = PlanOptions { strip: Strip::Components(2), ..PlanOptions::default() };
    let (after, _) = run(&tree(&[("f", "a\n")]), &patch("x/y/f", "x/z/f"), &options).unwrap();
    assert_eq!(after["f"], "b\n");
    assert!(run(&tree(&[]), &patch("f", "f"), &options).unwrap_err().contains("StripTooDeep"));
    let bare = "diff --git f f\nindex 1..2 100644\n--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n";
    check(&[("f", "a\n")], bare, &[("f", "b\n")], &["Modify f"]);
}

#[test]
fn target_selects_a_file_or_supplies_a_missing_path() {
    let target = |path: &str| PlanOptions { target: Some(path.into()), ..PlanOptions::default() };
    let files = tree(&[("f", "a\n"), ("g", "a\n")]);
    let two = "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n--- g\n+++ g\n@@ -1 +1 @@\n-a\n+c\n";
    assert_eq!(run(&files, two, &target("g")).unwrap().1, ["Modify g"]);
    assert!(run(&files, two, &target("h")).unwrap_err().contains("OtherFile"));
    let one = "--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(run(&files, one, &target("f")).unwrap().1, ["Modify f"]);
    let none = "@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(run(&files, none, &target("g")).unwrap().1, ["Modify g"]);
    assert!(run(&files, none, &PlanOptions::default()).unwrap_err().contains("NoPath"));
}

#[test]
fn reverse_patch_undoes_the_patch() {
    let reverse = PlanOptions {
        apply: PatchOptions { reverse: true, ..PatchOptions::default() },
        ..PlanOptions::default()
    };
    let (after, lines) = run(&tree(&[("n", "a\nB\n")]), RENAME, &reverse).unwrap();
    assert_eq!((after, lines), (tree(&[("o", "a\nb\n")]), vec!["Rename o from n".to_owned()]));
    assert_eq!(run(&tree(&[("n", "x\n")]), CREATE, &reverse).unwrap().0, tree(&[]));
    assert_eq!(run(&tree(&[]), DELETE, &reverse).unwrap().0, tree(&[("o", "x\n")]));
    let codex = "*** Begin Patch\n*** Delete File: o\n*** End Patch\n";
    assert!(run(&tree(&[]), codex, &reverse).unwrap_err().contains("Irreversible"));
}

#[test]
fn patch_keeps_a_byte_order_mark() {
    let patch = "--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n";
    check(&[("f", "\u{feff}a\nb\n")], patch, &[("f", "\u{feff}A\nb\n")], &["Modify f"]);
    let off = "--- f\n+++ f\n@@ -1,2 +1,2 @@\n-\u{feff}a\n+a\n b\n";
    check(&[("f", "\u{feff}a\nb\n")], off, &[("f", "a\nb\n")], &["Modify f"]);
}

#[test]
fn hunk_report_has_line_offset_and_tier() {
    let patch = parse(b"--- f\n+++ f\n@@ -1 +1,2 @@\n-a\n+A\n+A\n@@ -3,2 +4,2 @@\n c\n-d\n+D\n").unwrap();
    let applied = apply(&patch.files[0], b"a\nb\nx\nc \nd\n", &PatchOptions::default()).unwrap();
    assert_eq!(applied.after, b"A\nA\nb\nx\nc \nD\n");
    let [first, second] = applied.hunks[..] else { panic!("two hunks") };
    assert_eq!(
        (first.line, first.offset, first.tier, first.exact_and_unique),
        (1, 0, LineMatch::Exact, true)
    );
    assert_eq!((second.line, second.offset, second.tier), (5, 1, LineMatch::TrailingSpace));
    assert!(!second.exact_and_unique);
}

#[test]
fn conflict_reports_the_fate_of_every_hunk() {
    let patch = parse(
        b"--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a\n+A\n \tb\n@@ -2,2 +2,2 @@\n \tb\n-c\n+C\n@@ -4 +4 @@\n-d\n+D\n",
    )
    .unwrap();
    let conflict = apply(&patch.files[0], b"A\n\tb\nx \nd\n", &PatchOptions::default()).unwrap_err();
    assert!(matches!(conflict.hunks[0].fate, HunkResult::AlreadyApplied { line: 1 }));
    assert!(matches!(conflict.hunks[2].fate, HunkResult::Applies { line: 4, .. }));
    let (_, failure) = conflict.failures().next().unwrap();
    let nearest = failure.nearest.as_ref().unwrap();
    assert_eq!((nearest.line, nearest.differs_at), (2, 3));
    assert_eq!((nearest.wanted.as_str(), nearest.found.as_deref()), ("c", Some("x·")));
}
