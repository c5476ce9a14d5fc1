//! What the front ends stand on: the options of a process and a call, and one call of a tool.

pub mod call;
pub mod options;
pub mod remote;
