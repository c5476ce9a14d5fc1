//! A tool that is followed: the same request again and again, a line for each thing that landed.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ArgMatches;
use rustix::event::{PollFd, PollFlags};
use serde_json::{Value, json};

use super::{output, terminal};
use crate::app::call::Call;
use crate::app::options::Options;
use crate::error::Error;
use crate::text::escaped;
use crate::tools::{Reader, Text, ToolEntry};

/// How long it waits between two looks.
const NAP: Duration = Duration::from_millis(150);

/// Follows a tool until it is interrupted, or nobody reads any more; answers the exit status.
#[must_use]
pub fn run(tool: &'static ToolEntry, mut request: Value, options: &Options) -> u8 {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        // Best effort: without it the signal ends the process as it ends any other.
        let _ = signal_hook::flag::register(signal, Arc::clone(&ended));
    }
    while !ended.load(Ordering::Relaxed) {
        let called = Call::make(tool, request.clone(), options);
        let reply = match &called.answered {
            Ok(reply) => reply,
            Err(error) => return output::refuse(tool.name, options, error),
        };
        let value = match reply.value() {
            Ok(value) => value,
            Err(error) => return output::refuse(tool.name, options, &error),
        };
        let lines = if options.text {
            let reader = if options.person { terminal::reader(options) } else { Reader::Program };
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
            return output::refuse(tool.name, options, &Error::internal("an answer without a cursor"));
        };
        request = json!({ "after": next });
        std::thread::sleep(NAP);
    }
    0
}

/// The first request, by the flags of the tool.
#[must_use]
pub fn request_of(matches: &ArgMatches) -> Value {
    let after = matches.try_get_one::<String>("after").ok().flatten();
    let all = matches.try_get_one::<bool>("all").is_ok_and(|all| all == Some(&true));
    json!({ "after": after, "all": all })
}

/// Each thing that landed, as a line of JSON.
fn lines_of(value: &Value) -> Vec<u8> {
    let calls = value.get("calls").and_then(Value::as_array).into_iter().flatten();
    calls.flat_map(|call| format!("{}\n", escaped::lines(&call.to_string())).into_bytes()).collect()
}

/// Whether anybody still reads what is printed.
fn is_read(stdout: &std::io::StdoutLock<'_>) -> bool {
    let mut waiting = [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::empty())];
    let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let polled = rustix::event::poll(&mut waiting, Some(&none));
    let [stdout] = waiting;
    !(polled.is_ok() && stdout.revents().intersects(PollFlags::ERR | PollFlags::NVAL))
}
