//! Turns the description of the stored values into types; no `protoc` is needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto/stored.proto");
    let described = protox::compile(["proto/stored.proto"], ["proto"])?;
    prost_build::Config::new().compile_fds(described)?;
    Ok(())
}
