//! The client, and the arguments of lbx, that a piece of a file is made for.

/// Command of lbx's hooks, by which they are found again.
pub const HOOK_SIGN: &str = "lbx session compact";

/// Client and arguments that a piece is made for.
#[derive(Clone, Copy)]
pub struct For<'a> {
    /// Client's name, with which its sessions begin.
    pub client: &'static str,
    /// Program that the client starts: `lbx`, or its path.
    pub program: &'a str,
    /// Its arguments.
    pub arguments: &'a [String],
    /// True if its own tools are guarded.
    pub guard: bool,
}
