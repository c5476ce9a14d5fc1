//! Lines of bounded length from a stream.

use rmcp::model::RequestId;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::id::IdFinder;

/// Bytes read from the stream at once, as many as a pipe holds.
const BUFFER_BYTES: usize = 64 << 10;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line, without its ending.
    Whole(Vec<u8>),
    /// A line that was longer than allowed, and is gone but for the id of its message.
    TooLong(Option<RequestId>),
    /// Nothing more.
    End,
}

/// Splits a stream into lines of at most `bytes_max` bytes.
pub struct Lines<R> {
    /// The stream.
    reader: BufReader<R>,
    /// Most bytes of a line.
    bytes_max: usize,
    /// The line so far.
    line: Vec<u8>,
    /// Looks for the id in a line that is longer than allowed, of which nothing else is kept.
    too_long: Option<IdFinder>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// The lines of `reader`.
    pub fn new(reader: R, bytes_max: usize) -> Self {
        let reader = BufReader::with_capacity(BUFFER_BYTES, reader);
        Self { reader, bytes_max, line: Vec::new(), too_long: None }
    }

    /// The next line. A last one without an ending counts, and an error ends the stream.
    ///
    /// May be dropped while it waits: nothing read is lost.
    pub async fn next(&mut self) -> Line {
        loop {
            let available = self.reader.fill_buf().await.unwrap_or_default();
            if available.is_empty() {
                let is_end = self.line.is_empty() && self.too_long.is_none();
                return if is_end { Line::End } else { self.finish() };
            }
            let ending = memchr::memchr(b'\n', available);
            let part = available.get(..ending.unwrap_or(available.len())).unwrap_or_default();
            if self.too_long.is_none() && self.line.len() + part.len() > self.bytes_max {
                let mut finder = IdFinder::default();
                finder.push(&std::mem::take(&mut self.line));
                self.too_long = Some(finder);
            }
            match &mut self.too_long {
                Some(finder) => finder.push(part),
                None => self.line.extend_from_slice(part),
            }
            let taken = part.len() + usize::from(ending.is_some());
            self.reader.consume(taken);
            if ending.is_some() {
                return self.finish();
            }
        }
    }

    /// Hands the line over and begins another.
    fn finish(&mut self) -> Line {
        let line = std::mem::take(&mut self.line);
        match self.too_long.take() {
            Some(finder) => Line::TooLong(finder.id()),
            None => Line::Whole(line),
        }
    }
}
