//! The functions that `fuzz/` fuzzes, over its seeds and what a seeded generator makes of them, so
//! that they run in every test run and cannot rot.

use std::fs;
use std::path::Path;

use lbx::text::patch;

#[path = "../../fuzz/entry.rs"]
mod entry;

/// Inputs made of each seed.
const MUTATIONS: u64 = 400;

/// A small generator of numbers; the same seed gives the same numbers.
struct Random(u64);

impl Random {
    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % end.max(1)
    }

    /// `seed` with a few bytes changed, pieces removed, doubled, or put in from `others`.
    fn mutated(&mut self, seed: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
        let mut data = seed.to_vec();
        for _ in 0..=self.below(5) {
            let at = self.below(data.len() + 1);
            let end = (at + self.below(30)).min(data.len());
            match self.below(5) {
                0 if at < data.len() => data[at] = u8::try_from(self.below(256)).unwrap(),
                1 => drop(data.drain(at..end)),
                2 => {
                    let piece = data[at..end].to_vec();
                    data.splice(end..end, piece);
                }
                3 => {
                    let other = &others[self.below(others.len())];
                    let from = self.below(other.len());
                    let to = (from + self.below(40)).min(other.len());
                    data.splice(at..at, other[from..to].iter().copied());
                }
                _ => data.truncate(end),
            }
        }
        data
    }
}

/// Runs one target over its seeds, over those of the others and over mutations of them.
fn run(target: &str, entry: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    let mut all = Vec::new();
    for name in ["apply", "blocks", "codex", "unified"] {
        let mut files: Vec<_> = fs::read_dir(folder.join(name)).unwrap().flatten().collect();
        files.sort_by_key(fs::DirEntry::path);
        all.extend(files.iter().map(|file| (name == target, fs::read(file.path()).unwrap())));
    }
    assert!(all.iter().any(|(is_own, _)| *is_own), "no seed for {target}");
    let texts: Vec<Vec<u8>> = all.iter().map(|(_, text)| text.clone()).collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (is_own, seed) in &all {
        entry(seed);
        for _ in 0..if *is_own { MUTATIONS } else { MUTATIONS / 8 } {
            let data = random.mutated(seed, &texts);
            let is_fine = std::panic::catch_unwind(|| entry(&data)).is_ok();
            assert!(is_fine, "{target} fails for {}", data.escape_ascii());
        }
    }
}

#[test]
fn the_parser_of_unified_diffs_takes_anything() {
    run("unified", entry::unified);
}

#[test]
fn the_parser_of_envelopes_takes_anything() {
    run("codex", entry::codex);
}

#[test]
fn the_parser_of_blocks_takes_anything() {
    run("blocks", entry::blocks);
}

#[test]
fn leniency_and_fuzz_never_change_what_applies_strictly() {
    run("apply", entry::apply);
}
