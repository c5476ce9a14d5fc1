//! What goes out: one JSON object on stdout, or the payload alone.

use std::io::{BufWriter, Write};

use super::call::Called;
use super::options::Options;
use crate::engine::Outcome;
use crate::envelope::Frame;
use crate::error::Error;
use crate::tools::{Reply, Text};

/// Bytes printed at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Prints a call's answer; answers the exit status.
#[must_use]
pub fn answer(tool: &str, options: &Options, called: &Called) -> u8 {
    let outcome = &called.outcome;
    match &called.answered {
        Ok(reply) if options.text => answer_as_text(reply.as_ref(), options, outcome),
        Ok(reply) => match print_reply(reply.as_ref(), &frame(tool, options, outcome)) {
            Ok(()) => status(reply.as_ref(), options),
            Err(error) => refuse_with(tool, options, &error, outcome),
        },
        Err(error) => refuse_with(tool, options, error, outcome),
    }
}

/// Prints a refusal that came before the call; answers the exit status.
#[must_use]
pub fn refuse(tool: &str, options: &Options, error: &Error) -> u8 {
    refuse_with(tool, options, error, &Outcome::default())
}

/// Prints bytes on stdout. Nobody can be told where they cannot be printed.
pub fn print(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// Prints one answer as a line, a piece at a time: a whole result may be large.
///
/// # Errors
/// `internal` where it cannot be JSON; then nothing was printed, unless it was longer than a piece.
pub fn print_reply(reply: &dyn Reply, frame: &Frame<'_>) -> Result<(), Error> {
    let mut stdout = BufWriter::with_capacity(PIECE_BYTES, std::io::stdout().lock());
    match reply.json(frame, &mut stdout) {
        Ok(()) => {
            let _ = stdout.write_all(b"\n").and_then(|()| stdout.flush());
            Ok(())
        }
        Err(error) if error.is_io() => {
            forget(stdout);
            Ok(())
        }
        Err(error) => {
            forget(stdout);
            Err(Error::internal(format!("the answer is no JSON: {error}")))
        }
    }
}

/// Drops what was not printed yet.
fn forget<W: Write>(writer: BufWriter<W>) {
    let _ = writer.into_parts();
}

/// Prints one answer as a line.
pub fn print_line(json: &[u8]) {
    print(&[json, b"\n"].concat());
}

/// What stands round the answer.
fn frame<'a>(tool: &'a str, options: &Options, outcome: &'a Outcome) -> Frame<'a> {
    Frame { tool, id: None, outcome, pretty: options.pretty }
}

/// The exit status of an answer.
fn status(reply: &dyn Reply, options: &Options) -> u8 {
    if options.exit_status { reply.status() } else { 0 }
}

/// Prints the payload alone, and the rest on stderr.
fn answer_as_text(reply: &dyn Reply, options: &Options, outcome: &Outcome) -> u8 {
    let mut text = Text::new(options.null);
    reply.text(&mut text);
    print(&text.out);
    for note in text.notes {
        say(&note);
    }
    say_warnings(outcome);
    status(reply, options)
}

/// Prints a refusal; answers its exit status.
fn refuse_with(tool: &str, options: &Options, error: &Error, outcome: &Outcome) -> u8 {
    if options.text {
        say(&format!("{}: {}", error.kind(), error.message()));
        match error.suggested_command() {
            Some(command) => say(&format!("try: {command}")),
            None => say(error.suggested_action()),
        }
        say_warnings(outcome);
    } else {
        print_line(&frame(tool, options, outcome).failure(error));
    }
    error.kind().exit_code()
}

/// Says what the caller should know though the call succeeded.
fn say_warnings(outcome: &Outcome) {
    for warning in &outcome.warnings {
        say(&format!("warning: {warning}"));
    }
}

/// Prints a line on stderr.
fn say(line: &str) {
    // As with stdout: nobody can be told.
    let _ = writeln!(std::io::stderr().lock(), "lbx: {line}");
}
