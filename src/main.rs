//! The `lbx` binary: hands the arguments to the front end and exits with its status.
fn main() {}
