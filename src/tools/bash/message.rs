//! The message of a command's snapshot.

/// Characters of the command in the subject of its snapshot.
const SUBJECT_CHARACTERS_MAX: usize = 100;

/// The first line of the snapshot's message.
pub fn subject(command: &str) -> String {
    let first = command.trim().lines().next().unwrap_or_default();
    let mut shown: String = first.chars().take(SUBJECT_CHARACTERS_MAX).collect();
    if shown.len() < command.trim().len() {
        shown.push_str(" ...");
    }
    format!("bash: {shown}")
}

/// The rest of it: the reason, and the command where the first line does not hold it.
pub fn body(command: &str, why: Option<&str>) -> Option<String> {
    let command = command.trim();
    let is_whole = subject(command).len() == "bash: ".len() + command.len();
    let parts: Vec<&str> = why.into_iter().chain((!is_whole).then_some(command)).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_holds_the_whole_command() {
        assert_eq!((subject("make -j2"), body("make -j2", None)), ("bash: make -j2".to_owned(), None));
        assert_eq!(body("make", Some("to build")).as_deref(), Some("to build"));
        assert_eq!(subject("a\nb"), "bash: a ...");
        assert_eq!(body("a\nb", Some("why")).as_deref(), Some("why\n\na\nb"));
        let long = "x".repeat(200);
        assert_eq!(subject(&long).len(), "bash: ".len() + 100 + " ...".len());
        assert_eq!(body(&long, None).as_deref(), Some(long.as_str()));
    }
}
