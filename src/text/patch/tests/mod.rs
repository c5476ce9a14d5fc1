//! Cases as data, and properties of the whole.

mod cases;
mod plans;
mod properties;
mod reference;
