//! The numbers of a session's changes: each is given once, and names the entry in its history.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::io::Errno;

use super::places::DONE_FOLDER;
use crate::engine::store::session::SEQ_MAX;
use crate::engine::store::state::{STATE_FOLDER, State, names_in};
use crate::engine::workspace::fs;
use crate::error::Error;

/// How the name of a number ends that was given, though its change is not in the history.
const GIVEN: &str = ".given";
/// Digits of a number in the name of an entry, at least.
const NUMBER_DIGITS: usize = 8;

/// The folder of a session's history.
pub(super) fn history_folder(session: &str) -> String {
    format!("{DONE_FOLDER}/{session}")
}

/// The name of the change `seq` in a session's history, so that names sort as numbers do.
pub(super) fn history_name(seq: u64) -> String {
    format!("{seq:0NUMBER_DIGITS$}.lbx")
}

/// The number of the change that [`history_name`] gives this name; none of any other name.
fn change_in(name: &[u8]) -> Option<u64> {
    let digits = name.strip_suffix(b".lbx")?;
    // All of a history are looked at: to compare each with the name of its number would take longer.
    let is_padded =
        digits.len() == NUMBER_DIGITS || (digits.len() > NUMBER_DIGITS && !digits.starts_with(b"0"));
    if !is_padded || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|seq| *seq < SEQ_MAX)
}

/// Notes that a number was given.
pub(super) fn spend(done: &OwnedFd, seq: u64) -> Result<(), Errno> {
    match fs::create_at(done.as_fd(), format!("{seq:0NUMBER_DIGITS$}{GIVEN}").as_ref(), 0o600) {
        Ok(_) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Sees to it that no number of a folder of the history is given again, though its newest entry may
/// go.
///
/// # Errors
/// What the system says.
pub fn keep_numbers(done: &OwnedFd) -> Result<(), Error> {
    let last = names_in(done)?.iter().filter_map(|name| number_in(name)).max();
    let Some(last) = last else {
        return Ok(());
    };
    spend(done, last).map_err(|errno| Error::io("write the history in", STATE_FOLDER, errno))
}

/// The number of the next change of a session, which was never given; `last` is the newest that the
/// session itself knows of.
///
/// # Errors
/// What the system says.
pub fn next_number(state: &State, session: &str, last: u64) -> Result<u64, Error> {
    let Some(folder) = state.find_folder(&history_folder(session))? else {
        return Ok(last + 1);
    };
    let is_given = |seq: u64| {
        [history_name(seq), format!("{seq:0NUMBER_DIGITS$}{GIVEN}")]
            .iter()
            .any(|name| fs::stat_at(folder.as_fd(), name.as_ref()).is_ok())
    };
    // Its file may have been lost, or could not be written.
    if last == 0 || is_given(last + 1) {
        let given = names_in(&folder)?;
        let newest = given.iter().filter_map(|name| number_in(name)).max().unwrap_or(0);
        return Ok(last.max(newest) + 1);
    }
    Ok(last + 1)
}

/// The number that a name in a session's history stands for.
fn number_in(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".lbx").or_else(|| name.strip_suffix(GIVEN))?;
    digits.parse().ok().filter(|seq| *seq < SEQ_MAX)
}

/// The sessions that have a history.
///
/// # Errors
/// What the system says.
pub fn sessions(state: &State) -> Result<Vec<String>, Error> {
    state.find_folder(DONE_FOLDER)?.map_or_else(|| Ok(Vec::new()), |folder| names_in(&folder))
}

/// The numbers of the changes in a session's history, ascending.
///
/// # Errors
/// What the system says.
pub fn history(state: &State, session: &str) -> Result<Vec<u64>, Error> {
    let Some(folder) = state.find_folder(&history_folder(session))? else {
        return Ok(Vec::new());
    };
    let names = fs::names_in(&folder).map_err(|errno| Error::io("list a folder in", STATE_FOLDER, errno))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| change_in(name.as_bytes())).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_one_name() {
        for number in [0, 1, 12_345_678, 99_999_999, 100_000_000, SEQ_MAX - 1] {
            assert_eq!(change_in(history_name(number).as_bytes()), Some(number));
        }
        let above = history_name(SEQ_MAX);
        let others = ["1.lbx", "+0000001.lbx", "000000001.lbx", "0000000x.lbx", "00000001", ".lbx"];
        for other in others.into_iter().chain(["00000001.given", "99999999999999999999999.lbx", &above]) {
            assert_eq!(change_in(other.as_bytes()), None, "{other}");
        }
    }
}
