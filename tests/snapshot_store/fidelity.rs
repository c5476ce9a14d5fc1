//! Blobs are equal to those of `git add`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use lbx::engine::snapshot::SkipReason;

use crate::place::Place;

const ATTRIBUTES: &str = "*.auto text=auto\n*.crlf eol=crlf\n*.lf eol=lf\n*.bin -text\n*.text text\n*.id ident\n\
    *.u16 working-tree-encoding=UTF-16LE eol=lf\n*.bom working-tree-encoding=UTF-16\n*.l1 working-tree-encoding=ISO-8859-1\n";

/// Returns contents for every kind of file.
fn contents(name: &str) -> Vec<Vec<u8>> {
    let plain: &[&str] = &["a\nb\n", "a\r\nb\r\n", "a\r\nb\n", "a\rb\n", "a\0b\r\n", "$Id$ x\r\n", ""];
    let encoded = |text: &str| -> Vec<u8> {
        let units = text.encode_utf16().flat_map(u16::to_le_bytes);
        match name {
            "x.u16" => units.collect(),
            "x.bom" => [0xff, 0xfe].into_iter().chain(units).collect(),
            "x.l1" => text.chars().map(|c| c as u8).chain([0x80, 0x93, 0x9f, b'\n']).collect(),
            _ => text.as_bytes().to_vec(),
        }
    };
    let texts = if name.ends_with('1') || name.ends_with("bom") || name.ends_with("u16") {
        vec!["caf\u{e9}\n", "a\r\nb\u{e9}\r\n"]
    } else {
        plain.to_vec()
    };
    texts.into_iter().map(encoded).collect()
}

#[test]
fn line_endings_are_stored_as_git_add_would() {
    let names = [
        "x.auto", "x.crlf", "x.lf", "x.bin", "x.text", "x.id", "x.u16", "x.bom", "x.l1", "x.none",
        "was.auto", "was.none",
    ];
    let mut compared = 0;
    for autocrlf in ["false", "true", "input"] {
        let place = Place::unborn(&[]);
        place.git(&["config", "core.autocrlf", "false"]);
        place.commit(&[("was.auto", "old\r\n"), ("was.none", "old\r\n")]);
        place.commit(&[(".gitattributes", ATTRIBUTES)]);
        place.git(&["config", "core.autocrlf", autocrlf]);
        let twin = twin_of(&place, autocrlf);
        for name in names {
            for content in contents(name) {
                let recorded = place.put(name, &content);
                assert_eq!(recorded.left_out, [], "{name}");
                twin.git(&["reset", "-q", "--hard"]);
                fs::write(twin.path(name), &content).unwrap();
                twin.git(&["add", name]);
                let wanted = twin.git(&["rev-parse", &format!(":{name}")]);
                // Only the first one depends on the blob already stored, as for git.
                assert_eq!(blob(&place, name), wanted, "{name} autocrlf={autocrlf} {content:?}");
                place.git(&["update-ref", "-d", "refs/heads/lbx-snapshots"]);
                place.git(&["reset", "-q", "--hard"]);
                let _ = fs::remove_file(place.path(name));
                place.git(&["reset", "-q", "--hard"]);
                compared += 1;
            }
        }
        place.fsck();
    }
    assert_eq!(compared, 3 * (9 * 7 + 3 * 2));
}

#[test]
fn scan_stores_line_endings_as_git_add_would() {
    let names = ["x.auto", "x.crlf", "x.lf", "x.bin", "x.text", "x.id", "x.u16", "x.bom", "x.l1", "x.none"];
    for autocrlf in ["false", "true", "input"] {
        let place = Place::unborn(&[]);
        place.git(&["config", "core.autocrlf", autocrlf]);
        place.git(&["config", "core.safecrlf", "false"]);
        place.commit(&[(".gitattributes", ATTRIBUTES)]);
        for name in names {
            for (number, content) in contents(name).iter().enumerate() {
                place.write(&format!("{number}/{name}"), content);
            }
        }
        crate::scanning::scan(&place).unwrap();
        assert_eq!(crate::scanning::tip_tree(&place), crate::scanning::wanted_tree(&place), "{autocrlf}");
    }
}

/// Creates a clone in which the real git adds the files.
fn twin_of(place: &Place, autocrlf: &str) -> Place {
    let twin = Place::bare_folder();
    fs::remove_dir_all(twin.path(".lbx")).unwrap();
    twin.git(&["clone", "-q", place.root.to_str().unwrap(), "."]);
    twin.git(&["config", "core.autocrlf", autocrlf]);
    twin.git(&["config", "core.safecrlf", "false"]);
    twin
}

fn blob(place: &Place, name: &str) -> String {
    let output = place.try_git(&["rev-parse", "-q", "--verify", &format!("lbx-snapshots:{name}")]);
    if output.status.success() {
        return String::from_utf8(output.stdout).unwrap().trim().to_owned();
    }
    place.git(&["rev-parse", &format!("HEAD:{name}")]) // no snapshot: stored as HEAD has it
}

#[test]
fn attributes_missing_in_the_work_tree_still_apply() {
    let place = Place::with(&[("sub/.gitattributes", "*.t eol=crlf\n"), ("sub/a.t", "a\n")]);
    fs::remove_file(place.path("sub/.gitattributes")).unwrap();
    place.put("sub/a.t", "b\r\n");
    assert_eq!(place.shown("sub/a.t"), "b");
}

#[test]
fn encoding_that_git_reads_otherwise_stays_out() {
    for encoding in ["KLINGON", "UTF-16LE-BOM", "SHIFT-JIS", "ISO-8859-9", "EUC-KR"] {
        let place = Place::with(&[(".gitattributes", &format!("*.x working-tree-encoding={encoding}\n"))]);
        let reason = &place.put("b.x", "a\0\n\0").left_out[0].reason;
        assert_eq!(*reason, SkipReason::Encoding(encoding.into()));
        let said = format!("git would convert it from {encoding}, and lbx cannot do that just so");
        assert_eq!(reason.to_string(), said);
    }
}

#[test]
fn filtered_file_is_skipped() {
    let place = Place::with(&[(".gitattributes", "*.bin filter=lfs\n*.raw filter=none\n")]);
    place.commit(&[("old.bin", "pointer\n")]);
    place.git(&["config", "filter.lfs.clean", "false"]);
    place.git(&["config", "filter.lfs.required", "true"]);
    let recorded = place.put("a.bin", "large\n");
    assert_eq!((recorded.id, recorded.left_out[0].reason.clone()), (None, SkipReason::Filter("lfs".into())));
    assert!(place.put("a.raw", "x\n").id.is_some());
    place.write("old.bin", "content\n");
    place.change(&["old.bin"], || fs::remove_file(place.path("old.bin")).unwrap());
    assert_eq!(place.listed(), [".gitattributes", "a.raw"]);
    assert!(place.subjects().iter().all(|subject| !subject.starts_with("external")));
}

#[test]
fn ignored_file_modes_are_preserved() {
    let place = Place::with(&[("run.sh", "x\n")]);
    place.git(&["update-index", "--chmod=+x", "run.sh"]);
    place.git(&["commit", "-q", "-m", "executable"]);
    place.git(&["config", "core.fileMode", "false"]);
    place.put("run.sh", "y\n");
    place.put("new.sh", "y\n");
    fs::set_permissions(place.path("new.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    place.put("new.sh", "z\n");
    let listed = place.git(&["ls-tree", "lbx-snapshots"]);
    assert!(listed.contains("100755 blob") && listed.matches("100644 blob").count() == 1, "{listed}");
}
