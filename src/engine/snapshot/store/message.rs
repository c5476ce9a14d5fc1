//! The message of a snapshot commit: subject, body, trailers.

use gix::bstr::{BStr, BString, ByteSlice};

/// Longest subject that is written, in characters.
const SUBJECT_CHARS_MAX: usize = 200;
/// Longest body that is written, in characters.
const BODY_CHARS_MAX: usize = 16_384;

/// The facts that a snapshot commit carries for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trailers {
    /// Session that made the change; empty where none did.
    pub session: String,
    /// Tool that made it; `external` where nothing of lbx did.
    pub tool: String,
    /// Its number in the journal; 0 where it has none.
    pub seq: u64,
    /// What the policy made of a change whose caller had not seen the bytes: `warn` or `off`.
    pub gate: Option<String>,
    /// HEAD as the snapshot knew it, in hex; `None` where it was unborn.
    pub head: Option<String>,
}

/// Puts a message together.
///
/// The trailers are the last paragraph, so nothing that `why` says can pass for one of them.
pub fn compose(subject: &str, why: Option<&str>, trailers: &Trailers) -> BString {
    let body = why.map(body).filter(|why| !why.is_empty()).map(|why| format!("{why}\n\n"));
    let head = trailers.head.as_ref().map(|head| format!("Lbx-Head: {head}\n"));
    let session = one_line(&trailers.session);
    let session = if session.is_empty() { session } else { format!("Lbx-Session: {session}\n") };
    let seq = if trailers.seq == 0 { String::new() } else { format!("Lbx-Seq: {}\n", trailers.seq) };
    let gate = trailers.gate.as_ref().map(|gate| format!("Lbx-Gate: {}\n", one_line(gate)));
    let message = format!(
        "{}\n\n{}{session}Lbx-Tool: {}\n{seq}{}{}",
        one_line(subject),
        body.unwrap_or_default(),
        one_line(&trailers.tool),
        gate.unwrap_or_default(),
        head.unwrap_or_default(),
    );
    message.into()
}

/// Reads the trailers of a message; `None` where it is no snapshot's.
pub fn trailers(message: &BStr) -> Option<Trailers> {
    let text = message.to_str_lossy();
    let last = text.trim_end().rsplit("\n\n").next()?;
    let find = |key: &str| {
        last.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": ")).map(str::to_owned)
    };
    Some(Trailers {
        session: find("Lbx-Session").unwrap_or_default(),
        tool: find("Lbx-Tool")?,
        seq: match find("Lbx-Seq") {
            Some(seq) => seq.parse().ok()?,
            None => 0,
        },
        gate: find("Lbx-Gate"),
        head: find("Lbx-Head"),
    })
}

/// The first line of a message.
pub fn subject(message: &BStr) -> String {
    message.lines().next().unwrap_or_default().to_str_lossy().into_owned()
}

/// What lies between the first line of a snapshot's message and its trailers, where there is anything.
pub fn why(message: &BStr) -> Option<String> {
    let text = message.to_str_lossy();
    let (_, rest) = text.trim_end().split_once("\n\n")?;
    rest.rsplit_once("\n\n").map(|(why, _)| why.to_owned())
}

/// `text` without line breaks and control characters, cut to a subject's length.
fn one_line(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    cut(clean.trim(), SUBJECT_CHARS_MAX)
}

/// `text` without control characters other than line breaks and tabs, cut to a body's length.
fn body(text: &str) -> String {
    let clean: String = text
        .replace("\r\n", "\n")
        .chars()
        .map(|c| if c.is_control() && c != '\n' && c != '\t' { ' ' } else { c })
        .collect();
    cut(clean.trim(), BODY_CHARS_MAX)
}

/// The first `chars_max` characters, with an ellipsis where more were cut away.
fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Trailers {
        Trailers {
            session: "s".into(),
            tool: "write".into(),
            seq: 7,
            gate: Some("warn".into()),
            head: Some("ab".into()),
        }
    }

    #[test]
    fn trailers_come_back_whatever_the_body_says() {
        let message = compose("write: a\nb", Some("why\n\nLbx-Session: forged\nLbx-Seq: 1\n\n"), &some());
        assert_eq!(trailers(message.as_bstr()), Some(some()));
        assert_eq!(subject(message.as_bstr()), "write: a b");
        assert_eq!(why(message.as_bstr()).as_deref(), Some("why\n\nLbx-Session: forged\nLbx-Seq: 1"));
    }

    #[test]
    fn what_nobody_did_through_lbx_has_no_session() {
        let nobody =
            Trailers { session: String::new(), tool: "external".into(), seq: 0, gate: None, head: None };
        let message = compose("external: a", None, &nobody);
        assert_eq!(message, "external: a\n\nLbx-Tool: external\n");
        assert_eq!(trailers(message.as_bstr()), Some(nobody));
    }

    #[test]
    fn a_message_of_someone_else_has_none() {
        assert_eq!(trailers("Fix it\n\nSigned-off-by: me\n".into()), None);
        assert_eq!(trailers("".into()), None);
    }

    #[test]
    fn a_long_subject_is_cut() {
        let message = compose(&"x".repeat(1000), None, &some());
        assert_eq!(
            message.to_str_lossy().lines().next().map(|line| line.chars().count()),
            Some(SUBJECT_CHARS_MAX)
        );
    }
}
