//! Runs the targets of `fuzz/` on their seeds and on seeded mutations of them, so that every test run executes them.
//!
//! `LBX_FUZZ_SECONDS=60` gives each target a minute instead of a fixed number of inputs; `LBX_SEED=N` gives other
//! inputs.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may fail, and its name says what it is about"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

#[path = "../../fuzz/entry/mod.rs"]
mod entry;
#[path = "../../src/random.rs"]
mod random;

use random::Random;

/// Number of inputs made of all seeds of a target together.
const INPUTS: usize = 1_000;
/// Number of inputs for a target that works on files.
const INPUTS_ON_FILES: usize = 60;
/// Targets that work on files.
const ON_FILES: [&str; 5] = ["calls", "dialects", "state", "repository", "files"];
/// Size in bytes at which inputs are cut.
const INPUT_BYTES_MAX: usize = 4096;
/// Variable that gives the child its target.
const CHILD: &str = "LBX_FUZZ_CHILD";

impl Random {
    /// Returns `seed` with some bytes changed, and pieces removed, repeated, or inserted from `others`.
    fn mutated(&mut self, seed: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
        let mut data = seed.to_vec();
        for _ in 0..=self.below(5) {
            let at = self.below(data.len() + 1);
            let end = (at + self.below(30)).min(data.len());
            match self.below(6) {
                0 | 1 if at < data.len() => data[at] = u8::try_from(self.below(256)).unwrap(),
                2 => drop(data.drain(at..end)),
                3 => {
                    let piece = data[at..end].to_vec();
                    data.splice(end..end, piece);
                }
                4 => {
                    let other = &others[self.below(others.len())];
                    let from = self.below(other.len());
                    let to = (from + self.below(40)).min(other.len());
                    data.splice(at..at, other[from..to].iter().copied());
                }
                _ => data.truncate(end),
            }
        }
        data.truncate(INPUT_BYTES_MAX);
        data
    }
}

/// Returns the folder of the seeds.
fn seeds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds")
}

/// Returns the seeds of a target, sorted by name.
fn seeds_of(target: &str) -> Vec<Vec<u8>> {
    let mut files: Vec<_> = fs::read_dir(seeds().join(target)).unwrap().flatten().collect();
    files.sort_by_key(fs::DirEntry::path);
    files.iter().map(|file| fs::read(file.path()).unwrap()).collect()
}

/// Returns the number in an environment variable.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns the parent of the home folders: in memory if possible, since they are temporary.
fn folder() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if fs::metadata(&memory).is_ok_and(|stat| stat.is_dir()) { memory } else { std::env::temp_dir() }
}

/// Runs one target in its own process with its own home folder. It may overflow its stack without ending the other
/// targets.
fn run(target: &str) {
    if std::env::var(CHILD).is_ok_and(|own| own == target) {
        return inputs(target);
    }
    let home = tempfile::Builder::new().prefix("lbx-fuzz-").tempdir_in(folder()).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("{target}_takes_anything"), "--nocapture"])
        .env(CHILD, target)
        .env("HOME", home.path())
        .env("XDG_STATE_HOME", home.path().join("state"))
        .env("XDG_CONFIG_HOME", home.path().join("config"))
        .env("RUST_BACKTRACE", "0")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("LBX_STATE_ID", "5ca1ab1e0ddba11c0ffee15badc0de42")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", output.status);
    let told = String::from_utf8_lossy(&output.stdout);
    told.lines().filter(|line| line.starts_with(target)).for_each(|line| println!("{line}"));
}

/// Runs one target over its seeds and over mutations of them.
fn inputs(target: &str) {
    let entry = entry::TARGETS.iter().find(|entry| entry.0 == target).expect("a target of that name").1;
    let own = seeds_of(target);
    assert!(!own.is_empty(), "no seed for {target}");
    let count = if ON_FILES.contains(&target) { INPUTS_ON_FILES } else { INPUTS };
    let (begun, seconds) = (Instant::now(), number("LBX_FUZZ_SECONDS").map(Duration::from_secs));
    let mut random = Random::new(number("LBX_SEED").unwrap_or(0x9e37_79b9_7f4a_7c15) | 1);
    let is_over = |made: usize| seconds.map_or(made >= count, |most| begun.elapsed() >= most);
    let tried = |data: &[u8]| {
        let is_fine = std::panic::catch_unwind(|| entry(data)).is_ok();
        if !is_fine {
            eprintln!("{target} fails for b\"{}\"", data.escape_ascii());
        }
        assert!(is_fine);
    };
    own.iter().for_each(|seed| tried(seed));
    let mut made = 0;
    while !is_over(made) {
        let seed = random.of(&own);
        tried(&random.mutated(seed, &own));
        made += 1;
    }
    println!("{target}: {made} inputs in {:?}", begun.elapsed());
}

/// Declares a test for each target, and one that checks that no target is missing.
macro_rules! targets {
    ($(fn $test:ident() $target:literal)*) => {
        $(
            #[test]
            fn $test() {
                run($target);
            }
        )*

        #[test]
        fn every_fuzz_target_runs_and_has_seeds() {
            let listed: Vec<&str> = entry::TARGETS.iter().map(|target| target.0).collect();
            assert_eq!(listed, [$($target),*]);
            $(assert_eq!(stringify!($test), concat!($target, "_takes_anything"));)*
            let mut folders: Vec<_> = fs::read_dir(seeds()).unwrap().flatten().map(|it| it.file_name()).collect();
            folders.sort();
            let mut sorted = listed;
            sorted.sort_unstable();
            assert_eq!(folders, sorted);
        }
    };
}

targets! {
    fn unified_takes_anything() "unified"
    fn codex_takes_anything() "codex"
    fn blocks_takes_anything() "blocks"
    fn by_line_takes_anything() "by_line"
    fn apply_takes_anything() "apply"
    fn diffs_takes_anything() "diffs"
    fn encodings_takes_anything() "encodings"
    fn edits_takes_anything() "edits"
    fn sketches_takes_anything() "sketches"
    fn markdown_takes_anything() "markdown"
    fn merges_takes_anything() "merges"
    fn deltas_takes_anything() "deltas"
    fn jsonc_takes_anything() "jsonc"
    fn policy_takes_anything() "policy"
    fn patterns_takes_anything() "patterns"
    fn values_takes_anything() "values"
    fn indexes_takes_anything() "indexes"
    fn flags_takes_anything() "flags"
    fn messages_takes_anything() "messages"
    fn calls_takes_anything() "calls"
    fn dialects_takes_anything() "dialects"
    fn state_takes_anything() "state"
    fn repository_takes_anything() "repository"
    fn files_takes_anything() "files"
}
