//! What schemas of messages may become.

use metadata::schemas::Strategy;

use super::forms::{Flag, OneOf};
use super::table::settings;

settings! {
    /// Which schemas producers and consumers may bring along, where their namespace says nothing.
    pub struct Schemas, "Schemas" {
        /// Which schema may follow those that a topic has: FULL asks that old and new readers understand old and new messages. UNDEFINED stands for FULL.
        strategy: Strategy = "schemaCompatibilityStrategy", OneOf(&Strategy::NAMES), default Strategy::Full;
        /// The same for the broker's own topics, whatever their namespace says.
        system_strategy: Strategy = "systemTopicSchemaCompatibilityStrategy", OneOf(&Strategy::NAMES), default Strategy::AlwaysCompatible;
        /// Whether a producer or consumer adds the schema that it brings along. Off, only administrators add schemas.
        auto_update: bool = "isAllowAutoUpdateSchemaEnabled", Flag, default true;
        /// Whether producers without a schema are kept from topics that have one. A namespace can only add to it.
        enforced: bool = "isSchemaValidationEnforced", Flag, default false;
    }
}
