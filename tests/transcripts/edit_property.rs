//! For any bytes in a file: a successful edit changes the lines that it names, and no other byte.

use std::ops::Range;

use lbx::sha256::Sha256;
use serde_json::{Value, json};

use crate::common::Workspace;
use crate::common::random::Random;

/// Number of files in a run.
const FILES: usize = 70;
/// Number of edits of each file.
const EDITS: usize = 2;

impl Random {
    /// Returns a line of random bytes, without its ending.
    fn line(&mut self) -> Vec<u8> {
        const PIECES: [&[u8]; 18] = [
            b"a",
            b"bc",
            b"x = 1;",
            b"}",
            b" ",
            b"    ",
            b"\t",
            b"  ",
            b"\xff\xfe",
            b"\xe9",
            b"\0",
            b"\r",
            "é“”’—\u{a0}".as_bytes(),
            "\u{2028}".as_bytes(),
            b"\\n\\\"",
            b"12: ",
            b"// ...",
            b"",
        ];
        (0..self.below(5)).flat_map(|_| (*self.of(&PIECES)).to_vec()).collect()
    }

    /// Returns a file of such lines, with endings of one or several kinds.
    fn file(&mut self) -> Vec<u8> {
        let ending: Option<&[u8]> = [Some(&b"\n"[..]), Some(b"\r\n"), None][self.below(3)];
        let mut file = Vec::new();
        for _ in 0..self.below(12) {
            file.extend(self.line());
            file.extend_from_slice(ending.unwrap_or_else(|| *self.of(&[&b"\n"[..], b"\r\n"])));
        }
        file.extend(self.line());
        file
    }
}

/// Returns the ranges of the lines, each with its ending.
fn lines(bytes: &[u8]) -> Vec<Range<usize>> {
    let terminator = if bytes.contains(&b'\n') { b'\n' } else { b'\r' };
    let mut start = 0;
    let lines = bytes.split_inclusive(|&byte| byte == terminator).map(|line| {
        let range = start..start + line.len();
        start = range.end;
        range
    });
    lines.collect()
}

/// Returns a request that names lines of the file in some way, often with a difference.
fn request(random: &mut Random, path: &str, bytes: &[u8]) -> Value {
    let all = lines(bytes);
    let first = random.below(all.len().max(1));
    let last = (first + random.below(3)).min(all.len().saturating_sub(1));
    let range = all.get(first).map_or(0, |line| line.start)..all.get(last).map_or(0, |line| line.end);
    let old = String::from_utf8_lossy(&bytes[range.clone()]).replace("\r\n", "\n");
    let new = (*random.of(&["", "new\n", "new\nlines", "a\r\nb\r\n", "\ttab\n", "$& \\1 %s"])).to_owned();
    let mut request = json!({
        "path": path, "new_string": new, "expected_sha256": Sha256::of(bytes).to_hex(), "allow_omission": true,
    });
    match random.below(6) {
        0 => {
            request["start_line"] = (first + 1).into();
            request["end_line"] = (last + 1).into();
            request["range_sha256"] = Sha256::of(&bytes[range]).to_hex().into();
        }
        1 => {
            request.as_object_mut().unwrap().remove("new_string");
            request["sketch"] = format!("// ... existing code ...\n{old}\n{new}").into();
        }
        kind => {
            request["match"] = "flexible".into();
            request["old_string"] = match kind {
                2 => old,
                3 => old.replace('\n', " \n"),
                4 => old.split_inclusive('\n').map(|line| format!("    {line}")).collect(),
                _ => old.replace(['“', '”'], "\""),
            }
            .into();
            if random.below(4) == 0 {
                request["replace_all"] = true.into();
            }
        }
    }
    request
}

/// Checks that all lines except those named in the answer are unchanged.
fn must_keep_other_lines(before: &[u8], after: &[u8], answer: &Value, request: &Value) {
    let new = lines(after);
    let replacements = answer["data"]["replacements"].as_array().unwrap();
    let edge = |pick: fn(&[Value]) -> Option<&Value>, field: &str| -> usize {
        pick(replacements).map_or(0, |place| usize::try_from(place[field].as_u64().unwrap()).unwrap())
    };
    // Everything before the first named line, and everything after the last.
    let head = new
        .get(edge(<[Value]>::first, "start_line").saturating_sub(1))
        .map_or(after.len(), |line| line.start);
    let tail = new.get(edge(<[Value]>::last, "end_line")).map_or(0, |line| after.len() - line.start);
    let message = || format!("{request}\n{answer}\n{before:?}\n{after:?}");
    assert!(
        before.starts_with(&after[..head.min(before.len())]) && head <= before.len(),
        "head: {}",
        message()
    );
    assert!(before.ends_with(&after[after.len() - tail..]), "tail: {}", message());
    assert!(head + tail <= before.len().max(after.len()), "both: {}", message());
}

#[test]
fn successful_edit_changes_only_the_reported_lines() {
    for seed in [0x9e37_79b9_7f4a_7c15_u64, 0x1234_5678_9abc_def1] {
        let mut random = Random::new(seed);
        let ws = Workspace::bare(&[]);
        let mut landed = 0;
        let mut files: Vec<Vec<u8>> = (0..FILES).map(|_| random.file()).collect();
        for (number, bytes) in files.iter().enumerate() {
            ws.write(&number.to_string(), bytes);
        }
        for _ in 0..EDITS {
            let requests: Vec<Value> = files
                .iter()
                .enumerate()
                .map(|(number, bytes)| request(&mut random, &number.to_string(), bytes))
                .collect();
            let calls: Vec<String> = requests
                .iter()
                .map(|request| json!({ "tool": "edit", "request": request }).to_string())
                .collect();
            let answers = ws.lbx_stdin(&["batch"], calls.join("\n")).lines();
            for (number, answer) in answers.iter().enumerate() {
                let after = ws.read_bytes(&number.to_string());
                if answer["ok"] == false {
                    assert_ne!(answer["error"]["kind"], "internal", "{answer}");
                    assert_eq!(after, files[number], "{answer}");
                    continue;
                }
                landed += 1;
                must_keep_other_lines(&files[number], &after, answer, &requests[number]);
                files[number] = after;
            }
        }
        assert!(landed * 4 > FILES * EDITS, "seed {seed:#x}: only {landed} edits landed");
    }
}

#[test]
fn edits_of_one_request_equal_single_edits_in_order() {
    // Words that contain each other, so that edits create and remove places of later ones.
    const WORDS: [&str; 8] = ["ab", "abc", "bc", "c\n", "a", "\nab", "cab", "x"];
    let mut random = Random::new(0x5851_f42d_4c95_7f2d);
    let ws = Workspace::bare(&[]);
    let (mut calls, mut wanted) = (Vec::new(), Vec::new());
    for number in 0..120 {
        let path = format!("many/{number}");
        let ending = *random.of(&["\n", "\r\n"]);
        let lines = (0..20 + random.below(20)).map(|_| {
            let words: String =
                (0..random.below(4)).map(|_| random.of(&WORDS).trim_end_matches('\n')).collect();
            words.replace('\n', "") + &random.below(90).to_string() + ending
        });
        let text: String = lines.collect();
        ws.write(&path, &text);
        // One by one, as the documentation describes it; an error leaves everything unchanged.
        let flat = text.replace("\r\n", "\n");
        let mut after = flat.clone();
        let mut edits = Vec::new();
        let mut is_refused = false;
        while edits.len() < 20 {
            let length = 1 + random.below(6);
            let start = random.below(after.len().max(length + 1) - length);
            let old = if random.below(12) == 0 {
                WORDS[random.below(8)].to_owned()
            } else {
                after.get(start..start + length).unwrap_or("a").to_owned()
            };
            let new: String = (0..random.below(3)).map(|_| WORDS[random.below(8)]).collect();
            let all = random.below(6) == 0;
            if old == new || old.is_empty() {
                continue;
            }
            let places = (0..after.len()).filter(|&at| after[at..].starts_with(&old)).count();
            // Errors must be rare, or no list would succeed.
            let lands = places == 1 || (all && places > 0);
            if !lands && (is_refused || random.below(40) > 0) {
                continue;
            }
            is_refused |= !lands;
            after = if all { after.replace(&old, &new) } else { after.replacen(&old, &new, 1) };
            edits.push(json!({ "old_string": old, "new_string": new, "replace_all": all }));
        }
        let after = if is_refused { flat } else { after }.replace('\n', ending);
        wanted.push((path.clone(), after));
        let request =
            json!({ "path": path, "edits": edits, "expected_sha256": Sha256::of(text.as_bytes()).to_hex() });
        calls.push(json!({ "tool": "edit", "request": request }).to_string());
    }
    let answers = ws.lbx_stdin(&["batch"], calls.join("\n")).lines();
    for (((path, after), answer), call) in wanted.iter().zip(&answers).zip(&calls) {
        let held = String::from_utf8(ws.read_bytes(path)).unwrap();
        assert_eq!(&held, after, "{call}\n{answer}");
    }
    let landed = answers.iter().filter(|answer| answer["ok"] == true).count();
    assert!(landed > 40 && landed < 120, "{landed}");
}
