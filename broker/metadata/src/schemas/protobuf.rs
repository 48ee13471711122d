//! Protobuf's own descriptors, as clients send them: JSON around a set of files and the name of the message.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorSet};
use serde::Deserialize;

use super::SchemaError;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Native {
    file_descriptor_set: String,
    root_message_type_name: String,
    root_file_descriptor_name: String,
}

/// The full name of the message, which is among the files.
pub(crate) fn root_message(data: &[u8]) -> Result<String, SchemaError> {
    let invalid = |reason: String| SchemaError::Invalid(format!("Invalid schema definition data for PROTOBUF_NATIVE schema: {reason}"));
    let native: Native = serde_json::from_slice(data).map_err(|error| invalid(error.to_string()))?;
    let files =
        STANDARD.decode(&native.file_descriptor_set).map_err(|error| invalid(format!("fileDescriptorSet is not base64: {error}")))?;
    let files = FileDescriptorSet::decode(files.as_slice()).map_err(|error| invalid(format!("fileDescriptorSet: {error}")))?;
    let root = &native.root_file_descriptor_name;
    let file = files.file.iter().find(|file| file.name() == root).ok_or_else(|| invalid(format!("there is no file {root:?}")))?;
    let name = native.root_message_type_name;
    let local = match file.package() {
        "" => Some(name.as_str()),
        package => name.strip_prefix(package).and_then(|rest| rest.strip_prefix('.')),
    };
    let found = local.is_some_and(|local| holds(&file.message_type, local.split('.')));
    if found { Ok(name) } else { Err(invalid(format!("there is no message {name:?} in {root:?}"))) }
}

fn holds<'n>(mut messages: &[DescriptorProto], path: impl Iterator<Item = &'n str>) -> bool {
    for name in path {
        let Some(message) = messages.iter().find(|message| message.name() == name) else { return false };
        messages = &message.nested_type;
    }
    true
}
