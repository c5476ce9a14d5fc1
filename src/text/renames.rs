//! Renamed files among removed and added ones, found as git finds them: equal bytes first, then the same name in another
//! folder, then the most similar bytes.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};

/// Smallest similarity of a renamed file, in percent.
const SIMILARITY_MIN: usize = 50;
/// Smallest similarity of a file that keeps its name in another folder, if no other has that name, in percent.
const SAME_NAME_SIMILARITY_MIN: usize = 75;
/// Full similarity, in percent.
const SIMILARITY_ALL: usize = 100;
/// Similarity is computed in these parts of one percent.
const PARTS: usize = 600;
/// Largest file whose similarity is computed, in bytes.
pub const COMPARED_BYTES_MAX: usize = 256 * 1024;
/// Longest chunk of a line that is compared as one, in bytes.
const CHUNK_BYTES_MAX: usize = 64;

/// File that may be one side of a rename.
#[derive(Debug, Clone, Copy)]
pub struct RenameCandidate<'a, I> {
    /// Path from the root.
    pub path: &'a [u8],
    /// Identity of type and bytes; `None` for an empty file, which is like no other.
    pub id: Option<I>,
}

impl<I> RenameCandidate<'_, I> {
    /// Returns the last component of its path.
    fn name(&self) -> &[u8] {
        self.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }
}

/// A renamed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rename {
    /// Index among the removed files.
    pub from: usize,
    /// Index among the added files.
    pub to: usize,
    /// Similarity in percent; 100 only for equal bytes.
    pub similarity: usize,
}

/// List in which a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum List {
    /// Removed files.
    Gone,
    /// Added files.
    Come,
}

/// Files that are compared by similarity.
pub struct SimilarFiles<'a, E> {
    /// True for a removed file that may be compared.
    pub is_relevant: &'a dyn Fn(usize) -> bool,
    /// Most pairs that are compared; beyond it, none is.
    pub pairs_max: usize,
    /// Returns the bytes of a file, or `None` for one that is like no other.
    pub read: &'a dyn Fn(List, usize) -> Result<Option<Vec<u8>>, E>,
}

/// Finds the renames between two lists that are ordered by path.
///
/// # Errors
/// Returns the errors of `read`.
pub fn find<I: Eq + Hash + Copy, E>(
    gone: &[RenameCandidate<'_, I>],
    come: &[RenameCandidate<'_, I>],
    compared: &SimilarFiles<'_, E>,
) -> Result<Vec<Rename>, E> {
    let (is_gone, is_come) = (vec![false; gone.len()], vec![false; come.len()]);
    let mut search =
        RenameSearch { gone, come, compared, chunks: HashMap::new(), is_gone, is_come, found: Vec::new() };
    search.equal_bytes();
    search.same_name()?;
    search.similar()?;
    search.found.sort_by_key(|rename| rename.to);
    Ok(search.found)
}

/// Returns the similarity of two texts that differ, in percent.
pub fn similarity(one: &[u8], other: &[u8]) -> usize {
    (Chunks::of(one).score(&Chunks::of(other)) / PARTS).min(SIMILARITY_ALL - 1)
}

/// A running search.
struct RenameSearch<'a, I, E> {
    /// Removed files.
    gone: &'a [RenameCandidate<'a, I>],
    /// Added files.
    come: &'a [RenameCandidate<'a, I>],
    /// Files that are compared by similarity.
    compared: &'a SimilarFiles<'a, E>,
    /// Chunks of the files that were read.
    chunks: HashMap<(List, usize), Option<Chunks>>,
    /// True for each removed file of a rename.
    is_gone: Vec<bool>,
    /// True for each added file of a rename.
    is_come: Vec<bool>,
    /// Renames so far.
    found: Vec<Rename>,
}

impl<I: Eq + Hash + Copy, E> RenameSearch<'_, I, E> {
    /// Returns true if a file is part of a rename.
    fn is_found(&self, list: List, index: usize) -> bool {
        let found = if list == List::Gone { &self.is_gone } else { &self.is_come };
        found.get(index).copied().unwrap_or(false)
    }

    /// Finds files with equal bytes; of several, one that keeps its name, else the first.
    fn equal_bytes(&mut self) {
        let mut by_id: HashMap<I, Vec<usize>> = HashMap::new();
        for (from, gone) in self.gone.iter().enumerate() {
            if let Some(id) = gone.id {
                by_id.entry(id).or_default().push(from);
            }
        }
        for (to, come) in self.come.iter().enumerate() {
            let Some(equal) = come.id.and_then(|id| by_id.get_mut(&id)) else { continue };
            let has_name = |from: &usize| self.gone.get(*from).is_some_and(|gone| gone.name() == come.name());
            let at = equal.iter().position(has_name).unwrap_or(0);
            if at < equal.len() {
                let from = equal.remove(at);
                self.keep(from, to, SIMILARITY_ALL);
            }
        }
    }

    /// Finds files that moved to another folder: one removed file and one added file have this name.
    fn same_name(&mut self) -> Result<(), E> {
        let unique = |list: List, files: &[RenameCandidate<'_, I>]| {
            let mut names: HashMap<Vec<u8>, Option<usize>> = HashMap::new();
            for (index, file) in files.iter().enumerate().filter(|(index, _)| !self.is_found(list, *index)) {
                let only = names.entry(file.name().to_vec()).and_modify(|only| *only = None);
                only.or_insert(Some(index));
            }
            names
        };
        let (gone, come) = (unique(List::Gone, self.gone), unique(List::Come, self.come));
        let mut pairs: Vec<(usize, usize)> = gone
            .iter()
            .filter_map(|(name, from)| Some(((*from)?, (*come.get(name)?)?)))
            .filter(|(from, _)| (self.compared.is_relevant)(*from))
            .collect();
        pairs.sort_unstable();
        for (from, to) in pairs {
            let score = self.score(from, to)?;
            if score >= SAME_NAME_SIMILARITY_MIN * PARTS {
                self.keep(from, to, (score / PARTS).min(SIMILARITY_ALL - 1));
            }
        }
        Ok(())
    }

    /// Finds the most similar pairs among the files that are left, unless there are too many.
    fn similar(&mut self) -> Result<(), E> {
        let left = |list, count| (0..count).filter(|index| !self.is_found(list, *index)).collect();
        let mut gone: Vec<usize> = left(List::Gone, self.gone.len());
        gone.retain(|from| (self.compared.is_relevant)(*from));
        let come: Vec<usize> = left(List::Come, self.come.len());
        if gone.len() * come.len() > self.compared.pairs_max {
            return Ok(());
        }
        let mut pairs = Vec::new();
        for &to in &come {
            for &from in &gone {
                let score = self.score(from, to)?;
                let has_name = self.gone.get(from).map(RenameCandidate::name)
                    == self.come.get(to).map(RenameCandidate::name);
                if score >= SIMILARITY_MIN * PARTS {
                    pairs.push((std::cmp::Reverse((score, has_name)), to, from));
                }
            }
        }
        pairs.sort_unstable();
        for (std::cmp::Reverse((score, _)), to, from) in pairs {
            if !self.is_found(List::Gone, from) && !self.is_found(List::Come, to) {
                self.keep(from, to, (score / PARTS).min(SIMILARITY_ALL - 1));
            }
        }
        Ok(())
    }

    /// Adds a rename.
    fn keep(&mut self, from: usize, to: usize, similarity: usize) {
        for (is_found, index) in [(&mut self.is_gone, from), (&mut self.is_come, to)] {
            if let Some(is_found) = is_found.get_mut(index) {
                *is_found = true;
            }
        }
        self.found.push(Rename { from, to, similarity });
    }

    /// Returns the similarity of two files, in parts of a percent.
    fn score(&mut self, from: usize, to: usize) -> Result<usize, E> {
        for key in [(List::Gone, from), (List::Come, to)] {
            if !self.chunks.contains_key(&key) {
                let bytes = (self.compared.read)(key.0, key.1)?;
                self.chunks.insert(key, bytes.map(|bytes| Chunks::of(&bytes)));
            }
        }
        let chunks = |list, index| self.chunks.get(&(list, index)).and_then(Option::as_ref);
        let both = chunks(List::Gone, from).zip(chunks(List::Come, to));
        Ok(both.map_or(0, |(before, after)| before.score(after)))
    }
}

/// Lines of a file, long ones in chunks, in any order.
struct Chunks {
    /// Size of the file in bytes.
    size: usize,
    /// Bytes in chunks of equal hash.
    bytes: HashMap<u64, usize>,
}

impl Chunks {
    /// Returns the chunks of a file.
    fn of(text: &[u8]) -> Self {
        let mut bytes = HashMap::new();
        if text.len() <= COMPARED_BYTES_MAX {
            for line in text.split_inclusive(|byte| *byte == b'\n') {
                for chunk in line.chunks(CHUNK_BYTES_MAX) {
                    let mut hasher = DefaultHasher::new();
                    chunk.hash(&mut hasher);
                    *bytes.entry(hasher.finish()).or_default() += chunk.len();
                }
            }
        }
        Self { size: text.len(), bytes }
    }

    /// Returns the share of the larger file that both have in common, in parts of a percent.
    fn score(&self, after: &Self) -> usize {
        let (smaller, larger) = (self.size.min(after.size), self.size.max(after.size));
        if larger == 0 || smaller * 2 < larger {
            return 0;
        }
        let common =
            self.bytes.iter().map(|(chunk, count)| after.bytes.get(chunk).map_or(0, |it| *it.min(count)));
        common.sum::<usize>() * SIMILARITY_ALL * PARTS / larger
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the renames between two lists of files.
    fn renames(gone: &[(&str, &str)], come: &[(&str, &str)]) -> Vec<(String, String, usize)> {
        fn list<'a>(files: &[(&'a str, &'a str)]) -> Vec<RenameCandidate<'a, &'a str>> {
            let candidate = |(path, text): &(&'a str, &'a str)| RenameCandidate {
                path: path.as_bytes(),
                id: Some(*text).filter(|text| !text.is_empty()),
            };
            files.iter().map(candidate).collect()
        }
        let read = |side, index: usize| -> Result<_, ()> {
            let files = if side == List::Gone { gone } else { come };
            Ok(Some(files[index].1.as_bytes().to_vec()))
        };
        let compared = SimilarFiles { is_relevant: &|_| true, pairs_max: 100, read: &read };
        let found = find(&list(gone), &list(come), &compared).unwrap();
        let named = |rename: Rename| {
            (gone[rename.from].0.to_owned(), come[rename.to].0.to_owned(), rename.similarity)
        };
        found.into_iter().map(named).collect()
    }

    #[test]
    fn renames_prefer_equal_bytes_then_names_then_similarity() {
        let text: String = (0..10).map(|line| format!("line {line}\n")).collect();
        let edited = text.replace("line 3", "LINE 3");
        for (gone, come, wanted) in [
            (vec![("a", "1\n"), ("x/b", "1\n")], vec![("y/b", "1\n")], vec![("x/b", "y/b", 100)]),
            (vec![("a", &*text)], vec![("b", &*edited), ("c", &*text)], vec![("a", "c", 100)]),
            (vec![("x/a", &*text)], vec![("b", &*text), ("y/a", &*edited)], vec![("x/a", "b", 100)]),
            (vec![("a", &*text)], vec![("b", &*edited)], vec![("a", "b", 90)]),
            (vec![("a", "")], vec![("b", "")], vec![]),
            (vec![("a", "1\n2\n3\n4\n")], vec![("b", "1\n5\n6\n7\n")], vec![]),
        ] {
            let wanted: Vec<_> =
                wanted.iter().map(|(a, b, c)| ((*a).to_owned(), (*b).to_owned(), *c)).collect();
            assert_eq!(renames(&gone, &come), wanted, "{gone:?} {come:?}");
        }
    }
}
