//! Cases as data, and properties of the whole.

mod plans;
mod properties;
mod reference;
mod reports;
