//! Patches: their parsers and their application.

use lbx::text::diff::{DiffSide, FileDiff, without_hunk};
use lbx::text::patch::{
    EditPlace, FileAction, FilePatch, NewText, OriginalFile, Patch, PatchBody, PatchOptions, PatchResult,
    PlanOptions, Splice, Strip, apply as apply_file, compose, parse, search_replace_blocks,
};

use super::split;

/// Parses a unified diff: as it is, and after headers that lead the parser further.
pub fn unified(data: &[u8]) {
    let heads: [&[u8]; 4] = [b"", b"--- a/f\n+++ b/f\n", b"diff --git a/f b/f\n", b"@@ -1,3 +1,3 @@\n"];
    with_head(&heads, data);
}

/// Parses a Codex envelope.
pub fn codex(data: &[u8]) {
    let heads: [&[u8]; 3] = [b"", b"*** Begin Patch\n", b"*** Begin Patch\n*** Update File: f\n"];
    with_head(&heads, data);
}

/// Parses SEARCH/REPLACE blocks.
pub fn blocks(data: &[u8]) {
    if let Ok(blocks) = search_replace_blocks(data, &|_| Some(data.to_vec())) {
        assert!(blocks.iter().all(|block| block.line > 0), "a block before the first line");
    }
    let heads: [&[u8]; 2] = [b"", b"f\n<<<<<<< SEARCH\n"];
    with_head(&heads, data);
}

/// Parses edits by line, and applies them where they say.
pub fn by_line(data: &[u8]) {
    let heads: [&[u8]; 4] = [b"", b"[f]\n", b"*** Begin Patch\n[f]\nPUT ", b"[f]\nCUT 1.=2 @x\n[g]\nPUT "];
    with_head(&heads, data);
    let Some((choice, rest)) = data.split_first() else { return };
    let text = [heads[usize::from(*choice) % heads.len()], rest].concat();
    let Ok(mut patch) = parse(&text).map_err(drop) else { return };
    assert!(patch.by_line.is_empty() || patch.by_line.len() == patch.files.len(), "edits of no file");
    let by_line = std::mem::take(&mut patch.by_line);
    for (file, of_file) in patch.files.iter_mut().zip(&by_line) {
        assert!(of_file.edits.iter().all(|edit| edit.patch_line > 0), "an edit before the first line");
        let PatchBody::Splices(splices) = &mut file.body else { continue };
        for edit in &of_file.edits {
            let (start, end) = match edit.place {
                EditPlace::Lines(span) => (span.first - 1, span.last),
                EditPlace::After(line) => (line, line),
                EditPlace::End => (7, 7),
            };
            let added = match &edit.text {
                NewText::Rows(rows) => rows.clone(),
                NewText::Cut => Vec::new(),
                NewText::Pasted { file, edit } => {
                    assert_eq!(by_line[*file].edits[*edit].text, NewText::Cut, "a paste of no cut");
                    Vec::new()
                }
            };
            let index = |line| usize::try_from(line).unwrap_or(usize::MAX);
            let (patch_line, stated) = (edit.patch_line, start + 1);
            splices.push(Splice { patch_line, stated, start: index(start), end: index(end), added });
        }
        splices.sort_by_key(|splice| (splice.start, splice.end));
        let last = splices.iter().map(|splice| splice.end).max().unwrap_or_default();
        // A place beyond the text is an error, never a panic.
        let applied = apply_file(file, b"a\nb\nc\nd\ne\n\ng", &PatchOptions::default());
        assert_eq!(applied.is_ok(), last <= 7, "{last}");
    }
}

/// Applies a patch between two texts, made from `data`, and the patch in `data` itself.
///
/// The first byte chooses the context and the line endings. The rest is split at 0xFE: a text, another text, and a
/// patch for the first.
pub fn apply(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    let mut parts = data.splitn(3, |byte| *byte == 0xfe);
    let (before, after) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    // Without context, a hunk at the top could also be meant for an empty file, and is refused.
    round_trip(before, after, 1 + usize::from(*choice % 3));
    if let Some(patch) = parts.next() {
        strict_decides(patch, before);
    }
}

/// Checks that the diff that lbx writes between two contents, as text or as a binary patch, turns one into the other.
pub fn diffs(data: &[u8]) {
    let [old, new] = split(data);
    if old == new {
        return;
    }
    let side = |bytes, digit: &'static str| DiffSide { path: b"f", mode: "100644", id: digit, bytes };
    let (old_id, new_id) =
        ("1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222");
    let mut text = Vec::new();
    FileDiff { old: Some(side(old, old_id)), new: Some(side(new, new_id)), similarity: None, binary: true }
        .write(&mut text);
    let patch = parse(&text).expect("a diff of lbx's own can be parsed");
    let file = patch.files.first().expect("of one file");
    for (reverse, from, to) in [(false, old, new), (true, new, old)] {
        let options = PatchOptions { reverse, strict: true, ..PatchOptions::default() };
        let made = apply_file(file, from, &options);
        let made = made.unwrap_or_else(|error| panic!("reverse {reverse}: {error}"));
        assert!(made.after == to, "reverse {reverse}");
    }
    for number in 1.. {
        let Ok(kept) = without_hunk(old, new, number) else { break };
        assert!(number > 1 || kept != new, "a hunk without a change");
    }
}

/// Parses one of `heads`, chosen by the first byte, with the rest of `data`, and checks every patch found.
fn with_head(heads: &[&[u8]], data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let Some(head) = heads.get(usize::from(*choice) % heads.len()) else { return };
    let text = [head, rest].concat();
    let Ok(patch) = parse(&text) else { return };
    check(&patch, &text);
    for (fuzz, strict, reverse) in [(0, false, false), (2, false, true), (0, true, false)] {
        plan(&patch, PatchOptions { fuzz, strict, reverse, bytes_max: None });
    }
}

/// Checks the invariants of every parsed patch.
fn check(patch: &Patch<'_>, text: &[u8]) {
    assert!(!patch.files.is_empty(), "a patch without a file");
    let lines = text.split(|byte| *byte == b'\n').count();
    for file in &patch.files {
        assert!((1..=lines).contains(&file.patch_line), "a file at a line that is not there");
        for hunk in file.hunks() {
            assert!((1..=lines).contains(&hunk.patch_line), "a hunk at a line that is not there");
            assert!(hunk.lines.iter().all(|line| !line.text.contains(&b'\n')), "a line of two lines");
        }
        let there_and_back = file.reversed().and_then(|back| back.reversed());
        if let Some(again) = there_and_back {
            assert_eq!(again.body, file.body, "turned round twice");
        }
    }
}

/// Plans `patch` on a small tree, and checks the result.
fn plan(patch: &Patch<'_>, apply: PatchOptions) {
    let options =
        PlanOptions { strip: Strip::Auto, target: Some(b"f".to_vec()), apply, ..PlanOptions::default() };
    let old =
        |bytes: &[u8]| OriginalFile { bytes: std::sync::Arc::new(bytes.to_vec().into()), mode: Some(0o644) };
    let outcomes = compose::<()>(patch.clone(), &options, &mut |path, _, _| {
        Ok(match path {
            b"f" => Some(old(b"a\nb\nc\na\nb\n\nd\n")),
            b"g" => Some(old(b"a\r\nb\r\nc")),
            _ => None,
        })
    });
    let Ok(outcomes) = outcomes else { return };
    let mut paths: Vec<_> = outcomes.iter().map(|outcome| &outcome.path).collect();
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), outcomes.len(), "two outcomes for one path");
    for outcome in &outcomes {
        assert_eq!(outcome.action == FileAction::Delete, outcome.after.is_none(), "a deletion with bytes");
    }
}

/// Checks that a diff of two texts applies strictly and leniently with the same result, and in reverse.
fn round_trip(before: &[u8], after: &[u8], context: usize) {
    // `similar` also ends lines at a lone carriage return, which a unified diff cannot express.
    if before == after || has_lone_return(before) || has_lone_return(after) {
        return;
    }
    let mut text = b"--- a/f\n+++ b/f\n".to_vec();
    let diff = similar::TextDiff::from_lines(before, after);
    for hunk in diff.unified_diff().context_radius(context).iter_hunks() {
        hunk.to_writer(&mut text).expect("a vector takes everything");
    }
    let patch = parse(&text).expect("a diff can be parsed");
    let file = patch.files.first().expect("of one file");
    for (reverse, from, to) in [(false, before, after), (true, after, before)] {
        let strict =
            apply_file(file, from, &PatchOptions { reverse, strict: true, ..PatchOptions::default() });
        let strict = strict.unwrap_or_else(|error| panic!("reverse {reverse}: {error}"));
        assert!(strict.after == to, "strictly, reverse {reverse}");
        for fuzz in [0, 2] {
            let lenient =
                apply_file(file, from, &PatchOptions { reverse, strict: false, fuzz, bytes_max: None });
            assert!(lenient.is_ok_and(|lenient| lenient.after == to), "leniently, reverse {reverse}");
        }
    }
}

/// Returns true if a carriage return is followed by anything but a line feed.
fn has_lone_return(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n').any(|line| line.strip_suffix(b"\r").unwrap_or(line).contains(&b'\r'))
        || text.ends_with(b"\r")
}

/// Checks that lenient application gives the strict result if there is one, and changes nothing if the patch is already
/// applied.
fn strict_decides(text: &[u8], before: &[u8]) {
    let Ok(patch) = parse(text) else { return };
    for file in &patch.files {
        if let PatchBody::Unseen = file.body {
            continue;
        }
        for reverse in [false, true] {
            let run = |strict, fuzz| {
                apply_file(file, before, &PatchOptions { reverse, strict, fuzz, bytes_max: None })
            };
            let (strict, lenient, fuzzy) = (run(true, 0), run(false, 0), run(false, 3));
            if let Ok(strict) = &strict {
                let lenient = lenient.as_ref().expect("what applies strictly applies leniently");
                assert_eq!(strict.after, lenient.after, "leniency changes the result");
            }
            if let Ok(lenient) = &lenient {
                let fuzzy = fuzzy.as_ref().expect("what applies without fuzz applies with it");
                assert_eq!(lenient.after, fuzzy.after, "fuzz changes the result");
            }
            for applied in [&strict, &lenient, &fuzzy].into_iter().flatten() {
                is_consistent(file, applied, before);
            }
        }
    }
}

/// Checks the invariants of every result.
fn is_consistent(file: &FilePatch<'_>, applied: &PatchResult, before: &[u8]) {
    assert_eq!(applied.hunks.len(), file.hunks().len(), "a report a hunk");
    if applied.already_applied {
        assert_eq!(applied.after, before, "applied already, and changed");
    }
}
