//! Bytes are preserved: encodings and line endings survive every change that does not touch them.

use serde_json::json;

use crate::common::{Workspace, sha256};

/// Encoding and line endings of a file.
struct Form {
    /// Name in messages and in answers.
    encoding: &'static str,
    /// True if the file begins with a byte-order mark.
    bom: bool,
    /// Encodes a text.
    encode: fn(&str) -> Vec<u8>,
}

/// Every form of text that is preserved.
const FORMS: [Form; 5] = [
    Form { encoding: "utf-8", bom: false, encode: |text| text.as_bytes().to_vec() },
    Form { encoding: "utf-8", bom: true, encode: |text| format!("\u{feff}{text}").into_bytes() },
    Form {
        encoding: "utf-16le",
        bom: true,
        encode: |text| [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect(),
    },
    Form {
        encoding: "utf-16be",
        bom: true,
        encode: |text| [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_be_bytes).collect(),
    },
    Form {
        encoding: "bytes",
        bom: false,
        // Every line begins with a byte that is invalid in UTF-8.
        encode: |text| {
            text.replace('§', "\u{1}").bytes().map(|byte| if byte == 1 { 0xa7 } else { byte }).collect()
        },
    },
];

/// Line endings by their name in answers: the endings of the first, second and third line.
const ENDINGS: [(&str, [&str; 3]); 6] = [
    ("lf", ["\n", "\n", "\n"]),
    ("crlf", ["\r\n", "\r\n", "\r\n"]),
    ("cr", ["\r", "\r", "\r"]),
    ("mixed", ["\n", "\r\n", "\n"]),
    ("lf", ["\n", "\n", ""]),
    ("crlf", ["\r\n", "\r\n", ""]),
];

#[test]
fn encoding_and_line_endings_survive_an_edit() {
    let ws = Workspace::bare(&[]);
    for (number, form) in FORMS.iter().enumerate() {
        for (at, (name, [first, second, third])) in ENDINGS.iter().enumerate() {
            let path = format!("{number}-{at}.txt");
            let text = |middle: &str| (form.encode)(&format!("§ one{first}§ {middle}{second}§ three{third}"));
            ws.write(&path, text("two"));
            let shown = ws.lbx(&["read", &path]).success()["data"].clone();
            let found = (&shown["encoding"], &shown["line_ending"], &shown["bom"], &shown["total_lines"]);
            assert_eq!(
                found,
                (&json!(form.encoding), &json!(name), &json!(form.bom), &json!(3)),
                "{path} {name}"
            );
            assert_eq!(shown["sha256"], sha256(&text("two")), "{path}");
            // An agent writes LF, which means the line endings of the file.
            let request = json!({"path": path, "old_string": "two\n", "new_string": "2a\n2b\n"});
            let data = ws.json("edit", &request).success()["data"].clone();
            let changed = (form.encode)(&format!("§ one{first}§ 2a{second}2b{second}§ three{third}"));
            ws.holds(&path, &changed);
            assert_eq!(data["sha256"], sha256(&changed), "{path}");
        }
    }
}

#[test]
fn old_string_matches_any_line_endings() {
    for (_, [first, second, _]) in ENDINGS {
        for ending in ["\n", "\r\n"] {
            let ws = Workspace::bare(&[("a.txt", &format!("one{first}two{second}three"))]);
            let _ = ws.lbx(&["read", "a.txt"]).success();
            let old = format!("one{ending}two{ending}");
            let new = format!("1{ending}2{ending}");
            let data = ws.json("edit", &json!({"path": "a.txt", "old_string": old, "new_string": new})).ok();
            assert_eq!(data["match"], "exact");
            ws.holds("a.txt", format!("1{first}2{second}three"));
        }
    }
}

#[test]
fn edit_keeps_arbitrary_bytes_outside_the_match() {
    let mut bytes: Vec<u8> = (1..=255).flat_map(|byte| [byte, b'\n']).collect();
    bytes.extend_from_slice(b"the place\n");
    bytes.extend((1..=255).rev().flat_map(|byte| [byte, b'\r', b'\n']));
    let ws = Workspace::bare(&[]);
    ws.write("a.bin", &bytes);
    let _ = ws.lbx(&["read", "a.bin", "--max-bytes", "0"]).success();
    ws.lbx(&["edit", "a.bin", "--old-string", "the place", "--new-string", "here"]).success();
    let at = bytes.windows(9).position(|window| window == b"the place").unwrap();
    let wanted = [&bytes[..at], b"here", &bytes[at + 9..]].concat();
    ws.holds("a.bin", wanted);
}

#[test]
fn broken_utf16_and_utf32_files_are_unsupported() {
    let ws = Workspace::bare(&[]);
    let lone_surrogate = [0xff, 0xfe, 0x00, 0xd8, b'a', 0x00];
    let half_unit = [0xff, 0xfe, b'a', 0x00, b'b'];
    let utf32 = [0xff, 0xfe, 0, 0, b'a', 0, 0, 0];
    let utf16 = "begins with the byte-order mark of UTF-16 but has";
    for (name, bytes, what) in [
        ("surrogate", &lone_surrogate[..], format!("{utf16} a lone surrogate")),
        ("half", &half_unit, format!("{utf16} an odd number of bytes")),
        ("utf32", &utf32, "is UTF-32".to_owned()),
    ] {
        ws.write(name, bytes);
        ws.unchanged(|| {
            let error = ws.lbx(&["append", name, "--content", "x"]).error("unsupported_encoding");
            let message = error["message"].as_str().unwrap();
            assert!(message.starts_with(&format!("{name} {what}")), "{message}");
            let patch = format!("--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-a\n+b\n");
            assert_eq!(ws.lbx_stdin(&["patch"], &patch).error("unsupported_encoding")["path"], name);
            ws.lbx(&["edit", name, "--old-string", "a", "--new-string", "b"]).error("unsupported_encoding");
        });
    }
}

#[test]
fn nul_byte_is_binary_for_read_and_kept_by_append() {
    let ws = Workspace::bare(&[]);
    ws.write("a.bin", b"one\0two\n");
    ws.lbx(&["read", "a.bin"]).error("binary_file");
    let _ = ws.lbx(&["append", "a.bin", "--content", "three\n"]).success();
    ws.holds("a.bin", b"one\0two\nthree\n");
}

#[test]
fn latin_1_is_shown_lossily_with_a_warning() {
    let ws = Workspace::bare(&[]);
    ws.write("a.txt", b"caf\xe9 au lait\n");
    let data = ws.lbx(&["read", "a.txt"]).warned("not UTF-8");
    assert_eq!(data["content"], "caf\u{fffd} au lait\n");
    ws.lbx(&["edit", "a.txt", "--old-string", "au lait", "--new-string", "noir"]).success();
    ws.holds("a.txt", b"caf\xe9 noir\n");
    let text = ws.lbx(&["read", "a.txt", "--text"]);
    assert_eq!(text.stdout(), b"caf\xe9 noir\n");
}

#[test]
fn attributes_decide_how_a_snapshot_stores_line_endings() {
    let ws = Workspace::with(&[(".gitattributes", "*.txt text eol=crlf\n*.raw -text\n")]);
    ws.lbx(&["write", "a.txt", "--content", "one\r\ntwo\r\n"]).ok();
    ws.lbx(&["write", "a.raw", "--content", "one\r\ntwo\r\n"]).ok();
    assert_eq!(ws.git(&["cat-file", "blob", "lbx-snapshots:a.txt"]), "one\ntwo");
    assert_eq!(ws.git(&["cat-file", "-s", "lbx-snapshots:a.raw"]), "10");
    ws.holds("a.txt", "one\r\ntwo\r\n");
}

#[test]
fn read_text_prints_the_bytes_on_disk() {
    let ws = Workspace::with(&[]);
    let utf16 = |text: &str, unit: fn(u16) -> [u8; 2]| -> Vec<u8> {
        std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(unit).collect()
    };
    for (name, bytes) in [
        ("plain", b"a\nb".to_vec()),
        ("crlf", b"a\r\nb\r\n".to_vec()),
        ("mac", b"a\rb\r".to_vec()),
        ("bom", b"\xef\xbb\xbfa\nb\n".to_vec()),
        ("latin1", b"caf\xe9\n".to_vec()),
        ("utf16le", utf16("a\r\n\u{1f600}\n", u16::to_le_bytes)),
        ("utf16be", utf16("a\nb\n", u16::to_be_bytes)),
        ("empty", Vec::new()),
    ] {
        ws.write(name, &bytes);
        assert_eq!(ws.lbx(&["read", name, "--text"]).stdout(), bytes, "{name}");
    }
    assert_eq!(ws.lbx(&["read", "bom", "-t", "--offset", "1"]).stdout(), b"b\n");
    assert_eq!(ws.lbx(&["read", "utf16be", "-t", "--offset", "1"]).stdout(), b"\0b\0\n");
}

#[test]
fn patch_of_utf16_with_invalid_utf8_is_rejected() {
    let ws = Workspace::bare(&[]);
    let text: Vec<u8> = "\u{feff}one\ntwo\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    ws.write("wide.txt", &text);
    ws.lbx(&["read", "wide.txt"]).ok();
    let patch = b"--- a/wide.txt\n+++ b/wide.txt\n@@ -1,2 +1,2 @@\n-one\n+o\xffne\n two\n";
    let error = ws.lbx_stdin(&["patch"], patch).error("unsupported_encoding");
    assert_eq!(error["path"], "wide.txt");
    ws.holds("wide.txt", &text);
}
