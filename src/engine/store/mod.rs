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

use serde::Deserialize;

use crate::error::{Error, ErrorKind};

/// Returns the version of a record in JSON, which has that field in every version; 0 if it has none.
pub fn version_of(json: &[u8]) -> u32 {
    /// The only field that all versions share.
    #[derive(Deserialize)]
    struct Versioned {
        /// Version of the format.
        version: u32,
    }
    serde_json::from_slice(json).map_or(0, |Versioned { version }| version)
}

/// Returns the error for `what` a newer lbx wrote.
pub fn written_by_newer(what: &str) -> Error {
    Error::new(ErrorKind::IoError, format!("{what} was written by a newer lbx"))
        .suggest("Call the newer lbx: this one leaves it as it is.")
}
