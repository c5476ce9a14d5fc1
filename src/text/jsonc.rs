//! Small changes to JSON with comments, the format of editor settings. All other bytes stay, comments and trailing
//! commas included.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::checked::{slice_or_empty, str_or_empty};
use crate::limits::JSONC_DEPTH_MAX;

/// Blanks of JSON (RFC 8259, section 2); any other blank belongs to the text next to it.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// Reason why a text could not be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonFault(pub String);

/// A member of an object, or an item of a list, by byte offsets.
#[derive(Debug, Clone)]
struct Member {
    /// Name; empty for an item.
    name: String,
    /// Start of its name, or of its value for an item.
    start: usize,
    /// Start of its value.
    value: usize,
    /// End of its value.
    end: usize,
    /// End of the comma after it.
    comma: Option<usize>,
}

/// An object or a list.
#[derive(Debug)]
struct Container {
    /// Offset of its opening bracket.
    start: usize,
    /// Offset of its closing bracket.
    close: usize,
    /// Its members or items.
    members: Vec<Member>,
}

/// Returns the text with `value` at `path`, whose names each lead into an object; missing objects are created.
///
/// # Errors
/// Fails if the text is not JSON with comments, or if the path leads through a value that is not an object.
pub fn set(text: &str, path: &[&str], value: &Value) -> Result<String, JsonFault> {
    let text = if is_blank(text) { "{}\n" } else { text };
    if let Some(member) = find(text, path)? {
        if plain(text, member.value, member.end) == Some(value.clone()) {
            return Ok(text.to_owned());
        }
        let indent = indent_at(text, member.start);
        return spliced(text, member.value, member.end, &pretty(value, &indent));
    }
    // The new member goes into the innermost object that is there.
    let mut value = value.clone();
    let mut outer = path;
    while let Some((name, parents)) = outer.split_last() {
        if let Some(object) = object(text, parents)? {
            return with_member(text, &object, Some(name), &value);
        }
        value = Value::Object(std::iter::once(((*name).to_owned(), value)).collect());
        outer = parents;
    }
    Err(JsonFault("no name is given".to_owned()))
}

/// Returns the text with `item` added to the list at `path`, unless an item of it contains `sign` outside its comments.
///
/// # Errors
/// Fails as [`set`] does, and if the value there is not a list.
pub fn add_item(text: &str, path: &[&str], sign: &str, item: &Value) -> Result<String, JsonFault> {
    match find(text, path)? {
        None => set(text, path, &Value::Array(vec![item.clone()])),
        Some(member) => {
            let list = container_at(text, member.value, b'[')?;
            if list.members.iter().any(|item| has_sign(text, item, sign)) {
                return Ok(text.to_owned());
            }
            with_member(text, &list, None, item)
        }
    }
}

/// Returns the text without the value at `path`, and without objects on the path that become empty; one with comments is
/// not empty.
///
/// # Errors
/// Fails if the text is not JSON with comments.
pub fn remove(text: &str, path: &[&str]) -> Result<String, JsonFault> {
    let Some((last, parents)) = path.split_last() else { return Ok(text.to_owned()) };
    let Some(parent) = object(text, parents)? else { return Ok(text.to_owned()) };
    let Some(at) = parent.members.iter().rposition(|member| member.name == *last) else {
        return Ok(text.to_owned());
    };
    let cuts = cuts(text, &parent, |index, _| index == at);
    if parent.is_emptied(text, &cuts) && !parents.is_empty() {
        return remove(text, parents);
    }
    Ok(without(text, 0..text.len(), cuts))
}

/// Returns the text without the items of the list at `path` that contain `sign` outside their comments; an empty list
/// is removed, too. Of a group, an object with a list `hooks`, only the items of that list are removed, and the group
/// if nothing is left in the list. Groups and lists with other comments stay.
///
/// # Errors
/// Fails if the text is not JSON with comments.
pub fn remove_items(text: &str, path: &[&str], sign: &str) -> Result<String, JsonFault> {
    let Some(list) = list(text, path)? else { return Ok(text.to_owned()) };
    let mut inner = Vec::new();
    let mut outer = cuts(text, &list, |_, item| {
        let group = container_at(text, item.value, b'{').ok();
        let hooks = group.and_then(|group| group.members.into_iter().rfind(|member| member.name == "hooks"));
        let hooks = hooks.and_then(|hooks| container_at(text, hooks.value, b'[').ok());
        let Some(hooks) = hooks else { return has_sign(text, item, sign) };
        let cuts = cuts(text, &hooks, |_, hook| has_sign(text, hook, sign));
        let is_emptied =
            hooks.is_emptied(text, &cuts) && !has_comment(&without(text, item.value..item.end, cuts.clone()));
        inner.extend(cuts.into_iter().filter(|_| !is_emptied));
        is_emptied
    });
    if list.is_emptied(text, &outer) {
        return remove(text, path);
    }
    outer.append(&mut inner);
    Ok(without(text, 0..text.len(), outer))
}

/// Returns the text with the value at `path` as `earlier` has it, or without it if `earlier` has none. A text without
/// the value stays.
///
/// # Errors
/// Fails if a text is not JSON with comments.
pub fn restore(text: &str, path: &[&str], earlier: &str) -> Result<String, JsonFault> {
    match (span(text, path)?, span(earlier, path)?) {
        (Some(now), Some(then)) => spliced(text, now.start, now.end, str_or_empty(earlier, then)),
        (Some(_), None) => remove(text, path),
        (None, _) => Ok(text.to_owned()),
    }
}

/// Returns the value at `path`. An object with comments becomes an empty list: only its presence is known.
///
/// # Errors
/// Fails if the text is not JSON with comments.
pub fn get(text: &str, path: &[&str]) -> Result<Option<Value>, JsonFault> {
    let Some(member) = find(text, path)? else { return Ok(None) };
    if let Some(value) = plain(text, member.value, member.end) {
        return Ok(Some(value));
    }
    let list = list(text, path)?;
    let items = list.iter().flat_map(|list| &list.members);
    Ok(Some(items.map(|item| plain(text, item.value, item.end).unwrap_or_default()).collect()))
}

/// Returns the byte range of the value at `path`.
///
/// # Errors
/// Fails if the text is not JSON with comments.
pub fn span(text: &str, path: &[&str]) -> Result<Option<Range<usize>>, JsonFault> {
    Ok(find(text, path)?.map(|member| member.value..member.end))
}

/// Returns the byte ranges of the items of the list at `path`; `None` if there is no list.
///
/// # Errors
/// Fails if the text is not JSON with comments.
pub fn items(text: &str, path: &[&str]) -> Result<Option<Vec<Range<usize>>>, JsonFault> {
    let range = |item: &Member| item.value..item.end;
    Ok(list(text, path)?.map(|list| list.members.iter().map(range).collect()))
}

/// Returns the text with `item`, which is JSON, inserted at index `at` of the list at `path`.
///
/// # Errors
/// Fails if there is no such list.
pub fn insert_item(text: &str, path: &[&str], at: usize, item: &str) -> Result<String, JsonFault> {
    let list = list(text, path)?.ok_or_else(|| JsonFault("there is no list to insert into".to_owned()))?;
    let own_line = |item: &Member| {
        let line_start = str_or_empty(text, ..item.start).rfind('\n').map(|at| at + 1)?;
        let indent = text.get(line_start..item.start)?;
        is_blank(indent).then(|| format!("\n{indent}"))
    };
    if let Some(next) = list.members.get(at) {
        let gap = own_line(next).unwrap_or_else(|| " ".to_owned());
        return spliced(text, next.start, next.start, &format!("{item},{gap}"));
    }
    if let Some(last) = list.members.last() {
        let gap = own_line(last).unwrap_or_else(|| " ".to_owned());
        return spliced(text, last.end, last.end, &format!(",{gap}{item}"));
    }
    let outer = indent_at(text, list.start);
    let between = if item.contains('\n') { format!("\n{outer} {item}\n{outer}") } else { item.to_owned() };
    spliced(text, list.start + 1, list.close, &between)
}

/// Returns the text without item `at` of the list at `path`, from 0.
///
/// # Errors
/// Fails if the text is not JSON with comments.
pub fn remove_item(text: &str, path: &[&str], at: usize) -> Result<String, JsonFault> {
    let cuts = list(text, path)?.map(|list| cuts(text, &list, |index, _| index == at));
    Ok(without(text, 0..text.len(), cuts.unwrap_or_default()))
}

/// Returns true if the text is an object without members and comments.
pub fn is_empty(text: &str) -> bool {
    text.chars().filter(|character| !BLANKS.contains(character)).eq(['{', '}']) || is_blank(text)
}

/// Returns true if a text has only blanks.
fn is_blank(text: &str) -> bool {
    text.trim_matches(BLANKS).is_empty()
}

/// Returns the member at a path.
fn find(text: &str, path: &[&str]) -> Result<Option<Member>, JsonFault> {
    let Some((last, parents)) = path.split_last() else { return Ok(None) };
    let member = |object: Container| object.members.into_iter().rev().find(|member| member.name == *last);
    Ok(object(text, parents)?.and_then(member))
}

/// Returns the object at a path; the empty path leads to the whole text.
fn object(text: &str, path: &[&str]) -> Result<Option<Container>, JsonFault> {
    if path.is_empty() {
        return if is_blank(text) { Ok(None) } else { top(text).map(Some) };
    }
    find(text, path)?.map(|member| container_at(text, member.value, b'{')).transpose()
}

/// Returns the list at a path; `None` if there is another value, or none.
fn list(text: &str, path: &[&str]) -> Result<Option<Container>, JsonFault> {
    Ok(find(text, path)?.and_then(|member| container_at(text, member.value, b'[').ok()))
}

/// Returns the object that the whole text is.
fn top(text: &str) -> Result<Container, JsonFault> {
    let mut scanner = Scanner { bytes: text.as_bytes(), at: 0 };
    if text.starts_with('\u{feff}') {
        scanner.at = 3;
    }
    scanner.skip()?;
    let found = scanner.container(b'{', 0)?;
    scanner.skip()?;
    if scanner.at < scanner.bytes.len() { Err(scanner.fault("more follows the object")) } else { Ok(found) }
}

/// Returns the object or list that begins at `at`.
fn container_at(text: &str, at: usize, open: u8) -> Result<Container, JsonFault> {
    let mut scanner = Scanner { bytes: text.as_bytes(), at };
    scanner.container(open, 0)
}

/// Parses a value as plain JSON; `None` if it has comments.
fn plain(text: &str, start: usize, end: usize) -> Option<Value> {
    serde_json::from_str(text.get(start..end)?).ok()
}

/// Returns a text with a part replaced.
fn spliced(text: &str, start: usize, end: usize, new: &str) -> Result<String, JsonFault> {
    let outside = || JsonFault("a place outside the text was meant".to_owned());
    let (before, after) = (text.get(..start).ok_or_else(outside)?, text.get(end..).ok_or_else(outside)?);
    Ok(format!("{before}{}{after}", with_endings_of(text, new)))
}

/// Returns new text with the line endings of the text that it is inserted into.
fn with_endings_of<'n>(text: &str, new: &'n str) -> Cow<'n, str> {
    let is_crlf = text.split_once('\n').is_some_and(|(first, _)| first.ends_with('\r'));
    if is_crlf { Cow::Owned(new.replace("\r\n", "\n").replace('\n', "\r\n")) } else { Cow::Borrowed(new) }
}

/// Returns the blanks at the start of the line that contains a byte.
pub fn indent_at(text: &str, at: usize) -> String {
    let before = str_or_empty(text, ..at);
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.chars().take_while(|character| BLANKS.contains(character)).collect()
}

/// Formats a value over several lines, for a line that begins with `indent`.
fn pretty(value: &Value, indent: &str) -> String {
    format!("{value:#}").replace('\n', &format!("\n{indent}"))
}

/// Returns the text with one more member at the end of a container.
fn with_member(
    text: &str,
    container: &Container,
    name: Option<&str>,
    value: &Value,
) -> Result<String, JsonFault> {
    let name = name.map(|name| format!("{}: ", Value::from(name))).unwrap_or_default();
    let has_break = |range: Range<usize>| text.get(range).is_some_and(|part| part.contains('\n'));
    let last = container.members.last();
    if let Some(last) = last.filter(|_| !has_break(container.start..container.close)) {
        return match last.comma {
            Some(comma) => spliced(text, comma, comma, &format!(" {name}{value},")),
            None => spliced(text, last.end, last.end, &format!(", {name}{value}")),
        };
    }
    let outer = indent_at(text, container.start);
    let indent = match last.filter(|last| has_break(container.start..last.start)) {
        Some(last) => indent_at(text, last.start),
        None => format!("{outer}  "),
    };
    // In a file with trailing commas, the new last member has one, too.
    let comma = if last.is_some_and(|last| last.comma.is_some()) { "," } else { "" };
    let member = format!("\n{indent}{name}{}{comma}", pretty(value, &indent));
    let body_end = str_or_empty(text, ..container.close).trim_end_matches(BLANKS).len();
    let with = if has_break(body_end..container.close) {
        spliced(text, body_end, body_end, &member)?
    } else {
        spliced(text, body_end, container.close, &format!("{member}\n{outer}"))?
    };
    match last.filter(|last| last.comma.is_none()) {
        Some(last) => spliced(&with, last.end, last.end, ","),
        None => Ok(with),
    }
}

impl Container {
    /// Returns true if cuts leave nothing of what was in it; a comment is something.
    fn is_emptied(&self, text: &str, cuts: &[Range<usize>]) -> bool {
        let left = without(text, self.start + 1..self.close, cuts.to_vec());
        !cuts.is_empty() && is_blank(&left)
    }
}

/// Returns the parts of a text to cut for some members of a container, the last one first: each with its comma and the
/// blanks before it. Comments between members stay.
fn cuts(
    text: &str,
    container: &Container,
    mut is_cut: impl FnMut(usize, &Member) -> bool,
) -> Vec<Range<usize>> {
    let mut cuts: Vec<Range<usize>> = Vec::new();
    // The last member may have no comma, so a new last one must have none.
    let mut is_without_comma = false;
    for (at, member) in container.members.iter().enumerate().rev() {
        let is_last = at + 1 == container.members.len();
        if !is_cut(at, member) {
            let comma = member.comma.filter(|_| std::mem::take(&mut is_without_comma));
            cuts.extend(comma.map(|comma| comma - 1..comma));
            continue;
        }
        is_without_comma |= is_last && member.comma.is_none();
        let mut end = member.comma.unwrap_or(member.end);
        if let Some(comma) = member.comma.filter(|comma| !is_blank(str_or_empty(text, member.end..comma - 1)))
        {
            cuts.push(comma - 1..comma);
            end = member.end;
        }
        let end = cuts.pop_if(|next| next.start == end).map_or(end, |next| next.end);
        let previous = at.checked_sub(1).and_then(|before| container.members.get(before));
        let follows = previous.map_or(container.start + 1, |before| before.comma.unwrap_or(before.end));
        let before = str_or_empty(text, ..member.start).trim_end_matches(BLANKS).len();
        // The line break at the end of a comment may be the only thing between it and what follows.
        let line = str_or_empty(text, end..).trim_start_matches([' ', '\t', '\r']);
        let ends_comment = before > follows && !line.starts_with('\n');
        cuts.push(if ends_comment { member.start } else { before }..end);
    }
    cuts
}

/// Returns a part of a text without what is cut from it.
fn without(text: &str, part: Range<usize>, mut cuts: Vec<Range<usize>>) -> String {
    cuts.sort_by_key(|cut| cut.start);
    let mut left = String::new();
    let mut start = part.start;
    for cut in cuts {
        left.push_str(str_or_empty(text, start..cut.start));
        start = cut.end;
    }
    left + str_or_empty(text, start..part.end)
}

/// Returns true if a member contains `sign`, outside its comments.
fn has_sign(text: &str, member: &Member, sign: &str) -> bool {
    let value = str_or_empty(text, member.value..member.end);
    value.contains(sign) && bare(value).contains(sign)
}

/// Returns true if there is a comment in or between some values.
fn has_comment(values: &str) -> bool {
    let slashes = |text: &str| text.matches('/').count();
    slashes(values) > slashes(&bare(values))
}

/// Returns values without the blanks and comments outside their strings.
fn bare(values: &str) -> String {
    let mut scanner = Scanner { bytes: values.as_bytes(), at: 0 };
    let mut bare = String::new();
    while scanner.skip().is_ok()
        && let Some(byte) = scanner.peek()
    {
        let start = scanner.at;
        if byte != b'"' {
            scanner.at += 1;
        } else if scanner.text().is_err() {
            break;
        }
        bare.push_str(str_or_empty(values, start..scanner.at));
    }
    bare
}

/// Reads JSON with comments.
struct Scanner<'t> {
    /// The text.
    bytes: &'t [u8],
    /// The next byte.
    at: usize,
}

impl Scanner<'_> {
    /// Returns the next byte.
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Returns a fault with the line of the error.
    fn fault(&self, what: &str) -> JsonFault {
        let before = slice_or_empty(self.bytes, ..self.at);
        JsonFault(format!("line {}: {what}", 1 + memchr::memchr_iter(b'\n', before).count()))
    }

    /// Skips blanks and comments.
    fn skip(&mut self) -> Result<(), JsonFault> {
        loop {
            match (self.peek(), self.bytes.get(self.at + 1)) {
                (Some(b' ' | b'\t' | b'\r' | b'\n'), _) => self.at += 1,
                (Some(b'/'), Some(b'/')) => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.at += 1;
                    }
                }
                (Some(b'/'), Some(b'*')) => {
                    let rest = slice_or_empty(self.bytes, self.at + 2..);
                    let end = rest.windows(2).position(|pair| pair == b"*/");
                    self.at += 4 + end.ok_or_else(|| self.fault("a comment does not end"))?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Skips a string and returns its value.
    fn text(&mut self) -> Result<String, JsonFault> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'\\') => self.at += 2,
                Some(b'"') => break,
                Some(byte) if byte >= 0x20 => self.at += 1,
                _ => return Err(self.fault("a text does not end")),
            }
        }
        self.at += 1;
        let raw = slice_or_empty(self.bytes, start..self.at);
        serde_json::from_slice(raw).map_err(|_| self.fault("a text is not valid"))
    }

    /// Skips a value.
    fn value(&mut self, depth: usize) -> Result<(), JsonFault> {
        match self.peek() {
            Some(b'"') => self.text().map(drop),
            Some(open @ (b'{' | b'[')) => self.container(open, depth + 1).map(drop),
            _ => {
                let start = self.at;
                while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) {
                    self.at += 1;
                }
                let word = slice_or_empty(self.bytes, start..self.at);
                let is_value = serde_json::from_slice::<Value>(word).is_ok();
                if is_value { Ok(()) } else { Err(self.fault("a value was expected")) }
            }
        }
    }

    /// Skips an object or a list and returns it.
    fn container(&mut self, open: u8, depth: usize) -> Result<Container, JsonFault> {
        let (what, close) = if open == b'{' { ("an object", b'}') } else { ("a list", b']') };
        if self.peek() != Some(open) {
            return Err(self.fault(&format!("{what} was expected")));
        }
        if depth > JSONC_DEPTH_MAX {
            return Err(self.fault("the nesting is too deep"));
        }
        let start = self.at;
        self.at += 1;
        let mut members: Vec<Member> = Vec::new();
        loop {
            self.skip()?;
            if self.peek() == Some(close) {
                let close = self.at;
                self.at += 1;
                return Ok(Container { start, close, members });
            }
            if members.last().is_some_and(|last| last.comma.is_none()) {
                return Err(self.fault("a comma was expected"));
            }
            members.push(self.member(open, depth)?);
        }
    }

    /// Skips a member or an item, and the comma after it, and returns it.
    fn member(&mut self, open: u8, depth: usize) -> Result<Member, JsonFault> {
        let start = self.at;
        let mut name = String::new();
        if open == b'{' {
            if self.peek() != Some(b'"') {
                return Err(self.fault("a name in quotes was expected"));
            }
            name = self.text()?;
            self.skip()?;
            if self.peek() != Some(b':') {
                return Err(self.fault("a colon was expected"));
            }
            self.at += 1;
            self.skip()?;
        }
        let value = self.at;
        self.value(depth)?;
        let end = self.at;
        self.skip()?;
        let comma = (self.peek() == Some(b',')).then(|| {
            self.at += 1;
            self.at
        });
        if comma.is_none() {
            self.at = end;
        }
        Ok(Member { name, start, value, end, comma })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn setting_and_removing_a_key_restores_the_text() {
        let value = json!({ "command": "lbx", "args": ["mcp"] });
        for text in [
            "{\n  // mine\n  \"servers\": {\n    \"other\": { \"command\": \"x\" } // stays\n  },\n  \"x\": [1, 2,],\n}\n",
            "{\n\t\"servers\": {\n\t\t\"other\": {},\n\t},\n}",
            "{\"a\":1}",
            "{ \"a\": 1, }\n",
            "{ \"servers\": { \"other\": {} } }\n",
            "{\n  \"servers\": {\n    \"other\": {} // a vertical tab ends it \u{b}\n  }\n}\n",
            "{\n  \"a\": \"/* no comment */\", /* one */\n  \"b\": null\n}\n",
        ] {
            let with = set(text, &["servers", "lbx"], &value).unwrap();
            assert!(with.contains("\"lbx\""), "{with}");
            assert_eq!(set(&with, &["servers", "lbx"], &value).unwrap(), with);
            assert_eq!(get(&with, &["servers", "lbx"]).unwrap(), Some(value.clone()));
            let without = remove(&with, &["servers", "lbx"]).unwrap();
            assert_eq!(without, text, "{with}");
            let crlf = text.replace('\n', "\r\n");
            let with_crlf = set(&crlf, &["servers", "lbx"], &value).unwrap();
            assert_eq!(with_crlf, if crlf == text { with } else { with.replace('\n', "\r\n") });
        }
    }

    #[test]
    fn set_in_an_empty_text_creates_an_object() {
        let value = json!("v");
        let with = set("", &["a", "b"], &value).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&with).unwrap(), json!({ "a": { "b": "v" } }));
        assert!(is_empty(&remove(&with, &["a", "b"]).unwrap()), "{with}");
    }

    #[test]
    fn list_item_is_added_once_and_removed_alone() {
        let item = json!({ "command": "lbx session compact" });
        let text = "{\n  \"hooks\": { \"Start\": [ { \"command\": \"mine\" } ] }\n}\n";
        let path = ["hooks", "Start"];
        let with = add_item(text, &path, "lbx session", &item).unwrap();
        assert_eq!(add_item(&with, &path, "lbx session", &item).unwrap(), with);
        let value: Value = serde_json::from_str(&with).unwrap();
        assert_eq!(value["hooks"]["Start"].as_array().unwrap().len(), 2);
        let without: Value =
            serde_json::from_str(&remove_items(&with, &path, "lbx session").unwrap()).unwrap();
        assert_eq!(without, serde_json::from_str::<Value>(text).unwrap());
    }

    #[test]
    fn removed_items_leave_all_other_bytes() {
        let path = ["on"];
        for (text, left) in [
            // Hooks of the user in a group of lbx's, and a group without any.
            (r#"{"on":[{"hooks":["a","lbx 1"]}]}"#, r#"{"on":[{"hooks":["a"]}]}"#),
            (
                r#"{"on":[{"hooks":["lbx 1", "a", "lbx 2"]}, {"hooks":[]}]}"#,
                r#"{"on":[{"hooks":[ "a"]}, {"hooks":[]}]}"#,
            ),
            (r#"{"on":[{"hooks":["lbx 1","lbx 2"]}, {"hooks":["lbx 3"]}, "a"]}"#, r#"{"on":[ "a"]}"#),
            (r#"{"on":[{"hooks":["lbx 1"]}, "lbx 2"], "b": 1}"#, r#"{ "b": 1}"#),
            (r#"{"on":["a", "lbx 1", "lbx 2"]}"#, r#"{"on":["a"]}"#),
            (r#"{"on":["a", "lbx 1", "lbx 2", ]}"#, r#"{"on":["a", ]}"#),
            // Comments of the user.
            ("{\"on\":[ // lbx 1\n\"a\"]}", "{\"on\":[ // lbx 1\n\"a\"]}"),
            ("{\"on\":[ // c\n\"lbx 1\", \"a\"]}", "{\"on\":[ // c\n \"a\"]}"),
            ("{\"on\":[ // c\n\"lbx 1\"]}", "{\"on\":[ // c\n]}"),
            ("{\"on\":[ // c\n  \"lbx 1\",\n  \"lbx 2\"\n]}", "{\"on\":[ // c\n]}"),
            ("{\"on\":[\"lbx 1\" /* c */, \"a\"]}", "{\"on\":[ /* c */ \"a\"]}"),
            ("{\"on\":[\"a\", // c\n\"lbx 1\"]}", "{\"on\":[\"a\" // c\n]}"),
            (
                "{\"on\":[{\"m\": 1, /* c */ \"hooks\":[\"lbx 1\"]}]}",
                "{\"on\":[{\"m\": 1, /* c */ \"hooks\":[]}]}",
            ),
            ("{\"on\":[{\"hooks\":[\"lbx 1\", // c\n]}]}", "{\"on\":[{\"hooks\":[ // c\n]}]}"),
        ] {
            assert_eq!(remove_items(text, &path, "lbx ").unwrap(), left, "{text}");
            get(left, &path).unwrap();
        }
        // A pass for each item would take hours.
        let many = vec![r#"{"hooks":["lbx 1"]}"#; 200_000].join(",\n");
        assert_eq!(
            remove_items(&format!("{{\"on\":[\"a\",\n{many}]}}"), &path, "lbx ").unwrap(),
            r#"{"on":["a"]}"#
        );
    }

    #[test]
    fn invalid_json_is_an_error_with_a_line() {
        for (text, line) in
            [("{\n\"a\" 1}", 2), ("[1]", 1), ("{\"a\": {}\n\"b\": 1}", 2), ("{\"a\": tru}", 1), ("{} x", 1)]
        {
            let JsonFault(fault) = set(text, &["x"], &json!(1)).unwrap_err();
            assert!(fault.starts_with(&format!("line {line}: ")), "{text}: {fault}");
        }
        assert!(set("{\"x\": 1}", &["x", "y"], &json!(1)).is_err());
    }
}
