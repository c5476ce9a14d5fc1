//! The store: everything that lbx keeps in `.lbx/ID/`, with one module for each kind of file.

pub mod audit;
pub mod calls;
pub mod container;
pub mod id;
pub mod lock;
mod queue;
pub mod sandboxes;
pub mod session;
pub mod state;
pub mod trash;
