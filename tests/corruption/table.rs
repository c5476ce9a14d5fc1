//! The published table.

use std::fmt::Write as _;
use std::path::Path;

use super::cells::{Content, Encoding, Ending, File, Place};
use super::checked::Fate;
use super::lbx::Deed;
use super::peers::PEERS;

/// Outcomes of one row of lbx.
pub type Row<'a> = (&'a Deed, Vec<(File, Fate, String)>);

/// Heading of the part about other tools.
const BESIDE: &str = "## Compared with other tools\n";
/// Columns of that part.
const FATES: [(&str, &[Fate]); 6] = [
    ("exact", &[Fate::Exact, Fate::Parted]),
    ("refused", &[Fate::Refused]),
    ("nothing done, and nothing said", &[Fate::Nothing]),
    ("other bytes changed", &[Fate::Bytes]),
    ("link replaced by a file", &[Fate::Link]),
    ("mode or attribute lost", &[Fate::Attributes]),
];

/// Compares the table with the outcomes, or rewrites it.
pub fn publish(rows: &[Row<'_>], files: &[File], path: &Path) {
    let published = std::fs::read_to_string(path).unwrap_or_default();
    let (ours, others) = published.split_once(BESIDE).unwrap_or_default();
    let wanted = of_lbx(rows);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, format!("{wanted}{BESIDE}{}", beside(rows, files, others))).unwrap();
        return;
    }
    assert!(
        ours == wanted,
        "{} is stale; BLESS=1 cargo test --test corruption writes it again",
        path.display()
    );
}

/// Returns the part about lbx.
fn of_lbx(rows: &[Row<'_>]) -> String {
    let cells: usize = rows.iter().map(|(_, fates)| fates.len()).sum();
    let names = |names: Vec<&str>| names.join(", ");
    let mut text = format!(
        "# Bytes that a change does not address\n\n\
         Each of {cells} cells is a file, a name that leads to it, and a call of lbx. `tests/corruption` makes each call\n\
         with the real binary and compares every byte, the mode, the link and the extended attribute with what they must be.\n\n\
         - Line endings: {}; the last line ends or does not.\n\
         - Names: {}.\n\n\
         A cell of the table counts the calls that made the change and nothing else, of {} each. The others were refused\n\
         (`binary_file`, `not_read`) and changed nothing. None did anything else. A hard link is replaced: its other\n\
         name keeps the old bytes, and a warning says so.\n\n",
        names(Ending::ALL.iter().map(|ending| ending.name()).collect()),
        names(Place::ALL.iter().map(|place| place.name()).collect()),
        Place::ALL.len() * Content::all().len() / Encoding::ALL.len(),
    );
    let encodings: Vec<&str> = Encoding::ALL.iter().map(|encoding| encoding.name()).collect();
    let _ = writeln!(text, "| call | {} |\n|---|{}", encodings.join(" | "), "--:|".repeat(encodings.len()));
    for (deed, fates) in rows {
        let made = |encoding: Encoding| {
            let is_made = |(file, fate, _): &&(File, Fate, String)| {
                file.content.encoding == encoding && matches!(fate, Fate::Exact | Fate::Parted)
            };
            match fates.iter().filter(is_made).count() {
                0 => "refused".to_owned(),
                count => count.to_string(),
            }
        };
        let _ = writeln!(text, "| {} | {} |", deed.name, Encoding::ALL.map(made).join(" | "));
    }
    text.push('\n');
    text
}

/// Returns the part about other tools; a tool that is not installed keeps its line.
fn beside(rows: &[Row<'_>], files: &[File], before: &str) -> String {
    let mut text = format!(
        "\nOne line of each of {} files is changed, from `target line two` to `TARGET LINE 2`. Where a hard link parts,\n\
         that counts as exact for all of them.\n\n| tool | {} |\n|---|{}\n",
        files.len(),
        FATES.map(|(name, _)| name).join(" | "),
        "--:|".repeat(FATES.len())
    );
    for (deed, fates) in rows.iter().filter(|(deed, _)| deed.name == "edit, one line") {
        let fates: Vec<Fate> = fates.iter().map(|(_, fate, _)| *fate).collect();
        text.push_str(&line(&format!("lbx {}", deed.name.split(',').next().unwrap_or_default()), &fates));
    }
    for peer in PEERS {
        let known = || before.lines().find(|line| line.starts_with(&format!("| {} |", peer.name)));
        match peer.fates(files) {
            Some(fates) => text.push_str(&line(peer.name, &fates)),
            None => text.extend(known().map(|line| format!("{line}\n"))),
        }
    }
    text
}

/// Returns a line of that part.
fn line(name: &str, fates: &[Fate]) -> String {
    let count = |(_, of): (&str, &[Fate])| fates.iter().filter(|fate| of.contains(fate)).count().to_string();
    format!("| {name} | {} |\n", FATES.map(count).join(" | "))
}
