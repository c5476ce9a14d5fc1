//! Ignored files stay out.

use std::fs;

use lbx::engine::snapshot::SkipReason;

use crate::place::Place;

#[test]
fn ignored_files_are_never_recorded() {
    let place =
        Place::with(&[(".gitignore", "*.secret\n/build/\n!keep.secret\n"), ("sub/.gitignore", "local\n")]);
    fs::write(place.path(".git/info/exclude"), "excluded\n").unwrap();
    let global = place.home.join("global-ignore");
    fs::write(&global, "globally\n").unwrap();
    place.git(&["config", "core.excludesFile", global.to_str().unwrap()]);
    let before = place.frozen();
    for path in [
        "a.secret",
        "deep/er/b.secret",
        "build/x/y",
        "sub/local",
        "excluded",
        "globally",
        "build/keep.secret",
    ] {
        let recorded = place.put(path, "hidden\n");
        assert_eq!(recorded.id, None, "{path}");
        assert_eq!(recorded.left_out[0].reason, SkipReason::Ignored, "{path}");
        let recorded = place.change(&[path], || fs::remove_file(place.path(path)).unwrap());
        assert_eq!(recorded.id, None, "{path}");
    }
    for path in ["keep.secret", "local", "sub/other"] {
        assert!(place.put(path, "seen\n").id.is_some(), "{path}");
    }
    assert_eq!(place.frozen(), before);
}

#[test]
fn change_with_an_ignored_file_records_the_other_files() {
    let place = Place::with(&[(".gitignore", "*.secret\n")]);
    let recorded = place.change(&["a.secret", "b.txt"], || {
        place.write("a.secret", "s\n");
        place.write("b.txt", "b\n");
    });
    assert!(recorded.id.is_some());
    assert_eq!(recorded.left_out[0].path, "a.secret");
    assert_eq!(place.listed(), [".gitignore", "b.txt"]);
}

#[test]
fn exception_to_a_pattern_for_all_names_holds_in_every_ignore_file() {
    for rules in ["*\n!a\n", "/*\n!/a\n", "**\n!a\n", "*/\n"] {
        for file in [".gitignore", ".git/info/exclude", "../global-ignore"] {
            let place = Place::with(&[("b.txt", "b\n")]);
            let global = place.home.join("global-ignore");
            place.git(&["config", "core.excludesFile", global.to_str().unwrap()]);
            let file = if file.starts_with("..") { global } else { place.path(file) };
            fs::write(&file, rules).unwrap();
            assert!(place.put("a", "a\n").id.is_some(), "{rules:?} in {}", file.display());
            assert_eq!(place.put("d/a", "a\n").id, None, "{rules:?} in {}", file.display());
        }
    }
}

#[test]
fn tracked_file_is_recorded_though_ignored() {
    let place = Place::with(&[("a.log", "one\n")]);
    place.commit(&[(".gitignore", "*.log\n")]);
    place.put("a.log", "two\n");
    assert_eq!(place.shown("a.log"), "two");
}

#[test]
fn lbx_directory_is_never_recorded() {
    let place = Place::with(&[("a", "a")]);
    let recorded = place.put("sub/.lbx/x", "x\n");
    assert_eq!(recorded.left_out[0].reason, SkipReason::Name);
}

#[test]
fn files_of_nested_repositories_are_skipped() {
    let place = Place::with(&[("a", "a")]);
    place.git(&["init", "-q", "inner"]);
    let recorded = place.put("inner/x/y.txt", "y\n");
    assert_eq!(recorded.left_out[0].reason, SkipReason::NestedRepository("inner".into()));
    let module = Place::with(&[("m", "m")]);
    let url = module.root.to_str().unwrap();
    place.git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", url, "mod"]);
    place.git(&["commit", "-q", "-m", "module"]);
    fs::remove_file(place.path("mod/.git")).unwrap();
    let recorded = place.put("mod/m", "changed\n");
    assert_eq!(recorded.left_out[0].reason, SkipReason::NestedRepository("mod".into()));
}

#[test]
fn fifo_as_gitignore_does_not_block_a_change() {
    let place = Place::with(&[("a", "a")]);
    fs::create_dir(place.path("sub")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(place.path("sub/.gitignore")).status().unwrap();
    assert!(made.success());
    let recorded = place.put("sub/x", "x\n");
    assert_eq!(recorded.left_out[0].reason, SkipReason::Rules("sub/.gitignore".into()));
}
