//! content.
