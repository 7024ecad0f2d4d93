//! What the memory of every device can do: the ceilings that speeds are quoted against.
//!
//! `cargo run --release --example bandwidth [MEBIBYTES]`

use anyhow::{Context, Result};
use hipverify::Device;
use hipverify::bandwidth;

fn main() -> Result<()> {
    let mebibytes: usize = match std::env::args().nth(1) {
        Some(text) => text.parse().with_context(|| format!("`{text}` is no number of MiB"))?,
        None => 512,
    };
    for device in Device::all() {
        let read = bandwidth::read(&device, mebibytes << 20)?;
        let write = bandwidth::write(&device, mebibytes << 20)?;
        let launch = bandwidth::empty_launch(&device)?;
        println!("{device}");
        println!("  read   {:9.1} GB/s   (two blocks of {mebibytes} MiB)", read / 1e9);
        println!("  write  {:9.1} GB/s", write / 1e9);
        println!("  launch {:9.1} us     (empty kernel and wait)", launch.as_secs_f64() * 1e6);
    }
    Ok(())
}
