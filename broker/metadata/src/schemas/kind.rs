//! The kinds of schemas, by the names and numbers that Pulsar gives them.

/// A kind of schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are Pulsar's and say it all")]
pub enum SchemaKind {
    None,
    String,
    Json,
    Protobuf,
    Avro,
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    Float,
    Double,
    Date,
    Time,
    Timestamp,
    KeyValue,
    Instant,
    LocalDate,
    LocalTime,
    LocalDateTime,
    ProtobufNative,
    AutoConsume,
    External,
    Bytes,
    Auto,
    AutoPublish,
}

use SchemaKind as Kind;

/// Number in the protocol, where it has one that is not negative; name in JSON.
const KINDS: [(Kind, i32, &str); 26] = [
    (Kind::None, 0, "NONE"),
    (Kind::String, 1, "STRING"),
    (Kind::Json, 2, "JSON"),
    (Kind::Protobuf, 3, "PROTOBUF"),
    (Kind::Avro, 4, "AVRO"),
    (Kind::Boolean, 5, "BOOLEAN"),
    (Kind::Int8, 6, "INT8"),
    (Kind::Int16, 7, "INT16"),
    (Kind::Int32, 8, "INT32"),
    (Kind::Int64, 9, "INT64"),
    (Kind::Float, 10, "FLOAT"),
    (Kind::Double, 11, "DOUBLE"),
    (Kind::Date, 12, "DATE"),
    (Kind::Time, 13, "TIME"),
    (Kind::Timestamp, 14, "TIMESTAMP"),
    (Kind::KeyValue, 15, "KEY_VALUE"),
    (Kind::Instant, 16, "INSTANT"),
    (Kind::LocalDate, 17, "LOCAL_DATE"),
    (Kind::LocalTime, 18, "LOCAL_TIME"),
    (Kind::LocalDateTime, 19, "LOCAL_DATE_TIME"),
    (Kind::ProtobufNative, 20, "PROTOBUF_NATIVE"),
    (Kind::AutoConsume, 21, "AUTO_CONSUME"),
    (Kind::External, 22, "EXTERNAL"),
    (Kind::Bytes, -1, "BYTES"),
    (Kind::Auto, -2, "AUTO"),
    (Kind::AutoPublish, -4, "AUTO_PUBLISH"),
];

impl SchemaKind {
    /// By its number in the protocol.
    pub fn from_number(number: i32) -> Option<SchemaKind> {
        KINDS.iter().find(|(_, n, _)| *n == number).map(|(kind, ..)| *kind)
    }

    /// By its name in JSON.
    pub fn from_name(name: &str) -> Option<SchemaKind> {
        KINDS.iter().find(|(.., n)| *n == name).map(|(kind, ..)| *kind)
    }

    /// Its number in the protocol; negative for kinds that are never sent.
    pub fn number(self) -> i32 {
        self.row().1
    }

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// How it is kept: there is one kind for messages that are bytes and nothing else.
    pub fn as_kept(self) -> SchemaKind {
        if self == Kind::Bytes { Kind::None } else { self }
    }

    /// Whether it says nothing about messages.
    pub fn is_nothing(self) -> bool {
        matches!(self, Kind::None | Kind::Bytes)
    }

    /// Whether its definition is written in Avro's language.
    pub(crate) fn is_avro(self) -> bool {
        matches!(self, Kind::Avro | Kind::Json | Kind::Protobuf)
    }

    fn row(self) -> (Kind, i32, &'static str) {
        KINDS.into_iter().find(|(kind, ..)| *kind == self).unwrap_or((Kind::None, 0, "NONE"))
    }
}

impl std::fmt::Display for SchemaKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
