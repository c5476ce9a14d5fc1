//! Finds the id of a message that is too long to parse.

use rmcp::model::RequestId;

/// Longest id, in bytes.
const ID_BYTES_MAX: usize = 1024;

/// Finds the id of a message in pieces of its text, without keeping them.
#[derive(Debug, Default)]
pub struct IdFinder {
    /// Number of open objects and lists.
    depth: u32,
    /// State of an open string: true if its last character was a backslash; `None` outside.
    text: Option<bool>,
    /// True if a name comes next, not a value.
    is_name: bool,
    /// True if the last name in the message's top object was `id`.
    is_id: bool,
    /// Current name or value in the message's top object.
    token: Vec<u8>,
    /// The id, once it is found.
    found: Option<Vec<u8>>,
}

impl IdFinder {
    /// Reads the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        piece.iter().for_each(|&byte| self.take(byte));
    }

    /// Returns the id, if it was found.
    #[must_use]
    pub fn id(&self) -> Option<RequestId> {
        serde_json::from_slice(self.found.as_ref()?).ok()
    }

    /// Reads one byte.
    fn take(&mut self, byte: u8) {
        if let Some(is_escaped) = self.text {
            self.keep(byte);
            self.text = match byte {
                _ if is_escaped => Some(false),
                b'\\' => Some(true),
                b'"' => None,
                _ => Some(false),
            };
            return;
        }
        match byte {
            b'"' => {
                self.text = Some(false);
                self.keep(byte);
            }
            b'{' | b'[' => {
                self.depth += 1;
                self.is_name = self.depth == 1;
                self.token.clear();
            }
            b'}' | b']' => {
                self.end_value();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.is_id = self.is_name && self.token == b"\"id\"";
                self.is_name = false;
                self.token.clear();
            }
            b',' => {
                self.end_value();
                self.is_name = self.depth == 1;
            }
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => self.keep(byte),
        }
    }

    /// Keeps a byte of the message's top object if it may belong to an id.
    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < ID_BYTES_MAX {
            self.token.push(byte);
        }
    }

    /// Handles the end of a value.
    fn end_value(&mut self) {
        if self.depth == 1 {
            if self.is_id && self.found.is_none() {
                self.found = Some(std::mem::take(&mut self.token));
            }
            self.is_id = false;
            self.token.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the id of a message that arrives in pieces of `size` bytes.
    fn id_of(text: &str, size: usize) -> Option<RequestId> {
        let mut finder = IdFinder::default();
        text.as_bytes().chunks(size).for_each(|piece| finder.push(piece));
        finder.id()
    }

    #[test]
    fn the_id_is_found_wherever_it_stands() {
        for size in [1, 3, 1000] {
            for text in [
                r#"{"jsonrpc":"2.0","id":7,"params":{"id":8}}"#,
                r#"{"params":{"id":8,"x":["id",{"id":9}]}, "id" : 7 }"#,
                r#"{"a":"\"id\":1,","id":7}"#,
                r#"{"b":[1,2,{"c":"}"}],"id":7,"id2":3}"#,
            ] {
                assert_eq!(id_of(text, size), Some(RequestId::Number(7)), "{text}");
            }
            assert_eq!(id_of(r#"{"id":"x\"y","m":1}"#, size), Some(RequestId::String("x\"y".into())));
            for text in
                [r#"{"params":{"id":8}}"#, r#"[{"id":1}]"#, r#"{"id":{}}"#, r#"{"x":"id"}"#, "", "\u{0}"]
            {
                assert_eq!(id_of(text, size), None, "{text}");
            }
        }
    }
}
