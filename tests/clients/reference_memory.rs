//! reference_memory
