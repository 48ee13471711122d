//! What can be set on a policy: names, ranges and defaults written once, from which requests are checked and pages are written.

use std::collections::BTreeMap;
use std::fmt;

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number within these bounds, both allowed.
    Whole(u64, u64),
    /// A share within these bounds, both allowed.
    Share(f64, f64),
    /// `true` or `false`.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// A parameter of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What it is when nobody sets it, as it would be written.
    pub default: &'static str,
    /// What it trades.
    pub doc: &'static str,
    /// The configuration key of Pulsar with this meaning, if there is one.
    pub key: Option<&'static str>,
}

/// The checked parameters of a policy: each has a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters(BTreeMap<&'static str, Value>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Whole(u64),
    Share(f64),
    Switch(bool),
    Choice(&'static str),
}

/// One thing that is wrong with a request, told so that it can be mended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// There is no such parameter.
    #[error("{policy} has no parameter `{name}`; it has {known}")]
    Unknown {
        /// The policy asked for.
        policy: &'static str,
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The value is not of the kind or not within the bounds.
    #[error("`{name}` takes {takes}, not `{value}`")]
    Wrong {
        /// The parameter.
        name: &'static str,
        /// What it takes.
        takes: String,
        /// What was given.
        value: String,
    },
    /// The parameter is given more than once.
    #[error("`{0}` is given more than once")]
    Twice(&'static str),
    /// Two values do not go together.
    #[error("{0}")]
    Together(&'static str),
}

impl Parameters {
    /// Checks what was given against what there is; everything that is wrong is told at once.
    ///
    /// # Errors
    /// All the wrong values, unknown names and repetitions.
    pub fn check(policy: &'static str, schema: &[Parameter], given: &[(&str, &str)]) -> Result<Parameters, Vec<ParameterError>> {
        let mut errors = Vec::new();
        let mut values = BTreeMap::new();
        for &(name, text) in given {
            let Some(parameter) = schema.iter().find(|parameter| parameter.name == name) else {
                let known = schema.iter().map(|parameter| parameter.name).collect::<Vec<_>>().join(", ");
                let known = if known.is_empty() { "none".to_owned() } else { known };
                errors.push(ParameterError::Unknown { policy, name: name.to_owned(), known });
                continue;
            };
            let Some(value) = parameter.kind.parse(text) else {
                errors.push(ParameterError::Wrong { name: parameter.name, takes: parameter.kind.to_string(), value: text.to_owned() });
                continue;
            };
            if values.insert(parameter.name, value).is_some() {
                errors.push(ParameterError::Twice(parameter.name));
            }
        }
        for parameter in schema {
            if let Some(value) = parameter.kind.parse(parameter.default) {
                values.entry(parameter.name).or_insert(value);
            }
        }
        let share = |name| values.get(name).and_then(|value| if let Value::Share(share) = value { Some(*share) } else { None });
        if let (Some(watermark), Some(trigger)) = (share("watermark"), share("trigger"))
            && watermark > trigger
        {
            errors.push(ParameterError::Together("`watermark` must not be above `trigger`: eviction would stop before it starts"));
        }
        if errors.is_empty() { Ok(Parameters(values)) } else { Err(errors) }
    }

    pub(super) fn none() -> Parameters {
        Parameters(BTreeMap::new())
    }

    /// A whole number; 0 for a name that is not in the schema.
    #[must_use]
    pub fn whole(&self, name: &str) -> u64 {
        if let Some(Value::Whole(value)) = self.0.get(name) { *value } else { 0 }
    }

    /// A share; 0 for a name that is not in the schema.
    #[must_use]
    pub fn share(&self, name: &str) -> f64 {
        if let Some(Value::Share(value)) = self.0.get(name) { *value } else { 0.0 }
    }

    /// A switch; off for a name that is not in the schema.
    #[must_use]
    pub fn switch(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(Value::Switch(true)))
    }

    /// A word; empty for a name that is not in the schema.
    #[must_use]
    pub fn choice(&self, name: &str) -> &'static str {
        if let Some(Value::Choice(value)) = self.0.get(name) { value } else { "" }
    }

    /// All of them as they would be written, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.0.iter().map(|(&name, value)| (name, value.to_string()))
    }
}

impl Kind {
    fn parse(self, text: &str) -> Option<Value> {
        match self {
            Kind::Whole(least, most) => text.parse().ok().filter(|value| (least..=most).contains(value)).map(Value::Whole),
            // Not-a-number lies within no bounds.
            Kind::Share(least, most) => text.parse().ok().filter(|value| (least..=most).contains(value)).map(Value::Share),
            Kind::Switch => text.parse().ok().map(Value::Switch),
            Kind::Choice(words) => words.iter().find(|word| **word == text).map(|word| Value::Choice(word)),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Whole(least, most) => write!(f, "a whole number from {least} to {most}"),
            Kind::Share(least, most) => write!(f, "a number from {least} to {most}"),
            Kind::Switch => write!(f, "true or false"),
            Kind::Choice(words) => write!(f, "one of {}", words.join(", ")),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Whole(value) => value.fmt(f),
            Value::Share(value) => value.fmt(f),
            Value::Switch(value) => value.fmt(f),
            Value::Choice(value) => value.fmt(f),
        }
    }
}
