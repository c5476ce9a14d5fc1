//! Commands given as a list of words.

/// Shells whose `-c` takes a command.
const SHELLS: [&str; 4] = ["bash", "sh", "zsh", "dash"];
/// Bytes besides letters and digits that every shell reads literally.
const PLAIN: &[u8] = b"_-./=:,@%+";

/// Joins words into one text that a shell splits into the same words.
pub fn join(words: &[impl AsRef<str>]) -> String {
    let is_plain = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || PLAIN.contains(&byte))
    };
    let quote = |word: &str| {
        if is_plain(word) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
    };
    words.iter().map(|word| quote(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// Returns the command that a list of words means: the text itself if the words call a shell with it.
pub fn command_of(words: &[impl AsRef<str>]) -> String {
    match words {
        [shell, flag, command] if is_shell(shell.as_ref()) && is_command_flag(flag.as_ref()) => {
            command.as_ref().to_owned()
        }
        _ => join(words),
    }
}

/// Returns true for the name or path of a shell.
fn is_shell(word: &str) -> bool {
    word.rsplit('/').next().is_some_and(|name| SHELLS.contains(&name))
}

/// Returns true for `-c`, also with `-l` or `-i`.
fn is_command_flag(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|letters| {
        letters.contains('c') && letters.bytes().all(|letter| b"cli".contains(&letter))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_list_becomes_one_quoted_command() {
        for (words, command) in [
            (
                &["git", "log", "--format=%h", "a b", "it's", ""][..],
                r"git log --format=%h 'a b' 'it'\''s' ''",
            ),
            (&["cargo", "test"], "cargo test"),
            (&["bash", "-lc", "a && b"], "a && b"),
            (&["/bin/sh", "-c", "a | b"], "a | b"),
            (&["bash", "-x", "a b"], "bash -x 'a b'"),
            (&["bash", "-c", "echo $0", "x"], "bash -c 'echo $0' x"),
            (&["echo", "$HOME", "*"], "echo '$HOME' '*'"),
        ] {
            assert_eq!(command_of(words), command);
        }
    }
}
