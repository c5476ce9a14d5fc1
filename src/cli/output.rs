//! What goes out: one JSON object on stdout, or the payload alone.

use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::terminal;
use crate::app::called::Called;
use crate::app::options::Options;
use crate::catalog;
use crate::engine::CallNotes;
use crate::envelope::Frame;
use crate::error::{Error, ErrorKind};
use crate::text::escaped;
use crate::tools::{Answered, Effect, Reader, Reply, Text};

/// Bytes printed at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Prints a call's answer and counts the call; answers the exit status.
#[must_use]
pub fn answer(tool: &str, options: &Options, called: Called) -> u8 {
    let Called { answered, outcome, tally } = called;
    let status = print_answer(tool, options, &answered, &outcome);
    if let Some(tally) = tally {
        tally.close(take_printed());
    }
    status
}

/// Prints an answer or a refusal; answers the exit status.
fn print_answer(tool: &str, options: &Options, answered: &Answered, outcome: &CallNotes) -> u8 {
    match answered {
        Ok(reply) if options.text => answer_as_text(tool, reply.as_ref(), options, outcome),
        Ok(reply) => match print_reply(reply.as_ref(), &frame(tool, options, outcome)) {
            Ok(printed) => first_of(printed, status(reply.as_ref(), options)),
            Err(error) => refuse_with(tool, options, &error, outcome),
        },
        Err(error) => refuse_with(tool, options, error, outcome),
    }
}

/// Prints a refusal that came before the call; answers the exit status.
#[must_use]
pub fn refuse(tool: &str, options: &Options, error: &Error) -> u8 {
    refuse_with(tool, options, error, &CallNotes::default())
}

/// Prints bytes on stdout; the exit status is a failure's where they could not be printed.
#[must_use]
pub fn print(bytes: &[u8]) -> u8 {
    let mut stdout = Counted(std::io::stdout().lock());
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written.map_or_else(|error| unprinted(&error), |()| 0)
}

/// Prints one answer as a line, a piece at a time: a whole result may be large; the exit status
/// as of [`print()`].
///
/// # Errors
/// `internal` where it cannot be JSON; then nothing was printed, unless it was longer than a piece.
pub fn print_reply(reply: &dyn Reply, frame: &Frame<'_>) -> Result<u8, Error> {
    let mut stdout = BufWriter::with_capacity(PIECE_BYTES, Counted(std::io::stdout().lock()));
    match reply.json(frame, &mut stdout) {
        Ok(()) => {
            let written = stdout.write_all(b"\n").and_then(|()| stdout.flush());
            forget(stdout);
            Ok(written.map_or_else(|error| unprinted(&error), |()| 0))
        }
        Err(error) if error.is_io() => {
            forget(stdout);
            Ok(unprinted(&error.into()))
        }
        Err(error) => {
            forget(stdout);
            Err(Error::internal(format!("the response is not valid JSON: {error}")))
        }
    }
}

/// Bytes that were printed and not asked for yet: a process prints one answer at a time.
static PRINTED: AtomicUsize = AtomicUsize::new(0);

/// How many bytes were printed since this was last asked.
#[must_use]
pub fn take_printed() -> usize {
    PRINTED.swap(0, Ordering::Relaxed)
}

/// Counts what is printed through it.
struct Counted<W>(W);

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.0.write(bytes)?;
        PRINTED.fetch_add(count, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Says that nothing could be printed; answers the exit status.
fn unprinted(error: &std::io::Error) -> u8 {
    // As at the left of `| head`.
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        return 0;
    }
    say(&format!("the response could not be written to stdout: {error}"));
    ErrorKind::IoError.exit_code()
}

/// Drops what was not printed yet.
fn forget<W: Write>(writer: BufWriter<W>) {
    let _ = writer.into_parts();
}

/// Prints one answer as a line; the exit status as of [`print()`].
#[must_use]
pub fn print_line(json: &[u8]) -> u8 {
    print(&[json, b"\n"].concat())
}

/// What stands round the answer.
fn frame<'a>(tool: &'a str, options: &Options, outcome: &'a CallNotes) -> Frame<'a> {
    Frame { tool, id: None, outcome, pretty: options.pretty }
}

/// The exit status of an answer.
fn status(reply: &dyn Reply, options: &Options) -> u8 {
    let of_result = if options.exit_status { reply.status() } else { 0 };
    let of_text = if options.text { reply.text_status() } else { 0 };
    first_of(of_result, of_text)
}

/// The first exit status that is a failure's.
#[must_use]
pub fn first_of(one: u8, other: u8) -> u8 {
    if one == 0 { other } else { one }
}

/// Prints the payload alone, and the rest on stderr.
fn answer_as_text(tool: &str, reply: &dyn Reply, options: &Options, outcome: &CallNotes) -> u8 {
    let reader = if options.person { terminal::reader(options) } else { Reader::Program };
    let mut text = Text::new(options.null).of_a_dry_run(outcome.dry_run).for_reader(reader);
    reply.text(&mut text);
    // What a change answers is a few lines, which nobody wants to leave a pager for.
    let is_to_read = catalog::find(tool).is_some_and(|tool| tool.effect == Effect::Reads);
    let is_paged = options.person && is_to_read && terminal::page(&text.out);
    let printed = if is_paged { 0 } else { print(&text.out) };
    // As with stdout: nobody can be told.
    let _ = Counted(std::io::stderr().lock()).write_all(&text.err);
    for note in text.notes {
        say(&note);
    }
    say_warnings(outcome);
    first_of(printed, status(reply, options))
}

/// Prints a refusal; answers its exit status.
fn refuse_with(tool: &str, options: &Options, error: &Error, outcome: &CallNotes) -> u8 {
    if options.text {
        say(&format!("{}: {}", error.kind(), error.message()));
        match error.suggested_command() {
            Some(command) => say(&format!("try: {command}")),
            None => say(&error.suggested_on_command_line(tool)),
        }
        say_warnings(outcome);
    } else {
        // The refusal's own status says more than that it could not be printed.
        let _ = print_line(&frame(tool, options, outcome).failure(error));
    }
    let of_tool =
        catalog::find(tool).filter(|_| options.exit_status || options.text).and_then(|tool| tool.refused);
    of_tool.unwrap_or_else(|| error.kind().exit_code())
}

/// Says what the caller should know though the call succeeded.
pub fn say_warnings(outcome: &CallNotes) {
    for warning in &outcome.warnings {
        say(&format!("warning: {warning}"));
    }
}

/// Prints a text of several lines on stderr.
pub fn say_lines(text: &str) {
    let _ = writeln!(Counted(std::io::stderr().lock()), "lbx: {}", escaped::lines(text));
}

/// Prints a line on stderr.
pub fn say(line: &str) {
    // As with stdout: nobody can be told.
    let _ = writeln!(Counted(std::io::stderr().lock()), "lbx: {}", escaped::line(line));
}
