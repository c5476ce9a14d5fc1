//! The modules of lbx that are fuzzed, alone: not all of lbx is built with a sanitizer.

#![allow(dead_code, unused_imports)]

#[path = "../src/text/checked.rs"]
pub mod checked;
#[path = "../src/text/line_diff.rs"]
pub mod line_diff;
#[path = "../src/text/patch/mod.rs"]
pub mod patch;
