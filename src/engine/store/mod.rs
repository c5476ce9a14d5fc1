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

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind};
use crate::sha256::{seal_of, split_seal};

/// Returns the version of a record in JSON, which has that field in every version; 0 if it has none.
pub fn version_of(json: &[u8]) -> u32 {
    /// The only field that all versions share.
    #[derive(Deserialize)]
    struct VersionField {
        /// Version of the format.
        version: u32,
    }
    serde_json::from_slice(json).map_or(0, |VersionField { version }| version)
}

/// Returns the content of a state file: JSON on one line, and its seal.
///
/// # Errors
/// Returns `internal` if it cannot be written as JSON.
pub fn sealed(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    let mut bytes = serde_json::to_vec(value).map_err(|error| Error::internal(error.to_string()))?;
    bytes.extend(seal_of(&bytes).into_bytes());
    Ok(bytes)
}

/// Parses the content of such a file; `None` if it is damaged.
pub fn unsealed<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (json, seal) = split_seal(bytes);
    (seal == seal_of(json).as_bytes()).then(|| serde_json::from_slice(json).ok())?
}

/// Returns the error for `what` a newer lbx wrote.
pub fn written_by_newer(what: &str) -> Error {
    Error::new(ErrorKind::IoError, format!("{what} was written by a newer lbx"))
        .suggest("Call the newer lbx: this one leaves it as it is.")
}
