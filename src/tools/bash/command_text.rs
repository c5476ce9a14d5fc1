//! The command of a request, in the forms in which callers send it.

use super::request::Request;
use crate::engine::Engine;
use crate::text::shell_words;

/// Shortest time limit in milliseconds that is taken without a warning.
const TIME_MS_PLAUSIBLE: u64 = 100;

impl Request {
    /// Brings the command into the form that the shell takes: a list of words is joined, and CRLF is LF.
    pub fn with_plain_command(mut self) -> Self {
        self.command = self.command.map(|command| plain(&command));
        self
    }

    /// Warns of a time limit that looks like seconds.
    pub fn warn_of_time_limit(&self, engine: &mut Engine) {
        let is_limit = self.command.is_some() && self.job.is_none();
        if let Some(ms) = self.timeout_ms.filter(|ms| is_limit && (1..TIME_MS_PLAUSIBLE).contains(ms)) {
            engine.warn(format!("timeout_ms is {ms}: the unit is milliseconds"));
        }
    }
}

/// Returns the command that a text means.
fn plain(command: &str) -> String {
    if command.trim_start().starts_with('[')
        && let Ok(words) = serde_json::from_str::<Vec<String>>(command)
        && !words.is_empty()
    {
        return plain_lines(&shell_words::command_of(&words));
    }
    plain_lines(command)
}

/// Returns a text with LF at the end of every line.
fn plain_lines(command: &str) -> String {
    let text = command.replace("\r\n", "\n");
    text.strip_suffix('\r').map_or_else(|| text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_plain_text() {
        for (command, text) in [
            ("a\r\nb\r\n", "a\nb\n"),
            ("a\r", "a"),
            ("printf 'a\rb'", "printf 'a\rb'"),
            (r#"["cargo", "test"]"#, "cargo test"),
            ("[ -f x ] && y", "[ -f x ] && y"),
            ("[]", "[]"),
            (r#"["bash", "-lc", "a\r\nb"]"#, "a\nb"),
        ] {
            assert_eq!(plain(command), text);
        }
    }
}
