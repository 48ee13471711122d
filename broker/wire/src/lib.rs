//! Pulsar's frames, commands, names and ids, as bytes and as types.

/// The protocol's error numbers (`ServerError`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerError {
    /// Any other.
    UnknownError,
}
/// A full topic name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopicName(String);
