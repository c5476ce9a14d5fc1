//! The native calls that a foreign tool makes.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::app::call::Call;
use crate::app::consent::{Ask, Proposal, consent};
use crate::app::options::Options;
use crate::control::Control;
use crate::engine::CallNotes;
use crate::engine::change::record;
use crate::engine::policy::Policy;
use crate::engine::store::calls::CallTally;
use crate::engine::workspace::{Workspace, fs};
use crate::error::{Error, ErrorKind};
use crate::tools::{Image, Tool, ToolEntry, entry_of, log, read};

/// Opens the workspace of a call.
pub type Opener<'a> = &'a dyn Fn() -> Result<Workspace, Error>;

/// Bytes of a file that is looked at beside a native call.
const PEEK_BYTES_MAX: u64 = 1 << 30;

/// What is known of a file or folder besides its content.
#[derive(Debug)]
pub struct Facts {
    /// Bytes.
    pub size: u64,
    /// When it was made, seconds since 1970.
    pub created: i64,
    /// When its content changed.
    pub modified: i64,
    /// When it was last read.
    pub accessed: i64,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// Whether it is a regular file.
    pub is_file: bool,
    /// Permission bits.
    pub mode: u32,
}

/// Makes native calls for one foreign call.
pub struct Native<'a> {
    /// Opens the workspace; each native call has it anew.
    open: Opener<'a>,
    /// The session and what else was fixed.
    options: &'a Options,
    /// Cancellation and progress of the foreign call.
    control: Control,
    /// Warnings and the newest snapshot of the native calls so far.
    pub outcome: CallNotes,
    /// Count the native calls once the answer of all is out.
    pub tallies: Vec<CallTally>,
    /// The tools that were called so far.
    called: Vec<&'static ToolEntry>,
    /// Images of the native calls so far.
    images: Vec<Image>,
    /// Asks a person before each change.
    ask: Option<&'a Ask>,
}

impl<'a> Native<'a> {
    /// Native calls of the options' session.
    #[must_use]
    pub fn new(open: Opener<'a>, options: &'a Options, control: Control) -> Self {
        let (outcome, tallies, called, images) = (CallNotes::default(), Vec::new(), Vec::new(), Vec::new());
        Self { open, options, control, outcome, tallies, called, images, ask: None }
    }

    /// The same, which ask a person before each change.
    #[must_use]
    pub fn asking(self, ask: Option<&'a Ask>) -> Self {
        Self { ask, ..self }
    }

    /// The schemas of what the tools called so far take and answer.
    pub fn schemas(&self) -> impl Iterator<Item = Value> + '_ {
        self.called.iter().flat_map(|tool| [(tool.request_schema)(), (tool.response_schema)()])
    }

    /// The data that the native tool answers.
    ///
    /// # Errors
    /// What the tool refuses.
    pub fn call<T: Tool + 'static>(&mut self, request: Value) -> Result<Value, Error> {
        self.call_entry(None, entry_of::<T>(), request)
    }

    /// The same, with paths that count from a folder of the workspace, where one is given.
    ///
    /// # Errors
    /// What the tool refuses, or where there is no such folder.
    pub fn call_in<T: Tool + 'static>(
        &mut self,
        folder: Option<&Path>,
        request: Value,
    ) -> Result<Value, Error> {
        self.call_entry(folder, entry_of::<T>(), request)
    }

    /// The same, with the types of the tool erased.
    fn call_entry(
        &mut self,
        folder: Option<&Path>,
        entry: &'static ToolEntry,
        request: Value,
    ) -> Result<Value, Error> {
        self.called.push(entry);
        let open = || match folder {
            Some(folder) => (self.open)()?.counting_from(folder),
            None => (self.open)(),
        };
        if let Some(ask) = self.ask {
            let (options, control) = (self.options, &self.control);
            consent(ask, &Proposal { open: &open, tool: entry, request: &request, options, control })?;
        }
        let call = Call::within(open()?, entry, self.options)?.controlled_by(self.control.clone());
        let called = call.run_with(|engine| (entry.run_json)(engine, request));
        self.tallies.extend(called.tally);
        self.outcome.warnings.extend(called.outcome.warnings);
        self.outcome.changed |= called.outcome.changed;
        self.outcome.snapshot = called.outcome.snapshot.or(self.outcome.snapshot.take());
        let mut reply = called.answered?;
        self.images.extend(reply.take_images());
        reply.value()
    }

    /// The image in a file, as a block of its own; none where the file is something else.
    ///
    /// # Errors
    /// What `read` refuses.
    pub fn image(&mut self, path: &str) -> Result<Vec<Image>, Error> {
        self.call::<read::Read>(json!({ "path": path, "binary": "base64", "max_bytes": 0 }))?;
        Ok(std::mem::take(&mut self.images))
    }

    /// The bytes of a file, encoded, whatever they are.
    ///
    /// # Errors
    /// What `read` refuses.
    pub fn base64_of(&mut self, path: &str) -> Result<String, Error> {
        let data =
            self.call::<read::Read>(json!({ "path": path, "binary": "base64", "max_bytes": 0, "limit": 0 }))?;
        let text = |field| data.get(field).and_then(Value::as_str);
        let image = std::mem::take(&mut self.images).pop().map(|image| image.base64);
        let base64 = image.or_else(|| text("base64").map(str::to_owned));
        Ok(base64.unwrap_or_else(|| STANDARD.encode(text("content").unwrap_or_default())))
    }

    /// The text of a file that the caller is not shown, so that it does not count as read; what is not
    /// UTF-8 in it is replaced.
    ///
    /// # Errors
    /// Where there is no such file, or it is too large.
    pub fn peek(&self, path: &str) -> Result<String, Error> {
        let workspace = (self.open)()?;
        let place = workspace.resolve(Path::new(path))?;
        if place.stat().is_some_and(fs::is_folder) {
            return Err(Error::new(ErrorKind::IsADirectory, format!("{path} is a directory")).at(path));
        }
        let (file, stat) = workspace.open_file(&place)?;
        let bytes = fs::read_to_end(file, fs::size_of(&stat), PEEK_BYTES_MAX)
            .map_err(|error| Error::io("read", path, error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The real absolute path of what stands at `path`.
    ///
    /// # Errors
    /// Where the path cannot be resolved.
    pub fn real(&self, path: &str) -> Result<PathBuf, Error> {
        let workspace = (self.open)()?;
        let place = workspace.resolve(Path::new(path))?;
        Ok(workspace.root().join(place.path().as_path()).components().collect())
    }

    /// What is known of the file or folder at `path`.
    ///
    /// # Errors
    /// `not_found`, or where the path cannot be resolved.
    pub fn facts(&self, path: &str) -> Result<Facts, Error> {
        let workspace = (self.open)()?;
        let place = workspace.resolve(Path::new(path))?;
        let stat = place.stat().ok_or_else(|| workspace.not_found(&place))?;
        let opened = fs::open_beneath(workspace.root_fd(), place.path(), fs::LOOK).ok();
        let times = opened.and_then(|file| {
            let (empty, birth) = (rustix::fs::AtFlags::EMPTY_PATH, rustix::fs::StatxFlags::BTIME);
            rustix::fs::statx(file, "", empty, birth).ok()
        });
        Ok(Facts {
            size: fs::size_of(stat),
            created: times.map_or(stat.st_ctime, |times| times.stx_btime.tv_sec),
            modified: stat.st_mtime,
            accessed: stat.st_atime,
            is_folder: fs::is_folder(stat),
            is_file: fs::is_regular(stat),
            mode: fs::mode_of(stat),
        })
    }

    /// The bytes of a file as it was in a snapshot.
    ///
    /// # Errors
    /// `not_found` where there is no such snapshot, or no such file in it.
    pub fn file_in_snapshot(&self, id: &str, path: &Path) -> Result<Vec<u8>, Error> {
        let mut found = None;
        let entry = entry_of::<log::Log>();
        let call = Call::within((self.open)()?, entry, self.options)?.controlled_by(self.control.clone());
        let called = call.run_with(|engine| {
            found = record::file_at(engine, id, path)?;
            (entry.run_json)(engine, json!({ "limit": 1 }))
        });
        called.answered?;
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("snapshot {id} has no file {}", path.display()))
        })
    }

    /// `path` as an absolute path without `.`, from where relative paths count.
    ///
    /// # Errors
    /// Where the workspace cannot be opened.
    pub fn absolute(&self, path: &str) -> Result<PathBuf, Error> {
        Ok(self.base()?.join(path).components().collect())
    }

    /// The absolute path from which relative ones count.
    ///
    /// # Errors
    /// Where the workspace cannot be opened.
    pub fn base(&self) -> Result<PathBuf, Error> {
        let workspace = (self.open)()?;
        let base =
            workspace.base().components().fold(workspace.root().to_owned(), |path, name| path.join(name));
        Ok(base)
    }

    /// The absolute path of the workspace root.
    ///
    /// # Errors
    /// Where the workspace cannot be opened.
    pub fn root(&self) -> Result<PathBuf, Error> {
        Ok((self.open)()?.root().to_owned())
    }

    /// Bytes that an answer has where nobody says.
    ///
    /// # Errors
    /// Where the workspace cannot be opened, or its policy is not as it should be.
    pub fn max_bytes(&self) -> Result<usize, Error> {
        Ok(Policy::load(&(self.open)()?, &self.options.policy)?.max_bytes())
    }

    /// The size of what stands at `path`, in bytes; 0 where there is nothing.
    ///
    /// # Errors
    /// Where the path cannot be resolved.
    pub fn size_of(&self, path: &str) -> Result<u64, Error> {
        let place = (self.open)()?.resolve(Path::new(path))?;
        Ok(place.stat().map_or(0, fs::size_of))
    }

    /// Whether anything stands at `path`.
    ///
    /// # Errors
    /// Where the path cannot be resolved.
    pub fn exists(&self, path: &str) -> Result<bool, Error> {
        Ok((self.open)()?.resolve(Path::new(path))?.stat().is_some())
    }

    /// Whether a folder stands at `path`.
    ///
    /// # Errors
    /// Where the path cannot be resolved.
    pub fn is_folder(&self, path: &str) -> Result<bool, Error> {
        let place = (self.open)()?.resolve(Path::new(path))?;
        Ok(place.stat().is_some_and(fs::is_folder))
    }
}
