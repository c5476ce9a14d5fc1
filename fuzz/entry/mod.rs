//! Fuzz targets. For any bytes, nothing here may panic, hang or need much memory, and the assertions of each target
//! hold.
//!
//! libFuzzer calls these functions with inputs that it generates (`fuzz/run.sh`). `tests/fuzz` calls them in every test
//! run, with the seeds and with seeded mutations of them.

mod patches;
mod protocol;
mod settings;
mod texts;
mod workspaces;

/// A fuzz target: takes any bytes.
pub type Target = fn(&[u8]);

/// All targets: the name, which is also the name of its seed folder, and the function.
pub const TARGETS: &[(&str, Target)] = &[
    ("unified", patches::unified),
    ("codex", patches::codex),
    ("blocks", patches::blocks),
    ("by_line", patches::by_line),
    ("apply", patches::apply),
    ("diffs", patches::diffs),
    ("encodings", texts::encodings),
    ("edits", texts::edits),
    ("sketches", texts::sketches),
    ("markdown", texts::markdown),
    ("merges", texts::merges),
    ("deltas", texts::deltas),
    ("jsonc", settings::jsonc),
    ("policy", settings::policy),
    ("patterns", settings::patterns),
    ("values", settings::values),
    ("indexes", settings::indexes),
    ("flags", protocol::flags),
    ("messages", protocol::messages),
    ("calls", protocol::calls),
    ("dialects", protocol::dialects),
    ("state", workspaces::state),
    ("repository", workspaces::repository),
    ("files", workspaces::files),
];

/// Separator of the parts of an input: a byte that never occurs in UTF-8.
const SEPARATOR: u8 = 0xfe;

/// Splits an input at each separator into `N` parts. The last part takes the rest; missing parts are empty.
fn split<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    let mut parts = data.splitn(N, |byte| *byte == SEPARATOR);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}
