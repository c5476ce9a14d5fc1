//! What is fuzzed: for any bytes, nothing here may panic, hang or need much memory, and what each
//! function asserts holds.
//!
//! libFuzzer calls these functions with what it makes up (`fuzz/run.sh`); `tests/fuzz` calls them with
//! the seeds and what a seeded generator makes of those, in every test run.

mod patches;
mod protocol;
mod settings;
mod texts;
mod workspaces;

/// A function that is fuzzed: it takes any bytes.
pub type Target = fn(&[u8]);

/// Every target: its name, which is that of its folder of seeds, and its function.
pub const TARGETS: &[(&str, Target)] = &[
    ("unified", patches::unified),
    ("codex", patches::codex),
    ("blocks", patches::blocks),
    ("apply", patches::apply),
    ("diffs", patches::diffs),
    ("encodings", texts::encodings),
    ("edits", texts::edits),
    ("sketches", texts::sketches),
    ("markdown", texts::markdown),
    ("merges", texts::merges),
    ("jsonc", settings::jsonc),
    ("policy", settings::policy),
    ("patterns", settings::patterns),
    ("values", settings::values),
    ("flags", protocol::flags),
    ("messages", protocol::messages),
    ("calls", protocol::calls),
    ("dialects", protocol::dialects),
    ("state", workspaces::state),
    ("repository", workspaces::repository),
    ("files", workspaces::files),
];

/// What separates the parts of an input: a byte that UTF-8 does not have.
const SEPARATOR: u8 = 0xfe;

/// An input cut at each separator into `N` parts; the last one takes what is left, and those that are
/// missing are empty.
fn split<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    let mut parts = data.splitn(N, |byte| *byte == SEPARATOR);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}
