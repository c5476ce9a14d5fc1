//! Pages, order, marks, and trees that were made to do harm.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod search_support;

use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use lbx::control::Control;
use lbx::tools::{glob::Glob, grep::Grep, ls::Ls};
use search_support::{Answer, Tree, call_under, field, messy, places_of, texts};

/// The entries of every page, one after the other.
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
fn pages_joined_are_the_whole() {
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
fn twenty_runs_give_one_order() {
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
fn totals_count_on_and_page_ends_do_not() {
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
fn state_folders_are_entered_by_name_alone() {
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
fn a_path_inside_another_is_searched_once_and_in_its_place() {
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
fn an_answer_of_nothing_says_what_was_left_out() {
    let tree = Tree::with(&[(".gitignore", "/*\n"), ("a.rs", "foo\n"), (".b", "foo\n")]);
    let answer = tree.grep(&["foo"]);
    assert_eq!((answer.status, &answer.data["matched"]), (1, &0.into()));
    assert!(answer.warnings[0].contains("no_ignore"), "{:?}", answer.warnings);
    assert!(tree.glob(&["*.rs"]).warnings[0].contains("no_ignore"));
    assert_eq!(tree.ls(&[]).data["ignored"]["entries"], 3);
    assert_eq!(tree.grep(&["foo", "--no-ignore"]).status, 0);
}

#[test]
fn a_listing_says_which_folder_hides_how_many() {
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
}

#[test]
fn long_lines_are_cut_round_the_match() {
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
fn marks_name_the_files_and_their_bytes() {
    let tree = Tree::with(&[("a", "foo\n"), ("b", "bar\n")]);
    let answer = tree.grep(&["foo", "--mark"]);
    assert_eq!(answer.data["marked"][0]["path"], "a");
    let sha256 = lbx::sha256::Sha256::of(b"foo\n").to_hex();
    assert_eq!(answer.data["marked"], serde_json::json!([{ "path": "a", "sha256": sha256 }]));
}

#[test]
fn the_newest_file_comes_first() {
    let tree = Tree::with(&[("a", "foo\n"), ("b", "foo\n"), ("c", "foo\n")]);
    for (name, age) in [("a", 10), ("b", 5), ("c", 10)] {
        let file = std::fs::File::open(tree.path().join(name)).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1000 - age)).unwrap();
    }
    assert_eq!(texts(&tree.grep(&["foo", "-l", "--sort", "mtime"]).data["files"]), ["b", "a", "c"]);
    assert_eq!(texts(&tree.glob(&["*", "--sort", "mtime"]).data["paths"]), ["b", "a", "c"]);
}

#[test]
fn a_fifo_never_blocks() {
    let tree = Tree::with(&[("a", "foo\n")]);
    std::process::Command::new("mkfifo").arg(tree.path().join("pipe")).status().unwrap();
    assert_eq!(field(&tree.grep(&["foo"]).data["matches"], "path"), ["a"]);
    assert_eq!(tree.refused::<Grep>(&["foo", "pipe"]).kind().name(), "not_a_regular_file");
    assert_eq!(tree.ls(&["pipe"]).data["entries"][0]["type"], "other");
}

#[test]
fn links_are_followed_where_they_are_named_and_nowhere_else() {
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
fn a_name_that_is_not_utf8_is_shown_with_a_warning() {
    let tree = Tree::new();
    let name = std::ffi::OsStr::from_bytes(b"bad\xff.txt");
    std::fs::write(tree.path().join(name), "foo\n").unwrap();
    for answer in [tree.grep(&["foo"]), tree.glob(&["*"]), tree.ls(&[])] {
        assert!(answer.warnings.iter().any(|warning| warning.contains("UTF-8")), "{answer:?}");
    }
}

#[test]
fn a_million_matches_and_a_line_of_64_megabytes() {
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
fn a_tree_of_1500_levels_is_walked() {
    let tree = Tree::new();
    let mut folder =
        rustix::fs::open(tree.path(), lbx::engine::fs::FOLDER, rustix::fs::Mode::empty()).unwrap();
    for _ in 0..1500 {
        rustix::fs::mkdirat(&folder, "deeper", rustix::fs::Mode::RWXU).unwrap();
        folder = rustix::fs::openat(&folder, "deeper", lbx::engine::fs::FOLDER, rustix::fs::Mode::empty())
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
fn a_search_ends_where_it_is_cancelled_or_out_of_time() {
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
    let start = Instant::now();
    let slow = tree.refused::<Grep>(&["(a?){90}b", "--timeout-ms", "20"]);
    assert_eq!(slow.kind().name(), "timeout");
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn what_cannot_be_understood_is_refused() {
    let tree = Tree::with(&[("a", "foo\n")]);
    for args in
        [&["("][..], &["(\\w{250}){250}"], &["foo", "-g", "a["], &["foo", "-t", "pyton"], &[""], &["a\\nb"]]
    {
        assert_eq!(tree.refused::<Grep>(args).kind().name(), "invalid_request", "{args:?}");
    }
    assert!(tree.refused::<Grep>(&["foo", "-t", "pyton"]).message().contains("python"));
    assert!(tree.refused::<Grep>(&["foo", "-t", "rs"]).message().contains("rust"));
    let bomb = "{a,b}".repeat(800);
    let start = Instant::now();
    let _ = search_support::call::<Glob>(tree.path(), &[&bomb]);
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(tree.refused::<Glob>(&["../x"]).kind().name(), "invalid_request");
    assert_eq!(tree.refused::<Glob>(&["*", "a"]).kind().name(), "not_a_directory");
}

#[test]
fn short_flags_are_those_of_rg_and_ls() {
    let tree = Tree::with(&[("sub/a", "FOO\nx\ny\nz\n"), (".h", "")]);
    let answer = tree.grep(&["-rniA3", "foo", "sub"]);
    assert_eq!(texts(&answer.data["matches"][0]["after"]), ["x", "y", "z"]);
    assert_eq!(tree.grep(&["-e", "FOO", "sub"]).data["matched"], 1);
    assert_eq!(tree.grep(&["--color=never", "-HnRrs", "FOO"]).data["matched"], 1);
    assert_eq!(field(&tree.ls(&["-la1"]).data["entries"], "path"), [".h", "sub"]);
    assert_eq!(tree.ls(&["-la"]).data["entries"][0]["mode"].as_str().unwrap().len(), 4);
    assert_eq!(tree.grep(&["--group", "FOO"]).data["groups"][0]["path"], "sub/a");
}
