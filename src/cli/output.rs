//! Output: one JSON object on stdout, or only the payload.

use std::io::{IsTerminal as _, Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::ArgMatches;
use rustix::event::{PollFd, PollFlags};
use serde_json::{Value, json};

use crate::app::Call;
use crate::app::options::Options;
use crate::app::remote::CallResult;
use crate::catalog;
use crate::control::{Control, Progress};
use crate::engine::CallNotes;
use crate::engine::store::calls::Delivery;
use crate::engine::workspace::programs;
use crate::envelope::ResponseFrame;
use crate::error::{Error, ErrorKind};
use crate::text::escaped;
use crate::tools::{CallOutcome, Effect, Reader, Reply, Text, ToolEntry};

/// Bytes printed at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Prints the response of a call and counts the call; returns the exit status.
pub fn answer(tool: &str, options: &Options, called: CallResult) -> u8 {
    let CallResult { answered, outcome, delivery } = called;
    let status = print_answer(tool, options, &answered, &outcome);
    end_calls(delivery);
    status
}

/// Ends calls whose response was printed: counts them, and takes their read marks back if it was not printed whole.
pub fn end_calls(calls: impl IntoIterator<Item = Delivery>) {
    let mut bytes = PRINTED.swap(0, Ordering::Relaxed);
    let is_cut = IS_CUT.swap(false, Ordering::Relaxed);
    for call in calls {
        call.count(std::mem::take(&mut bytes));
        if is_cut {
            call.revoke();
        }
    }
}

/// Prints a response or an error; returns the exit status.
fn print_answer(tool: &str, options: &Options, answered: &CallOutcome, outcome: &CallNotes) -> u8 {
    match answered {
        Ok(reply) if options.text => answer_as_text(tool, reply.as_ref(), options, outcome),
        Ok(reply) => match print_reply(reply.as_ref(), &frame(tool, options, outcome)) {
            Ok(printed) => first_of(printed, status(reply.as_ref(), options)),
            Err(error) => refuse_with(tool, options, &error, outcome),
        },
        Err(error) => refuse_with(tool, options, error, outcome),
    }
}

/// Prints an error from before the call; returns the exit status.
pub fn refuse(tool: &str, options: &Options, error: &Error) -> u8 {
    refuse_with(tool, options, error, &CallNotes::default())
}

/// Prints bytes on stdout; returns a failure status if that fails.
pub fn print(bytes: &[u8]) -> u8 {
    let mut stdout = CountingWriter(BlockingWriter(std::io::stdout().lock()));
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written.map_or_else(|error| unprinted(&error), |()| 0)
}

/// Prints one response as a line, in pieces, because a result can be large. Returns the exit status as [`print()`]
/// does.
///
/// # Errors
/// Returns `internal` if it cannot be converted to JSON; nothing was printed then, unless it was longer than a piece.
pub fn print_reply(reply: &dyn Reply, frame: &ResponseFrame<'_>) -> Result<u8, Error> {
    let mut stdout =
        PieceWriter { to: CountingWriter(BlockingWriter(std::io::stdout().lock())), waiting: Vec::new() };
    match reply.json(frame, &mut stdout) {
        Ok(()) => {
            let written = stdout.write_all(b"\n").and_then(|()| stdout.flush());
            Ok(written.map_or_else(|error| unprinted(&error), |()| 0))
        }
        Err(error) if error.is_io() => Ok(unprinted(&error.into())),
        Err(error) => Err(Error::internal(format!("the response is not valid JSON: {error}"))),
    }
}

/// Number of bytes printed since the last response: a process prints one at a time.
static PRINTED: AtomicUsize = AtomicUsize::new(0);
/// True if bytes of the response could not be printed.
static IS_CUT: AtomicBool = AtomicBool::new(false);

/// Stream that waits where another program has made it non-blocking: the flag belongs to all that share the stream.
pub struct BlockingWriter<S>(pub S);

impl<S: AsFd> BlockingWriter<S> {
    /// Does `action` until the stream is ready for it.
    ///
    /// # Errors
    /// Returns its error.
    fn wait<T>(
        &mut self,
        ready: PollFlags,
        mut action: impl FnMut(&mut S) -> std::io::Result<T>,
    ) -> std::io::Result<T> {
        loop {
            match action(&mut self.0) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    rustix::io::retry_on_intr(|| {
                        rustix::event::poll(&mut [PollFd::new(&self.0, ready)], None)
                    })?;
                }
                outcome => return outcome,
            }
        }
    }
}

impl<S: Read + AsFd> Read for BlockingWriter<S> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.wait(PollFlags::IN, |stream| stream.read(bytes))
    }
}

impl<S: Write + AsFd> Write for BlockingWriter<S> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.wait(PollFlags::OUT, |stream| stream.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.wait(PollFlags::OUT, Write::flush)
    }
}

/// Writer that counts the bytes printed, and notes if some cannot be.
struct CountingWriter<W>(BlockingWriter<W>);

impl<W: Write + AsFd> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let count = self.0.write(bytes).inspect_err(note_cut)?;
        PRINTED.fetch_add(count, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush().inspect_err(note_cut)
    }
}

/// Notes that bytes could not be printed, unless the write is tried again.
fn note_cut(error: &std::io::Error) {
    if error.kind() != std::io::ErrorKind::Interrupted {
        IS_CUT.store(true, Ordering::Relaxed);
    }
}

/// Writer that collects small parts to pieces. Bytes that were not flushed are dropped with it.
struct PieceWriter<W> {
    /// Writer of the pieces.
    to: W,
    /// Bytes of the next piece.
    waiting: Vec<u8>,
}

impl<W: Write> Write for PieceWriter<W> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        /// Largest part that is copied byte by byte. JSON comes in parts of three bytes on average, and the call that
        /// copies any number of them takes longer, with musl ten times as long.
        const SMALL_BYTES: usize = 16;
        if self.waiting.len() + bytes.len() > PIECE_BYTES {
            self.to.write_all(&self.waiting)?;
            self.waiting.clear();
        }
        if bytes.len() <= SMALL_BYTES {
            bytes.iter().for_each(|byte| self.waiting.push(*byte));
        } else {
            self.waiting.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    // Each write takes all.
    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.write(bytes).map(drop)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.write_all(&self.waiting)?;
        self.waiting.clear();
        self.to.flush()
    }
}

/// Reports that printing failed; returns the exit status.
fn unprinted(error: &std::io::Error) -> u8 {
    // Happens on the left of `| head`.
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        return 0;
    }
    print_to_stderr(&format!("the response could not be written to stdout: {error}"));
    ErrorKind::IoError.exit_code()
}

/// Prints one response as a line; returns the exit status as [`print()`] does.
pub fn print_line(json: &[u8]) -> u8 {
    print(&[json, b"\n"].concat())
}

/// Returns the envelope of a response.
fn frame<'a>(tool: &'a str, options: &Options, outcome: &'a CallNotes) -> ResponseFrame<'a> {
    ResponseFrame { tool, id: None, outcome, pretty: options.pretty }
}

/// Returns the exit status of a response.
fn status(reply: &dyn Reply, options: &Options) -> u8 {
    let of_result = if options.exit_status { reply.status() } else { 0 };
    let of_text = if options.text { reply.text_status() } else { 0 };
    first_of(of_result, of_text)
}

/// Returns the first exit status that means failure.
pub fn first_of(one: u8, other: u8) -> u8 {
    if one == 0 { other } else { one }
}

/// Prints only the payload on stdout, and the rest on stderr.
fn answer_as_text(tool: &str, reply: &dyn Reply, options: &Options, outcome: &CallNotes) -> u8 {
    let reader = if options.person { reader(options) } else { Reader::Program };
    let mut text = Text::new(options.null).as_dry_run(outcome.dry_run).for_reader(reader);
    reply.text(&mut text);
    // The response of a change is a few lines, which need no pager.
    let is_to_read = catalog::find(tool).is_some_and(|tool| tool.effect == Effect::Reads);
    let is_paged = options.person && is_to_read && page(&text.out);
    let printed = if is_paged { 0 } else { print(&text.out) };
    // As with stdout: there is nowhere to report a failure.
    let _ = CountingWriter(BlockingWriter(std::io::stderr().lock())).write_all(&text.err);
    for note in text.notes {
        print_to_stderr(&note);
    }
    say_warnings(outcome);
    first_of(printed, status(reply, options))
}

/// Prints an error; returns its exit status.
fn refuse_with(tool: &str, options: &Options, error: &Error, outcome: &CallNotes) -> u8 {
    if options.text {
        print_to_stderr(&format!("{}: {}", error.kind(), error.message()));
        // They count as shown.
        if let Some(lines) = error.details().get("lines").and_then(Value::as_str) {
            say_lines(lines.trim_end_matches('\n'));
        }
        match error.suggested_command() {
            Some(command) => print_to_stderr(&format!("try: {command}")),
            None => print_to_stderr(&error.suggested_on_command_line(tool)),
        }
        say_warnings(outcome);
    } else {
        // The status of the error itself says more than a failure to print it.
        let _ = print_line(&frame(tool, options, outcome).failure(error));
    }
    let of_tool =
        catalog::find(tool).filter(|_| options.exit_status || options.text).and_then(|tool| tool.refused);
    of_tool.unwrap_or_else(|| error.kind().exit_code())
}

/// Prints the warnings of a successful call.
pub fn say_warnings(outcome: &CallNotes) {
    for warning in &outcome.warnings {
        print_to_stderr(&format!("warning: {warning}"));
    }
}

/// Prints a text of several lines on stderr.
pub fn say_lines(text: &str) {
    let _ =
        writeln!(CountingWriter(BlockingWriter(std::io::stderr().lock())), "lbx: {}", escaped::lines(text));
}

/// Prints a line on stderr.
pub fn print_to_stderr(line: &str) {
    // As with stdout: there is nowhere to report a failure.
    let _ =
        writeln!(CountingWriter(BlockingWriter(std::io::stderr().lock())), "lbx: {}", escaped::line(line));
}

/// Default options of `less`: exit at once if the text fits on the screen, pass colours through, do not clear the
/// screen.
const LESS: &str = "FRX";

/// Returns true if a person reads the output.
pub fn has_person(options: &Options) -> bool {
    let wants_json = options.json.is_some() || options.json_output || options.pretty;
    may_have_person(options)
        && !wants_json
        && std::io::stdout().is_terminal()
        && std::io::stdin().is_terminal()
}

/// Returns true if a person may be at the terminal: agents name their session in the environment.
pub fn may_have_person(options: &Options) -> bool {
    let is_session_of_environment = options.session.is_some() && !options.is_session_named;
    let is_dumb = variable("TERM").is_none_or(|term| term == "dumb");
    !is_session_of_environment && !is_dumb
}

/// Returns the reader of the output.
pub fn reader(options: &Options) -> Reader {
    if has_person(options) {
        Reader::Person { color: variable("NO_COLOR").is_none() }
    } else {
        Reader::Program
    }
}

/// Shows a text in the user's pager; returns false, and shows nothing, if there is no pager.
pub fn page(text: &[u8]) -> bool {
    let pager = variable("LBX_PAGER").or_else(|| variable("PAGER")).unwrap_or_else(|| "less".to_owned());
    if pager == "cat" {
        return false;
    }
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("command -v {} >/dev/null || exit 127; exec {pager}", program(&pager))]);
    if variable("LESS").is_none() {
        command.env("LESS", LESS);
    }
    let Ok(mut child) = programs::spawn(command.stdin(Stdio::piped())) else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        // A user who quits the pager early has seen enough.
        let _ = stdin.write_all(text);
    }
    let status = child.wait();
    status.is_ok_and(|status| status.code() != Some(127))
}

/// Returns the first word of a pager's command.
fn program(pager: &str) -> &str {
    pager.split_whitespace().find(|word| !word.contains('=')).unwrap_or(pager)
}

/// Returns an environment variable that is not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Time before a call shows its progress.
const QUIET: Duration = Duration::from_secs(1);
/// Time between two updates.
const INTERVAL: Duration = Duration::from_millis(200);
/// Characters of the line that are shown.
const LINE_CHARS_MAX: usize = 70;
/// Terminal sequence that clears the line and moves to its start.
const CLEAR: &str = "\r\u{1b}[K";

/// Line on stderr with the progress of a call. It is cleared on drop.
pub struct ProgressLine(Arc<Mutex<LineState>>);

/// State of the line.
struct LineState {
    /// Tool of the call.
    tool: &'static str,
    /// Earliest time of the next update.
    next: Instant,
    /// True if the line shows anything.
    is_shown: bool,
}

impl ProgressLine {
    /// Returns a line for a call of `tool`, if a person waits at a terminal.
    pub fn of(tool: &'static str, options: &Options) -> Option<Self> {
        let is_watched = std::io::stderr().is_terminal() && may_have_person(options);
        is_watched.then(|| {
            Self(Arc::new(Mutex::new(LineState { tool, next: Instant::now() + QUIET, is_shown: false })))
        })
    }

    /// Returns a control that reports to this line.
    pub fn control(&self) -> Control {
        let line = Arc::clone(&self.0);
        Control::default().reporting_to(Arc::new(move |progress, words| {
            line.lock().unwrap_or_else(PoisonError::into_inner).show(progress, words);
        }))
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).is_shown {
            // There is nowhere to report that stderr is closed.
            let _ = write!(std::io::stderr().lock(), "{CLEAR}");
        }
    }
}

impl LineState {
    /// Shows the progress of the call, unless it was shown a moment ago.
    fn show(&mut self, progress: Progress, words: &str) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + INTERVAL;
        self.is_shown = true;
        let text = text(self.tool, progress, words);
        let _ = write!(std::io::stderr().lock(), "{CLEAR}{text}");
    }
}

/// Returns the text of the line.
fn text(tool: &str, progress: Progress, words: &str) -> String {
    let far = match progress.total {
        _ if !words.is_empty() => words.to_owned(),
        Some(total) => format!("{} of {total}", progress.done),
        None => progress.done.to_string(),
    };
    escaped::line(&format!("lbx: {tool}: {far}")).chars().take(LINE_CHARS_MAX).collect()
}

/// Time between two checks.
const NAP: Duration = Duration::from_millis(150);

/// Follows a tool until it is interrupted or nobody reads the output; returns the exit status.
pub fn run(tool: &'static ToolEntry, mut request: Value, options: &Options) -> u8 {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        // Best effort: without it the signal ends the process as usual.
        let _ = signal_hook::flag::register(signal, Arc::clone(&ended));
    }
    while !ended.load(Ordering::Relaxed) {
        let called = Call::make(tool, request.clone(), options);
        let reply = match &called.answered {
            Ok(reply) => reply,
            Err(error) => return refuse(tool.name, options, error),
        };
        let value = match reply.value() {
            Ok(value) => value,
            Err(error) => return refuse(tool.name, options, &error),
        };
        let lines = if options.text {
            let reader = if options.person { reader(options) } else { Reader::Program };
            let mut text = Text::new(false).for_reader(reader);
            reply.text(&mut text);
            text.out
        } else {
            lines_of(&value)
        };
        let mut stdout = std::io::stdout().lock();
        if stdout.write_all(&lines).and_then(|()| stdout.flush()).is_err() || !is_read(&stdout) {
            return 0;
        }
        drop(stdout);
        let Some(next) = value.get("next") else {
            return refuse(tool.name, options, &Error::internal("an answer without a cursor"));
        };
        request = json!({ "after": next });
        std::thread::sleep(NAP);
    }
    0
}

/// Returns the first request, from the flags of the tool.
pub fn request_of(matches: &ArgMatches) -> Value {
    let after = matches.try_get_one::<String>("after").ok().flatten();
    let all = matches.try_get_one::<bool>("all").is_ok_and(|all| all == Some(&true));
    json!({ "after": after, "all": all })
}

/// Returns each new entry as a line of JSON.
fn lines_of(value: &Value) -> Vec<u8> {
    let calls = value.get("calls").and_then(Value::as_array).into_iter().flatten();
    calls.flat_map(|call| format!("{}\n", escaped::lines(&call.to_string())).into_bytes()).collect()
}

/// Returns true if somebody still reads the output.
fn is_read(stdout: &std::io::StdoutLock<'_>) -> bool {
    let mut waiting = [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::empty())];
    let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let polled = rustix::event::poll(&mut waiting, Some(&none));
    let [stdout] = waiting;
    !(polled.is_ok() && stdout.revents().intersects(PollFlags::ERR | PollFlags::NVAL))
}

#[cfg(test)]
mod tests {
    use super::{Progress, text};

    #[test]
    fn progress_line_is_short_and_has_no_control_characters() {
        let of = |total| text("grep", Progress { done: 1200, total }, "");
        assert_eq!(of(None), "lbx: grep: 1200");
        assert_eq!(of(Some(5000)), "lbx: grep: 1200 of 5000");
        let output =
            text("bash", Progress { done: 1, total: None }, &format!("a\u{1b}[2J{}", "x".repeat(99)));
        assert!(output.chars().count() <= 70 && !output.contains('\u{1b}'), "{output:?}");
    }
}
