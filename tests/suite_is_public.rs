//! `suite` uses what is public and nothing else: here it is compiled outside the crate, where nothing else can be named. Its tests run with the
//! library's.

use hipverify::{device, dtype, fill, matrix_core, reference};
#[cfg(feature = "suite")]
use hipverify::{files, verify};

mod error {
    pub use hipverify::{Error, Result};
}

#[path = "../src/suite/mod.rs"]
#[allow(dead_code, unused_imports)]
mod suite;

fn main() {
    println!("suite compiles outside the crate");
}
