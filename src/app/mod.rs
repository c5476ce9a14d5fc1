//! Code shared by the front ends: options of a process or call, and one call of a tool.

pub mod call;
pub mod options;
pub mod remote;
