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

/// Returns a text in an encoding of two bytes a character, by its characters' bytes.
const SHIFT_JIS: [(&str, &[u8]); 4] =
    [("表", b"\x95\x5c"), ("計", b"\x8c\x76"), ("ソ", b"\x83\x5c"), ("\\", b"\x5c")];

/// Encodes a text of ASCII and these characters.
fn shift_jis(text: &str) -> Vec<u8> {
    let bytes = |letter: char| {
        let known = SHIFT_JIS.iter().find(|(own, _)| own.starts_with(letter));
        known.map_or_else(|| vec![letter as u8], |(_, bytes)| bytes.to_vec())
    };
    text.chars().flat_map(bytes).collect()
}

#[test]
fn text_is_stored_in_the_named_encoding_of_the_file() {
    let ws = Workspace::with(&[]);
    ws.write("a.txt", b"caf\xe9 \x93x\x94\r\nna\xefve\r\n");
    let latin = |call: &[&str]| ws.lbx(&[call, &["--encoding", "latin1"]].concat());
    let shown = latin(&["read", "a.txt"]).ok();
    assert_eq!(
        (&shown["content"], &shown["encoding"]),
        (&json!("café “x”\r\nnaïve\r\n"), &json!("windows-1252"))
    );
    assert_eq!(latin(&["read", "a.txt", "--text"]).stdout_text(), "café “x”\r\nnaïve\r\n");
    let range = latin(&["read", "a.txt", "--start-line", "2", "--end-line", "2"]).ok();
    assert_eq!(range["range_sha256"], sha256(b"na\xefve\r\n"));

    let edited = latin(&["edit", "a.txt", "--old-string", "café", "--new-string", "crème", "--diff"]).ok();
    assert!(edited["diff"].as_str().unwrap().contains("-café “x”\n+crème “x”"), "{edited}");
    latin(&["insert", "a.txt", "2", "--content", "Öl\n"]).ok();
    latin(&["append", "a.txt", "--content", "fünf\n"]).ok();
    latin(&["prepend", "a.txt", "--content", "§\n"]).ok();
    ws.holds("a.txt", b"\xa7\r\ncr\xe8me \x93x\x94\r\nna\xefve\r\n\xd6l\r\nf\xfcnf\r\n");
    ws.lbx(&["read", "a.txt"]).success();
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -4,2 +4,2 @@\n Öl\r\n-fünf\r\n+sechs ä\r\n";
    latin(&["patch", "--patch", patch]).ok();
    ws.holds("a.txt", b"\xa7\r\ncr\xe8me \x93x\x94\r\nna\xefve\r\n\xd6l\r\nsechs \xe4\r\n");
    let written = latin(&["write", "a.txt", "--content", "tschüß\n"]).success();
    assert_eq!(written["warnings"].as_array().unwrap().len(), 1, "{written}");
    ws.holds("a.txt", b"tsch\xfc\xdf\n");
    latin(&["append", "new.txt", "--content", "é\n"]).ok();
    ws.holds("new.txt", b"\xe9\n");
    ws.lbx(&["undo", "--steps", "2"]).ok();
    ws.holds("a.txt", b"\xa7\r\ncr\xe8me \x93x\x94\r\nna\xefve\r\n\xd6l\r\nsechs \xe4\r\n");
}

#[test]
fn old_string_matches_whole_characters_of_the_named_encoding() {
    let ws = Workspace::with(&[]);
    // The second byte of two characters is that of a backslash.
    ws.write("a.c", shift_jis("表 ソ \"\\n\"\n計\n"));
    ws.lbx(&["read", "a.c"]).success();
    let edit = |old: &str, new: &str| {
        ws.json(
            "edit",
            &json!({"path": "a.c", "old_string": old, "new_string": new, "encoding": "shift_jis"}),
        )
    };
    edit("\\", "/").ok();
    ws.holds("a.c", shift_jis("表 ソ \"/n\"\n計\n"));
    edit("ソ", "計").ok();
    ws.holds("a.c", shift_jis("表 計 \"/n\"\n計\n"));
    let sketch =
        json!({"path": "a.c", "sketch": "表\n// ... existing code ...\n計\n", "encoding": "shift_jis"});
    ws.json("edit", &sketch).envelope();
    let error = ws
        .unchanged(|| ws.lbx(&["edit", "a.c", "--old-string", "計", "--new-string", "x"]).error("no_match"));
    let action = error["suggested_action"].as_str().unwrap();
    assert!(action.contains("The file is not UTF-8. Set `encoding` to find text beyond ASCII"), "{action}");
}

#[test]
fn character_that_the_encoding_does_not_have_is_named() {
    let ws = Workspace::with(&[("utf8.txt", "é\n")]);
    ws.write("a.txt", b"caf\xe9\n");
    ws.lbx(&["read", "a.txt", "utf8.txt"]).success();
    let calls: [&[&str]; 6] = [
        &["edit", "a.txt", "--old-string", "caf", "--new-string", "a\nb中"],
        &["insert", "a.txt", "1", "--content", "a\nb中"],
        &["append", "a.txt", "--content", "a\nb中"],
        &["write", "a.txt", "--content", "a\nb中"],
        &["append", "new.txt", "--content", "a\nb中"],
        &["edit", "a.txt", "--sketch", "a\nb中\n"],
    ];
    for call in calls {
        let error = ws.unchanged(|| {
            ws.lbx(&[call, &["--encoding", "windows-1252"]].concat()).error("unsupported_encoding")
        });
        let message = error["message"].as_str().unwrap();
        assert!(
            message.starts_with("line 2 of the new text has `中` (U+4E2D), which windows-1252 does not have"),
            "{message}"
        );
    }
    ws.unchanged(|| {
        let refused = |path: &str, encoding: &str| {
            let edit = ["edit", path, "--old-string", "a", "--new-string", "b", "--encoding", encoding];
            ws.lbx(&edit).error("unsupported_encoding")["message"].clone()
        };
        assert_eq!(refused("utf8.txt", "gbk"), "utf8.txt is utf-8, not GBK");
        assert_eq!(refused("a.txt", "gbk"), "line 1 of a.txt has bytes that GBK does not have, or has twice");
        ws.lbx(&["read", "a.txt", "--encoding", "gbk"]).error("unsupported_encoding");
        ws.lbx(&["read", "a.txt", "--encoding", "utf-16"]).error("invalid_request");
        for (tool, given, new) in [("append", "content", "content"), ("edit", "old_string", "new_string")] {
            let request = json!({"path": "a.txt", given: "x", new: "x", "encoding": "nonsense"});
            let error = ws.json(tool, &request).error("invalid_request");
            assert_eq!(error["details"]["field"], "encoding", "{error}");
        }
    });
}

#[test]
fn refusal_of_text_beyond_ascii_names_the_likely_encoding() {
    let ws = Workspace::with(&[]);
    ws.write("latin.txt", b"caf\xe9\n");
    ws.write("sjis.txt", shift_jis("表計\n"));
    ws.lbx(&["read", "latin.txt", "sjis.txt"]).success();
    for (path, likely) in [("latin.txt", "windows-1252"), ("sjis.txt", "Shift_JIS")] {
        let calls: [&[&str]; 3] = [
            &["append", path, "--content", "ü\n"],
            &["insert", path, "1", "--content", "ü\n"],
            &["edit", path, "--start-line", "1", "--end-line", "1", "--new-string", "ü"],
        ];
        for call in calls {
            let error = ws.unchanged(|| ws.lbx(call).error("unsupported_encoding"));
            let found = error["details"]["likely_encoding"].as_str().unwrap();
            assert!(found.starts_with(likely), "{found}");
            let action = error["suggested_action"].as_str().unwrap();
            assert!(action.contains("Set `encoding` to store it in the encoding of the file"), "{action}");
            assert!(action.ends_with(&format!("likely {found}.")), "{action}");
        }
    }
    // The named encoding is the remedy.
    ws.lbx(&["append", "latin.txt", "--content", "ü\n", "--encoding", "windows-1252"]).ok();
    ws.holds("latin.txt", b"caf\xe9\n\xfc\n");
    let warning = "latin.txt was not UTF-8 and is UTF-8 now. Set `encoding` to keep what it was";
    ws.lbx(&["write", "latin.txt", "--content", "é\n"]).warned(warning);
    ws.lbx(&["write", "latin.txt", "--content", "é\n\n", "--encoding", "latin1"])
        .warned("latin.txt was utf-8 and is windows-1252 now");
}
