//! The store: everything that lbx remembers in `.lbx/ID/`, and what each kind of file there is for.

pub mod audit;
pub mod calls;
pub mod container;
pub mod id;
pub mod lock;
pub mod sandboxes;
pub mod session;
pub mod state;
pub mod trash;
