//! The progress of a long call, on the terminal of the person who waits for it.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::terminal;
use crate::app::options::Options;
use crate::control::{Control, Progress};
use crate::text::escaped;

/// How long a call works before it shows anything.
const QUIET: Duration = Duration::from_secs(1);
/// Time between two updates.
const INTERVAL: Duration = Duration::from_millis(200);
/// Characters of the line that are shown.
const LINE_CHARS_MAX: usize = 70;
/// Goes to the start of the terminal's line and clears it.
const CLEAR: &str = "\r\u{1b}[K";

/// A line on stderr that says how far a call is. It is cleared when this is dropped.
pub struct ProgressLine(Arc<Mutex<Line>>);

/// What is on the line.
struct Line {
    /// The tool.
    tool: &'static str,
    /// When the line may change next.
    next: Instant,
    /// Whether there is anything on it.
    is_shown: bool,
}

impl ProgressLine {
    /// A line for a call of `tool`, where a person waits at a terminal.
    #[must_use]
    pub fn of(tool: &'static str, options: &Options) -> Option<Self> {
        let is_watched = std::io::stderr().is_terminal() && terminal::may_have_person(options);
        is_watched
            .then(|| Self(Arc::new(Mutex::new(Line { tool, next: Instant::now() + QUIET, is_shown: false }))))
    }

    /// A control that reports to this line.
    #[must_use]
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
            // Nobody can be told that stderr is gone.
            let _ = write!(std::io::stderr().lock(), "{CLEAR}");
        }
    }
}

impl Line {
    /// Shows how far the call is, unless it was shown a moment ago.
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

/// The text of the line.
fn text(tool: &str, progress: Progress, words: &str) -> String {
    let far = match progress.total {
        _ if !words.is_empty() => words.to_owned(),
        Some(total) => format!("{} of {total}", progress.done),
        None => progress.done.to_string(),
    };
    escaped::line(&format!("lbx: {tool}: {far}")).chars().take(LINE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::{Progress, text};

    #[test]
    fn the_line_is_short_and_has_no_control_characters() {
        let of = |total| text("grep", Progress { done: 1200, total }, "");
        assert_eq!(of(None), "lbx: grep: 1200");
        assert_eq!(of(Some(5000)), "lbx: grep: 1200 of 5000");
        let output =
            text("bash", Progress { done: 1, total: None }, &format!("a\u{1b}[2J{}", "x".repeat(99)));
        assert!(output.chars().count() <= 70 && !output.contains('\u{1b}'), "{output:?}");
    }
}
