//! Turns the protocol's description into types, and into a table of what must not be missing; no `protoc` is needed.

use std::{collections::HashMap, error::Error, fmt::Write, fs, path::Path};

use prost_build::Config;
use prost_types::{DescriptorProto, FileDescriptorSet, field_descriptor_proto::Label};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto/pulsar.proto");
    let described = protox::compile(["proto/pulsar.proto"], ["proto"])?;
    let table = required_fields(&described)?;
    fs::write(Path::new(&std::env::var("OUT_DIR")?).join("required.rs"), table)?;
    // `Bytes` fields are slices of the frame they came in, not copies.
    Config::new().bytes(["."]).compile_fds(described)?;
    Ok(())
}

/// The table that `required.rs` describes: the generated decoder reads a missing required field as zero, so it is checked apart.
fn required_fields(described: &FileDescriptorSet) -> Result<String, Box<dyn Error>> {
    let messages: Vec<&DescriptorProto> = described.file.iter().flat_map(|file| &file.message_type).collect();
    let index: HashMap<String, usize> =
        messages.iter().enumerate().map(|(i, message)| (format!(".pulsar.{}", message.name()), i)).collect();
    let mut table = String::from("static MESSAGES: &[&[Field]] = &[\n");
    for message in &messages {
        writeln!(table, "    // {}", message.name())?;
        table.push_str("    &[\n");
        for field in &message.field {
            let required = field.label() == Label::Required;
            let part = index.get(field.type_name());
            if required || part.is_some() {
                let (number, name) = (field.number(), field.name());
                writeln!(table, "        Field {{ number: {number}, name: {name:?}, required: {required}, message: {part:?} }},")?;
            }
        }
        table.push_str("    ],\n");
    }
    table.push_str("];\n");
    writeln!(table, "const BASE_COMMAND: usize = {};", index.get(".pulsar.BaseCommand").ok_or("no BaseCommand")?)?;
    Ok(table)
}
