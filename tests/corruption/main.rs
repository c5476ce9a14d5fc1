//! The bytes that a change does not address stay, whatever a file holds and whatever path leads to it.
//!
//! The matrix is encodings × line endings × an open or closed last line × kinds of names × tools. For lbx each cell is
//! asserted. `benches/corruption.md` is the table, with other tools that made the same change for comparison. `BLESS=1
//! cargo test --test corruption` rewrites it, with the other tools that are installed.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail, and its name says what it is about"
)]

mod cells;
mod checked;
#[path = "../common/mod.rs"]
#[expect(dead_code, unused_imports, reason = "each test crate uses a part of it")]
mod common;
mod lbx;
mod peers;
mod table;

use std::path::Path;

use cells::{Change, File, Place};
use checked::Fate;
use lbx::DEEDS;

/// Path of the table.
const TABLE: &str = "benches/corruption.md";

#[test]
fn tools_change_only_the_addressed_bytes() {
    let files = &File::all();
    let rows: Vec<table::Row> = std::thread::scope(|scope| {
        let tasks: Vec<_> =
            DEEDS.iter().map(|deed| scope.spawn(move || (deed, lbx::fates(deed, files)))).collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    });
    let mut faults = Vec::new();
    for (deed, fates) in &rows {
        for (file, fate, kind) in fates {
            let wanted = match file.place {
                _ if deed.refuses.contains(&file.content.encoding) => Fate::Refused,
                Place::HardLink if deed.change != Change::Nothing => Fate::Parted,
                _ => Fate::Exact,
            };
            if *fate != wanted {
                faults.push(format!("{} {}: {fate:?} {kind}", deed.name, file.path()));
            }
        }
    }
    let cells = rows.iter().map(|(_, fates)| fates.len()).sum::<usize>();
    assert!(faults.is_empty(), "{} of {cells}:\n{}", faults.len(), faults.join("\n"));
    assert!(cells > 5000, "{cells} cells");
    table::publish(&rows, files, &Path::new(env!("CARGO_MANIFEST_DIR")).join(TABLE));
}
