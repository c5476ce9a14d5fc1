//! The id of a message that is too long to be parsed.

use rmcp::model::RequestId;

/// Bytes that an id may have.
const ID_BYTES_MAX: usize = 1024;

/// Looks for the id of a message in pieces of its text, without keeping them.
#[derive(Debug, Default)]
pub struct IdFinder {
    /// Objects and lists that are open.
    depth: u32,
    /// Whether a text is open, and whether a backslash came last in it.
    text: Option<bool>,
    /// Whether a name comes next, rather than a value.
    is_name: bool,
    /// Whether the last name of the message's own object was `id`.
    is_id: bool,
    /// The name or value of the message's own object that is being read.
    token: Vec<u8>,
    /// The id.
    found: Option<Vec<u8>>,
}

impl IdFinder {
    /// Looks at the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        piece.iter().for_each(|&byte| self.take(byte));
    }

    /// The id, if it was seen.
    #[must_use]
    pub fn id(&self) -> Option<RequestId> {
        serde_json::from_slice(self.found.as_ref()?).ok()
    }

    /// Looks at one byte.
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

    /// Keeps a byte of the message's own object, as far as it may be an id.
    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < ID_BYTES_MAX {
            self.token.push(byte);
        }
    }

    /// The value that was being read has ended.
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

    /// The id of a message that comes in pieces of `size` bytes.
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
