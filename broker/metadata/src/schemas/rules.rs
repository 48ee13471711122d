//! What holds for a topic's schemas: the namespace's policies over the settings of the broker.

use super::Strategy;
use crate::namespaces::Policies;

/// What a namespace lets happen to its topics' schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// What may follow what.
    pub strategy: Strategy,
    /// Whether producers and consumers add versions by bringing them along.
    pub auto_update: bool,
    /// Whether producers without a schema are kept from a topic that has one.
    pub enforced: bool,
}

/// What holds where a namespace says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// What may follow what.
    pub strategy: Strategy,
    /// The same for the broker's own topics, whatever their namespace says.
    pub system_strategy: Strategy,
    /// Whether producers and consumers add versions by bringing them along.
    pub auto_update: bool,
    /// Whether producers without a schema are kept from a topic that has one; a namespace can only add to it.
    pub enforced: bool,
}

impl Default for Defaults {
    fn default() -> Defaults {
        Defaults { strategy: Strategy::Full, system_strategy: Strategy::AlwaysCompatible, auto_update: true, enforced: false }
    }
}

impl Defaults {
    /// What holds for the topics of a namespace with these policies, or for the broker's own topics in it.
    pub fn under(&self, policies: &Policies, system: bool) -> Rules {
        let said = [policies.schema_strategy(), self.strategy, policies.schema_auto_update().unwrap_or_default()];
        let strategy = match system {
            true => self.system_strategy,
            false => said.into_iter().find(|strategy| *strategy != Strategy::Undefined).unwrap_or(Strategy::Full),
        };
        Rules {
            strategy,
            auto_update: policies.allow_schema_update().unwrap_or(self.auto_update),
            enforced: self.enforced || policies.schema_validation().unwrap_or(false),
        }
    }
}
