//! The story of a session, for a terminal.

use super::{File, Response, ReviewedChange};
use crate::text::counted::counted;
use crate::text::escaped;
use crate::tools::{Paint, Text};

/// Digits of an id.
const ID_DIGITS: usize = 10;
/// Files that were only read, as far as they are named.
const READ_NAMED: usize = 20;

/// Adds the story to `text`.
pub fn tell(response: &Response, text: &mut Text) {
    if let Some(path) = &response.html {
        text.name(path);
        text.out.push(text.separator);
    }
    if !response.changes.is_empty() || response.html.is_none() {
        head(response, text);
        response.changes.iter().for_each(|change| tell_change(change, &response.session, text));
        tail(response, text);
    }
    if let Some(next) = response.next_offset {
        text.note(format!("more changes: {}", text.option("offset", next)));
    }
}

/// The numbers.
fn head(response: &Response, text: &mut Text) {
    let totals = &response.totals;
    let times = match (&response.began, &response.ended) {
        (Some(began), Some(ended)) => format!(", {began} to {ended}"),
        _ => String::new(),
    };
    let session = format!("session {}", response.session);
    let session = text.paint(Paint::Bold, &session);
    let (changes, files) = (counted(totals.changes, "change"), counted(totals.files, "file"));
    let (came, went) = (totals.insertions, totals.deletions);
    text.styled(&format!("{session}: {changes}, {files} (+{came} -{went}){times}"));
    let mut beside = Vec::new();
    for (count, what) in [
        (totals.undone, "undone"),
        (totals.refused, "refused"),
        (totals.developer, "by the developer in between"),
    ] {
        if count > 0 {
            beside.push(format!("{count} {what}"));
        }
    }
    if !beside.is_empty() {
        text.line(&beside.join(", "));
    }
}

/// One change.
fn tell_change(change: &ReviewedChange, session: &str, text: &mut Text) {
    let id: String = change.snapshot.iter().flat_map(|id| id.chars()).take(ID_DIGITS).collect();
    let number = change.seq.map_or_else(|| "-".to_owned(), |seq| format!("#{seq}"));
    let who = if change.by == "session" { session } else { change.by };
    let id = text.paint(Paint::Yellow, &format!("{id:ID_DIGITS$}"));
    let subject = text.paint(Paint::Bold, &escaped::line(&change.subject));
    let gate = change.gate.as_ref().map(|gate| format!(" [gate {gate}]")).unwrap_or_default();
    let undone = match (change.undone_by, change.undone_in_part_by.as_slice()) {
        (Some(by), _) => format!(" [undone by #{by}]"),
        (None, []) => String::new(),
        (None, parts) => {
            let parts: Vec<String> = parts.iter().map(|seq| format!("#{seq}")).collect();
            format!(" [undone in part by {}]", parts.join(", "))
        }
    };
    let marks = text.paint(Paint::Red, &format!("{gate}{undone}"));
    text.out.push(b'\n');
    text.styled(&format!("{number} {id} {} {who} {subject}{marks}", change.time));
    if let Some(why) = &change.why {
        why.lines().for_each(|line| text.line(&format!("    {line}")));
    }
    if let Some(undo) = &change.undo {
        let undo = text.paint(Paint::Dim, &format!("    {}", escaped::line(undo)));
        text.styled(&undo);
    }
    change.files.iter().for_each(|file| tell_file(file, text));
}

/// One file of a change.
fn tell_file(file: &File, text: &mut Text) {
    if let Some(diff) = &file.diff {
        text.diff(diff.as_bytes());
        return;
    }
    let amount = match (file.insertions, file.deletions) {
        (Some(insertions), Some(deletions)) => format!("+{insertions} -{deletions}"),
        _ => "binary".to_owned(),
    };
    let from = file.from.as_ref().map(|from| format!("{} => ", escaped::name(from)));
    let (sign, name) = (file.action.sign(), escaped::name(&file.path));
    text.line(&format!("  {sign} {}{name} ({amount})", from.unwrap_or_default()));
}

/// What was refused, and what was only read.
fn tail(response: &Response, text: &mut Text) {
    if !response.refused.is_empty() {
        text.out.push(b'\n');
        let heading = text.paint(Paint::Bold, "refused");
        text.styled(&heading);
        for refused in &response.refused {
            let path = refused.path.as_deref().unwrap_or_default();
            let (tool, kind) = (&refused.tool, &refused.kind);
            let name = escaped::name(path);
            text.line(&format!("  {} {tool} {name} {kind}: {}", refused.time, refused.message));
        }
    }
    if !response.read.is_empty() {
        text.out.push(b'\n');
        let heading = text.paint(Paint::Bold, "read, not changed");
        text.styled(&heading);
        for path in response.read.iter().take(READ_NAMED) {
            text.line(&format!("  {}", escaped::name(path)));
        }
        let more = response.read.len().saturating_sub(READ_NAMED);
        if more > 0 {
            text.line(&format!("  and {more} more"));
        }
    }
}
