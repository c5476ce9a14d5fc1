//! transaction.
