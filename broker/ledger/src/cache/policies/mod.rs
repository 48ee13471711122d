//! The policies that are built in, by name.

mod backlogged;
mod cursor_distance;
mod expected_read_count;
mod fifo_ttl;
mod lru;
mod mark_delete;
pub(crate) mod order;
mod s3_fifo;
mod sieve;

use super::parameters::{Parameter, ParameterError, Parameters};
use super::policy::{EvictionPolicy, PageSize};

/// The policy that is used when none is chosen, and in place of one that fails.
pub const DEFAULT: &str = "cursor-distance";

/// What is built in.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "cursor-distance",
        doc: "The page whose next reader is farthest away goes first.",
        schema: cursor_distance::SCHEMA,
        build: |parameters, size| Box::new(cursor_distance::CursorDistance::new(parameters, size)),
    },
    BuiltIn {
        name: "expected-read-count",
        doc: "The oldest goes first, but what is expected to be read is put back a few times (Pulsar's PIP-430).",
        schema: expected_read_count::SCHEMA,
        build: |parameters, size| Box::new(expected_read_count::ExpectedReadCount::new(parameters, size)),
    },
    BuiltIn {
        name: "mark-delete",
        doc: "What every active cursor has behind it goes, then the oldest (Pulsar before PIP-430).",
        schema: mark_delete::SCHEMA,
        build: |parameters, size| Box::new(mark_delete::MarkDelete::new(parameters, size)),
    },
    BuiltIn {
        name: "backlogged",
        doc: "As mark-delete by read positions; keeps what is read from storage when other cursors have a similar backlog.",
        schema: backlogged::SCHEMA,
        build: |parameters, size| Box::new(backlogged::Backlogged::new(parameters, size)),
    },
    BuiltIn {
        name: "fifo-ttl",
        doc: "The oldest goes first.",
        schema: fifo_ttl::SCHEMA,
        build: |parameters, size| Box::new(fifo_ttl::FifoTtl::new(parameters, size)),
    },
    BuiltIn {
        name: "lru",
        doc: "What was not touched for longest goes first.",
        schema: &[],
        build: |_, size| Box::new(lru::Lru::new(size)),
    },
    BuiltIn {
        name: "sieve",
        doc: "A hand goes round and takes what was not read since it last came by.",
        schema: &[],
        build: |_, size| Box::new(sieve::Sieve::new(size)),
    },
    BuiltIn {
        name: "s3-fifo",
        doc: "What is not read soon after it came leaves early; the rest goes round.",
        schema: s3_fifo::SCHEMA,
        build: |parameters, size| Box::new(s3_fifo::S3Fifo::new(parameters, size)),
    },
];

/// A policy that is built in.
#[derive(Debug)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// What can be set on it.
    pub schema: &'static [Parameter],
    build: fn(&Parameters, PageSize) -> Box<dyn EvictionPolicy>,
}

/// A policy with all its parameters, from which as many instances are made as there are caches.
#[derive(Clone, Debug)]
pub struct Choice {
    built_in: &'static BuiltIn,
    parameters: Parameters,
}

/// Why there is no such policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// Nothing has this name.
    #[error("there is no cache policy `{name}`; there are {known}")]
    UnknownPolicy {
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The parameters are not right.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Parameters(Vec<ParameterError>),
}

impl Choice {
    /// The policy `name` with these parameters, the others at their defaults.
    ///
    /// # Errors
    /// When there is no such policy, or with everything that is wrong with the parameters.
    pub fn new(name: &str, given: &[(&str, &str)]) -> Result<Choice, ChoiceError> {
        let Some(built_in) = BUILT_IN.iter().find(|built_in| built_in.name == name) else {
            let known = BUILT_IN.iter().map(|built_in| built_in.name).collect::<Vec<_>>().join(", ");
            return Err(ChoiceError::UnknownPolicy { name: name.to_owned(), known });
        };
        let parameters = Parameters::check(built_in.name, built_in.schema, given).map_err(ChoiceError::Parameters)?;
        Ok(Choice { built_in, parameters })
    }

    /// The policy's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.built_in.name
    }

    /// Its parameters.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// An instance that knows of nothing yet.
    #[must_use]
    pub fn build(&self, size: PageSize) -> Box<dyn EvictionPolicy> {
        (self.built_in.build)(&self.parameters, size)
    }
}

impl Default for Choice {
    fn default() -> Choice {
        let built_in = BUILT_IN.iter().find(|built_in| built_in.name == DEFAULT).unwrap_or(&BUILT_IN[0]);
        // Every default lies within its own bounds; a test checks it.
        let parameters = Parameters::check(built_in.name, built_in.schema, &[]).unwrap_or_else(|_| Parameters::none());
        Choice { built_in, parameters }
    }
}

#[cfg(test)]
mod tests;
