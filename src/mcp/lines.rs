//! Lines of bounded length from a stream.

use rmcp::model::RequestId;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::id::IdFinder;

/// Bytes per read of the stream: the size of a pipe.
const BUFFER_BYTES: usize = 64 << 10;

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Line without its end.
    Whole(Vec<u8>),
    /// Line that was longer than allowed; only the id of its message is kept.
    TooLong(Option<RequestId>),
    /// End of the stream.
    End,
}

/// Splits a stream into lines of at most `bytes_max` bytes.
pub struct Lines<R> {
    /// Stream.
    reader: BufReader<R>,
    /// Maximum bytes of a line.
    bytes_max: usize,
    /// Line so far.
    line: Vec<u8>,
    /// Finder of the id in a line that is longer than allowed, of which nothing else is kept.
    too_long: Option<IdFinder>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Creates a splitter for `reader`.
    pub fn new(reader: R, bytes_max: usize) -> Self {
        let reader = BufReader::with_capacity(BUFFER_BYTES, reader);
        Self { reader, bytes_max, line: Vec::new(), too_long: None }
    }

    /// Returns the next line. A last line without an end counts, and an error ends the stream.
    ///
    /// Cancel safe: no bytes are lost if the future is dropped.
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

    /// Returns the line and begins another.
    fn finish(&mut self) -> Line {
        let line = std::mem::take(&mut self.line);
        match self.too_long.take() {
            Some(finder) => Line::TooLong(finder.id()),
            None => Line::Whole(line),
        }
    }
}
