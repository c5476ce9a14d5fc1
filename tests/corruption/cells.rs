//! The matrix: contents of a file, its place, and the change made to it.

/// Lines of the file. Every change addresses the third; the first and the last hold characters that an encoding may
/// lose.
const LINES: [&str; 5] = ["* intro", "## Before", "target line two", "## After", "* end\t  "];
/// New text of the addressed line.
pub const NEW: &str = "TARGET LINE 2";
/// Old text of the addressed line.
pub const OLD: &str = LINES[2];
/// Text of an added line.
pub const ADDED: &str = "added";

/// Encoding of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Encoding {
    /// 7-bit ASCII.
    Ascii,
    /// UTF-8.
    Utf8,
    /// UTF-8 with a byte-order mark.
    Utf8Bom,
    /// UTF-16, low byte first, with a byte-order mark.
    Utf16Le,
    /// UTF-16, high byte first, with a byte-order mark.
    Utf16Be,
    /// One byte per character.
    Latin1,
    /// UTF-8 with invalid bytes in it.
    Invalid,
    /// UTF-8 with NUL bytes.
    Nul,
}

impl Encoding {
    /// All encodings.
    pub const ALL: [Self; 8] = [
        Self::Ascii,
        Self::Utf8,
        Self::Utf8Bom,
        Self::Utf16Le,
        Self::Utf16Be,
        Self::Latin1,
        Self::Invalid,
        Self::Nul,
    ];

    /// Returns its name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ascii => "ASCII",
            Self::Utf8 => "UTF-8",
            Self::Utf8Bom => "UTF-8, BOM",
            Self::Utf16Le => "UTF-16 LE",
            Self::Utf16Be => "UTF-16 BE",
            Self::Latin1 => "Latin-1",
            Self::Invalid => "invalid UTF-8",
            Self::Nul => "NUL bytes",
        }
    }

    /// Returns a text as bytes, without a byte-order mark. An asterisk is replaced by characters that only this
    /// encoding has.
    fn bytes(self, text: &str) -> Vec<u8> {
        let special: &[u8] = match self {
            Self::Ascii => b"plain",
            Self::Utf8 | Self::Utf8Bom => "é ü 😀 \u{2028} e\u{301}".as_bytes(),
            Self::Utf16Le | Self::Utf16Be => return self.wide(&text.replace('*', "é ü 😀 \u{2028}")),
            Self::Latin1 => b"\xe9 \xfc \xa0",
            Self::Invalid => b"\xc3( \xff\xfe \xed\xa0\x80",
            Self::Nul => b"a\0b\0",
        };
        let mut bytes = Vec::new();
        for byte in text.bytes() {
            if byte == b'*' { bytes.extend_from_slice(special) } else { bytes.push(byte) }
        }
        bytes
    }

    /// Returns a text in UTF-16.
    fn wide(self, text: &str) -> Vec<u8> {
        let in_order =
            |unit: u16| if self == Self::Utf16Le { unit.to_le_bytes() } else { unit.to_be_bytes() };
        text.encode_utf16().flat_map(in_order).collect()
    }

    /// Returns the byte-order mark.
    fn mark(self) -> Vec<u8> {
        match self {
            Self::Utf8Bom => "\u{feff}".into(),
            Self::Utf16Le | Self::Utf16Be => self.wide("\u{feff}"),
            Self::Ascii | Self::Utf8 | Self::Latin1 | Self::Invalid | Self::Nul => Vec::new(),
        }
    }
}

/// Line endings of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// LF.
    Lf,
    /// CR LF.
    Crlf,
    /// CR.
    Cr,
    /// LF and CR LF in turn.
    Mixed,
}

impl Ending {
    /// All line endings.
    pub const ALL: [Self; 4] = [Self::Lf, Self::Crlf, Self::Cr, Self::Mixed];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lf => "LF",
            Self::Crlf => "CRLF",
            Self::Cr => "CR",
            Self::Mixed => "mixed",
        }
    }

    /// Returns the ending of the line at that index.
    const fn of_line(self, index: usize) -> &'static str {
        match self {
            Self::Crlf => "\r\n",
            Self::Cr => "\r",
            Self::Mixed if index.is_multiple_of(2) => "\r\n",
            Self::Lf | Self::Mixed => "\n",
        }
    }

    /// Returns the ending of a line added at an end of the file: the file's own if it has one.
    const fn of_added(self) -> &'static str {
        match self {
            Self::Mixed => "\n",
            Self::Lf | Self::Crlf | Self::Cr => self.of_line(0),
        }
    }
}

/// Content of a file.
#[derive(Debug, Clone, Copy)]
pub struct Content {
    /// Encoding of the text.
    pub encoding: Encoding,
    /// Line endings of the text.
    pub ending: Ending,
    /// True if the last line has an ending.
    pub is_closed: bool,
}

impl Content {
    /// Returns all contents.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for encoding in Encoding::ALL {
            for ending in Ending::ALL {
                all.extend([true, false].map(|is_closed| Self { encoding, ending, is_closed }));
            }
        }
        all
    }

    /// Returns a name for a file.
    pub fn file_name(self) -> String {
        let closed = if self.is_closed { "closed" } else { "open" };
        format!("{:?}-{:?}-{closed}.md", self.encoding, self.ending).to_lowercase()
    }

    /// Returns the bytes.
    pub fn bytes(self) -> Vec<u8> {
        self.of_lines(&self.lines())
    }

    /// Returns the lines, each with its ending.
    fn lines(self) -> Vec<String> {
        let ending = |index: usize| {
            if index + 1 == LINES.len() && !self.is_closed { "" } else { self.ending.of_line(index) }
        };
        LINES.iter().enumerate().map(|(index, line)| format!("{line}{}", ending(index))).collect()
    }

    /// Returns lines as bytes, after the byte-order mark.
    fn of_lines(self, lines: &[String]) -> Vec<u8> {
        let mut bytes = self.encoding.mark();
        bytes.extend(self.encoding.bytes(&lines.concat()));
        bytes
    }

    /// Returns the bytes after a change, with nothing else changed.
    pub fn after(self, change: Change) -> Vec<u8> {
        let mut lines = self.lines();
        match change {
            Change::Nothing => {}
            Change::Line => lines[2] = lines[2].replace(OLD, NEW),
            Change::Lines => {
                lines[2] = lines[2].replace(OLD, NEW);
                lines[3] = lines[3].replace("## After", "## Later");
            }
            Change::Body => lines[2] = format!("{NEW}{}", self.ending.of_added()),
            Change::Append => lines.push(format!("{ADDED}{}", self.ending.of_added())),
            Change::Prepend => lines.insert(0, format!("{ADDED}{}", self.ending.of_added())),
            Change::Insert => lines.insert(2, format!("{ADDED}{}", self.ending.of_added())),
            Change::Whole => return format!("{NEW}\n").into_bytes(),
        }
        self.of_lines(&lines)
    }
}

/// Effect of a call on the bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// No net change.
    Nothing,
    /// Another text in one line.
    Line,
    /// Another text in two lines.
    Lines,
    /// Another line in place of one.
    Body,
    /// A line after the last.
    Append,
    /// A line before the first.
    Prepend,
    /// A line in between.
    Insert,
    /// Other bytes.
    Whole,
}

/// Kind of the name that leads to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A regular file.
    Regular,
    /// A symlink to the file.
    Symlink,
    /// One of two hard links.
    HardLink,
    /// A file without write permission.
    ReadOnly,
    /// A file below a symlink to a folder.
    LinkedFolder,
    /// An executable.
    Executable,
    /// A file with an extended attribute.
    Attribute,
    /// A name with spaces and letters outside ASCII.
    OddName,
}

impl Place {
    /// All places.
    pub const ALL: [Self; 8] = [
        Self::Regular,
        Self::Symlink,
        Self::HardLink,
        Self::ReadOnly,
        Self::LinkedFolder,
        Self::Executable,
        Self::Attribute,
        Self::OddName,
    ];

    /// Returns its name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Regular => "regular",
            Self::Symlink => "symlink",
            Self::HardLink => "hard link",
            Self::ReadOnly => "read-only",
            Self::LinkedFolder => "linked folder",
            Self::Executable => "executable",
            Self::Attribute => "xattr",
            Self::OddName => "odd name",
        }
    }

    /// Returns the folder through which its files are named.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Regular => "regular",
            Self::Symlink => "symlink",
            Self::HardLink => "hard",
            Self::ReadOnly => "readonly",
            Self::LinkedFolder => "linked",
            Self::Executable => "executable",
            Self::Attribute => "attribute",
            Self::OddName => "odd näme",
        }
    }

    /// Returns the permission bits.
    pub const fn mode(self) -> u32 {
        match self {
            Self::ReadOnly => 0o444,
            Self::Executable => 0o755,
            Self::Regular
            | Self::Symlink
            | Self::HardLink
            | Self::LinkedFolder
            | Self::Attribute
            | Self::OddName => 0o644,
        }
    }
}

/// A file of the matrix.
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// Content of the file.
    pub content: Content,
    /// Kind of its name.
    pub place: Place,
}

impl File {
    /// Returns all files.
    pub fn all() -> Vec<Self> {
        let of_place = |place| Content::all().into_iter().map(move |content| Self { content, place });
        Place::ALL.into_iter().flat_map(of_place).collect()
    }

    /// Returns the path that a call names.
    pub fn path(self) -> String {
        format!("{}/{}", self.place.folder(), self.content.file_name())
    }

    /// Returns the path of the bytes that is not named: the target of a link, or the other hard link.
    pub fn other(self) -> Option<String> {
        let folder = match self.place {
            Place::Symlink => "symlink-to",
            Place::HardLink => "hard-other",
            Place::LinkedFolder => "linked-to",
            Place::Regular | Place::ReadOnly | Place::Executable | Place::Attribute | Place::OddName => {
                return None;
            }
        };
        Some(format!("{folder}/{}", self.content.file_name()))
    }
}
