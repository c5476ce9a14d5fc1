//! The engine: everything that knows the workspace, and nothing of who calls it.

pub mod fs;
mod near;
pub mod path;
pub mod protect;
pub mod resolve;
pub mod session;
pub mod state;
pub mod workspace;
