//! Access to a container: its engine's `exec`, or any command that runs another one elsewhere.
//!
//! lbx copies its own static binary in once; every call then runs it there, on the files there. After the copy its
//! SHA-256 is checked, and another version of lbx copies itself again.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use super::lock::TemporaryFolder;
use super::sandboxes::Container;
use super::state::STATE_FOLDER;
use crate::engine::workspace::programs;
use crate::error::{Error, ErrorKind};
use crate::limits::ENGINE_MESSAGE_BYTES_MAX;
use crate::platform::process::program_path;
use crate::sha256::Sha256;

/// First argument that makes lbx print its own SHA-256.
const INTERNAL: &str = "__sha256";
/// Default workspace in a container.
pub const ROOT: &str = "/src";
/// Folders for the binary; the first that works is used.
const FOLDERS: [&str; 3] = ["/tmp", "/var/tmp", ""];
/// Hex digits of the binary's SHA-256 in its name.
const DIGITS: usize = 16;
/// Exit statuses of an engine for a program that is missing or not executable.
pub const NOT_THERE: [i32; 2] = [126, 127];
/// Program whose arguments pass through a shell on the other side.
const SSH: &str = "ssh";

/// Prints this program's SHA-256 if the arguments ask for it; returns the exit status. `None` for a user's arguments.
pub fn run_internal(arguments: &[std::ffi::OsString]) -> Option<u8> {
    let [own, word] = arguments else { return None };
    if word != INTERNAL {
        return None;
    }
    // Not every system has a /proc; the program was called by its full path.
    let told = program_bytes().or_else(|_| bytes_at(own)).ok().and_then(|bytes| {
        let line = format!("{}\n", Sha256::of(&bytes));
        std::io::stdout().write_all(line.as_bytes()).ok()
    });
    Some(u8::from(told.is_none()))
}

/// Parses a container of an engine, from `ENGINE:CONTAINER`.
///
/// # Errors
/// Returns `invalid_request` if the text has another form.
pub fn of_engine(text: &str) -> Result<Container, Error> {
    let parts = text.split_once(':').filter(|(engine, name)| {
        !engine.is_empty() && !name.is_empty() && !name.starts_with('-') && !engine.starts_with('-')
    });
    let (engine, name) = parts.ok_or_else(|| {
        Error::invalid(format!("container {text:?}: expected ENGINE:NAME, such as podman:build"))
            .detail("field", "container")
    })?;
    let engine = Some((engine.to_owned(), name.to_owned()));
    Ok(Container { engine, ..Container::default() })
}

/// Parses a command that runs another one elsewhere.
///
/// # Errors
/// Returns `invalid_request` if it is empty.
pub fn of_exec(text: &str) -> Result<Container, Error> {
    let exec = words(text).filter(|exec| !exec.is_empty()).ok_or_else(|| {
        Error::invalid("exec: expected a command, such as 'kubectl exec -i pod --'; a quote must be closed")
            .detail("field", "exec")
    })?;
    Ok(Container { exec, ..Container::default() })
}

/// Splits a command into words as a shell does: at blanks outside quotes and not after a backslash, without any other
/// shell syntax. `None` if a quote is not closed.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let (mut is_in_word, mut quote) = (false, None);
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        let taken = match (next, quote) {
            (_, Some(open)) if next == open => {
                quote = None;
                continue;
            }
            ('\'' | '"', None) => {
                quote = Some(next);
                None
            }
            ('\\', None | Some('"')) => Some(rest.next()?),
            (_, None) if next.is_whitespace() => {
                is_in_word = false;
                continue;
            }
            _ => Some(next),
        };
        if !is_in_word {
            words.push(String::new());
            is_in_word = true;
        }
        words.last_mut()?.extend(taken);
    }
    quote.is_none().then_some(words)
}

/// Joins words to a text that [`of_exec`] accepts.
pub fn join_words(words: &[String]) -> String {
    let is_plain = |word: &str| {
        !word.is_empty() && !word.contains(|letter: char| letter.is_whitespace() || "'\"\\".contains(letter))
    };
    let shown = |word: &String| match quoted(word.as_ref()).into_string() {
        Ok(quoted) if !is_plain(word) => quoted,
        _ => word.clone(),
    };
    words.iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// Returns the command that runs a program inside, with its stdin.
///
/// # Errors
/// Returns an error if the engine cannot be trusted to start: it is missing, or others could have written it.
pub fn command<S: AsRef<std::ffi::OsStr>>(container: &Container, program: &[S]) -> io::Result<Command> {
    if let Some(fork) = &container.fork {
        let [own, words @ ..] = fork.words();
        let mut command = Command::new(own);
        command.args(words).args(program);
        return Ok(command);
    }
    let mut words = container.exec.iter();
    Ok(match (&container.engine, words.next()) {
        (Some((engine, name)), _) => {
            let mut command = Command::new(resolved(engine)?);
            command.args(["exec", "-i", name]).args(program);
            command
        }
        (None, Some(first)) => {
            let mut command = Command::new(resolved(first)?);
            command.args(words);
            if first.rsplit('/').next() == Some(SSH) {
                command.args(program.iter().map(|word| quoted(word.as_ref())));
            } else {
                command.args(program);
            }
            command
        }
        // Unreachable: no such container is ever made.
        (None, None) => Command::new("false"),
    })
}

/// Returns the program of a word: a path unchanged, a name by its canonical path.
fn resolved(word: &str) -> io::Result<PathBuf> {
    if word.contains('/') {
        return Ok(PathBuf::from(word));
    }
    programs::find(word, &[]).map_err(|why| io::Error::new(io::ErrorKind::NotFound, why))
}

/// Quotes a word for a shell.
fn quoted(word: &std::ffi::OsStr) -> std::ffi::OsString {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let mut quoted = vec![b'\''];
    for &byte in word.as_bytes() {
        if byte == b'\'' {
            quoted.extend_from_slice(b"'\\''");
        } else {
            quoted.push(byte);
        }
    }
    quoted.push(b'\'');
    std::ffi::OsString::from_vec(quoted)
}

/// Returns a stamp that identifies this version of the program, without reading all of it.
///
/// # Errors
/// Returns the OS error.
pub fn stamp() -> Result<String, Error> {
    let stat = open_program().and_then(|file| file.metadata()).map_err(unreadable)?;
    Ok(format!("{}-{}-{}", env!("CARGO_PKG_VERSION"), stat.len(), stat.mtime()))
}

/// Copies this program into a container, unless it is there; returns the container with its path. If no other folder is
/// writable, copies it to lbx's own folder of the workspace at `root`.
///
/// # Errors
/// Returns `io_error` with the engine's message.
pub fn install(container: &Container, root: &str) -> Result<Container, Error> {
    let bytes = program_bytes().map_err(unreadable)?;
    let sum = Sha256::of(&bytes).to_string();
    let name = format!("lbx-{}", sum.get(..DIGITS).unwrap_or(&sum));
    let mut said = String::new();
    let own = format!("{}/{STATE_FOLDER}", root.trim_end_matches('/'));
    for folder in FOLDERS.into_iter().chain([own.as_str()]) {
        let binary = format!("{folder}/{name}");
        if sum_of(container, &binary).is_ok_and(|there| there == sum) {
            return Ok(Container { binary, stamp: stamp()?, ..container.clone() });
        }
        match copy(container, &bytes, &binary).and_then(|()| sum_of(container, &binary)) {
            Ok(there) if there == sum => {
                return Ok(Container { binary, stamp: stamp()?, ..container.clone() });
            }
            Ok(_) => "what was copied into the container is not what was sent".clone_into(&mut said),
            // The first folder is the one that should have worked.
            Err(why) if said.is_empty() => said = why,
            Err(_) => {}
        }
    }
    Err(Error::new(ErrorKind::IoError, format!("lbx could not be copied into the container: {said}")).suggest(
        "See that the container runs and that its /tmp or the sandbox's root can be written. Its processor must be of this machine's kind.",
    ))
}

/// Returns the SHA-256 that the program at a path inside prints of itself.
fn sum_of(container: &Container, binary: &str) -> Result<String, String> {
    let output = command(container, &[binary, INTERNAL])
        .and_then(|mut command| programs::output(command.stdin(Stdio::null())));
    let output = output.map_err(|error| format!("{}: {error}", program_of(container)))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(words_of(&output))
}

/// Writes bytes to an executable file inside.
fn copy(container: &Container, bytes: &[u8], to: &str) -> Result<(), String> {
    if let Some((engine, name)) = &container.engine {
        // Engines do not follow a link in /proc, so they get a real file.
        let aside =
            ProgramCopy::make(bytes, to).map_err(|error| format!("a copy of lbx cannot be made: {error}"))?;
        let mut command = Command::new(resolved(engine).map_err(|error| error.to_string())?);
        command.arg("cp").arg(aside.folder.0.join(&aside.sent)).arg(format!("{name}:{}", aside.place));
        return finished(programs::output(command.stdin(Stdio::null())), engine);
    }
    let script = r#"case "$1" in */.lbx/*) mkdir -p "${1%/*}";; esac; cat > "$1" && chmod 755 "$1""#;
    let mut command =
        command(container, &["sh", "-c", script, "sh", to]).map_err(|error| error.to_string())?;
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child =
        programs::spawn(&mut command).map_err(|error| format!("{}: {error}", program_of(container)))?;
    if let Some(mut stdin) = child.stdin.take() {
        // The command reports errors itself.
        let _ = stdin.write_all(bytes);
    }
    finished(child.wait_with_output(), program_of(container))
}

/// A copy of this program in a folder of its own.
struct ProgramCopy {
    /// Folder.
    folder: TemporaryFolder,
    /// Name in the folder that an engine copies.
    sent: String,
    /// Target of the copy.
    place: String,
}

impl ProgramCopy {
    /// Makes a copy of these bytes for the path `to`. It includes lbx's own folder, which may be missing inside, since
    /// engines make no folders.
    #[expect(
        clippy::disallowed_methods,
        reason = "a new folder with a name that nobody knows; nothing is followed"
    )]
    fn make(bytes: &[u8], to: &str) -> std::io::Result<Self> {
        use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
        let folder = TemporaryFolder::new()?;
        let (parent, name) = to.rsplit_once('/').unwrap_or_default();
        let (sent, place) = match parent.strip_suffix(STATE_FOLDER) {
            Some(root) => (STATE_FOLDER, root),
            None => (name, to),
        };
        let aside = Self { folder, sent: sent.to_owned(), place: place.to_owned() };
        let mut at = aside.folder.0.clone();
        if sent == STATE_FOLDER {
            at.push(sent);
            std::fs::DirBuilder::new().create(&at)?;
        }
        let mut file = File::options().write(true).create_new(true).mode(0o755).open(at.join(name))?;
        // Independent of the umask.
        file.set_permissions(std::fs::Permissions::from_mode(0o755))?;
        file.write_all(bytes)?;
        Ok(aside)
    }
}

/// Returns an error if a program failed.
fn finished(output: std::io::Result<Output>, program: &str) -> Result<(), String> {
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(words_of(&output)),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

/// Returns the program that gives access to the container.
fn program_of(container: &Container) -> &str {
    let engine = container.engine.as_ref().map(|(engine, _)| engine.as_str());
    engine.or(container.exec.first().map(String::as_str)).unwrap_or_default()
}

/// Returns the error output of a program.
pub fn words_of(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let said: String = said.trim().chars().take(ENGINE_MESSAGE_BYTES_MAX).collect();
    if said.is_empty() { output.status.to_string() } else { said }
}

/// Opens this program's file.
#[expect(clippy::disallowed_methods, reason = "this program, by its link in /proc")]
fn open_program() -> std::io::Result<File> {
    File::open(program_path())
}

/// Returns the bytes of this program.
fn program_bytes() -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_program()?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the bytes of the file at that path.
#[expect(clippy::disallowed_methods, reason = "this program, by the path of its call")]
fn bytes_at(path: &std::ffi::OsStr) -> std::io::Result<Vec<u8>> {
    std::fs::read(path)
}

/// Returns the error if this program cannot read itself.
fn unreadable(source: std::io::Error) -> Error {
    Error::io("read", program_path(), source)
}

/// First argument of a tied call; the call's own arguments follow.
pub const KILL_WITH_PARENT: &str = "__tied";
/// Exit status of a call that could not be started, or was ended.
const FAILED: u8 = 125;

/// Supervises a tied call if the arguments ask for it; returns its exit status. `None` for a user's arguments.
pub fn run_tied(arguments: &[OsString]) -> Option<u8> {
    let [own, word, call @ ..] = arguments else { return None };
    if word != KILL_WITH_PARENT {
        return None;
    }
    // Not every system has a /proc; the program was called by its full path.
    let status =
        watched(Command::new(program_path()).args(call)).or_else(|_| watched(Command::new(own).args(call)));
    Some(status.unwrap_or(FAILED))
}

/// Runs a call until it ends, or until stdin is closed.
fn watched(call: &mut Command) -> io::Result<u8> {
    /// Set once the call has ended: another process may have its id then.
    static HAS_ENDED: AtomicBool = AtomicBool::new(false);
    let mut child = programs::spawn(call.stdin(Stdio::null()))?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    std::thread::spawn(move || {
        // However stdin ends, the parent is gone.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        if let Some(pid) = pid.filter(|_| !HAS_ENDED.load(Ordering::SeqCst)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    let status = child.wait()?;
    HAS_ENDED.store(true, Ordering::SeqCst);
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_and_exec_arguments_are_parsed() {
        let podman = of_engine("podman:build:1").unwrap();
        assert_eq!(podman.engine, Some(("podman".to_owned(), "build:1".to_owned())));
        for wrong in ["podman", ":x", "podman:", "podman:--privileged", "-x:y"] {
            assert!(of_engine(wrong).is_err(), "{wrong}");
        }
        for (text, wanted) in [
            ("kubectl exec -i pod --", &["kubectl", "exec", "-i", "pod", "--"][..]),
            ("  a  'b c' \"d 'e\"f \\ g ", &["a", "b c", "d 'ef", " g"]),
            ("''  \"\\\"\"", &["", "\""]),
        ] {
            let exec = of_exec(text).unwrap().exec;
            assert_eq!(exec, wanted, "{text}");
            assert_eq!(of_exec(&join_words(&exec)).unwrap().exec, wanted, "{text}");
        }
        for wrong in ["", "  ", "a 'b", "a \"b", "a \\"] {
            assert!(of_exec(wrong).is_err(), "{wrong}");
        }
        let ssh = of_exec("/usr/bin/ssh host").unwrap();
        let words: Vec<String> = command(&ssh, &["/lbx", "it's; rm x"])
            .unwrap()
            .get_args()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        assert_eq!(words, ["host", "'/lbx'", "'it'\\''s; rm x'"]);
    }
}
