//! What the front ends stand on: the options of a process and a call, and one call of a tool.

pub mod call;
pub mod called;
mod client_session;
pub mod consent;
pub mod options;
mod relay;
pub mod remote;
