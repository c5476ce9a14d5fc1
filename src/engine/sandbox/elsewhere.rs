//! Stands for the parts of a sandbox that only Linux has: there are no namespaces, no Landlock, no capabilities.

/// Namespaces: none.
pub mod namespaces {
    use std::process::Command;

    use super::super::backend::{SetupResult, part};
    use crate::platform::process::program_path;

    /// Returns a process that ends with an error.
    pub fn early_command(_: bool, _: Option<u32>) -> Command {
        part(program_path(), "namespaces")
    }

    /// Fails.
    pub fn map_ids(_: u32) -> SetupResult<()> {
        Err("this system has no namespaces".to_owned())
    }
}

/// Control groups: none.
pub mod control_group {
    /// No group.
    #[derive(Debug)]
    pub struct ControlGroup;

    impl ControlGroup {
        /// Fails.
        pub fn around(_: u32, bytes: u64) -> Result<Self, String> {
            Self::make(bytes)
        }

        /// Fails.
        pub fn make(_: u64) -> Result<Self, String> {
            Err("this system has no control groups".to_owned())
        }

        /// Returns false.
        pub fn was_full(&self) -> bool {
            false
        }
    }
}

/// A watch for the survey after a command: none, so that it reads all folders.
pub mod folder_watch {
    use std::os::fd::BorrowedFd;

    use crate::engine::workspace::Workspace;
    use crate::engine::workspace::path::WorkspacePath;
    use crate::engine::workspace::survey::Survey;

    /// No watch.
    #[derive(Debug)]
    pub struct FolderWatch;

    impl FolderWatch {
        /// Returns `None`.
        pub fn begin(_: &Workspace) -> Option<Self> {
            None
        }

        /// Does nothing.
        pub fn add(&self, _: BorrowedFd<'_>, _: &WorkspacePath) {}

        /// Returns `None`.
        pub fn changed(self, _: &Workspace, _: &Survey) -> Option<Vec<WorkspacePath>> {
            None
        }
    }
}

/// Landlock: none.
pub mod landlock {
    use std::process::Command;

    use super::super::backend::SetupResult;
    use super::super::plan::SandboxPlan;
    use crate::engine::store::lock::TemporaryFolder;

    /// Fails.
    pub fn restricted(_: &SandboxPlan, _: &TemporaryFolder) -> SetupResult<Command> {
        Err("this system has no Landlock".to_owned())
    }
}

/// Privileges: none to give up.
pub mod privileges {
    use super::super::backend::SetupResult;

    /// Does nothing.
    pub fn drop_capabilities() -> SetupResult<()> {
        Ok(())
    }

    /// Does nothing.
    pub fn seal() -> SetupResult<()> {
        Ok(())
    }

    /// Does nothing.
    pub fn filter(_: bool, _: bool) -> SetupResult<()> {
        Ok(())
    }
}
