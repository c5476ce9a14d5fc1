//! Properties of all texts from a seeded generator, and the results of `git apply` if git is installed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use lbx::text::patch::{
    FileAction, FileOp, OriginalFile, PatchOptions, PlanOptions, apply, compose, parse, search_replace_blocks,
};
use similar::TextDiff;

use crate::common::random::Random;

impl Random {
    /// Returns a line without ending, one of a few so that lines repeat.
    fn plain_line(&mut self) -> Vec<u8> {
        match self.below(8) {
            0 => Vec::new(),
            1 => b"\xff\xfe".to_vec(),
            2 => b"-- x".to_vec(),
            3 => b"++ y ".to_vec(),
            _ => format!("line {}", self.below(12)).into_bytes(),
        }
    }

    /// Returns a text of up to `lines` lines; `ending` 3 mixes the endings.
    pub fn text(&mut self, lines: usize, ending: usize) -> Vec<u8> {
        let mut text = Vec::new();
        for _ in 0..self.below(lines + 1) {
            text.extend(self.plain_line());
            let ending = if ending == 3 { self.below(2) } else { ending };
            text.extend_from_slice(if ending == 1 { b"\r\n" } else { b"\n" });
        }
        if self.below(4) == 0 {
            let end = text
                .strip_suffix(b"\n")
                .map_or(text.len(), |rest| rest.strip_suffix(b"\r").unwrap_or(rest).len());
            text.truncate(end);
        }
        text
    }

    /// Returns `text` with some lines changed, removed and added.
    pub fn edited_text(&mut self, text: &[u8], ending: usize) -> Vec<u8> {
        let mut after = Vec::new();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            match self.below(10) {
                0 => {}
                1 => after.extend(self.text(3, ending)),
                2 => {
                    after.extend_from_slice(line);
                    after.extend(self.text(2, ending));
                }
                _ => after.extend_from_slice(line),
            }
        }
        after
    }
}

/// Returns a unified diff with raw bytes.
pub fn diff(before: &[u8], after: &[u8], context: usize) -> Vec<u8> {
    let diff = TextDiff::from_lines(before, after);
    let mut text = b"--- a/f\n+++ b/f\n".to_vec();
    for hunk in diff.unified_diff().context_radius(context).iter_hunks() {
        hunk.to_writer(&mut text).unwrap();
    }
    text
}

#[test]
fn diff_applies_forwards_and_in_reverse() {
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let ending = random.below(4);
        let before = random.text(60, ending);
        let after = random.edited_text(&before, ending);
        // The crate `similar` also ends lines at a lone carriage return, which these texts do not have.
        if before == after {
            continue;
        }
        let context = 1 + 2 * random.below(2);
        let patch = diff(&before, &after, context);
        let parsed = parse(&patch).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let file = &parsed.files[0];
        for strict in [false, true] {
            let options = PatchOptions { strict, ..PatchOptions::default() };
            let applied = apply(file, &before, &options).unwrap_or_else(|error| {
                panic!(
                    "seed {seed}: {error}\n{}\n====\n{}",
                    String::from_utf8_lossy(&patch),
                    String::from_utf8_lossy(&before)
                )
            });
            assert!(
                applied.after == after,
                "seed {seed}, strict {strict}: {}",
                String::from_utf8_lossy(&patch)
            );
            let back = PatchOptions { reverse: true, ..options };
            let applied =
                apply(file, &after, &back).unwrap_or_else(|error| panic!("seed {seed}, back: {error}"));
            assert!(
                applied.after == before,
                "seed {seed}, strict {strict}, back: {}",
                String::from_utf8_lossy(&patch)
            );
        }
    }
}

#[test]
fn patch_with_lf_applies_to_a_crlf_file() {
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let before = random.text(40, 0);
        let after = random.edited_text(&before, 0);
        // A file without line endings does not show which it uses.
        if before == after || !before.contains(&b'\n') {
            continue;
        }
        let patch = diff(&before, &after, 3);
        let crlf = |text: &[u8]| String::from_utf8_lossy(text).replace('\n', "\r\n").into_bytes();
        let (wide_before, wide_after) = (crlf(&before), crlf(&after));
        let text = String::from_utf8_lossy(&patch).into_owned().into_bytes();
        let parsed = parse(&text).unwrap();
        let applied = apply(&parsed.files[0], &wide_before, &PatchOptions::default()).unwrap();
        assert!(
            applied.after == wide_after,
            "seed {seed}\n{patch:?}\n{wide_before:?}\n{wide_after:?}\n{:?}",
            String::from_utf8_lossy(&applied.after),
            patch = String::from_utf8_lossy(&patch),
            wide_before = String::from_utf8_lossy(&wide_before),
            wide_after = String::from_utf8_lossy(&wide_after)
        );
    }
}

#[test]
fn patch_applied_twice_changes_nothing() {
    let mut refused = 0;
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let before: Vec<u8> =
            (0..40).flat_map(|line| format!("line {line} {}\n", random.below(5)).into_bytes()).collect();
        let after: Vec<u8> = random.edited_text(&before, 0);
        if before == after {
            continue;
        }
        let patch = diff(&before, &after, 3);
        let parsed = parse(&patch).unwrap();
        match apply(&parsed.files[0], &after, &PatchOptions::default()) {
            Ok(applied) => {
                assert!(applied.after == after, "seed {seed}: {}", String::from_utf8_lossy(&patch));
            }
            Err(conflict) => {
                refused += 1;
                eprintln!("seed {seed}: {conflict}\n{}", String::from_utf8_lossy(&patch));
            }
        }
    }
    assert!(refused < 20, "{refused} refused");
}

#[test]
fn envelope_without_line_numbers_applies() {
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let before: Vec<u8> = (0..60).flat_map(|line| format!("line {line}\n").into_bytes()).collect();
        let after = random.edited_text(&before, 0);
        if before == after {
            continue;
        }
        let hunks = diff(&before, &after, 2);
        let mut patch = b"*** Begin Patch\n*** Update File: f\n".to_vec();
        for line in hunks.split_inclusive(|byte| *byte == b'\n').skip(2) {
            match line {
                [b'@', ..] => patch.extend_from_slice(b"@@\n"),
                [b'\\', ..] => {}
                line => patch.extend_from_slice(line),
            }
        }
        patch.extend_from_slice(b"*** End Patch\n");
        let parsed = parse(&patch).unwrap();
        // The envelope cannot say that the final newline is removed.
        let wanted = if after.ends_with(b"\n") { after } else { [&after[..], b"\n"].concat() };
        let applied = apply(&parsed.files[0], &before, &PatchOptions::default())
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(applied.after == wanted, "seed {seed}: {}", String::from_utf8_lossy(&patch));
    }
}

#[test]
fn every_hunk_that_is_nowhere_among_many_similar_lines_is_reported() {
    let before: Vec<u8> = (0..60_000).flat_map(|line| format!("{}\n", line % 2).into_bytes()).collect();
    let mut patch = b"*** Begin Patch\n*** Update File: f\n".to_vec();
    for _ in 0..300 {
        patch.extend_from_slice(b"@@\n 0\n 1\n 0\n 1\n 1\n-0\n+2\n");
    }
    patch.extend_from_slice(b"*** End Patch\n");
    let parsed = parse(&patch).unwrap();
    let conflict = apply(&parsed.files[0], &before, &PatchOptions::default()).unwrap_err();
    assert_eq!(conflict.failures().count(), 300);
}

#[test]
fn arbitrary_patch_bytes_never_panic() {
    const PIECES: &[&[u8]] = &[
        b"--- a/f\n",
        b"+++ b/f\n",
        b"+++ /dev/null\n",
        b"@@ -1,2 +1,2 @@\n",
        b"@@\n",
        b"@@ x\n",
        b" a\n",
        b"-a\n",
        b"+b\n",
        b"\n",
        b"\\ No newline at end of file\n",
        b"diff --git a/f b/g\n",
        b"rename from f\n",
        b"rename to g\n",
        b"new file mode 100644\n",
        b"deleted file mode 100644\n",
        b"GIT binary patch\n",
        b"literal 3\n",
        b"delta 5\n",
        b"KcmZ\n",
        b"*** Begin Patch\n",
        b"*** Update File: f\n",
        b"*** Add File: g\n",
        b"*** Delete File: f\n",
        b"*** Move to: h\n",
        b"*** End of File\n",
        b"*** End Patch\n",
        b"<<<<<<< SEARCH\n",
        b"=======\n",
        b">>>>>>> REPLACE\n",
        b"```\n",
        b"\xff\r\n",
        b"--- \"a\\",
        b"@@ -99999999999999999999,1 +0,18446744073709551615 @@\n",
    ];
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let mut text = Vec::new();
        for _ in 0..random.below(14) {
            text.extend_from_slice(PIECES[random.below(PIECES.len())]);
        }
        if random.below(3) == 0 && !text.is_empty() {
            let at = random.below(text.len());
            text[at] = u8::try_from(random.below(256)).unwrap();
        }
        drop(search_replace_blocks(&text, &|_| Some(text.clone())));
        let Ok(patch) = parse(&text) else { continue };
        let options = PatchOptions {
            fuzz: random.below(3),
            strict: random.below(4) == 0,
            reverse: random.below(4) == 0,
            bytes_max: None,
        };
        let plan = PlanOptions { apply: options, target: Some(b"f".to_vec()), ..PlanOptions::default() };
        let before = OriginalFile { bytes: Arc::new(random.text(6, 3).into()), mode: None };
        drop(compose::<()>(patch.clone(), &plan, &mut |path, _, _| {
            Ok((path == b"f").then(|| before.clone()))
        }));
    }
}

#[test]
fn all_of_10000_hunks_of_one_file_apply() {
    let before: Vec<u8> =
        (0..100_000).flat_map(|line| format!("value {}\n", line % 1000).into_bytes()).collect();
    let mut patch = b"--- f\n+++ f\n".to_vec();
    for hunk in 0..10_000 {
        let line = hunk * 10 + 4;
        let value = |line: usize| (line - 1) % 1000;
        patch.extend(
            format!(
                "@@ -{line},3 +{line},3 @@\n value {}\n-value {}\n+changed\n value {}\n",
                value(line),
                value(line + 1),
                value(line + 2)
            )
            .into_bytes(),
        );
    }
    let started = std::time::Instant::now();
    let parsed = parse(&patch).unwrap();
    let applied = apply(&parsed.files[0], &before, &PatchOptions::default()).unwrap();
    assert_eq!(applied.hunks.len(), 10_000);
    let seconds = started.elapsed().as_secs_f32();
    eprintln!("10,000 hunks in 100,000 lines: {seconds} s");
    assert!(seconds < 10.0, "{seconds} s");
}

/// Returns the text of `f` after a patch with these blocks; `None` if it does not apply.
fn after_blocks(before: &[u8], blocks: &[String]) -> Option<Vec<u8>> {
    let patch = format!("f\n{}", blocks.concat()).into_bytes();
    let mut read = |_: &[u8], _, _| -> Result<Option<OriginalFile>, ()> {
        Ok(Some(OriginalFile { bytes: Arc::new(before.to_vec().into()), mode: None }))
    };
    let outcomes = compose(parse(&patch).unwrap(), &PlanOptions::default(), &mut read).ok()?;
    assert_eq!(outcomes[0].hunks.len(), blocks.len());
    outcomes.into_iter().next()?.after
}

#[test]
fn blocks_of_one_file_apply_one_after_the_other() {
    let mut random = Random::new(71);
    let (mut applied, mut refused) = (0, 0);
    for _ in 0..4000 {
        let kinds = 3 + random.below(200);
        let lines: Vec<String> = (0..40).map(|_| format!("{}\n", random.below(kinds))).collect();
        let blocks: Vec<String> = (0..=random.below(10))
            .map(|_| {
                let start = random.below(37);
                let old = lines[start..=start + random.below(3)].concat();
                let new: String =
                    (0..random.below(3)).map(|_| format!("{}\n", random.below(kinds + 9))).collect();
                format!("<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n")
            })
            .collect();
        let before = lines.concat().into_bytes();
        let one_by_one = blocks
            .iter()
            .try_fold(before.clone(), |text, block| after_blocks(&text, std::slice::from_ref(block)));
        assert_eq!(after_blocks(&before, &blocks), one_by_one, "{before:?} {blocks:?}");
        *(if one_by_one.is_some() { &mut applied } else { &mut refused }) += 1;
    }
    assert!(applied > 500 && refused > 500, "{applied} {refused}");
}

#[test]
fn all_of_10000_blocks_of_one_file_apply() {
    let before: String = (0..50_000).map(|line| format!("value {line}\n")).collect();
    let block = |line| format!("<<<<<<< SEARCH\nvalue {line}\n=======\nchanged\n>>>>>>> REPLACE\n");
    let blocks: Vec<String> = (0..10_000).map(|block_number| block(block_number * 5)).collect();
    let after = after_blocks(before.as_bytes(), &blocks).unwrap();
    assert_eq!(memchr::memmem::find_iter(&after, "changed").count(), 10_000);
}

/// Runs git in `folder`; `None` if it fails or is missing.
fn git(folder: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new("git")
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args(["-c", "core.autocrlf=false", "-c", "user.name=a", "-c", "user.email=a@b"])
        .args(arguments)
        .output()
        .ok()?;
    output.status.success().then_some(output.stdout)
}

/// Returns the files of `folder` without `.git`.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.file_name() != ".git");
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

/// Changes some files: edits, deletes, renames, creates; text and binary.
fn change(folder: &Path, random: &mut Random) {
    for (name, bytes) in files(folder) {
        let path = folder.join(&name);
        match random.below(7) {
            0 => fs::remove_file(path).unwrap(),
            1 => fs::rename(&path, folder.join(format!("{name} moved\u{e4}"))).unwrap(),
            2 => {
                fs::write(folder.join(format!("{name}2")), random.edited_text(&bytes, 3)).unwrap();
                fs::remove_file(path).unwrap();
            }
            3 => fs::write(path, [bytes.as_slice(), b"\0binary"].concat()).unwrap(),
            4 => fs::write(folder.join(format!("{name}.new")), random.text(20, 3)).unwrap(),
            _ => fs::write(path, random.edited_text(&bytes, 3)).unwrap(),
        }
    }
}

#[test]
fn git_diffs_give_the_same_tree_as_git() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    git(folder, &["init", "-q"]).unwrap();
    for seed in 0..25 {
        let mut random = Random::new(seed);
        for (name, _) in files(folder) {
            fs::remove_file(folder.join(name)).unwrap();
        }
        for name in ["a", "b c", "d\te", "f", "g", "h"] {
            let ending = random.below(4);
            fs::write(folder.join(name), random.text(60, ending)).unwrap();
        }
        git(folder, &["add", "-A"]).unwrap();
        git(folder, &["commit", "-qm", "before", "--allow-empty"]).unwrap();
        let before = files(folder);
        change(folder, &mut random);
        git(folder, &["add", "-A"]).unwrap();
        let text = git(folder, &["diff", "--cached", "--binary", "--full-index", "-M", "-C"]).unwrap();
        let after = files(folder);
        if text.is_empty() {
            continue;
        }
        compare(&text, &before, &after, false, seed);
        compare(&text, &after, &before, true, seed);
    }
}

/// Applies `text` to `before` and compares with `after`.
fn compare(text: &[u8], before: &[(String, Vec<u8>)], after: &[(String, Vec<u8>)], reverse: bool, seed: u64) {
    let parsed = parse(text).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    if reverse && parsed.files.iter().any(|file| file.operation == FileOp::Copy) {
        return;
    }
    let mut tree: std::collections::BTreeMap<Vec<u8>, Vec<u8>> =
        before.iter().map(|(name, bytes)| (name.clone().into_bytes(), bytes.clone())).collect();
    let read = tree.clone();
    let options =
        PlanOptions { apply: PatchOptions { reverse, ..PatchOptions::default() }, ..PlanOptions::default() };
    let outcomes = compose::<()>(parsed, &options, &mut |path, _, _| {
        Ok(read.get(path).map(|bytes| OriginalFile { bytes: Arc::new(bytes.clone().into()), mode: None }))
    });
    let outcomes = outcomes.unwrap_or_else(|error| panic!("seed {seed}, reverse {reverse}: {error:?}"));
    for outcome in outcomes.iter().filter(|outcome| outcome.action == FileAction::Rename) {
        tree.remove(outcome.from.as_ref().unwrap());
    }
    for outcome in outcomes {
        match outcome.after {
            Some(bytes) => tree.insert(outcome.path, bytes),
            None => tree.remove(&outcome.path),
        };
    }
    let got: Vec<_> =
        tree.into_iter().map(|(name, bytes)| (String::from_utf8(name).unwrap(), bytes)).collect();
    assert!(got == after, "seed {seed}, reverse {reverse}:\n{}", String::from_utf8_lossy(text));
}

/// Returns the commits to replay and their repository, if `LBX_HISTORY` names one.
fn history() -> Option<(std::path::PathBuf, Vec<String>)> {
    let repository = std::path::PathBuf::from(std::env::var_os("LBX_HISTORY")?);
    let list = git(&repository, &["rev-list", "--no-merges", "--min-parents=1", "-n", "300", "--all"])?;
    Some((repository, String::from_utf8(list).unwrap().lines().map(str::to_owned).collect()))
}

#[test]
#[ignore = "LBX_HISTORY must name repositories"]
fn real_history_applies_forwards_and_in_reverse() {
    let (repository, commits) = history().unwrap();
    for commit in commits {
        let parent = format!("{commit}^");
        let arguments = ["diff", "--full-index", "-M", "-C", "--binary", &parent, &commit];
        let text = git(&repository, &arguments).unwrap();
        if text.is_empty() {
            continue;
        }
        for strict in [false, true] {
            replay(
                &repository,
                &text,
                [&parent, &commit],
                PatchOptions { strict, ..PatchOptions::default() },
            );
        }
        if !text.windows(11).any(|part| part == b"\ncopy from ") {
            replay(
                &repository,
                &text,
                [&commit, &parent],
                PatchOptions { reverse: true, ..PatchOptions::default() },
            );
        }
    }
}

/// Applies `text` to the files of one commit and compares with those of the other.
fn replay(repository: &Path, text: &[u8], [before, after]: [&str; 2], options: PatchOptions) {
    let show = |commit: &str, path: &[u8]| {
        let name = format!("{commit}:{}", String::from_utf8(path.to_vec()).unwrap());
        git(repository, &["cat-file", "blob", &name])
    };
    let parsed = parse(text).unwrap_or_else(|error| panic!("{after}: {error}"));
    let plan = PlanOptions { apply: options, ..PlanOptions::default() };
    let outcomes = compose::<()>(parsed, &plan, &mut |path, _, _| {
        Ok(show(before, path).map(|bytes| OriginalFile { bytes: Arc::new(bytes.into()), mode: None }))
    });
    for outcome in outcomes.unwrap_or_else(|error| panic!("{after}: {error:?}")) {
        let path = String::from_utf8_lossy(&outcome.path).into_owned();
        assert!(outcome.after == show(after, &outcome.path), "{after}: {path}, {options:?}");
        assert!(outcome.hunks.iter().all(|hunk| hunk.offset == 0), "{after}: {path}");
        if let Some(from) = outcome.from.filter(|_| outcome.action == FileAction::Rename) {
            assert_eq!(show(after, &from), None, "{after}: {path}");
        }
    }
}
