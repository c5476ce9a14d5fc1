//! Read records that a session's newest state does not hold itself: a tree of blocks in the session's file.
//!
//! A block is a few lines, sorted by path: read records in a leaf, and above that one line for each block below, with
//! its place and its SHA-256. The state names the root, so a lookup reads one block of each level, and nothing is
//! believed that differs from its digest. A block never changes: changed records are written into new blocks, with
//! new blocks above them, and what no state names any more goes when the file is replaced.
//!
//! ```text
//!   {"path":"src/a.rs","sha256":…}        a leaf
//!   {"path":"src/k.rs","sha256":…}
//!   {"path":"src/q.rs","sha256":…}        a leaf
//!   {"path":"src/a.rs","at":0,…}          the root
//!   {"path":"src/q.rs","at":310,…}
//!   {"version":2,"seq":4,"stored":{"level":1,"root":{"path":"src/a.rs","at":465,…}},…}
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::read_record::ReadRecord;
use crate::engine::workspace::path::WorkspacePath;
use crate::limits::{READ_TREE_LEVELS_MAX, SESSION_BYTES_MAX};
use crate::sha256::Sha256;

/// Size from which a block is full, in bytes.
const BLOCK_BYTES: usize = 4 << 10;
/// Most blocks above the leaves that are kept in memory.
const ABOVE_MAX: usize = 64;

/// Block of a tree, as the block above it or a state names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct BlockRef {
    /// First path in it and below it.
    path: WorkspacePath,
    /// Place in the file.
    at: u64,
    /// Its size, in bytes.
    bytes: u64,
    /// SHA-256 of its bytes.
    sha256: Sha256,
    /// Number of records in it and below it.
    records: usize,
    /// Bytes of it and of all blocks below it.
    total: u64,
}

/// Root of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TreeRoot {
    /// Number of levels above the leaves.
    level: u32,
    /// Block on top.
    root: BlockRef,
}

impl TreeRoot {
    /// Returns the bytes of all blocks.
    pub const fn stored_bytes(&self) -> u64 {
        self.root.total
    }
}

/// A block that is missing, or has other bytes than those that were written.
#[derive(Debug, Clone, Copy)]
pub(super) struct DamagedBlock;

/// Changed records by path; `None` removes one.
pub(super) type RecordChanges = BTreeMap<WorkspacePath, Option<ReadRecord>>;

/// Changed records in JSON, sorted by path.
type JsonChanges = Vec<(WorkspacePath, Option<Vec<u8>>)>;

/// A tree in a file that is open.
#[derive(Debug)]
pub(super) struct ReadTree {
    /// File of the session. It is never changed where the blocks are.
    file: File,
    /// Root.
    root: TreeRoot,
    /// Blocks above the leaves that were read last, by digest. Lookups in the order of the paths, as for a large patch,
    /// read each block once.
    above: Mutex<BTreeMap<Sha256, Arc<Vec<BlockRef>>>>,
    /// Leaf that was read last, with its digest.
    leaf: Mutex<Option<(Sha256, Arc<Vec<u8>>)>>,
    /// True once a block was damaged.
    is_damaged: AtomicBool,
}

/// Line of a block.
struct BlockLine {
    /// Path, or the first one of a block.
    path: WorkspacePath,
    /// Its JSON.
    json: Vec<u8>,
    /// Number of records, here and below.
    records: usize,
    /// Bytes of the blocks below.
    below: u64,
}

impl ReadTree {
    /// Returns the tree of a root in an open file.
    pub fn new(file: File, root: TreeRoot) -> Self {
        Self {
            file,
            root,
            above: Mutex::default(),
            leaf: Mutex::default(),
            is_damaged: AtomicBool::new(false),
        }
    }

    /// Returns true if a block was damaged.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Returns the number of records.
    pub const fn len(&self) -> usize {
        self.root.root.records
    }

    /// Returns the record of a path. A damaged block has none.
    pub fn find(&self, path: &WorkspacePath) -> Option<ReadRecord> {
        self.checked(self.find_record(path)).flatten()
    }

    /// Returns all records, by path. Those of a damaged block are missing.
    pub fn all(&self) -> Vec<ReadRecord> {
        let records = self.lines().and_then(|lines| {
            let parse = |line: BlockLine| serde_json::from_slice(&line.json).map_err(|_| DamagedBlock);
            lines.into_iter().map(parse).collect::<Result<Vec<ReadRecord>, DamagedBlock>>()
        });
        self.checked(records).unwrap_or_default()
    }

    /// Notes damage.
    fn checked<T>(&self, read: Result<T, DamagedBlock>) -> Option<T> {
        if read.is_err() {
            self.is_damaged.store(true, Ordering::Relaxed);
        }
        read.ok()
    }

    /// Looks a record up.
    fn find_record(&self, path: &WorkspacePath) -> Result<Option<ReadRecord>, DamagedBlock> {
        let mut block = self.root.root.clone();
        for _ in 0..self.root.checked_level()? {
            let below = self.known_blocks(&block)?;
            let at = below.partition_point(|below| below.path <= *path).checked_sub(1);
            let Some(found) = at.and_then(|at| below.get(at)) else { return Ok(None) };
            block = found.clone();
        }
        let bytes = self.known_leaf(&block)?;
        let start = line_start(path)?;
        let line = bytes.split(|byte| *byte == b'\n').find(|line| line.starts_with(&start));
        line.map(|line| serde_json::from_slice(line).map_err(|_| DamagedBlock)).transpose()
    }

    /// Returns the blocks that a block names, which a lookup may have read before.
    fn known_blocks(&self, block: &BlockRef) -> Result<Arc<Vec<BlockRef>>, DamagedBlock> {
        let mut above = self.above.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = above.get(&block.sha256) {
            return Ok(Arc::clone(known));
        }
        let below = Arc::new(self.blocks(block)?);
        if above.len() >= ABOVE_MAX {
            above.clear();
        }
        above.insert(block.sha256, Arc::clone(&below));
        Ok(below)
    }

    /// Returns the bytes of a leaf, which the last lookup may have read.
    fn known_leaf(&self, block: &BlockRef) -> Result<Arc<Vec<u8>>, DamagedBlock> {
        let mut leaf = self.leaf.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = leaf.as_ref().filter(|(sha256, _)| *sha256 == block.sha256) {
            return Ok(Arc::clone(known));
        }
        let bytes = Arc::new(self.read(block)?);
        *leaf = Some((block.sha256, Arc::clone(&bytes)));
        Ok(bytes)
    }

    /// Reads a block.
    fn read(&self, block: &BlockRef) -> Result<Vec<u8>, DamagedBlock> {
        let size = usize::try_from(block.bytes.min(SESSION_BYTES_MAX)).map_err(|_| DamagedBlock)?;
        let mut bytes = vec![0; size];
        self.file.read_exact_at(&mut bytes, block.at).map_err(|_| DamagedBlock)?;
        if Sha256::of(&bytes) == block.sha256 { Ok(bytes) } else { Err(DamagedBlock) }
    }

    /// Reads the blocks that a block names.
    fn blocks(&self, block: &BlockRef) -> Result<Vec<BlockRef>, DamagedBlock> {
        let bytes = self.read(block)?;
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).map_err(|_| DamagedBlock)).collect()
    }

    /// Returns all records as lines.
    fn lines(&self) -> Result<Vec<BlockLine>, DamagedBlock> {
        let mut left = SESSION_BYTES_MAX;
        self.lines_below(&self.root.root, self.root.checked_level()?, &mut left)
    }

    /// Returns the records of a block and of those below it, of at most `left` bytes: a forged tree may name a block
    /// many times.
    fn lines_below(
        &self,
        block: &BlockRef,
        level: u32,
        left: &mut u64,
    ) -> Result<Vec<BlockLine>, DamagedBlock> {
        *left = left.checked_sub(block.bytes).ok_or(DamagedBlock)?;
        if level == 0 {
            return records_of(&self.read(block)?);
        }
        let mut lines = Vec::new();
        for below in self.blocks(block)? {
            lines.extend(self.lines_below(&below, level - 1, left)?);
        }
        Ok(lines)
    }

    /// Writes new blocks for what changes of a block and of those below it; returns the blocks of its level.
    fn rewrite(
        &self,
        block: &BlockRef,
        level: u32,
        changes: &[(WorkspacePath, Option<Vec<u8>>)],
        blocks: &mut NewBlocks,
    ) -> Result<Vec<BlockRef>, DamagedBlock> {
        if changes.is_empty() {
            return Ok(vec![block.clone()]);
        }
        if level == 0 {
            return Ok(blocks.pack(merged(records_of(&self.read(block)?)?, changes)));
        }
        let (below, mut rest, mut lines) = (self.blocks(block)?, changes, Vec::new());
        for (at, child) in below.iter().enumerate() {
            let end = below
                .get(at + 1)
                .map_or(rest.len(), |next| rest.partition_point(|(path, _)| *path < next.path));
            let (own, later) = rest.split_at(end);
            for block in self.rewrite(child, level - 1, own, blocks)? {
                lines.push(BlockLine::of_block(&block)?);
            }
            rest = later;
        }
        Ok(blocks.pack(lines))
    }
}

impl TreeRoot {
    /// Returns the number of levels above the leaves, if it is possible.
    const fn checked_level(&self) -> Result<u32, DamagedBlock> {
        if self.level <= READ_TREE_LEVELS_MAX { Ok(self.level) } else { Err(DamagedBlock) }
    }
}

/// Returns the tree of `old` with changed records, and the blocks to write at the place `at` of its file.
pub(super) fn updated(
    old: Option<&ReadTree>,
    changes: RecordChanges,
    at: u64,
) -> Result<(Option<TreeRoot>, Vec<u8>), DamagedBlock> {
    let (mut blocks, changes) = (NewBlocks { at, bytes: Vec::new() }, in_json(changes)?);
    let (top, level) = match old {
        Some(old) => {
            let level = old.root.checked_level()?;
            (old.rewrite(&old.root.root, level, &changes, &mut blocks)?, level)
        }
        None => (blocks.pack(merged(Vec::new(), &changes)), 0),
    };
    Ok((blocks.top(top, level)?, blocks.bytes))
}

/// Returns the tree of all records of `old` and of the changed ones, and its blocks, for the start of a new file.
pub(super) fn rebuilt(
    old: Option<&ReadTree>,
    changes: RecordChanges,
) -> Result<(Option<TreeRoot>, Vec<u8>), DamagedBlock> {
    let (mut blocks, changes) = (NewBlocks { at: 0, bytes: Vec::new() }, in_json(changes)?);
    let lines = old.map_or(Ok(Vec::new()), ReadTree::lines)?;
    let leaves = blocks.pack(merged(lines, &changes));
    Ok((blocks.top(leaves, 0)?, blocks.bytes))
}

/// Returns the changed records in JSON, sorted by path.
fn in_json(changes: RecordChanges) -> Result<JsonChanges, DamagedBlock> {
    let json = |record: ReadRecord| serde_json::to_vec(&record).map_err(|_| DamagedBlock);
    changes.into_iter().map(|(path, record)| Ok((path, record.map(json).transpose()?))).collect()
}

/// Returns the lines of a leaf after changes.
fn merged(lines: Vec<BlockLine>, changes: &[(WorkspacePath, Option<Vec<u8>>)]) -> Vec<BlockLine> {
    let mut all: BTreeMap<WorkspacePath, Vec<u8>> =
        lines.into_iter().map(|line| (line.path, line.json)).collect();
    for (path, record) in changes {
        match record {
            Some(json) => drop(all.insert(path.clone(), json.clone())),
            None => drop(all.remove(path)),
        }
    }
    all.into_iter().map(|(path, json)| BlockLine { path, json, records: 1, below: 0 }).collect()
}

/// Returns the records in the bytes of a leaf.
fn records_of(bytes: &[u8]) -> Result<Vec<BlockLine>, DamagedBlock> {
    /// The field by which lines are sorted.
    #[derive(Deserialize)]
    struct SortKey {
        /// Path.
        path: WorkspacePath,
    }
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let line = |json: &[u8]| {
        let SortKey { path } = serde_json::from_slice(json).map_err(|_| DamagedBlock)?;
        Ok(BlockLine { path, json: json.to_vec(), records: 1, below: 0 })
    };
    lines.map(line).collect()
}

/// Returns the start of the line of a path: the path is its first field.
fn line_start(path: &WorkspacePath) -> Result<Vec<u8>, DamagedBlock> {
    let mut start = b"{\"path\":".to_vec();
    start.extend(serde_json::to_vec(path).map_err(|_| DamagedBlock)?);
    start.push(b',');
    Ok(start)
}

impl BlockLine {
    /// Returns the line that names a block.
    fn of_block(block: &BlockRef) -> Result<Self, DamagedBlock> {
        let json = serde_json::to_vec(block).map_err(|_| DamagedBlock)?;
        Ok(Self { path: block.path.clone(), json, records: block.records, below: block.total })
    }
}

/// New blocks.
struct NewBlocks {
    /// Place of the first one in the file.
    at: u64,
    /// Their bytes.
    bytes: Vec<u8>,
}

impl NewBlocks {
    /// Writes lines, which are sorted, into blocks.
    fn pack(&mut self, lines: Vec<BlockLine>) -> Vec<BlockRef> {
        let (mut packed, mut lines) = (Vec::new(), lines.into_iter().peekable());
        while let Some(first) = lines.peek() {
            let (path, start) = (first.path.clone(), self.bytes.len());
            let (mut records, mut below, mut count) = (0_usize, 0_u64, 0);
            // Two at least, so that each level has fewer blocks than the one below it.
            while (count < 2 || self.bytes.len() - start < BLOCK_BYTES)
                && let Some(line) = lines.next()
            {
                self.bytes.extend(line.json);
                self.bytes.push(b'\n');
                // A forged block may name any numbers.
                records = line.records.saturating_add(records);
                below = line.below.saturating_add(below);
                count += 1;
            }
            let block = self.bytes.get(start..).unwrap_or_default();
            let (at, bytes) = (self.at + start as u64, block.len() as u64);
            let sha256 = Sha256::of(block);
            packed.push(BlockRef { path, at, bytes, sha256, records, total: bytes.saturating_add(below) });
        }
        packed
    }

    /// Writes the blocks above some of a level; returns the root.
    fn top(&mut self, mut blocks: Vec<BlockRef>, mut level: u32) -> Result<Option<TreeRoot>, DamagedBlock> {
        while blocks.len() > 1 {
            let lines = blocks.iter().map(BlockLine::of_block).collect::<Result<_, _>>()?;
            blocks = self.pack(lines);
            level += 1;
        }
        Ok(blocks.pop().map(|root| TreeRoot { level, root }))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Returns the record of a file with that number of bytes.
    fn record(name: &str, size: u64) -> (WorkspacePath, Option<ReadRecord>) {
        let path = WorkspacePath::new(name.as_ref()).unwrap();
        (path.clone(), Some(ReadRecord::of_everything(path, Sha256::of(b""), size, 1)))
    }

    /// Appends changes to a file, in new blocks or as a new tree.
    fn store(
        file: &mut File,
        old: Option<&ReadTree>,
        changes: RecordChanges,
        is_new: bool,
    ) -> Option<ReadTree> {
        if is_new {
            *file = tempfile::tempfile().unwrap();
        }
        let at = file.metadata().unwrap().len();
        let (root, bytes) = if is_new { rebuilt(old, changes) } else { updated(old, changes, at) }.unwrap();
        file.write_all(&bytes).unwrap();
        root.map(|root| ReadTree::new(file.try_clone().unwrap(), root))
    }

    /// Returns a number that looks random.
    fn next(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    }

    #[test]
    fn stored_read_records_are_those_that_were_set_last() {
        let mut seed = 1;
        let mut file = tempfile::tempfile().unwrap();
        let (mut tree, mut all): (Option<ReadTree>, BTreeMap<WorkspacePath, ReadRecord>) = Default::default();
        for turn in 0..60 {
            let mut changes = RecordChanges::new();
            for _ in 0..=(next(&mut seed) % 80) {
                let name = format!("{}/{}", next(&mut seed) % 3, next(&mut seed) % 400);
                let (path, set) = record(&name, next(&mut seed));
                changes.insert(path, set.filter(|_| turn % 4 > 0 || next(&mut seed).is_multiple_of(3)));
            }
            for (path, record) in &changes {
                match record {
                    Some(record) => drop(all.insert(path.clone(), record.clone())),
                    None => drop(all.remove(path)),
                }
            }
            tree = store(&mut file, tree.as_ref(), changes, turn % 17 == 16);
            let tree = tree.as_ref().unwrap();
            assert_eq!(tree.all(), all.values().cloned().collect::<Vec<_>>(), "{turn}");
            assert_eq!(tree.len(), all.len(), "{turn}");
            for number in 0..410 {
                let path = WorkspacePath::new(format!("1/{number}").as_ref()).unwrap();
                assert_eq!(tree.find(&path), all.get(&path).cloned(), "{turn} {path}");
            }
            assert!(!tree.is_damaged());
        }
    }

    #[test]
    fn every_changed_byte_of_a_block_is_damage() {
        let mut file = tempfile::tempfile().unwrap();
        let changes: RecordChanges = (0..60).map(|number| record(&format!("f{number}"), number)).collect();
        let tree = store(&mut file, None, changes, false).unwrap();
        let size = file.metadata().unwrap().len();
        for at in (0..size).step_by(7) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 1], at).unwrap();
            let damaged = ReadTree::new(file.try_clone().unwrap(), tree.root.clone());
            assert_eq!((damaged.all().len(), damaged.is_damaged()), (0, true), "{at}");
            file.write_all_at(&byte, at).unwrap();
        }
        file.set_len(size - 1).unwrap();
        assert!(tree.find(&WorkspacePath::new("f1".as_ref()).unwrap()).is_none() && tree.is_damaged());
    }

    #[test]
    fn tree_that_names_itself_is_damage() {
        let file = tempfile::tempfile().unwrap();
        let line = br#"{"path":"a","at":0,"bytes":0,"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","records":1,"total":0}"#;
        let many = [line.as_slice(), b"\n"].concat().repeat(400);
        file.write_all_at(&many, 0).unwrap();
        let path = WorkspacePath::new("a".as_ref()).unwrap();
        let block = |bytes| BlockRef {
            path: path.clone(),
            at: 0,
            bytes,
            sha256: Sha256::of(&many),
            records: 1,
            total: 0,
        };
        let tree =
            |level, bytes| ReadTree::new(file.try_clone().unwrap(), TreeRoot { level, root: block(bytes) });
        for (level, bytes) in [(u32::MAX, many.len() as u64), (1, u64::MAX), (9, many.len() as u64)] {
            let tree = tree(level, bytes);
            assert_eq!((tree.all().len(), tree.find(&path), tree.is_damaged()), (0, None, true), "{level}");
        }
    }

    #[test]
    fn long_paths_make_a_tree_too() {
        let mut file = tempfile::tempfile().unwrap();
        let name = |number: u64| format!("{number}/{}", ["x".repeat(250).as_str(); 15].join("/"));
        let changes: RecordChanges = (0..40).map(|number| record(&name(number), number)).collect();
        let tree = store(&mut file, None, changes, false).unwrap();
        assert_eq!(tree.find(&WorkspacePath::new(name(7).as_ref()).unwrap()).unwrap().size, 7);
        assert_eq!(tree.all().len(), 40);
    }
}
