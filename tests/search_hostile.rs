//! Pages, order, marks, and harmful trees.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod search_support;

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use lbx::control::Control;
use lbx::tools::{glob::Glob, grep::Grep, ls::Ls};
use search_support::{
    Answer, Tree, call_under, field, is_installed, messy, output, places_of, skipped, texts,
};

/// Returns the entries of every page, in order.
fn joined(key: &str, call: impl Fn(&str) -> Answer) -> Vec<serde_json::Value> {
    let (mut all, mut offset) = (Vec::new(), 0);
    loop {
        let answer = call(&offset.to_string());
        all.extend(answer.data[key].as_array().unwrap().iter().cloned());
        match answer.data["next_offset"].as_u64() {
            Some(next) => {
                assert!(next > offset, "every page goes on");
                assert_eq!(answer.data["truncated"], true);
                offset = next;
            }
            None => return all,
        }
    }
}

#[test]
fn joined_search_pages_equal_the_whole_result() {
    let tree = messy();
    let whole = tree.grep(&["foo", "-C1", "--limit", "0", "--max-bytes", "0"]);
    for bounds in [["--limit", "7"], ["--limit", "1000"], ["--max-bytes", "300"], ["--max-bytes", "1"]] {
        let few = ["-g", "!late.bin", "-g", "!many.txt"];
        let whole = tree.grep(&[&few[..], &["foo", "-C1", "--limit", "0", "--max-bytes", "0"]].concat());
        let pages =
            joined("matches", |at| tree.grep(&[&few[..], &bounds, &["foo", "-C1", "--offset", at]].concat()));
        assert_eq!(&pages, whole.data["matches"].as_array().unwrap(), "{bounds:?}");
    }
    let pages = joined("matches", |at| {
        tree.grep(&["foo", "-C1", "--limit", "999", "--max-bytes", "0", "--offset", at])
    });
    assert_eq!(&pages, whole.data["matches"].as_array().unwrap());
    for (key, mode) in [("files", "files"), ("counts", "count")] {
        let whole = tree.grep(&["foo", "--output-mode", mode]);
        let pages =
            joined(key, |at| tree.grep(&["foo", "--output-mode", mode, "--limit", "4", "--offset", at]));
        assert_eq!(&pages, whole.data[key].as_array().unwrap());
    }
    let whole = tree.glob(&["**"]);
    let pages = joined("paths", |at| tree.glob(&["**", "--limit", "3", "--offset", at]));
    assert_eq!(&pages, whole.data["paths"].as_array().unwrap());
    let whole = tree.ls(&["-Rl"]);
    let pages = joined("entries", |at| tree.ls(&["-Rl", "--max-bytes", "400", "--offset", at]));
    assert_eq!(&pages, whole.data["entries"].as_array().unwrap());
}

#[test]
fn grep_order_is_deterministic() {
    let tree = Tree::new();
    for number in 0..400 {
        tree.write(&format!("d{}/e{}/f{number}.txt", number % 7, number % 11), b"foo\nbar\nfoo\n");
    }
    let first = tree.grep(&["foo"]);
    let mut places = places_of(&tree.grep(&["foo", "--limit", "0", "--max-bytes", "0"]));
    assert_eq!(places.len(), 800);
    places.sort();
    assert_eq!(places_of(&first), places[..250]);
    for _ in 0..20 {
        let again = tree.grep(&["foo"]);
        assert_eq!(again.data, first.data);
    }
}

#[test]
fn total_counts_beyond_the_page() {
    let tree = Tree::with(&[("a", "x\nx\nx\n"), ("b", "x\n"), ("c", "y\n")]);
    let short = tree.grep(&["x", "--limit", "2"]).data;
    assert_eq!(
        (&short["matched"], &short["files_matched"], &short["next_offset"]),
        (&2.into(), &1.into(), &2.into())
    );
    let total = tree.grep(&["x", "--limit", "2", "--total"]).data;
    assert_eq!(
        (&total["matched"], &total["files_matched"], &total["next_offset"]),
        (&4.into(), &2.into(), &2.into())
    );
    let whole = tree.grep(&["x"]).data;
    assert_eq!(
        (&whole["matched"], &whole["files_matched"], &whole["truncated"]),
        (&4.into(), &2.into(), &false.into())
    );
    let exact = tree.grep(&["x", "--limit", "4"]).data;
    assert_eq!(exact["truncated"], false);
}

#[test]
fn git_and_lbx_directories_are_searched_only_by_name() {
    let tree = Tree::with(&[
        (".git/config", "foo\n"),
        (".lbx/log", "foo\n"),
        ("a/.GIT/x", "foo\n"),
        ("a/y", "foo\n"),
    ]);
    let all = ["--hidden", "--no-ignore"];
    assert_eq!(field(&tree.grep(&[&["foo"][..], &all].concat()).data["matches"], "path"), ["a/y"]);
    assert_eq!(texts(&tree.glob(&[&["**"][..], &all].concat()).data["paths"]), ["a/y"]);
    assert_eq!(field(&tree.ls(&["-Ra", "--no-ignore"]).data["entries"], "path"), ["a", "a/y"]);
    assert_eq!(
        field(&tree.grep(&["foo", ".git", ".lbx/log"]).data["matches"], "path"),
        [".git/config", ".lbx/log"]
    );
}

#[test]
fn nested_search_paths_are_searched_once_in_order() {
    let tree = Tree::with(&[
        (".gitignore", "ignored\n"),
        ("a/x", "foo\n"),
        ("b/ignored/deep/x", "foo\n"),
        ("b/ignored/other", "foo\n"),
        ("c/x", "foo\n"),
    ]);
    let found = tree.grep(&["foo", ".", "c/x", "b/ignored/deep"]);
    assert_eq!(field(&found.data["matches"], "path"), ["a/x", "b/ignored/deep/x", "c/x"]);
}

#[test]
fn empty_result_reports_skipped_files() {
    let tree = Tree::with(&[(".gitignore", "/*\n"), ("a.rs", "foo\n"), (".b", "foo\n")]);
    let answer = tree.grep(&["foo"]);
    assert_eq!((answer.status, &answer.data["matched"]), (1, &0.into()));
    assert!(answer.warnings[0].contains("no_ignore"), "{:?}", answer.warnings);
    assert!(tree.glob(&["*.rs"]).warnings[0].contains("no_ignore"));
    assert_eq!(tree.ls(&[]).data["ignored"]["entries"], 3);
    assert_eq!(tree.grep(&["foo", "--no-ignore"]).status, 0);
}

#[test]
fn ls_reports_ignored_directories_with_counts() {
    let tree = Tree::with(&[(".gitignore", "node_modules\n")]);
    for number in 0..50 {
        tree.write(&format!("node_modules/p{}/f{number}.js", number % 5), b"");
        tree.write(&format!("src/m{}/f{number}.rs", number % 2), b"");
    }
    let answer = tree.ls(&["-R", "--limit", "5"]);
    assert_eq!(answer.data["total"], 53);
    assert_eq!(answer.data["ignored"]["folders"][0]["path"], "node_modules");
    assert_eq!(answer.data["ignored"]["folders"][0]["entries"], 50);
    assert_eq!(answer.data["largest"][0]["path"], "src");
    assert!(answer.notes.iter().any(|note| note.contains("node_modules: 50 files")), "{:?}", answer.notes);
    assert!(answer.notes.iter().any(|note| note.contains("src: 52 entries")), "{:?}", answer.notes);
}

#[test]
fn ls_sums_reports_directory_sizes() {
    let tree = Tree::with(&[
        (".gitignore", "*.o\n"),
        ("src/a/deep/x", "12345"),
        ("src/a/y", "123"),
        ("src/z", "1"),
        ("src/z.o", "hidden"),
        ("empty/.keep", ""),
    ]);
    let sums = |args: &[&str]| -> Vec<(String, Option<u64>, Option<u64>)> {
        let answer = tree.ls(&[&["--sums"], args].concat());
        let entries = answer.data["entries"].as_array().unwrap().clone();
        let number = |value: &serde_json::Value| value.as_u64();
        entries
            .iter()
            .map(|entry| {
                (entry["path"].as_str().unwrap().to_owned(), number(&entry["files"]), number(&entry["bytes"]))
            })
            .collect()
    };
    assert_eq!(sums(&[]), [("empty".into(), Some(0), Some(0)), ("src".into(), Some(3), Some(9))]);
    assert_eq!(
        sums(&["src", "--depth", "2"]),
        [
            ("src/a".into(), Some(2), Some(8)),
            ("src/a/deep".into(), Some(1), Some(5)),
            ("src/a/y".into(), None, None),
            ("src/z".into(), None, None),
        ]
    );
    assert_eq!(sums(&["--no-ignore", "-a"])[2], ("src".into(), Some(4), Some(15)));
    assert_eq!(tree.ls(&["--sums"]).text, "empty/\t0 files, 0 bytes\nsrc/\t3 files, 9 bytes\n");
}

#[test]
fn ls_depth_limits_the_listing() {
    let tree = Tree::with(&[("a/b/c/d", ""), ("a/e", ""), ("f", "")]);
    let paths = |args: &[&str]| field(&tree.ls(args).data["entries"], "path");
    assert_eq!(paths(&[]), ["a", "f"]);
    assert_eq!(paths(&["--depth", "2"]), ["a", "a/b", "a/e", "f"]);
    assert_eq!(paths(&["a", "--depth", "2"]), ["a/b", "a/b/c", "a/e"]);
    assert_eq!(paths(&["-R", "--depth", "1"]), ["a", "f"]);
    assert_eq!(paths(&["-R"]), ["a", "a/b", "a/b/c", "a/b/c/d", "a/e", "f"]);
}

#[test]
fn grep_cuts_long_lines_to_show_the_match() {
    let tree = Tree::new();
    let line = format!("{}needle{}\nshort\n", "é".repeat(4000), "y".repeat(9000));
    tree.write("a", line.as_bytes());
    let entry = &tree.grep(&["needle", "-A1"]).data["matches"][0];
    assert_eq!((&entry["column"], &entry["line_bytes"]), (&8001.into(), &17006.into()));
    let (text, start) = (entry["text"].as_str().unwrap(), entry["text_column"].as_u64().unwrap());
    assert!(text.len() <= 500 && text.contains("needle") && !text.contains('\u{fffd}'));
    assert_eq!(start + text.find("needle").unwrap() as u64, 8001);
    assert_eq!(entry["after"][0], "short");
}

#[test]
fn grep_mark_returns_paths_and_hashes() {
    let tree = Tree::with(&[("a", "foo\n"), ("b", "bar\n")]);
    let answer = tree.grep(&["foo", "--mark"]);
    assert_eq!(answer.data["marked"][0]["path"], "a");
    let sha256 = lbx::sha256::Sha256::of(b"foo\n").to_hex();
    assert_eq!(answer.data["marked"], serde_json::json!([{ "path": "a", "sha256": sha256 }]));
}

/// Returns the lines of `path` that count as read after a marking search.
fn marked_lines(tree: &Tree, args: &[&str], path: &str) -> Option<Vec<(u64, u64)>> {
    let workspace = lbx::engine::workspace::Workspace::open(tree.path()).unwrap();
    let state = lbx::engine::store::state::State::open(&workspace).unwrap();
    let state = tree.path().join(state.path_of("sessions/test.lbx").as_path());
    let _ = std::fs::remove_file(&state);
    tree.grep(&[&["--mark"], args].concat());
    let state: serde_json::Value = serde_json::from_slice(&std::fs::read(state).ok()?).unwrap();
    let marks = state["marks"].as_array().unwrap();
    let mark = marks.iter().find(|mark| mark["path"] == path)?;
    Some(serde_json::from_value(mark["lines"].clone()).unwrap())
}

#[test]
fn grep_mark_covers_only_lines_shown_completely() {
    let tree = Tree::new();
    let wide = "x".repeat(600);
    tree.write("a", format!("one\nfoo two\nthree {wide}\nfoo four {wide}\nfive\nsix\nfoo seven").as_bytes());
    assert_eq!(marked_lines(&tree, &["foo"], "a"), Some(vec![(2, 2), (7, 7)]));
    assert_eq!(marked_lines(&tree, &["foo", "-C1"], "a"), Some(vec![(1, 2), (5, 7)]));
    assert_eq!(marked_lines(&tree, &["foo", "-B1", "-m1"], "a"), Some(vec![(1, 2)]));
    assert_eq!(marked_lines(&tree, &["foo", "--limit", "1"], "a"), Some(vec![(2, 2)]));
    assert_eq!(marked_lines(&tree, &["foo", "--offset", "2"], "a"), Some(vec![(7, 7)]));
    assert_eq!(marked_lines(&tree, &["foo", "--max-columns", "0"], "a"), Some(vec![(2, 2), (4, 4), (7, 7)]));
    assert_eq!(marked_lines(&tree, &["-U", "five\\nsix"], "a"), Some(vec![(5, 6)]));
    // A part of a line, a file name and a count show no line.
    for args in [&["four"][..], &["-o", "two"], &["-l", "foo"], &["-c", "foo"]] {
        assert_eq!(marked_lines(&tree, args, "a"), None, "{args:?}");
    }
}

#[test]
fn grep_mark_states_the_hash_at_the_first_match() {
    let tree = Tree::with(&[("a", "foo\nfoo\n"), ("b", "foo\n")]);
    let sha256 = lbx::sha256::Sha256::of(b"foo\nfoo\n").to_hex();
    let flat = tree.grep(&["foo", "--mark"]).data;
    assert_eq!(flat["matches"][0]["sha256"], *sha256);
    assert!(flat["matches"][1].get("sha256").is_none() && flat["matches"][2]["sha256"].is_string());
    let groups = tree.grep(&["foo", "--mark", "--group"]).data;
    assert_eq!(
        (&groups["groups"][0]["sha256"], &groups["marked"][0]["sha256"]),
        (&(*sha256).into(), &(*sha256).into())
    );
    assert_eq!(tree.grep(&["-l", "foo", "--mark"]).data["marked"][0]["sha256"], *sha256);
    // The size of a mark counts towards the page.
    let page = tree.grep(&["foo", "--mark", "--max-bytes", "400"]).data;
    assert!(page["truncated"] == true && page["matches"].as_array().unwrap().len() == 2, "{page}");
}

/// Returns the answer of an unprivileged user's `lbx` in `tree`; `None` if that is not possible.
fn as_nobody(tree: &Tree, args: &[&str]) -> Option<serde_json::Value> {
    use std::process::Command;
    let binary = assert_cmd::cargo::cargo_bin!("lbx");
    let mut command = if rustix::process::geteuid().is_root() {
        // The unprivileged user may not reach the build folder.
        let copy = tree.path().join(".git/lbx");
        std::fs::copy(binary, &copy).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).arg(copy);
        command
    } else {
        Command::new(binary)
    };
    let output = command.args(args).current_dir(tree.path()).env("HOME", "/").output();
    match output {
        Ok(output) if !output.stdout.is_empty() => Some(serde_json::from_slice(&output.stdout).unwrap()),
        other => {
            skipped(format!("cannot run as another user: {other:?}"));
            None
        }
    }
}

#[test]
fn unreadable_paths_are_search_warnings() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    let tree = Tree::with(&[("a/shut/x", "foo\n"), ("a/open", "foo\n"), ("secret", "foo\n")]);
    for (path, mode) in [("", 0o755), ("a/shut", 0o000), ("secret", 0o000)] {
        set_permissions(tree.path().join(path), Permissions::from_mode(mode)).unwrap();
    }
    for (args, list) in
        [(&["grep", "foo"][..], "matches"), (&["glob", "**"], "paths"), (&["ls", "-R"], "entries")]
    {
        let Some(answer) = as_nobody(&tree, args) else { break };
        assert_eq!(answer["ok"], true, "{answer}");
        let warnings = texts(&answer["warnings"]);
        let tells = |path: &str| warnings.iter().any(|warning| warning.contains(path));
        assert!(tells("a/shut"), "{args:?}: {answer}");
        assert_eq!(tells("secret"), args[0] == "grep", "{args:?}: {answer}");
        assert!(answer["data"][list].to_string().contains("a/open"), "{args:?}: {answer}");
    }
    set_permissions(tree.path().join("a/shut"), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn tracked_files_are_listed_despite_gitignore() {
    if !is_installed("git") {
        return;
    }
    let tree = Tree::new();
    std::fs::remove_dir(tree.path().join(".git")).unwrap();
    for path in ["dist/app.js", "dist/deep/lib.js", "dist/map.js", "out/x.js", "dist/.hidden", "sub/a.log"] {
        tree.write(path, b"foo\n");
    }
    tree.write(".gitignore", b"dist\nout/\n*.log\n");
    output(tree.path(), "git", &["init", "-q", "."]);
    let added = ["add", "-f", "dist/app.js", "dist/deep", "dist/.hidden", "sub/a.log"];
    output(tree.path(), "git", &added);
    assert_eq!(texts(&tree.glob(&["**"]).data["paths"]), ["dist/app.js", "dist/deep/lib.js", "sub/a.log"]);
    assert_eq!(field(&tree.ls(&[]).data["entries"], "path"), ["dist", "sub"]);
    // A folder that is named is shown with its whole content.
    let named = tree.ls(&["dist"]);
    assert_eq!(field(&named.data["entries"], "path"), ["dist/app.js", "dist/deep", "dist/map.js"]);
    assert_eq!(texts(&tree.glob(&["dist/**", "--hidden"]).data["paths"])[0], "dist/.hidden");
    // The workspace may be a folder of the repository.
    let inside = search_support::call::<Glob>(&tree.path().join("sub"), &["*"]).unwrap();
    assert_eq!(texts(&inside.data["paths"]), ["a.log"]);
    // As with rg.
    assert_eq!(tree.grep(&["foo"]).data["matched"], 0);
}

/// The file of shared entries may come with a clone, and name itself as the file of its own shared entries.
#[test]
fn split_index_that_names_itself_is_a_warning() {
    if !is_installed("git") {
        return;
    }
    let tree = Tree::with(&[(".gitignore", "*.log\n"), ("a.log", "a\n"), ("b.txt", "b\n")]);
    output(tree.path(), "git", &["init", "-q", "."]);
    output(tree.path(), "git", &["add", "-f", "."]);
    output(tree.path(), "git", &["update-index", "--split-index"]);
    let mut index = std::fs::read(tree.path().join(".git/index")).unwrap();
    let id = index.windows(4).rposition(|name| name == b"link").unwrap() + 8;
    let id = index[id..id + 20].to_vec();
    // The checksum at the end is the name of the shared file.
    let end = index.len() - 20;
    index[end..].copy_from_slice(&id);
    let name: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    for path in ["index", &format!("sharedindex.{name}")] {
        std::fs::remove_file(tree.path().join(".git").join(path)).unwrap();
        tree.write(&format!(".git/{path}"), &index);
    }
    let found = tree.glob(&["*"]);
    assert_eq!(texts(&found.data["paths"]), ["b.txt"]);
    let told = format!("git's index: sharedindex.{name} is split, too");
    assert!(found.warnings.iter().any(|warning| warning.contains(&told)), "{:?}", found.warnings);
}

#[test]
fn search_sorted_by_mtime_lists_the_newest_first() {
    let tree = Tree::with(&[("a", "foo\n"), ("b", "foo\n"), ("c", "foo\n")]);
    for (name, age) in [("a", 10), ("b", 5), ("c", 10)] {
        let file = std::fs::File::open(tree.path().join(name)).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1000 - age)).unwrap();
    }
    assert_eq!(texts(&tree.grep(&["foo", "-l", "--sort", "mtime"]).data["files"]), ["b", "a", "c"]);
    assert_eq!(texts(&tree.glob(&["*", "--sort", "mtime"]).data["paths"]), ["b", "a", "c"]);
}

#[test]
fn fifo_never_blocks_a_search() {
    let tree = Tree::with(&[("a", "foo\n")]);
    std::process::Command::new("mkfifo").arg(tree.path().join("pipe")).status().unwrap();
    assert_eq!(field(&tree.grep(&["foo"]).data["matches"], "path"), ["a"]);
    assert_eq!(tree.refused::<Grep>(&["foo", "pipe"]).kind().name(), "not_a_regular_file");
    assert_eq!(tree.ls(&["pipe"]).data["entries"][0]["type"], "other");
}

#[test]
fn search_follows_only_symlinks_named_as_paths() {
    let tree = Tree::with(&[("real/a", "foo\n")]);
    tree.link("real", "link");
    tree.link("..", "real/up");
    tree.link("/etc", "out");
    assert_eq!(field(&tree.grep(&["foo"]).data["matches"], "path"), ["real/a"]);
    assert_eq!(field(&tree.grep(&["foo", "link"]).data["matches"], "path"), ["real/a"]);
    assert_eq!(tree.refused::<Grep>(&["root", "out"]).kind().name(), "outside_workspace");
    assert_eq!(tree.refused::<Grep>(&["root", "out/passwd"]).kind().name(), "outside_workspace");
    assert_eq!(tree.refused::<Grep>(&["foo", "reel"]).kind().name(), "not_found");
    let entries = tree.ls(&["-R"]).data["entries"].clone();
    assert_eq!((&entries[0]["target"], &entries[1]["target"]), (&"real".into(), &"/etc".into()));
}

#[test]
fn non_utf8_file_name_is_a_warning() {
    let tree = Tree::new();
    let name = std::ffi::OsStr::from_bytes(b"bad\xff.txt");
    std::fs::write(tree.path().join(name), "foo\n").unwrap();
    for answer in [tree.grep(&["foo"]), tree.glob(&["*"]), tree.ls(&[])] {
        assert!(answer.warnings.iter().any(|warning| warning.contains("UTF-8")), "{answer:?}");
    }
}

#[test]
fn grep_handles_a_million_matches_and_huge_lines() {
    let tree = Tree::new();
    tree.write("many", &b"foo\n".repeat(1_000_000));
    let answer = tree.grep(&["foo", "--total"]);
    assert_eq!(
        (&answer.data["matched"], answer.data["matches"].as_array().unwrap().len()),
        (&1_000_000.into(), 250)
    );
    let late = tree.grep(&["foo", "--offset", "999999"]);
    assert_eq!(
        (&late.data["matched"], &late.data["matches"][0]["line"]),
        (&1_000_000.into(), &1_000_000.into())
    );
    tree.write("wide", &[vec![b'x'; 64 << 20], b"needle\n".to_vec()].concat());
    let entry = &tree.grep(&["needle", "wide"]).data["matches"][0];
    assert_eq!(
        (&entry["column"], &entry["line_bytes"]),
        (&((64 << 20) + 1).into(), &((64 << 20) + 6).into())
    );
}

#[test]
fn search_walks_1500_nested_directories() {
    let tree = Tree::new();
    let mut folder =
        rustix::fs::open(tree.path(), lbx::engine::workspace::fs::FOLDER, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..1500 {
        rustix::fs::mkdirat(&folder, "deeper", rustix::fs::Mode::RWXU).unwrap();
        folder = rustix::fs::openat(
            &folder,
            "deeper",
            lbx::engine::workspace::fs::FOLDER,
            rustix::fs::Mode::empty(),
        )
        .unwrap();
        let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
        let file = rustix::fs::openat(&folder, "z", flags, rustix::fs::Mode::RUSR).unwrap();
        rustix::io::write(&file, b"foo\n").unwrap();
    }
    let answer = tree.grep(&["foo", "-c", "--limit", "0", "--max-bytes", "0"]);
    assert_eq!((&answer.data["files_matched"], answer.warnings.len()), (&1500.into(), 0));
    assert_eq!(tree.ls(&["-R"]).data["total"], 3000);
    std::process::Command::new("rm").arg("-rf").arg(tree.path().join("deeper")).status().unwrap();
}

#[test]
fn cancelled_or_slow_search_is_a_timeout() {
    let tree = Tree::with(&[("a", "foo\n")]);
    let control = Control::default();
    control.cancel();
    assert_eq!(
        call_under::<Grep>(tree.path(), &["foo"], control.clone()).unwrap_err().kind().name(),
        "timeout"
    );
    assert_eq!(
        call_under::<Glob>(tree.path(), &["*"], control.clone()).unwrap_err().kind().name(),
        "timeout"
    );
    assert_eq!(call_under::<Ls>(tree.path(), &[], control).unwrap_err().kind().name(), "timeout");
    tree.write("wide", &vec![b'a'; 48 << 20]);
    let slow = tree.refused::<Grep>(&["(a?){90}b", "--timeout-ms", "20"]);
    assert_eq!(slow.kind().name(), "timeout");
}

#[test]
fn invalid_search_arguments_are_errors() {
    let tree = Tree::with(&[("a", "foo\n")]);
    for args in
        [&["("][..], &["(\\w{250}){250}"], &["foo", "-g", "a["], &["foo", "-t", "pyton"], &[""], &["a\\nb"]]
    {
        assert_eq!(tree.refused::<Grep>(args).kind().name(), "invalid_request", "{args:?}");
    }
    assert!(tree.refused::<Grep>(&["foo", "-t", "pyton"]).message().contains("python"));
    assert!(tree.refused::<Grep>(&["foo", "-t", "rs"]).message().contains("rust"));
    let bomb = "{a,b}".repeat(800);
    // It ends, with either result.
    if let Err(error) = search_support::call::<Glob>(tree.path(), &[&bomb]) {
        assert_eq!(error.kind().name(), "invalid_request");
    }
    assert_eq!(tree.refused::<Glob>(&["../x"]).kind().name(), "invalid_request");
    assert_eq!(tree.refused::<Glob>(&["*", "a"]).kind().name(), "not_a_directory");
}

#[test]
fn combined_short_flags_of_rg_and_ls_are_accepted() {
    let tree = Tree::with(&[("sub/a", "FOO\nx\ny\nz\n"), (".h", "")]);
    let answer = tree.grep(&["-rniA3", "foo", "sub"]);
    assert_eq!(texts(&answer.data["matches"][0]["after"]), ["x", "y", "z"]);
    assert_eq!(tree.grep(&["-e", "FOO", "sub"]).data["matched"], 1);
    assert_eq!(tree.grep(&["--color=never", "-HnRrs", "FOO"]).data["matched"], 1);
    assert_eq!(field(&tree.ls(&["-la1"]).data["entries"], "path"), [".h", "sub"]);
    assert_eq!(tree.ls(&["-la"]).data["entries"][0]["mode"].as_str().unwrap().len(), 4);
    assert_eq!(tree.grep(&["--group", "FOO"]).data["groups"][0]["path"], "sub/a");
}
