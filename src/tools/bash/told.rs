//! Reports each line that a command writes while it runs, and keeps the end of its output.

use crate::control::Control;
use crate::engine::sandbox::run::{Sink, Stream};

/// Bytes of a line that is told.
const LINE_BYTES_MAX: usize = 500;
/// Bytes of the output's end that are kept.
const TAIL_BYTES: usize = 16 << 10;

/// Hands output on, and tells of its lines.
pub struct Told<'a, S: ?Sized> {
    /// Where the output goes.
    inner: &'a mut S,
    /// Who is told.
    control: &'a Control,
    /// Lines so far.
    lines: u64,
    /// The line that has not ended yet, of each stream.
    begun: [Vec<u8>; 2],
    /// The end of the output, of both streams.
    tail: Vec<u8>,
}

impl<'a, S: Sink + ?Sized> Told<'a, S> {
    /// Hands output on to `inner`.
    pub fn new(inner: &'a mut S, control: &'a Control) -> Self {
        Self { inner, control, lines: 0, begun: [Vec::new(), Vec::new()], tail: Vec::new() }
    }

    /// Returns the end of the output.
    pub fn into_tail(self) -> Vec<u8> {
        self.tail
    }

    /// Keeps the end of the output.
    fn keep(&mut self, bytes: &[u8]) {
        let bytes = bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default();
        self.tail.extend_from_slice(bytes);
        if self.tail.len() > 2 * TAIL_BYTES {
            self.tail.drain(..self.tail.len() - TAIL_BYTES);
        }
    }
}

impl<S: Sink + ?Sized> Sink for Told<'_, S> {
    fn take(&mut self, stream: Stream, bytes: &[u8]) {
        if self.control.is_reported() {
            let [stdout, stderr] = &mut self.begun;
            let begun = match stream {
                Stream::Stdout => stdout,
                Stream::Stderr => stderr,
            };
            for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                let line = piece.strip_suffix(b"\n");
                let room = LINE_BYTES_MAX.saturating_sub(begun.len());
                let text = line.unwrap_or(piece);
                begun.extend_from_slice(text.get(..room.min(text.len())).unwrap_or_default());
                if line.is_some() {
                    self.lines += 1;
                    self.control.report_line(self.lines, &String::from_utf8_lossy(begun));
                    begun.clear();
                }
            }
        }
        self.keep(bytes);
        self.inner.take(stream, bytes);
    }

    fn started(&mut self, backend: &'static str, process: u32) {
        self.inner.started(backend, process);
    }
}
