//! A call in a container whose stdin and stdout pass through this process.
//!
//! What the engine runs is not given this process's own pipes: where this process is killed, the pipes that
//! it made close, and the call inside ends with its stdin. What came out is counted, so that a container
//! that stops in the middle is told from a call that answered.

use std::io::{self, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use crate::engine::workspace::children;

/// Bytes that pass at once.
const PIECE_BYTES: usize = 64 << 10;

/// What the call inside reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// This process's stdin.
    Own,
    /// Nothing; its end tells it that the call outside has ended.
    Tie,
}

/// A call that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Relayed {
    /// Its exit status.
    pub status: ExitStatus,
    /// Whether it wrote anything to stdout.
    pub has_answered: bool,
}

/// Runs a command to its end.
///
/// # Errors
/// Where it cannot be started or waited for.
pub fn run(mut command: Command, input: Input) -> io::Result<Relayed> {
    let mut child = children::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
    let mut stdin = child.stdin.take();
    if input == Input::Own
        && let Some(stdin) = stdin.take()
    {
        // It ends with this process, at the latest.
        std::thread::spawn(move || pass_in(stdin));
    }
    let has_answered = pass_out(&mut child);
    let status = child.wait()?;
    drop(stdin);
    Ok(Relayed { status, has_answered })
}

/// Passes stdin on, until its end or until nobody reads it any more.
fn pass_in(mut to: ChildStdin) {
    let mut piece = vec![0; PIECE_BYTES];
    let mut from = io::stdin().lock();
    loop {
        match from.read(&mut piece) {
            Ok(bytes) if bytes > 0 => {
                if to.write_all(piece.get(..bytes).unwrap_or_default()).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// Passes on what comes out, piece by piece, until its end or until nobody wants it; whether there was
/// anything.
fn pass_out(child: &mut Child) -> bool {
    let Some(mut from) = child.stdout.take() else { return false };
    let mut piece = vec![0; PIECE_BYTES];
    let mut to = io::stdout().lock();
    let mut has_answered = false;
    loop {
        match from.read(&mut piece) {
            Ok(bytes) if bytes > 0 => {
                has_answered = true;
                let written = to.write_all(piece.get(..bytes).unwrap_or_default());
                if written.and_then(|()| to.flush()).is_err() {
                    return true;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return has_answered,
        }
    }
}
