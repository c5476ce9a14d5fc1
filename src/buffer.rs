//! Buffer for the bytes of a whole file.

use std::fmt;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

use crate::platform;

/// Size in bytes from which a buffer gets its own pages from the kernel.
const LARGE_BYTES: usize = 4 << 20;

/// Bytes on the heap or, for a large file, in anonymous memory for which the kernel is asked to use large pages:
/// allocating 25 MB in pages of 4 KiB takes as long as hashing them.
pub struct Buffer(BufferMemory);

/// Memory of the bytes.
enum BufferMemory {
    /// On the heap.
    Heap(Vec<u8>),
    /// At the start of their own pages.
    Pages(MmapMut, usize),
}

impl Buffer {
    /// Returns `length` zeros.
    pub fn zeroed(length: usize) -> Self {
        let pages = if length < LARGE_BYTES { None } else { MmapMut::map_anon(length).ok() };
        let Some(pages) = pages else {
            return vec![0; length].into();
        };
        // A hint: if it fails, the pages are small.
        platform::use_large_pages(&pages);
        Self(BufferMemory::Pages(pages, length))
    }

    /// Drops all but the first `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        match &mut self.0 {
            BufferMemory::Heap(bytes) => bytes.truncate(length),
            BufferMemory::Pages(_, whole) => *whole = length.min(*whole),
        }
    }

    /// Returns the bytes on the heap.
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            BufferMemory::Heap(bytes) => bytes,
            BufferMemory::Pages(..) => self.to_vec(),
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            BufferMemory::Heap(bytes) => bytes,
            BufferMemory::Pages(pages, length) => pages.get(..*length).unwrap_or_default(),
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            BufferMemory::Heap(bytes) => bytes,
            BufferMemory::Pages(pages, length) => pages.get_mut(..*length).unwrap_or_default(),
        }
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self(BufferMemory::Heap(bytes))
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Buffer {}

impl Default for Buffer {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_buffers_behave_alike() {
        for length in [0, 1, LARGE_BYTES - 1, LARGE_BYTES, LARGE_BYTES + 4097] {
            let mut buffer = Buffer::zeroed(length);
            assert!(buffer.len() == length && buffer.iter().all(|&byte| byte == 0));
            buffer.fill(7);
            buffer.truncate(length + 1);
            assert_eq!(buffer.len(), length);
            buffer.truncate(length / 2);
            assert!(*buffer == *vec![7; length / 2]);
            assert_eq!(buffer.into_vec().len(), length / 2);
        }
    }
}
