//! What an application reports; what it makes of a file is in `tests/cases/patch/`.

use super::super::*;

#[test]
fn reports_name_place_offset_and_tier() {
    let patch = parse(b"--- f\n+++ f\n@@ -1 +1,2 @@\n-a\n+A\n+A\n@@ -3,2 +4,2 @@\n c\n-d\n+D\n").unwrap();
    let applied = apply(&patch.files[0], b"a\nb\nx\nc \nd\n", &PatchOptions::default()).unwrap();
    assert_eq!(applied.after, b"A\nA\nb\nx\nc \nD\n");
    let [first, second] = applied.hunks[..] else { panic!("two hunks") };
    assert_eq!((first.line, first.offset, first.tier, first.exact_and_unique), (1, 0, Tier::Exact, true));
    assert_eq!((second.line, second.offset, second.tier), (5, 1, Tier::TrailingSpace));
    assert!(!second.exact_and_unique);
}

#[test]
fn every_hunk_has_its_fate_in_one_answer() {
    let patch = parse(
        b"--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a\n+A\n \tb\n@@ -2,2 +2,2 @@\n \tb\n-c\n+C\n@@ -4 +4 @@\n-d\n+D\n",
    )
    .unwrap();
    let conflict = apply(&patch.files[0], b"A\n\tb\nx \nd\n", &PatchOptions::default()).unwrap_err();
    assert!(matches!(conflict.hunks[0].fate, Fate::AlreadyApplied { line: 1 }));
    assert!(matches!(conflict.hunks[2].fate, Fate::Applies { line: 4, .. }));
    let (_, failure) = conflict.failures().next().unwrap();
    let nearest = failure.nearest.as_ref().unwrap();
    assert_eq!((nearest.line, nearest.differs_at), (2, 3));
    assert_eq!((nearest.wanted.as_str(), nearest.found.as_deref()), ("c", Some("x·")));
}
