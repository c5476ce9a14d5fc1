//! Edits that name lines by the numbers last shown, compared with a model that follows each line.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::client::{Client, Workspace};

/// Number of histories in a run, unless `LBX_HISTORIES` sets it.
const HISTORIES: u64 = 60;
/// Number of histories in one session, which reads the records of all its files for each call.
const SESSION: u64 = 100;
/// Texts that occur repeatedly.
const COMMON: [&str; 4] = ["}", "    return;", "", "    x += 1;"];

/// A line of the model's file.
#[derive(Clone, PartialEq)]
struct Line {
    /// Identity of the line; every change gives it a new one.
    id: u64,
    /// Text of the line.
    text: String,
}

/// One history of a file.
struct History {
    random: Random,
    lines: Vec<Line>,
    next: u64,
    /// Line last shown under each number.
    shown: BTreeMap<usize, u64>,
    path: String,
    story: String,
}

/// Random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end.max(1)
    }
}

impl History {
    fn new(seed: u64) -> Self {
        let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let path = format!("f{seed}.txt");
        let mut history =
            Self { random, lines: Vec::new(), next: 0, shown: BTreeMap::new(), path, story: String::new() };
        for _ in 0..8 + history.random.below(30) {
            let line = history.line();
            history.lines.push(line);
        }
        history
    }

    /// Returns a new line, often with a text that already exists.
    fn line(&mut self) -> Line {
        if self.random.below(3) == 0 { self.unique_line() } else { self.common_line() }
    }

    fn common_line(&mut self) -> Line {
        let text = COMMON[self.random.below(COMMON.len())].to_owned();
        Line { id: self.next_id(), text }
    }

    const fn next_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn unique_line(&mut self) -> Line {
        self.next += 1;
        Line { id: self.next, text: format!("line {}", self.next) }
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "{}", line.text);
            text
        })
    }

    /// Returns two ordered line numbers, of current or former lines.
    fn span(&mut self) -> (usize, usize) {
        let first = 1 + self.random.below(self.lines.len() + 2);
        (first, first + self.random.below(4))
    }

    /// Returns the current position of lines that were shown under consecutive numbers; `None` if one was deleted or
    /// they are no longer adjacent.
    fn placed(&self, first: usize, last: usize) -> Option<usize> {
        let place = |number: usize| {
            let id = self.shown.get(&number)?;
            self.lines.iter().position(|line| line.id == *id)
        };
        let start = place(first)?;
        (first..=last).enumerate().all(|(at, number)| place(number) == Some(start + at)).then_some(start)
    }

    /// Changes lines as another program does, with unique texts: a repeated text does not tell two places apart.
    fn foreign(&mut self, ws: &Workspace) {
        let at = self.random.below(self.lines.len() + 1);
        let line = self.unique_line();
        match self.random.below(3) {
            0 => self.lines.insert(at, line),
            1 if at < self.lines.len() && self.lines[at].text.starts_with("line ") => {
                self.lines.remove(at);
            }
            _ if at < self.lines.len() && self.lines[at].text.starts_with("line ") => self.lines[at] = line,
            _ => self.lines.insert(at, line),
        }
        ws.write(&self.path, &Self::text(&self.lines));
        let _ = writeln!(self.story, "foreign at {at}");
    }

    fn read(&mut self, client: &mut Client) {
        let first = 1 + self.random.below(self.lines.len().max(1));
        let last = if self.random.below(2) == 0 { self.lines.len() } else { first + self.random.below(12) };
        let first = if self.random.below(2) == 0 { 1 } else { first };
        let last = last.clamp(first, self.lines.len().max(first));
        let _ = writeln!(self.story, "read {first}-{last}");
        client.ok("read", &json!({ "path": self.path, "start_line": first, "end_line": last }));
        self.show(first, last);
    }

    fn show(&mut self, first: usize, last: usize) {
        for number in first..=last.min(self.lines.len()) {
            self.shown.insert(number, self.lines[number - 1].id);
        }
    }

    /// Marks the lines that an error shows as shown.
    fn shown_by(&mut self, refusal: &Value) {
        let said = refusal.to_string();
        let text = refusal["content"][0]["text"].as_str().unwrap();
        let error: Value = serde_json::from_str(text).unwrap();
        let Some(lines) = error["details"]["lines"].as_str() else { panic!("{said}\n{}", self.story) };
        for line in lines.lines() {
            let (number, text) = line.split_once('\t').unwrap();
            let number: usize = number.parse().unwrap();
            assert_eq!(self.lines[number - 1].text, text, "{said}\n{}", self.story);
            self.show(number, number);
        }
    }

    /// Returns new lines that repeat no adjacent line.
    fn new_lines(&mut self, count: usize) -> Vec<Line> {
        let mut new: Vec<Line> = (0..count).map(|_| self.line()).collect();
        for at in [0, count.saturating_sub(1)] {
            if let Some(line) = new.get_mut(at) {
                *line = self.unique_line();
            }
        }
        new
    }

    fn edit(&mut self, client: &mut Client) {
        let (first, last) = self.span();
        let count = self.random.below(4);
        let new = self.new_lines(count);
        let _ = writeln!(self.story, "edit {first}-{last} to {count}");
        let request = json!({ "path": self.path, "start_line": first, "end_line": last, "new_string": Self::text(&new) });
        let answer = client.call("edit", &request);
        let is_error = answer["isError"] == true;
        if answer["structuredContent"]["match"] == "already_applied" {
            // The request is the same as before.
            return;
        }
        if let Some(start) = self.placed(first, last) {
            assert!(!is_error, "refused: {answer}\n{}\n{}", self.story, Self::text(&self.lines));
            self.lines.splice(start..=start + last - first, new);
        } else {
            assert!(is_error, "made: {answer}\n{}\n{}", self.story, Self::text(&self.lines));
            self.shown_by(&answer);
        }
    }

    /// Returns one to three spans of present lines, apart from each other, with the number of new lines for each.
    fn spans(&mut self) -> Vec<(usize, usize, usize)> {
        let (mut spans, mut at) = (Vec::new(), 0);
        for _ in 0..=self.random.below(3) {
            let first = at + 1 + self.random.below(5);
            let last = first + self.random.below(3);
            if last <= self.lines.len() {
                spans.push((first, last, self.random.below(4)));
            }
            at = last + 1;
        }
        spans
    }

    /// Replaces present lines in the model; equal lines at both ends of a span are the old ones.
    fn replace(&mut self, first: usize, last: usize, mut new: Vec<Line>) {
        let old = self.lines[first - 1..last].to_vec();
        let head = old.iter().zip(&new).take_while(|(old, new)| old.text == new.text).count();
        let rest = old.len().min(new.len()) - head;
        let pairs = old.iter().rev().zip(new.iter().rev()).take(rest);
        let tail = pairs.take_while(|(old, new)| old.text == new.text).count();
        new[..head].clone_from_slice(&old[..head]);
        let end = new.len();
        new[end - tail..].clone_from_slice(&old[old.len() - tail..]);
        self.lines.splice(first - 1..last, new);
    }

    /// Replaces several lines in one call, by a diff without context or by text: the result alone does not show which
    /// of several equal lines are the old ones.
    fn several(&mut self, client: &mut Client) {
        let mut changes = Vec::new();
        for (first, last, count) in self.spans() {
            let new: Vec<Line> = (0..count).map(|_| self.line()).collect();
            changes.push((first, last, new));
        }
        let (mut hunks, mut edits, mut grown) = (String::new(), Vec::new(), 0_isize);
        for (first, last, new) in &changes {
            let old = &self.lines[first - 1..*last];
            let (old, now) = (Self::text(old), Self::text(new));
            let start = first.strict_add_signed(grown) - usize::from(new.is_empty());
            let _ = writeln!(hunks, "@@ -{first},{} +{start},{} @@", last + 1 - first, new.len());
            for line in old.lines() {
                let _ = writeln!(hunks, "-{line}");
            }
            for line in now.lines() {
                let _ = writeln!(hunks, "+{line}");
            }
            edits
                .push(json!({ "old_string": old, "new_string": now, "start_line": first, "end_line": last }));
            grown += new.len().cast_signed() - (last + 1 - first).cast_signed();
        }
        let _ = writeln!(self.story, "several {hunks}");
        let answer = if self.random.below(2) == 0 {
            client.call("edit", &json!({ "path": self.path, "edits": edits }))
        } else {
            let diff = format!("--- {0}\n+++ {0}\n{hunks}", self.path);
            client.call("patch", &json!({ "patch": diff }))
        };
        // Others may have changed the file, or an edit changes nothing.
        if answer["isError"] != true {
            for (first, last, new) in changes.into_iter().rev() {
                self.replace(first, last, new);
            }
        }
    }

    /// Sends several edits by line as a patch, some of which move lines.
    fn patch(&mut self, client: &mut Client) {
        let mut text = format!("[{}]\n", self.path);
        // Numbers of the lines, and the new ones; of a gap, the last is before the first.
        let mut edits: Vec<(usize, usize, Vec<Line>)> = Vec::new();
        for at in 0..=self.random.below(3) {
            let (first, last) = self.span();
            let gap = self.span().0;
            let is_gap = self.placed(gap, gap + 1).is_some();
            match self.random.below(4) {
                0 if is_gap => {
                    let _ = writeln!(text, "CUT {first}.={last} @r{at}\nPUT >{gap} @r{at}");
                    let cut = self
                        .placed(first, last)
                        .map(|start| self.lines[start..=start + last - first].to_vec());
                    let pasted =
                        cut.unwrap_or_default().into_iter().map(|line| Line { id: self.next_id(), ..line });
                    let pasted = pasted.collect();
                    edits.extend([(first, last, Vec::new()), (gap + 1, gap, pasted)]);
                }
                1 if is_gap => {
                    let line = self.unique_line();
                    let _ = writeln!(text, "PUT >{gap}:\n+{}", line.text);
                    edits.push((gap + 1, gap, vec![line]));
                }
                2 => {
                    let _ = writeln!(text, "CUT {first}-{last}");
                    edits.push((first, last, Vec::new()));
                }
                _ => {
                    let count = 1 + self.random.below(3);
                    let new = self.new_lines(count);
                    let _ = writeln!(text, "PUT {first}.={last}:");
                    for line in &new {
                        let _ = writeln!(text, "+{}", line.text);
                    }
                    edits.push((first, last, new));
                }
            }
        }
        let _ = writeln!(self.story, "patch {text}");
        let answer = client.call("patch", &json!({ "patch": text }));
        let is_error = answer["isError"] == true;
        if answer["structuredContent"]["files"][0]["action"] == "already_applied" {
            return;
        }
        let place = |(first, last, new): &(usize, usize, Vec<Line>)| {
            let is_gap = first > last;
            let start = if is_gap { self.placed(*last, *last)? + 1 } else { self.placed(*first, *last)? };
            Some((start, start + last + 1 - first, new.clone()))
        };
        let mut places: Vec<_> = edits.iter().map(place).collect();
        let spans = |edits: &mut dyn Iterator<Item = (usize, usize)>| {
            let mut spans: Vec<_> = edits.collect();
            spans.sort_unstable();
            let mut end = 0;
            spans.iter().all(|&(from, to)| {
                let before = end;
                end = end.max(to);
                before <= from
            })
        };
        let are_apart = spans(&mut edits.iter().map(|(first, last, _)| (first - 1, *last)))
            && spans(&mut places.iter().flatten().map(|(start, end, _)| (*start, *end)));
        if !are_apart {
            assert!(is_error, "made: {answer}\n{}\n{}", self.story, Self::text(&self.lines));
            if answer["content"][0]["text"].as_str().is_some_and(|text| text.contains("\"lines\"")) {
                self.shown_by(&answer);
            }
        } else if places.iter().all(Option::is_some) {
            assert!(!is_error, "refused: {answer}\n{}\n{}", self.story, Self::text(&self.lines));
            places.sort_by_key(|place| place.as_ref().map(|(start, end, _)| (*start, *end)));
            for (start, end, new) in places.into_iter().flatten().rev() {
                self.lines.splice(start..end, new);
            }
        } else {
            assert!(is_error, "made: {answer}\n{}\n{}", self.story, Self::text(&self.lines));
            self.shown_by(&answer);
        }
    }

    fn insert(&mut self, client: &mut Client) {
        let after = self.random.below(self.lines.len() + 1);
        let line = self.unique_line();
        let _ = writeln!(self.story, "insert after {after}");
        let answer =
            client.call("insert", &json!({ "path": self.path, "line": after, "content": line.text }));
        let is_refused = answer["isError"] == true;
        let (before, behind) = (self.placed(after, after), self.placed(after + 1, after + 1));
        let at = match (before, behind) {
            _ if after == 0 => Some(0),
            (Some(before), _) => Some(before + 1),
            // The line before it was deleted; the one after it marks the place.
            (None, behind) => behind.filter(|_| self.shown.contains_key(&after)),
        };
        let is_free = after > 0 && at.is_some() && self.shown.contains_key(&(after + 1));
        if is_refused {
            assert!(!is_free, "refused: {answer}\n{}", self.story);
            self.shown_by(&answer);
        } else {
            // If the session changed both lines itself, the current file counts.
            self.lines.insert(at.unwrap_or(after), line);
        }
    }

    fn replace_text(&mut self, client: &mut Client) {
        let unique: Vec<usize> =
            (0..self.lines.len()).filter(|at| self.lines[*at].text.starts_with("line ")).collect();
        if unique.is_empty() {
            return;
        }
        let at = unique[self.random.below(unique.len())];
        let line = self.unique_line();
        let _ = writeln!(self.story, "replace {}", self.lines[at].text);
        let (old, new) = (format!("{}\n", self.lines[at].text), format!("{}\n", line.text));
        let request = json!({ "path": self.path, "old_string": old, "new_string": new, "rebase": true });
        let answer = client.call("edit", &request);
        if answer["isError"] != true {
            self.lines[at] = line;
        }
    }

    fn check(&self, ws: &Workspace) {
        let found = std::fs::read_to_string(ws.path(&self.path)).unwrap();
        assert_eq!(found, Self::text(&self.lines), "{}", self.story);
    }
}

#[test]
fn several_changes_in_one_call_move_each_line_where_they_were_made() {
    let text = "a\n}\n}\nb\n}\n}\nc\n";
    let diff = "--- f\n+++ f\n@@ -2 +1,0 @@\n-}\n@@ -6 +4,0 @@\n-}\n";
    let edits = json!([
        { "old_string": "a\n}\n", "new_string": "a\n" }, { "old_string": "}\nc", "new_string": "c" }
    ]);
    for (tool, request) in
        [("patch", json!({ "patch": diff })), ("edit", json!({ "path": "f", "edits": edits }))]
    {
        let ws = Workspace::with(&[("f", text)]);
        let mut client = ws.serve(&[]);
        client.ok("read", &json!({ "path": "f" }));
        client.ok(tool, &request);
        ws.holds("f", "a\n}\nb\n}\nc\n");
        // The braces of lines 3 and 5 are left, whichever a comparison would choose.
        client.ok("edit", &json!({ "path": "f", "start_line": 3, "end_line": 3, "new_string": "three" }));
        client.ok("edit", &json!({ "path": "f", "start_line": 5, "end_line": 5, "new_string": "five" }));
        ws.holds("f", "a\nthree\nb\nfive\nc\n");
        for gone in [2, 6] {
            let again = json!({ "path": "f", "start_line": gone, "end_line": gone, "new_string": "x" });
            assert_eq!(client.call("edit", &again)["isError"], true, "line {gone} after {tool}");
        }
    }
}

#[test]
fn text_in_front_of_its_like_moves_the_lines_down() {
    let ws = Workspace::with(&[("f", "}\na\n")]);
    let mut client = ws.serve(&[]);
    client.ok("read", &json!({ "path": "f" }));
    client.ok("prepend", &json!({ "path": "f", "content": "}\n" }));
    client.ok("edit", &json!({ "path": "f", "start_line": 1, "end_line": 1, "new_string": "one" }));
    ws.holds("f", "}\none\na\n");
}

#[test]
fn line_number_of_an_edit_refers_to_the_line_shown() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, histories) =
        (number("LBX_RANDOM_SEED").unwrap_or(1), number("LBX_HISTORIES").unwrap_or(HISTORIES));
    let mut ws = Workspace::with(&[]);
    let mut client = ws.serve(&[]);
    for seed in first..first + histories {
        if seed % SESSION == 0 {
            drop(client);
            ws = Workspace::with(&[]);
            client = ws.serve(&[]);
        }
        let mut history = History::new(seed);
        ws.write(&history.path, &History::text(&history.lines));
        history.read(&mut client);
        for _ in 0..12 {
            match history.random.below(14) {
                0 => history.read(&mut client),
                1 | 2 => history.foreign(&ws),
                3 => history.insert(&mut client),
                4 => history.replace_text(&mut client),
                5 | 6 => history.several(&mut client),
                7 | 8 => history.patch(&mut client),
                _ => history.edit(&mut client),
            }
            history.check(&ws);
            if history.lines.is_empty() {
                break;
            }
        }
    }
}
