//! One call of the binary.

use super::skipped;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::{Answer, STATE_ID};

/// Path of the binary under test.
pub const LBX: &str = env!("CARGO_BIN_EXE_lbx");
/// Value of `PATH` for all calls.
pub const PATH_FIXED: &str = "/usr/local/bin:/usr/bin:/bin";
/// Time limit of a call, longer than any call takes on a busy machine: a call that hangs is killed and fails its test.
const HANG: Duration = Duration::from_secs(60);

/// Source of stdin.
enum Stdin {
    /// `/dev/null`.
    Null,
    /// A pipe with a text.
    Text(Vec<u8>),
    /// A pipe that never closes, as some harnesses pass on.
    NeverCloses,
    /// A file.
    File(PathBuf),
}

/// A prepared call, in an environment with nothing of the caller's.
#[must_use = "nothing is called before run()"]
pub struct Call {
    /// Program, folder and environment.
    command: Command,
    /// Source of its stdin.
    stdin: Stdin,
    /// Arguments, for the messages of a test.
    shown: Vec<OsString>,
    /// Limit of the address space, in bytes.
    memory_max: Option<u64>,
}

impl Call {
    /// Prepares a call at `root` with the home folder `home`.
    pub fn new(root: &Path, home: &Path) -> Self {
        Self::of(Command::new(LBX), root, home)
    }

    /// Prepares a call that may map at most this many bytes of memory.
    #[allow(dead_code, reason = "not every test bounds the memory")]
    pub fn bounded(root: &Path, home: &Path, bytes: u64) -> Self {
        let mut command = Command::new("prlimit");
        command.arg(format!("--as={bytes}")).arg("--").arg(LBX);
        Self::of(command, root, home)
    }

    /// Prepares a call under another program, which gets these arguments before those of the call.
    #[allow(dead_code, reason = "not every test traces calls")]
    pub fn under<A: AsRef<OsStr>>(program: &str, arguments: &[A], root: &Path, home: &Path) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).arg(LBX);
        Self::of(command, root, home)
    }

    /// Prepares a call by a user whom file modes restrict, even as root; `None` if root cannot drop its privileges.
    pub fn unprivileged(root: &Path, home: &Path) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return Some(Self::new(root, home));
        }
        let without_power = || {
            let mut command = Command::new("setpriv");
            command.args(["--bounding-set", "-dac_override,-dac_read_search", "--"]);
            command
        };
        let works = without_power().arg("true").output().is_ok_and(|output| output.status.success());
        if !works {
            skipped("root cannot give up its power here (setpriv)");
            return None;
        }
        let mut command = without_power();
        command.arg(LBX);
        Some(Self::of(command, root, home))
    }

    /// Prepares a call of that program.
    fn of(mut command: Command, root: &Path, home: &Path) -> Self {
        command.current_dir(root).env_clear();
        command.env("PATH", PATH_FIXED).env("HOME", home).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("LBX_STATE_ID", STATE_ID);
        Self { command, stdin: Stdin::Null, shown: Vec::new(), memory_max: None }
    }

    /// Adds arguments.
    pub fn arguments<A: AsRef<OsStr>>(mut self, arguments: &[A]) -> Self {
        self.command.args(arguments);
        self.shown.extend(arguments.iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Puts a text on stdin.
    pub fn stdin(mut self, text: impl AsRef<[u8]>) -> Self {
        self.stdin = Stdin::Text(text.as_ref().to_owned());
        self
    }

    /// Puts an open pipe on stdin that nobody writes to.
    pub fn stdin_never_closes(mut self) -> Self {
        self.stdin = Stdin::NeverCloses;
        self
    }

    /// Puts a file on stdin.
    pub fn stdin_file(mut self, path: &Path) -> Self {
        self.stdin = Stdin::File(path.to_owned());
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Limits its address space, in bytes: a call that needs more fails.
    #[allow(dead_code, reason = "tests of hostile workspaces ask for it")]
    pub fn with_memory(mut self, bytes: u64) -> Self {
        self.memory_max = Some(bytes);
        self
    }

    /// Calls from another folder.
    pub fn in_folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Calls the binary under another name.
    pub fn named(mut self, name: &str) -> Self {
        self.command.arg0(name);
        self
    }

    /// Starts the call without waiting for its end.
    pub fn spawn(mut self) -> Child {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let text = match &self.stdin {
            Stdin::Null => {
                self.command.stdin(Stdio::null());
                None
            }
            Stdin::Text(text) => {
                self.command.stdin(Stdio::piped());
                Some(text.clone())
            }
            Stdin::NeverCloses => {
                self.command.stdin(Stdio::piped());
                None
            }
            Stdin::File(path) => {
                self.command.stdin(std::fs::File::open(path).unwrap());
                None
            }
        };
        let mut child = self.command.spawn().unwrap();
        if let Some(bytes) = self.memory_max {
            let limit = rustix::process::Rlimit { current: Some(bytes), maximum: Some(bytes) };
            let id = rustix::process::Pid::from_raw(child.id().cast_signed());
            // It may have ended already.
            let _ = rustix::process::prlimit(id, rustix::process::Resource::As, limit);
        }
        if let (Some(text), Some(mut stdin)) =
            (text, if matches!(self.stdin, Stdin::Text(_)) { child.stdin.take() } else { None })
        {
            // In a thread of its own: the call may answer before it has read everything, or never read.
            std::thread::spawn(move || stdin.write_all(&text));
        }
        child
    }

    /// Makes the call.
    pub fn run(self) -> Answer {
        let shown: Vec<String> = self.shown.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let shown = format!("lbx {}", shown.join(" "));
        let mut child = self.spawn();
        let open_stdin = child.stdin.take();
        let id = child.id();
        let (done, wait) = mpsc::channel();
        std::thread::spawn(move || done.send(child.wait_with_output()));
        let Ok(output) = wait.recv_timeout(HANG) else {
            kill(id);
            panic!("{shown}: still running after {} s", HANG.as_secs());
        };
        drop(open_stdin);
        Answer::new(shown, output.unwrap())
    }
}

/// Kills a process that this test started.
pub fn kill(id: u32) {
    if let Some(pid) = rustix::process::Pid::from_raw(id.cast_signed()) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}
