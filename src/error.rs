//! Kinds of errors, each with its wire name, exit status and suggested action.

use std::any::Any;
use std::borrow::Cow;
use std::{fmt, io};

use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::limits::ERROR_TEXT_BYTES_MAX;

pub(crate) use crate::message::text;
pub use crate::message::{Message, Vocabulary};

/// Defines the kinds from one table: name, wire name, exit status, meaning, and the step most likely to make the next
/// try succeed.
macro_rules! kinds {
    ($($kind:ident $name:literal $code:literal $about:literal => $action:literal;)*) => {
        /// Kind of error. The wire name is the variant in `snake_case` and never changes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum ErrorKind {
            $(#[doc = $about] $kind,)*
        }

        impl ErrorKind {
            /// Every kind, in the order of the documentation.
            pub const ALL: [Self; 27] = [$(Self::$kind),*];

            /// Returns the wire name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// Returns the exit status of the process, 1 to 255; 0 is success.
            pub const fn exit_code(self) -> u8 {
                match self {
                    $(Self::$kind => $code,)*
                }
            }

            /// Returns the step most likely to make the next try succeed, if the error itself names no better one.
            pub const fn suggested_action(self) -> &'static str {
                match self {
                    $(Self::$kind => $action,)*
                }
            }
        }
    };
}

kinds! {
    InvalidRequest "invalid_request" 2 "Bad JSON, field, pattern or flag."
        => "Correct the request as the message says.";
    NotFound "not_found" 3 "No such file, directory, trash entry or snapshot."
        => "Check the name with `ls` or `glob` and repeat the call with the right path.";
    AlreadyExists "already_exists" 4 "The destination of a new or moved file exists."
        => "Choose another path, or read the file and change it with `edit`.";
    NotRead "not_read" 5 "The gate: this session has not read the file that it would change."
        => "Read the file, then repeat the call.";
    StaleFile "stale_file" 6 "The bytes on disk are not those that the caller has seen."
        => "Re-read the file to obtain the current `sha256` and re-apply your edit.";
    NoMatch "no_match" 7 "The text to replace is not there."
        => "Read the file and copy `old_string` from it exactly, whitespace included.";
    AmbiguousMatch "ambiguous_match" 8 "The text to replace is there more often than it may be."
        => "Include more surrounding lines in `old_string`. To change every match, set `replace_all`.";
    PatchInvalid "patch_invalid" 9 "The patch cannot be parsed."
        => "Correct the patch at the line named and send it again.";
    PatchConflict "patch_conflict" 9 "The patch does not apply."
        => "Read the file and make the patch again from its current content.";
    OutsideWorkspace "outside_workspace" 10 "The path resolves outside the workspace."
        => "Use a path inside the workspace, or start lbx in another one.";
    ProtectedPath "protected_path" 10 "The path is `.git`, `.lbx` or protected by the policy."
        => "Leave this path alone: git and lbx keep their own state there.";
    IsADirectory "is_a_directory" 11 "A folder is where a file was expected."
        => "Name a file. `ls` shows what the folder holds.";
    NotADirectory "not_a_directory" 11 "A file is where a folder was expected."
        => "Check the path with `ls`: there is a file where a folder is needed.";
    NotARegularFile "not_a_regular_file" 11 "A device, FIFO or socket."
        => "Name a regular file; devices, FIFOs and sockets are never opened.";
    BinaryFile "binary_file" 11 "Bytes that are not text."
        => "Read it with `binary` set to base64, or leave it alone.";
    UnsupportedEncoding "unsupported_encoding" 11 "Message in an encoding that could not be written back unchanged."
        => "Convert the file to UTF-8 first, or read it with `binary` set to base64.";
    TooLarge "too_large" 11 "Beyond a stated bound."
        => "Ask for less at once.";
    PermissionDenied "permission_denied" 12 "Refused by the operating system."
        => "Ask the owner of the file for access, or work on another path.";
    CommandDenied "command_denied" 12 "Refused by the policy."
        => "Use a command that the policy allows.";
    SandboxNotFound "sandbox_not_found" 13 "No sandbox of that name."
        => "List the sandboxes, or leave the sandbox out.";
    LockTimeout "lock_timeout" 14 "Another holder kept the lock."
        => "Another lbx call is running: try again.";
    Timeout "timeout" 17 "A search or a scan ran out of time, or was cancelled."
        => "Narrow the path or the pattern and try again.";
    NoSpace "no_space" 15 "The disk is full."
        => "Tell the user that the disk is full; repeat the call once there is room.";
    IoError "io_error" 15 "The disk failed."
        => "Check the disk, then repeat the call: no file was left half-written.";
    SnapshotFailed "snapshot_failed" 16 "The change was applied, but the snapshot that the caller required was not made."
        => "The change is on disk: repair what the message names, or continue without `require_snapshot`.";
    VerificationFailed "verification_failed" 18 "The audit log is not as lbx recorded it."
        => "Tell the user: records were altered or removed. `log` shows the snapshots to compare them with.";
    Internal "internal" 70 "A bug in lbx."
        => "This is a bug in lbx: report the request and the message.";
}

impl ErrorKind {
    /// Returns the hint that only a caller on the command line gets, after the suggested action.
    pub const fn on_command_line(self) -> Option<&'static str> {
        match self {
            Self::InvalidRequest => Some("`lbx TOOL --help` lists the flags, `lbx schema TOOL` the fields."),
            Self::SandboxNotFound => Some("`lbx sandbox list` shows them."),
            _ => None,
        }
    }

    /// Returns the suggested action for a caller that does not have lbx's tools and fields.
    pub const fn suggested_without_names(self) -> &'static str {
        match self {
            Self::NotFound => "Check the name and repeat the call with the right path.",
            Self::AlreadyExists => "Choose another path, or read the file and edit it.",
            Self::StaleFile => "Re-read the file, then repeat the change.",
            Self::NoMatch => {
                "Read the file and copy the text to replace from it exactly, whitespace included."
            }
            Self::AmbiguousMatch => "Include more surrounding lines in the text to replace.",
            Self::IsADirectory => "Name a file.",
            Self::NotADirectory => "Check the path: there is a file where a folder is needed.",
            Self::BinaryFile => "Leave it alone: it is not text.",
            Self::UnsupportedEncoding => "Convert the file to UTF-8 first.",
            Self::SnapshotFailed => "The change is on disk: repair what the message names.",
            Self::VerificationFailed => "Tell the user: records were altered or removed.",
            other => other.suggested_action(),
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns a text of an error; if it is very long, only its start and its end. So an error is never longer than a shell
/// shows, whatever the request holds.
pub fn bounded(text: String) -> String {
    if text.len() <= ERROR_TEXT_BYTES_MAX {
        return text;
    }
    let start = text.floor_char_boundary(ERROR_TEXT_BYTES_MAX / 2);
    let end = text.ceil_char_boundary(text.len().saturating_sub(ERROR_TEXT_BYTES_MAX / 4));
    format!("{}…{}", text.get(..start).unwrap_or_default(), text.get(end..).unwrap_or_default())
}

/// Returns the text, or its start and its end if it is very long.
fn bounded_text(text: Message) -> Message {
    if text.as_str().len() > ERROR_TEXT_BYTES_MAX { bounded(text.into_plain()).into() } else { text }
}

/// An error: kind, message, path and suggested action.
#[derive(Debug)]
pub struct Error(Box<ErrorParts>);

/// Parts of an [`Error`], boxed so that a `Result` stays small.
#[derive(Debug)]
struct ErrorParts {
    /// Kind of error.
    kind: ErrorKind,
    /// Message, complete in itself.
    message: Message,
    /// Path concerned, relative to the same folder as the request's.
    path: Option<String>,
    /// Suggested action that replaces the kind's own.
    suggested_action: Option<Message>,
    /// Position in the suggested action and text of a command that does the next step.
    command: Option<(usize, String)>,
    /// Hint that only a caller on the command line gets.
    on_command_line: Option<Cow<'static, str>>,
    /// Facts for programs.
    details: Map<String, Value>,
    /// True if the change itself is applied and only a later step failed.
    applied: bool,
    /// OS error, if there is one.
    source: Option<io::Error>,
}

impl Error {
    /// Returns an error of `kind` with its message.
    pub fn new(kind: ErrorKind, message: impl Into<Message>) -> Self {
        Self(Box::new(ErrorParts {
            kind,
            message: bounded_text(message.into()),
            path: None,
            suggested_action: None,
            command: None,
            on_command_line: None,
            details: Map::new(),
            applied: false,
            source: None,
        }))
    }

    /// Returns `invalid_request` with its message.
    pub fn invalid(message: impl Into<Message>) -> Self {
        Self::new(ErrorKind::InvalidRequest, message)
    }

    /// Returns `internal`: something that cannot happen did.
    pub fn internal(message: impl Into<Message>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Returns the error for an OS error of `doing` something with `path`.
    ///
    /// The errno gives the kind: `not_found` for a missing file, `permission_denied` for a refused one, `no_space` for
    /// a full disk, and so on; `io_error` for anything else. `details.errno` has the name of the errno.
    pub fn io(doing: &str, path: impl Into<String>, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.into(), source.into());
        let errno = source.raw_os_error().map(Errno::from_raw_os_error);
        let text = source.to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        // A file is too large to read by a limit of lbx's own, to write by a limit of the OS.
        let is_limit = errno == Some(Errno::FBIG) && !doing.starts_with("read");
        let kind = if is_limit { ErrorKind::IoError } else { kind_of(&source) };
        let mut error = Self::new(kind, format!("cannot {doing} {path}: {text}")).at(path);
        if let Some(errno) = errno {
            // A specific kind has an action of its own.
            if let Some(action) = action_for(errno).filter(|_| kind == ErrorKind::IoError) {
                error = error.suggest(action);
            }
            error = error.detail("errno", errno_name(errno));
        }
        error.0.source = Some(source);
        error
    }

    /// Sets the path concerned.
    #[must_use]
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.0.path = Some(bounded(path.into()));
        self
    }

    /// Replaces the kind's suggested action by a better one.
    #[must_use]
    pub fn suggest(mut self, action: impl Into<Message>) -> Self {
        self.0.suggested_action = Some(action.into());
        self
    }

    /// Puts a sentence before the suggested action.
    #[must_use]
    pub fn suggest_first(mut self, hint: impl Into<Message>) -> Self {
        let action = self.0.suggested_action.take().unwrap_or_else(|| self.0.kind.suggested_action().into());
        self.suggest(Message::sentences([hint.into(), action]))
    }

    /// Suggests a step that one command does, and the step after it. Only a caller that has a shell gets the command.
    #[must_use]
    pub fn suggest_running(
        mut self,
        step: impl Into<Message>,
        command: String,
        then: impl Into<Message>,
    ) -> Self {
        let step = step.into();
        self.0.command = Some((step.as_str().len(), command));
        self.suggest(step.followed_by(then))
    }

    /// Sets the command for the whole of the suggested action, for a caller that has a shell.
    #[must_use]
    pub fn with_command(mut self, command: String) -> Self {
        self.0.command = Some((usize::MAX, command));
        self
    }

    /// Adds a hint to the suggested action for the command line only: flags, commands of lbx.
    #[must_use]
    pub fn on_command_line(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.0.on_command_line = Some(hint.into());
        self
    }

    /// Returns the suggested action for a caller on the command line, who called `tool`: its name replaces `TOOL` in
    /// lbx's own hints.
    pub fn suggested_on_command_line(&self, tool: &str) -> Cow<'_, str> {
        let hint = self.0.on_command_line.as_deref().or_else(|| {
            let is_own = self.0.suggested_action.is_some();
            self.0.kind.on_command_line().filter(|_| !is_own)
        });
        let action = self.suggested_action();
        if let Some((at, command)) = &self.0.command
            && let Some((step, then)) = action.split_at_checked(*at)
        {
            return Cow::Owned(format!("{step} ({command}){then}"));
        }
        match hint {
            Some(hint) => Cow::Owned(format!("{action} {}", hint_for(tool, hint))),
            None => Cow::Borrowed(action),
        }
    }

    /// Appends to the message.
    #[must_use]
    pub fn add_to_message(mut self, addition: impl Into<Message>) -> Self {
        self.0.message = bounded_text(self.0.message.followed_by(addition));
        self
    }

    /// Returns the error in the names of a family; advice that needs other names is left out.
    #[must_use]
    pub fn for_family(mut self, family: &Vocabulary) -> Self {
        let message: String = self.0.message.for_family(family).into_iter().map(|(said, _)| said).collect();
        let advice = self.0.suggested_action.unwrap_or_else(|| self.0.kind.suggested_action().into());
        let known = advice
            .sentences_for(family)
            .map_or_else(|| self.0.kind.suggested_without_names().into(), Message::from);
        (self.0.message, self.0.suggested_action, self.0.command) = (message.into(), Some(known), None);
        self
    }

    /// Adds a fact for programs.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.details.insert(name.to_owned(), value.into());
        self
    }

    /// Marks the change itself as applied.
    #[must_use]
    pub fn applied(mut self) -> Self {
        self.0.applied = true;
        self
    }

    /// Returns the kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        self.0.message.as_str()
    }

    /// Returns the message as it was built.
    pub fn into_message(self) -> Message {
        self.0.message
    }

    /// Returns the path concerned.
    pub fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }

    /// Returns the suggested action.
    pub fn suggested_action(&self) -> &str {
        self.0.suggested_action.as_ref().map_or(self.0.kind.suggested_action(), Message::as_str)
    }

    /// Returns the next step as a command line, if it has one.
    pub fn suggested_command(&self) -> Option<&str> {
        self.0.command.as_ref().map(|(_, command)| command.as_str())
    }

    /// Returns the facts for programs.
    pub fn details(&self) -> &Map<String, Value> {
        &self.0.details
    }

    /// Returns the errno of the OS error that it reports.
    pub fn errno(&self) -> Option<Errno> {
        self.0.source.as_ref().and_then(io::Error::raw_os_error).map(Errno::from_raw_os_error)
    }

    /// Returns true if the change itself is applied.
    pub fn is_applied(&self) -> bool {
        self.0.applied
    }
}

/// Returns a hint with the tool's name in the place of `TOOL`.
fn hint_for(tool: &str, hint: &str) -> String {
    hint.replace("`lbx TOOL ", &format!("`lbx {tool} "))
        .replace("`lbx schema TOOL`", &format!("`lbx schema {tool}`"))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind, self.message())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}

/// Returns the kind of an operating system error.
fn kind_of(error: &io::Error) -> ErrorKind {
    let Some(code) = error.raw_os_error() else {
        return match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
            io::ErrorKind::InvalidInput => ErrorKind::InvalidRequest,
            _ => ErrorKind::IoError,
        };
    };
    match Errno::from_raw_os_error(code) {
        Errno::NOENT => ErrorKind::NotFound,
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY => ErrorKind::PermissionDenied,
        Errno::NOSPC | Errno::DQUOT => ErrorKind::NoSpace,
        Errno::FBIG => ErrorKind::TooLarge,
        Errno::ISDIR => ErrorKind::IsADirectory,
        Errno::NOTDIR => ErrorKind::NotADirectory,
        Errno::EXIST | Errno::NOTEMPTY => ErrorKind::AlreadyExists,
        Errno::NAMETOOLONG | Errno::INVAL | Errno::LOOP => ErrorKind::InvalidRequest,
        Errno::XDEV => ErrorKind::OutsideWorkspace,
        Errno::NXIO | Errno::NODEV => ErrorKind::NotARegularFile,
        _ => ErrorKind::IoError,
    }
}

/// Returns the advice for errors that come from limits of the OS, not from the disk.
fn action_for(errno: Errno) -> Option<&'static str> {
    match errno {
        Errno::BUSY => Some(
            "It is a mount point, or in use as one: its content can be changed, but only whoever mounted it moves or removes it.",
        ),
        Errno::FBIG => Some("Raise the limit on the size of files (ulimit -f), and repeat the call."),
        Errno::MFILE => Some(
            "Raise the limit on open files (ulimit -n): a call needs 64, and two more for each file that it changes. Or change fewer files in one call; nothing was half-written.",
        ),
        Errno::NFILE => Some(
            "The whole system has no more open files: repeat the call once others are closed; nothing was half-written.",
        ),
        Errno::OVERFLOW => Some(
            "In a fork, a file of another account or group cannot be changed: give it your own group (chgrp), or make the change in the workspace itself.",
        ),
        Errno::NOMEM => Some(
            "Memory is short: repeat the call once there is more (or raise ulimit -v); nothing was half-written.",
        ),
        _ => None,
    }
}

/// Returns the symbolic name of an errno, or its number if it has none.
fn errno_name(errno: Errno) -> String {
    match nix::errno::Errno::from_raw(errno.raw_os_error()) {
        nix::errno::Errno::UnknownErrno => format!("errno {}", errno.raw_os_error()),
        // Linux has one number for this and EOPNOTSUPP.
        nix::errno::Errno::ENOTSUP => "ENOTSUP".to_owned(),
        known => format!("{known:?}"),
    }
}

/// Turns a panic into an error.
///
/// # Errors
/// Returns the errors of `run`, and `internal` if it panics.
pub fn without_panic<T>(run: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
        .unwrap_or_else(|panic| Err(error_of(panic.as_ref())))
}

/// Returns the error for a panic.
pub fn error_of(panic: &(dyn Any + Send)) -> Error {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::internal(format!("internal error: {}", text.unwrap_or("panic without a message")))
}
