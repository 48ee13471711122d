//! Turns the protocol's description into types; no `protoc` is needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto/pulsar.proto");
    let described = protox::compile(["proto/pulsar.proto"], ["proto"])?;
    // `Bytes` fields are slices of the frame they came in, not copies.
    prost_build::Config::new().bytes(["."]).compile_fds(described)?;
    Ok(())
}
