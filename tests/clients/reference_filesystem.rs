//! reference_filesystem
