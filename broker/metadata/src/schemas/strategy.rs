//! What may follow what: the compatibility strategies of Pulsar.

/// Which schemas may follow those that a topic has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Not said here; the next higher level decides.
    #[default]
    Undefined,
    /// None that differs.
    AlwaysIncompatible,
    /// Any.
    AlwaysCompatible,
    /// Readers with the new one understand what was written with the latest.
    Backward,
    /// Readers with the latest understand what is written with the new one.
    Forward,
    /// Both.
    Full,
    /// As backward, with every version.
    BackwardTransitive,
    /// As forward, with every version.
    ForwardTransitive,
    /// As full, with every version.
    FullTransitive,
}

/// A word that is not a strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is not a schema compatibility strategy; there are {all}")]
pub struct UnknownStrategy {
    word: String,
    all: String,
}

/// Its name; and that of the older policy that said the same.
const STRATEGIES: [(Strategy, &str, &str); 9] = [
    (Strategy::Undefined, "UNDEFINED", ""),
    (Strategy::AlwaysIncompatible, "ALWAYS_INCOMPATIBLE", "AutoUpdateDisabled"),
    (Strategy::AlwaysCompatible, "ALWAYS_COMPATIBLE", "AlwaysCompatible"),
    (Strategy::Backward, "BACKWARD", "Backward"),
    (Strategy::Forward, "FORWARD", "Forward"),
    (Strategy::Full, "FULL", "Full"),
    (Strategy::BackwardTransitive, "BACKWARD_TRANSITIVE", "BackwardTransitive"),
    (Strategy::ForwardTransitive, "FORWARD_TRANSITIVE", "ForwardTransitive"),
    (Strategy::FullTransitive, "FULL_TRANSITIVE", "FullTransitive"),
];

impl Strategy {
    /// All of them, with their names.
    pub const NAMES: [(&'static str, Strategy); 9] = {
        let mut names = [("", Strategy::Undefined); 9];
        let mut at = 0;
        while at < names.len() {
            names[at] = (STRATEGIES[at].1, STRATEGIES[at].0);
            at += 1;
        }
        names
    };

    /// By its name.
    pub fn from_name(name: &str) -> Result<Strategy, UnknownStrategy> {
        let found = STRATEGIES.iter().find(|(_, known, _)| *known == name).map(|(strategy, ..)| *strategy);
        found.ok_or_else(|| unknown(name, STRATEGIES.map(|(_, name, _)| name)))
    }

    /// By the name of the older policy that said the same.
    pub fn from_auto_update(name: &str) -> Result<Strategy, UnknownStrategy> {
        let found = STRATEGIES.iter().find(|(.., older)| !older.is_empty() && *older == name).map(|(strategy, ..)| *strategy);
        found.ok_or_else(|| unknown(name, STRATEGIES.map(|(.., older)| older)))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        STRATEGIES.iter().find(|(strategy, ..)| *strategy == self).map_or("UNDEFINED", |(_, name, _)| name)
    }

    /// Whether every version counts, not only the latest.
    pub(crate) fn is_transitive(self) -> bool {
        matches!(self, Strategy::BackwardTransitive | Strategy::ForwardTransitive | Strategy::FullTransitive)
    }

    /// Whether the new one must read what the old one wrote.
    pub(crate) fn looks_back(self) -> bool {
        matches!(self, Strategy::Backward | Strategy::BackwardTransitive | Strategy::Full | Strategy::FullTransitive)
    }

    /// Whether the old one must read what the new one writes.
    pub(crate) fn looks_forward(self) -> bool {
        matches!(self, Strategy::Forward | Strategy::ForwardTransitive | Strategy::Full | Strategy::FullTransitive)
    }
}

impl std::fmt::Display for Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

fn unknown(word: &str, all: [&str; 9]) -> UnknownStrategy {
    let all: Vec<&str> = all.into_iter().filter(|name| !name.is_empty()).collect();
    UnknownStrategy { word: word.to_owned(), all: all.join(", ") }
}
