//! Captures the output of a command in little memory: the beginning and the end of each stream, and all of it in a file
//! if it is larger than a response.

use std::fs::File;
use std::io::Write;
use std::mem;

use crate::control::Control;
use crate::limits::{OUTPUT_BYTES_MAX, PROGRESS_LINE_BYTES_MAX};
use crate::text::answer_size::{AnswerRoom, TextSize};
use crate::text::checked::slice_or_empty;
use crate::text::slice::whole_characters;

/// Part of a response that is reserved for the list of changed files: one sixteenth.
const CHANGES_PART: usize = 16;
/// Factor by which the tail may exceed its size before it is cut.
const TAIL_SLACK: usize = 2;

/// Creates the file for the whole output, with its name for `read`; called at most once. The error is the reason why
/// there is no file, for a reader.
pub type CreateLog<'a> = &'a mut dyn FnMut() -> Result<(File, String), String>;

/// Bytes that are kept of the end of both streams together.
const TAIL_BYTES: usize = 16 << 10;

/// Stream of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Stdout.
    Stdout,
    /// Stderr.
    Stderr,
}

/// The output of a command, as it arrives.
pub struct Capture<'a> {
    /// Maximum bytes of both streams in a response.
    shown_max: usize,
    /// Stdout and stderr.
    streams: [StreamTail; 2],
    /// Whole output.
    whole: WholeOutput<'a>,
    /// Control that gets a report of each line.
    control: &'a Control,
    /// Number of lines so far.
    lines: u64,
    /// Unfinished line of each stream.
    begun: [Vec<u8>; 2],
    /// End of the output, of both streams.
    pub tail: Vec<u8>,
}

/// The output as a response shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// Stdout.
    pub stdout: String,
    /// Stderr.
    pub stderr: String,
    /// True if a part is left out.
    pub truncated: bool,
    /// Bytes of both streams.
    pub bytes: u64,
    /// File with the whole output, if a part is left out.
    pub file: Option<String>,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
}

impl<'a> Capture<'a> {
    /// Captures output for a response of `shown_max` bytes (0: as much as memory allows), and all of it in a file of at
    /// most `file_max` bytes. Reports each line to `control`.
    pub fn new(shown_max: usize, file_max: u64, log: CreateLog<'a>, control: &'a Control) -> Self {
        let shown_max = if shown_max == 0 { OUTPUT_BYTES_MAX } else { shown_max.min(OUTPUT_BYTES_MAX) };
        let whole = WholeOutput::Memory { bytes: Vec::new(), bytes_max: shown_max, file_max, log };
        Self::of(shown_max, whole, control)
    }

    /// Captures output in the file of a job alone.
    pub fn of_job(file: BoundedFile, control: &'a Control) -> Self {
        Self::of(0, WholeOutput::Job(file), control)
    }

    /// Starts empty.
    fn of(shown_max: usize, whole: WholeOutput<'a>, control: &'a Control) -> Self {
        let streams = [StreamTail::new(shown_max), StreamTail::new(shown_max)];
        Self { shown_max, streams, whole, control, lines: 0, begun: Default::default(), tail: Vec::new() }
    }

    /// Adds a piece of output.
    pub fn add_output(&mut self, stream: Stream, bytes: &[u8]) {
        let ([stdout, stderr], [out_line, err_line]) = (&mut self.streams, &mut self.begun);
        let (kept, begun) = match stream {
            Stream::Stdout => (stdout, out_line),
            Stream::Stderr => (stderr, err_line),
        };
        kept.add(bytes);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n').filter(|_| self.control.is_reported()) {
            let line = piece.strip_suffix(b"\n");
            let room = PROGRESS_LINE_BYTES_MAX.saturating_sub(begun.len());
            let text = line.unwrap_or(piece);
            begun.extend_from_slice(text.get(..room.min(text.len())).unwrap_or_default());
            if line.is_some() {
                self.lines += 1;
                self.control.report_line(self.lines, &String::from_utf8_lossy(begun));
                begun.clear();
            }
        }
        self.tail.extend_from_slice(slice_or_empty(bytes, bytes.len().saturating_sub(TAIL_BYTES)..));
        if self.tail.len() > 2 * TAIL_BYTES {
            self.tail.drain(..self.tail.len() - TAIL_BYTES);
        }
        self.whole.add(bytes);
    }

    /// Returns the output; nothing of the output of a job.
    pub fn finish(mut self) -> Output {
        let [stdout, stderr] = &self.streams;
        // The response has to list the changed files as well.
        let for_changes = TextSize::plain(self.shown_max / CHANGES_PART);
        let room = AnswerRoom::new(self.shown_max).room_after(for_changes);
        let [for_stdout, for_stderr] = shares(room, stdout.size(), stderr.size());
        let bytes = stdout.total + stderr.total;
        let truncated = !(for_stdout.holds(stdout.size()) && for_stderr.holds(stderr.size()));
        if truncated {
            self.whole.keep();
        }
        let mut warnings = Vec::new();
        let file = match self.whole {
            WholeOutput::Memory { .. } => None,
            WholeOutput::File { name, file: BoundedFile { written, left_out, .. } } => {
                if left_out > 0 {
                    warnings.push(format!(
                        "the output file {name} holds the first {written} of {bytes} bytes of output"
                    ));
                }
                Some(name)
            }
            WholeOutput::Job(file) => {
                let left_out = (file.left_out > 0).then_some(file.left_out);
                let warning = |bytes| format!("{bytes} bytes of output are left out (bash.output_bytes)");
                return Output { warnings: left_out.map(warning).into_iter().collect(), ..Output::default() };
            }
            WholeOutput::Failed(reason) => {
                warnings.push(format!("the whole output was not kept: {reason}"));
                None
            }
        };
        let (stdout, is_text) = stdout.text_for_room(for_stdout);
        let (stderr, is_text_too) = stderr.text_for_room(for_stderr);
        if !(is_text && is_text_too) {
            warnings.push("the output is not UTF-8; bytes that are not are shown as U+FFFD".to_owned());
        }
        Output { stdout, stderr, truncated, bytes, file: file.filter(|_| truncated), warnings }
    }
}

/// Returns the room of each stream: half of all, or the rest that the other leaves.
fn shares(room: AnswerRoom, stdout: TextSize, stderr: TextSize) -> [AnswerRoom; 2] {
    let half = room.half();
    if half.holds(stderr) || room.room_after(stdout).holds(stderr) {
        return [room.room_after(stderr), room];
    }
    if half.holds(stdout) { [room, room.room_after(stdout)] } else { [half, half] }
}

/// Beginning and end of a stream.
struct StreamTail {
    /// Beginning.
    head: Vec<u8>,
    /// Maximum bytes of the beginning.
    head_max: usize,
    /// End of the rest, and perhaps a little more.
    tail: Vec<u8>,
    /// Minimum bytes of the end.
    tail_max: usize,
    /// Total bytes.
    total: u64,
}

impl StreamTail {
    /// Starts empty.
    fn new(shown_max: usize) -> Self {
        let head_max = shown_max.div_ceil(2);
        Self { head: Vec::new(), head_max, tail: Vec::new(), tail_max: shown_max - head_max, total: 0 }
    }

    /// Adds bytes.
    fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_max.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        // Of a large piece only the end can matter.
        let rest = rest.get(rest.len().saturating_sub(self.tail_max)..).unwrap_or_default();
        self.tail.extend_from_slice(rest);
        if self.tail.len() > self.tail_max * TAIL_SLACK {
            self.tail.drain(..self.tail.len() - self.tail_max);
        }
    }

    /// Returns the size of the whole; bytes that were dropped fit into no response.
    fn size(&self) -> TextSize {
        match usize::try_from(self.total) {
            Ok(total) if total == self.head.len() + self.tail.len() => {
                TextSize::of(&self.head).and(TextSize::of(&self.tail))
            }
            Ok(total) => TextSize::plain(total),
            Err(_) => TextSize::plain(usize::MAX),
        }
    }

    /// Returns the text for a room, and true if it is UTF-8.
    fn text_for_room(&self, room: AnswerRoom) -> (String, bool) {
        // Where bytes between them were dropped, each holds more than half of the room.
        let all = [self.head.as_slice(), self.tail.as_slice()].concat();
        if room.holds(self.size()) {
            return text_of(all);
        }
        let half = room.half();
        let head = slice_or_empty(&all, ..half.start_of(&all));
        let rest = slice_or_empty(&all, head.len()..);
        let tail = slice_or_empty(rest, rest.len() - half.end_of(rest)..);
        let (head, tail) = (whole_lines_before(head), whole_lines_after(tail));
        let left_out = self.total - (head.len() + tail.len()) as u64;
        let newline = if head.ends_with(b"\n") || head.is_empty() { "" } else { "\n" };
        let note = format!("{newline}[... {left_out} bytes left out ...]\n");
        text_of([head, note.as_bytes(), tail].concat())
    }
}

/// Returns bytes as text, and true if they are UTF-8.
fn text_of(bytes: Vec<u8>) -> (String, bool) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, true),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), false),
    }
}

/// Returns the lines that end in `bytes`; all bytes if no line does. Cuts no character.
fn whole_lines_before(bytes: &[u8]) -> &[u8] {
    memchr::memrchr(b'\n', bytes).map_or_else(|| whole_characters(bytes), |at| slice_or_empty(bytes, ..=at))
}

/// Returns the lines that begin in `bytes`; all bytes if no line does. Cuts no character.
fn whole_lines_after(bytes: &[u8]) -> &[u8] {
    let is_inner = |byte: &u8| byte & 0xc0 == 0x80;
    let start = match memchr::memchr(b'\n', bytes) {
        Some(at) if at + 1 < bytes.len() => at + 1,
        _ => bytes.iter().take(3).take_while(|byte| is_inner(byte)).count(),
    };
    bytes.get(start..).unwrap_or(bytes)
}

/// A file that takes output up to a size.
pub struct BoundedFile {
    /// The file.
    file: File,
    /// Maximum bytes.
    bytes_max: u64,
    /// Bytes written.
    written: u64,
    /// Bytes that did not fit.
    left_out: u64,
}

impl BoundedFile {
    /// Begins with an empty file.
    pub const fn new(file: File, bytes_max: u64) -> Self {
        Self { file, bytes_max, written: 0, left_out: 0 }
    }

    /// Writes as many bytes as fit.
    ///
    /// # Errors
    /// Returns the OS error; the file then takes no more.
    pub fn add(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let room = usize::try_from(self.bytes_max.saturating_sub(self.written)).unwrap_or(usize::MAX);
        let (kept, rest) = bytes.split_at(room.min(bytes.len()));
        let written = self.file.write_all(kept);
        match &written {
            Ok(()) => self.written += kept.len() as u64,
            Err(_) => self.bytes_max = 0,
        }
        self.left_out += if written.is_ok() { rest.len() } else { bytes.len() } as u64;
        written
    }
}

/// The whole output.
enum WholeOutput<'a> {
    /// Output that is small enough to be shown whole.
    Memory {
        /// Bytes in the order in which they came.
        bytes: Vec<u8>,
        /// Size from which the output goes into a file.
        bytes_max: usize,
        /// Maximum bytes of the file.
        file_max: u64,
        /// Creates the file.
        log: CreateLog<'a>,
    },
    /// Output in a file.
    File {
        /// File.
        file: BoundedFile,
        /// Its name, for `read`.
        name: String,
    },
    /// Output of a job, in its file.
    Job(BoundedFile),
    /// No file; the reason.
    Failed(String),
}

impl WholeOutput<'_> {
    /// Adds bytes.
    fn add(&mut self, more: &[u8]) {
        match self {
            Self::Memory { bytes, bytes_max, .. } => {
                bytes.extend_from_slice(more);
                if bytes.len() <= *bytes_max {
                    return;
                }
                self.keep();
            }
            Self::File { file, .. } => {
                if let Err(error) = file.add(more) {
                    *self = Self::Failed(error.to_string());
                }
            }
            // The file counts the bytes that it does not take.
            Self::Job(file) => drop(file.add(more)),
            Self::Failed(_) => {}
        }
    }

    /// Moves the bytes in memory into a file.
    fn keep(&mut self) {
        if let Self::Memory { bytes, file_max, log, .. } = self {
            let (held, file_max) = (mem::take(bytes), *file_max);
            *self = match log() {
                Ok((file, name)) => Self::File { file: BoundedFile::new(file, file_max), name },
                Err(reason) => Self::Failed(reason),
            };
            self.add(&held);
        }
    }
}
