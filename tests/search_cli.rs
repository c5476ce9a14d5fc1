//! `grep`, `glob` and `ls` through the real binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "common/skip.rs"]
mod skip;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use skip::skipped;

/// Creates a small repository.
fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    std::fs::create_dir(tree.path().join(".git")).unwrap();
    std::fs::create_dir(tree.path().join("sub")).unwrap();
    std::fs::write(tree.path().join("sub/a.rs"), "fn foo() {}\nfn bar() {}\n").unwrap();
    std::fs::write(tree.path().join("b.txt"), "foo\n").unwrap();
    tree
}

/// Runs `lbx` in `current`.
fn lbx(current: &Path, args: &[&str]) -> Output {
    let binary = assert_cmd::cargo::cargo_bin!("lbx");
    Command::new(binary).args(args).current_dir(current).stdin(Stdio::null()).output().unwrap()
}

/// Returns the data of an answer.
fn data(output: &Output) -> Value {
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["ok"], true, "{answer}");
    answer["data"].clone()
}

#[test]
fn search_flags_and_json_give_the_same_request() {
    let tree = tree();
    let by_flags = data(&lbx(tree.path(), &["grep", "-iA1", "FOO", "sub", "-t", "rust"]));
    let request = r#"{"pattern":"FOO","path":"sub","-i":true,"-A":"1","type":"rust","-n":true}"#;
    let by_json = data(&lbx(tree.path(), &["grep", "--json", request]));
    assert_eq!(by_flags, by_json);
    assert_eq!(by_json["matches"][0]["after"][0], "fn bar() {}");
    let files =
        data(&lbx(tree.path(), &["grep", "--json", r#"{"regex":"foo","outputMode":"files_with_matches"}"#]));
    assert_eq!(files["files"], serde_json::json!(["b.txt", "sub/a.rs"]));
}

#[test]
fn search_text_output_contains_only_the_payload() {
    let tree = tree();
    let text = |args: &[&str]| String::from_utf8(lbx(tree.path(), args).stdout).unwrap();
    assert_eq!(text(&["grep", "--text", "-rn", "foo", "."]), "b.txt\n1:foo\n\nsub/a.rs\n1:fn foo() {}\n");
    assert_eq!(text(&["glob", "--text", "--null", "*"]), "b.txt\0sub/a.rs\0");
    assert_eq!(text(&["ls", "-t"]), "b.txt\nsub/\n");
}

#[test]
fn exit_status_flag_reports_whether_anything_matched() {
    let tree = tree();
    for (args, status) in [
        (&["grep", "--exit-status", "foo"][..], 0),
        (&["grep", "--exit-status", "nowhere"], 1),
        (&["grep", "nowhere"], 0),
        (&["glob", "--exit-status", "*.py"], 1),
        (&["grep", "fo("], 2),
        (&["grep", "foo", "nowhere"], 3),
        (&["ls", "../.."], 10),
    ] {
        assert_eq!(lbx(tree.path(), args).status.code(), Some(status), "{args:?}");
    }
}

#[test]
fn edit_accepts_lines_shown_by_grep_with_mark() {
    let tree = tree();
    let edit = ["edit", "b.txt", "--old-string", "foo", "--new-string", "new"];
    assert_eq!(lbx(tree.path(), &edit).status.code(), Some(5));
    data(&lbx(tree.path(), &["grep", "foo", "b.txt"]));
    assert_eq!(lbx(tree.path(), &edit).status.code(), Some(5));
    data(&lbx(tree.path(), &["grep", "--mark", "foo", "b.txt"]));
    data(&lbx(tree.path(), &edit));
    assert_eq!(std::fs::read(tree.path().join("b.txt")).unwrap(), b"new\n");
}

/// Lines have the numbers of `read`, whatever bytes are in them; a text whose lines end in CR has no such numbers.
#[test]
fn grep_with_mark_numbers_lines_as_read_does() {
    let mut log: Vec<u8> = (1..=2000).flat_map(|line| format!("line {line}\n").into_bytes()).collect();
    log.splice(12_000..12_001, *b"\0");
    let tree = with(&[
        ("late", &log),
        ("early", b"x\0y\nz\n"),
        ("cr", b"alpha\rbeta\rgamma\r"),
        ("cr_last", b"alpha\r"),
        ("cr_mixed", b"alpha\rbeta\ngamma"),
    ]);
    for (pattern, path, line, fresh) in [
        ("line 1900$", "late", 1900, Some("late:1900")),
        ("^[yz]", "early", 2, Some("early:2")),
        ("beta", "cr", 1, None),
        ("alpha", "cr_last", 1, Some("cr_last")),
        ("beta", "cr_mixed", 1, Some("cr_mixed:1")),
    ] {
        let session = ["--session", path];
        let found = data(&lbx(tree.path(), &[&["grep", "--mark", pattern, path][..], &session].concat()));
        assert_eq!((&found["matched"], &found["matches"][0]["line"]), (&1.into(), &line.into()), "{path}");
        let status = data(&lbx(tree.path(), &[&["session", "status"][..], &session].concat()));
        assert_eq!(status["fresh"][0].as_str(), fresh, "{path}: {status}");
    }
}

#[test]
fn short_flags_of_rg_and_ls_are_accepted() {
    let tree = tree();
    std::fs::write(tree.path().join(".hidden"), "foo foo\n").unwrap();
    std::fs::write(tree.path().join("c.bin"), "foo\0\n").unwrap();
    let files = |args: &[&str]| data(&lbx(tree.path(), args))["files"].clone();
    assert_eq!(files(&["grep", "-luu", "foo"]), serde_json::json!([".hidden", "b.txt", "sub/a.rs"]));
    assert_eq!(
        files(&["grep", "-luuu", "foo"]),
        serde_json::json!([".hidden", "b.txt", "c.bin", "sub/a.rs"])
    );
    assert_eq!(files(&["grep", "-lx", "foo"]), serde_json::json!(["b.txt"]));
    assert_eq!(files(&["grep", "-l", "-d1", "foo"]), serde_json::json!(["b.txt"]));
    assert_eq!(files(&["grep", "-l", "-Trust", "foo", "-j4", "-N"]), serde_json::json!(["b.txt"]));
    let counts = |args: &[&str]| data(&lbx(tree.path(), args))["counts"][0]["count"].clone();
    assert_eq!(counts(&["grep", "-c", "foo", ".hidden"]), 1);
    assert_eq!(counts(&["grep", "--count-matches", "foo", ".hidden"]), 2);
    assert_eq!(
        counts(&["grep", "--json", r#"{"pattern":"o","path":".hidden","output_mode":"count_matches"}"#]),
        4
    );
    // ripgrep 15 counts a matching line at least once.
    std::fs::write(tree.path().join(".bare"), " x").unwrap();
    assert_eq!(counts(&["grep", "--count-matches", "$", ".bare"]), 1);
    std::fs::remove_file(tree.path().join(".bare")).unwrap();
    let long = data(&lbx(tree.path(), &["ls", "-lah"]));
    assert_eq!((&long["entries"][0]["path"], &long["entries"][0]["size"]), (&".hidden".into(), &8.into()));
}

#[test]
fn ls_sorted_by_mtime_lists_the_newest_first() {
    let tree = tree();
    let time = |path: &str, seconds: u64| {
        let file = std::fs::File::options().write(true).open(tree.path().join(path)).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        file.set_times(std::fs::FileTimes::new().set_modified(time)).unwrap();
    };
    std::fs::write(tree.path().join("a.txt"), "").unwrap();
    time("a.txt", 1_000_000);
    time("b.txt", 3_000_000);
    time("sub/a.rs", 2_000_000);
    let text = |args: &[&str]| String::from_utf8(lbx(tree.path(), args).stdout).unwrap();
    assert_eq!(text(&["ls", "-R", "-t", "--sort", "mtime"]), "sub/\nb.txt\nsub/a.rs\na.txt\n");
    let listed = data(&lbx(
        tree.path(),
        &["ls", "--json", r#"{"sort":"mtime","recursive":true,"limit":1,"offset":1}"#],
    ));
    assert_eq!((&listed["entries"][0]["path"], &listed["next_offset"]), (&"b.txt".into(), &2.into()));
}

/// Creates a repository whose files have these bytes.
fn with(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    std::fs::create_dir(tree.path().join(".git")).unwrap();
    for (path, bytes) in files {
        let path = tree.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    tree
}

/// Returns the warnings of an answer, in one text.
fn warnings(output: &Output) -> String {
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["ok"], true, "{answer}");
    answer["warnings"].to_string()
}

#[test]
fn pattern_with_a_carriage_return_matches_it() {
    let tree = with(&[("crlf", b"a needle\r\nb\r\n"), ("lf", b"a needle\nb\n")]);
    for (pattern, crlf, lf) in [
        (r"needle\r?$", 1, 1),
        (r"needle\r$", 1, 0),
        (r"\x0d", 2, 0),
        (r"\x{D}", 2, 0),
        (r"[\r\t]", 2, 0),
        ("needle\r", 1, 0),
        ("needle$", 1, 1),
        (r"needle.", 0, 0),
        (r"\\r", 0, 0),
    ] {
        for (file, count) in [("crlf", crlf), ("lf", lf)] {
            for flags in [&[][..], &["-U"], &["-o"], &["-c"], &["-A1"]] {
                let found = data(&lbx(tree.path(), &[&["grep"], flags, &["-e", pattern, file]].concat()));
                assert_eq!(found["matched"], count, "{pattern} {file} {flags:?}: {found}");
            }
        }
    }
    let shown = data(&lbx(tree.path(), &["grep", r"needle\r", "crlf"]));
    assert_eq!(
        (&shown["matches"][0]["text"], &shown["matches"][0]["column"]),
        (&"a needle".into(), &3.into())
    );
}

#[test]
fn basic_regex_alternation_is_a_warning() {
    let tree = with(&[("a.txt", b"alpha\nbeta\ncalled()\nxx\n")]);
    let said = |pattern: &str| warnings(&lbx(tree.path(), &["grep", pattern]));
    assert!(said(r"alpha\|beta").contains("did you mean `alpha|beta`?"), "{}", said(r"alpha\|beta"));
    assert!(said(r"x\+y\+").contains("null"), "{}", said(r"x\+y\+"));
    assert!(said(r"ax\?l").contains("did you mean `ax?l`?"));
    assert_eq!(said(r"missing\(\)"), "null");
    assert_eq!(said(r"called\(\)"), "null");
    assert_eq!(warnings(&lbx(tree.path(), &["grep", "-F", r"alpha\|beta"])), "null");
}

#[test]
fn unsupported_patterns_get_a_suggested_fix() {
    let tree = with(&[("a.txt", b"x\n")]);
    let advice = |pattern: &str| {
        let output = lbx(tree.path(), &["grep", pattern]);
        assert_eq!(output.status.code(), Some(2));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        answer["error"]["suggested_action"].as_str().unwrap().to_owned()
    };
    assert!(advice("(?<=fn )main").contains("`(?:fn )main`"), "{}", advice("(?<=fn )main"));
    assert!(advice("main(?!_)").contains("Look-around is not supported"));
    assert!(advice(r"(a)\1").contains("Backreferences"));
    assert!(advice(r"main(\|impl").contains(r"`main\(|impl`"));
}

#[test]
fn skipped_files_are_reported_only_if_they_would_match() {
    let tree = with(&[
        (".gitignore", b"/out/\n"),
        (".config/a.yml", b"needle\n"),
        ("out/b.rs", b"fn ignored() {}\n"),
        ("src/a.rs", b"fn main() {}\n"),
    ]);
    let said = |args: &[&str]| warnings(&lbx(tree.path(), args));
    assert_eq!(said(&["grep", "nowhere"]), "null");
    assert_eq!(said(&["glob", "*.zig"]), "null");
    assert_eq!(said(&["glob", "src/*.yml"]), "null");
    assert_eq!(said(&["grep", "needle", "-t", "rust"]), "null");
    assert!(said(&["grep", "needle"]).contains("1 hidden file (hidden"));
    assert!(said(&["glob", "*.yml"]).contains("skipped 1 hidden file"));
    assert!(said(&["grep", "ignored"]).contains("skipped 1 ignored file (no_ignore"));
    assert!(said(&["glob", "**/b.rs"]).contains("skipped 1 ignored file"));
}

#[test]
fn dot_ignore_hides_tracked_files_from_listings() {
    let tree = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        assert!(Command::new("git").args(args).current_dir(tree.path()).output().unwrap().status.success());
    };
    for folder in ["dist", "lib"] {
        std::fs::create_dir(tree.path().join(folder)).unwrap();
    }
    for path in ["a.txt", "b.txt", "dist/c.txt", "dist/d.txt", "lib/e.txt"] {
        std::fs::write(tree.path().join(path), "needle\n").unwrap();
    }
    git(&["init", "-q"]);
    git(&["add", "."]);
    std::fs::write(tree.path().join(".gitignore"), "b.txt\ndist/\n").unwrap();
    std::fs::write(tree.path().join(".ignore"), "a.txt\ndist/d.txt\nlib/\n").unwrap();
    let text = |args: &[&str]| String::from_utf8(lbx(tree.path(), args).stdout).unwrap();
    assert_eq!(text(&["glob", "-t", "*"]), "b.txt\ndist/c.txt\n");
    assert_eq!(text(&["ls", "-Rt"]), "b.txt\ndist/\ndist/c.txt\n");
}

#[test]
fn grep_responses_stay_within_max_bytes() {
    let long = [b"start\n".to_vec(), b"line \x01 of text\n".repeat(100_000), b"end\n".to_vec()].concat();
    let wide = [b"needle".to_vec(), b"\x01\"\\".repeat(100_000)].concat();
    let tree = with(&[("long.txt", &long), ("wide.txt", &wide)]);
    for args in [
        &["-U", r"start(.|\n)*end", "long.txt"][..],
        &["-U", "-o", r"start(.|\n)*end", "long.txt"],
        &["-U", "--max-columns", "0", r"(?s)start.*end", "long.txt"],
        &["--max-columns", "0", "needle", "wide.txt"],
        &["-C", "10000", "end", "long.txt"],
        &["-C", "10000", "--max-bytes", "3000", "start", "long.txt"],
    ] {
        let output = lbx(tree.path(), &[&["grep"], args].concat());
        assert_eq!(data(&output)["matched"], 1, "{args:?}");
        assert!(output.stdout.len() < 24_576 + 512, "{args:?}: {}", output.stdout.len());
    }
    let many: Vec<String> = (0..300).map(|number| format!("{}/{number}.txt", "folder".repeat(20))).collect();
    let many = with(&many.iter().map(|path| (path.as_str(), &b"needle\n"[..])).collect::<Vec<_>>());
    for list in ["-l", "-c"] {
        let output = lbx(many.path(), &["grep", list, "--mark", "needle"]);
        assert_eq!(data(&output)["truncated"], true);
        assert!(output.stdout.len() < 24_576 + 512, "{list}: {}", output.stdout.len());
    }
    let whole = lbx(tree.path(), &["grep", "--max-bytes", "0", "-U", r"start(.|\n)*end", "long.txt"]);
    assert!(whole.stdout.len() > long.len());
}

/// Of more context than fits, the nearest lines are shown, and the response says which.
#[test]
fn context_that_does_not_fit_is_cut_to_the_nearest_lines() {
    let line = |number: usize| {
        if number == 200 { "needle\n".into() } else { format!("{number} {}\n", "x".repeat(180)) }
    };
    let tree = with(&[("f", (1..=400).map(line).collect::<String>().as_bytes())]);
    let output = lbx(tree.path(), &["grep", "--mark", "needle", "-C100", "f"]);
    let found = data(&output)["matches"][0].clone();
    let lines = |side: &str| found[side].as_array().unwrap().clone();
    let (before, after) = (lines("before"), lines("after"));
    assert!(before.len() > 50 && after.len() > 50, "{found}");
    let first = 200 - before.len();
    assert!(before[0].as_str().unwrap().starts_with(&format!("{first} x")));
    assert!(after[0].as_str().unwrap().starts_with("201 x"));
    let span = format!("lines {first} to {}", 200 + after.len());
    let said =
        format!("the context of f:200 was cut to {span} to fit max_bytes: use read for lines 100 to 300");
    assert!(warnings(&output).contains(&said), "{}", warnings(&output));
    let fresh = data(&lbx(tree.path(), &["session", "status"]))["fresh"].to_string();
    assert!(fresh.contains(&format!("f:{first}-{}", 200 + after.len())), "{fresh}");
    assert!(output.stdout.len() < 24_576 + 512);
    assert_eq!(warnings(&lbx(tree.path(), &["grep", "needle", "-C50", "f"])), "null");
}

#[test]
fn oversized_ignore_file_is_skipped_with_a_warning() {
    let many: String = (0..200_000).map(|number| format!("*{number}*x?\n")).collect();
    let tree = with(&[
        (".gitignore", many.as_bytes()),
        ("a.txt", b"needle\n"),
        ("sub/.gitignore", b"*.log\n"),
        ("sub/b.log", b"needle\n"),
    ]);
    let output = lbx(tree.path(), &["grep", "needle"]);
    assert_eq!(data(&output)["matched"], 1);
    assert!(
        warnings(&output).contains("the ignore rules in .gitignore were not used"),
        "{}",
        warnings(&output)
    );
    let many: String = (0..20_000).map(|number| format!("*{number}*x?\n")).collect();
    std::fs::write(tree.path().join(".gitignore"), many).unwrap();
    let output = lbx(tree.path(), &["glob", "*"]);
    assert_eq!(data(&output)["paths"], serde_json::json!(["a.txt"]));
    assert!(warnings(&output).contains("more than 10000 patterns"), "{}", warnings(&output));
}

#[test]
fn common_rg_flags_are_accepted() {
    let tree = tree();
    let text = |args: &[&str]| String::from_utf8(lbx(tree.path(), args).stdout).unwrap();
    assert_eq!(text(&["glob", "-t", "*", "--exclude", "*.rs"]), "b.txt\n");
    assert_eq!(text(&["glob", "-t", "*", "--exclude", "sub/", "--exclude", "*.md"]), "b.txt\n");
    std::fs::write(tree.path().join("large.txt"), "x".repeat(100)).unwrap();
    assert_eq!(text(&["ls", "-t", "--sort", "size"]), "large.txt\nb.txt\nsub/\n");
    for (pattern, status) in [("foo", 0), ("nowhere", 1)] {
        let output = lbx(tree.path(), &["grep", "-q", pattern]);
        assert_eq!(output.status.code(), Some(status), "{pattern}");
        assert_eq!(data(&output)["matched"], u64::from(status == 0));
        assert!(lbx(tree.path(), &["grep", "-q", "--text", pattern]).stdout.is_empty());
    }
    for flags in [
        &["--color", "never"][..],
        &["--color=always"],
        &["--colour", "auto"],
        &["-H", "--no-heading", "-N", "-I"],
        &["--line-buffered", "--no-messages", "--no-config", "-P"],
    ] {
        let found = data(&lbx(tree.path(), &[&["grep"], flags, &["foo"]].concat()));
        assert_eq!(found["matched"], 2, "{flags:?}");
    }
}

#[test]
fn inverted_multiline_matches_are_counted_as_shown() {
    let tree = with(&[("f", b"a\nb\n\n\nc\nd\ne\n"), ("x", b"x\nx\n")]);
    let shown = |args: &[&str]| {
        let found = data(&lbx(tree.path(), &[&["grep", "-U", "-v"], args].concat()));
        let lines = found["matches"].as_array().unwrap().iter();
        lines.map(|line| (line["line"].as_u64().unwrap(), line["after"].clone())).collect::<Vec<_>>()
    };
    let after = |lines: &[&str]| serde_json::json!(lines);
    assert_eq!(shown(&["-m1", "\\n\\n", "f"]), [(1, Value::Null)]);
    assert_eq!(shown(&["-m1", "-A3", "\\n\\n", "f"]), [(1, after(&["b", "", ""]))]);
    assert_eq!(shown(&["-m2", "-A1", "\\n\\n", "f"]), [(1, after(&["b"])), (4, after(&["c"]))]);
    assert_eq!(shown(&["-m3", "-A9", "\\n\\n", "f"]).last().unwrap(), &(5, after(&["d", "e"])));
    assert!(shown(&["-m1", "x\\n", "x"]).is_empty());
    let counted = data(&lbx(tree.path(), &["grep", "-U", "-v", "-c", "-m2", "\\n\\n", "f"]));
    assert_eq!(counted["counts"][0]["count"], 2, "{counted}");
}

#[test]
fn glob_that_matches_only_a_directory_is_a_warning() {
    let tree = tree();
    let answer = |call: &[&str]| -> Value { serde_json::from_slice(&lbx(tree.path(), call).stdout).unwrap() };
    let empty = answer(&["glob", "su*"]);
    assert_eq!(empty["data"]["total"], 0);
    assert_eq!(empty["warnings"][0], "no file matches, but a folder does (sub); type dir finds folders");
    assert_eq!(answer(&["glob", "su*", "--type", "dir"])["data"]["paths"][0], "sub");
    assert!(answer(&["glob", "su*", "--type", "file"])["warnings"].is_null());
    assert!(answer(&["glob", "nothing*"])["warnings"].is_null());
}

#[test]
fn selection_that_matches_no_file_is_named() {
    let tree = tree();
    for (flags, named) in [
        (&["--type", "java"][..], "type java selects no file here"),
        (&["--exclude", "*"], "exclude * selects no file here"),
        (&["-g", "!*"], "include !* selects no file here"),
    ] {
        let said = lbx(tree.path(), &[&["grep", "foo", "."], flags].concat()).stdout;
        let said: Value = serde_json::from_slice(&said).unwrap();
        assert!(said["warnings"].to_string().contains(named), "{said}");
    }
    let said = |args: &[&str]| warnings(&lbx(tree.path(), args));
    assert!(said(&["glob", "*", "--exclude", "*"]).contains("exclude * leaves no file that matches"));
    assert_eq!(said(&["glob", "nothing*", "--exclude", "*"]), "null");
    // Each line matches: the pattern is not to blame.
    assert_eq!(said(&["grep", "-v", "."]), "null");
    assert_eq!(said(&["grep", "-v", "f|x"]), "null");
}

#[test]
fn depth_and_globs_begin_at_each_path() {
    let files = ["top", "a/y", "a/b/x", "a/b/c/z"].map(|path| (path, &b"foo\n"[..]));
    let tree = with(&files);
    for (args, listed) in [
        (&["ls", ".", "a"][..], "a/\na/b/\na/y\ntop\n"),
        (&["ls", "a", "a/b"], "a/b/\na/b/c/\na/b/x\na/y\n"),
        (&["ls", ".", "a/b"], "a/\na/b/c/\na/b/x\ntop\n"),
        (&["ls", ".", "a/b/c"], "a/\na/b/c/z\ntop\n"),
        (&["grep", "-l", "-d", "1", "foo", ".", "a/b"], "a/b/x\ntop\n"),
        (&["glob", "b/x", ".", "a"], "a/b/x\n"),
        (&["glob", "a/b/x", ".", "a"], "a/b/x\n"),
    ] {
        let output = lbx(tree.path(), &[args, &["--text"]].concat());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), listed, "{args:?}");
    }
}

/// A glob finds what is below a folder whose dot it names.
#[test]
fn globs_name_folders_that_begin_with_a_dot() {
    let files = [".github/w/ci.yml", "sub/.hid/f", ".venv/v.yml", "b.yml"];
    let tree = with(&files.map(|path| (path, &b"on\n"[..])));
    std::fs::write(tree.path().join(".gitignore"), ".venv\n").unwrap();
    for (glob, found) in [
        (".github/w/ci.yml", ".github/w/ci.yml\n"),
        ("./.github/w/*.yml", ".github/w/ci.yml\n"),
        (".github/**", ".github/w/ci.yml\n"),
        ("**/.hid/*", "sub/.hid/f\n"),
        (".git{hub,lab}/w/*", ".github/w/ci.yml\n"),
        ("**/w/*", ""),
        (".venv/*", ""),
        ("*.yml", "b.yml\n"),
    ] {
        for args in [&["glob", glob][..], &["grep", "-l", "on", "-g", glob]] {
            let output = lbx(tree.path(), &[args, &["--text"]].concat());
            assert_eq!(String::from_utf8(output.stdout).unwrap(), found, "{args:?}");
        }
    }
    let below = lbx(tree.path(), &["glob", "--text", ".github/"]);
    assert_eq!(String::from_utf8(below.stdout).unwrap(), ".github/w/ci.yml\n");
}

#[test]
fn globs_with_a_slash_are_anchored() {
    let files = ["a.rs", "x/a.rs", "k/a.rs", "x/k/a.rs", "{{c}}/s.rs"].map(|path| (path, &b"foo\n"[..]));
    let tree = with(&files);
    let at_root = format!("{}/*.rs", tree.path().canonicalize().unwrap().display());
    for (folder, args, found) in [
        ("", &["glob", "./*.rs"][..], "a.rs\n"),
        ("", &["glob", &at_root], "a.rs\n"),
        ("", &["glob", "x/.//k/./a.rs"], "x/k/a.rs\n"),
        // A path means the file, whatever its characters mean in a glob.
        ("", &["glob", "{{c}}/s.rs"], "{{c}}/s.rs\n"),
        ("", &["grep", "-l", "foo", "-g", "{{c}}/*"], "{{c}}/s.rs\n"),
        // Below the caller's folder, not elsewhere.
        ("x", &["grep", "-l", "foo", "..", "-g", "./a.rs"], "a.rs\n"),
        ("x", &["grep", "-l", "foo", "..", "-g", "k/a.rs"], "k/a.rs\n"),
        ("x", &["grep", "-l", "foo", "..", "-g", "**/k/a.rs"], "../k/a.rs\nk/a.rs\n"),
        ("x", &["glob", "a.rs", "..", "--exclude", "./a.rs"], "../a.rs\n../k/a.rs\nk/a.rs\n"),
    ] {
        let output = lbx(&tree.path().join(folder), &[args, &["--text"]].concat());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), found, "{args:?}");
    }
}

#[test]
fn text_form_is_that_of_rg() {
    let tree = with(&[
        ("a", b"foo\nx\ny\nfoo\n"),
        ("c", b"c"),
        ("-x", b"foo"),
        ("empty", b""),
        ("long", b"aaaaaafoobbbbbbb"),
    ]);
    for (args, text) in [
        (&["grep", "-A1", "foo", "a"][..], "a\n1:foo\n2-x\n--\n4:foo\n"),
        (&["grep", "-c", "-0", "foo", "a"], "a\x002\n"),
        (&["grep", "-U", "z*$", "-c", "c"], "c:1\n"),
        (&["grep", "-l", "-g", "-x", "foo"], "-x\n"),
        (&["read", "empty", "--end-line", "-1"], ""),
        (&["grep", "foo", "--max-columns", "8", "long"], "long\n1:aafoobbb [… 8 more bytes]\n"),
    ] {
        let output = lbx(tree.path(), &[args, &["--text"]].concat());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), text, "{args:?}");
    }
}

#[test]
fn unreadable_path_that_is_named_is_an_error() {
    let tree = with(&[("p/q/f", b"foo\n")]);
    if rustix::process::geteuid().is_root() {
        return skipped("root reads everything");
    }
    let close =
        |mode| std::fs::set_permissions(tree.path().join("p/q"), Permissions::from_mode(mode)).unwrap();
    close(0);
    let outputs = [&["ls", "p/q"][..], &["grep", "foo", "p/q"], &["glob", "*", "p/q"]]
        .map(|args| String::from_utf8(lbx(tree.path(), args).stdout).unwrap());
    let sums = lbx(tree.path(), &["ls", "--sums"]);
    close(0o755);
    for output in outputs {
        assert!(output.contains("permission_denied"), "{output}");
    }
    assert!(warnings(&sums).contains("the folder p/q could not be read"));
}
