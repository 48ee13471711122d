//! How values are written in Pulsar's files, and what they are inside: units are in the key there, in the type here.

use std::fmt::Display;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

/// A way of writing values of one type.
pub trait Form {
    /// The type inside.
    type Value;
    /// Reads a value that is not blank; the error may add a reason to [`allowed`](Self::allowed), or be empty.
    fn parse(&self, text: &str) -> Result<Self::Value, String>;
    /// As it would be written.
    fn show(&self, value: &Self::Value) -> String;
    /// What may be written, unit included.
    fn allowed(&self) -> String;
    /// What a blank value means; none when it means that the key was not set.
    fn blank(&self) -> Option<Self::Value> {
        None
    }
}

/// A form without its type, for keys that are checked and kept but not acted on yet.
pub trait Check: Sync {
    /// Whether a value that is not blank may be written.
    fn check(&self, text: &str) -> Result<(), String>;
    /// What may be written.
    fn allowed(&self) -> String;
}

impl<F: Form + Sync> Check for F {
    fn check(&self, text: &str) -> Result<(), String> {
        self.parse(text).map(drop)
    }
    fn allowed(&self) -> String {
        Form::allowed(self)
    }
}

/// `true` or `false`.
#[derive(Clone, Copy)]
pub struct Flag;

impl Form for Flag {
    type Value = bool;
    fn parse(&self, text: &str) -> Result<bool, String> {
        match text.to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(String::new()),
        }
    }
    fn show(&self, value: &bool) -> String {
        value.to_string()
    }
    fn allowed(&self) -> String {
        "true or false".to_owned()
    }
}

/// A number between two others, both included.
#[derive(Clone, Copy)]
pub struct Number<T>(pub T, pub T);

impl<T: FromStr + Display + PartialOrd> Form for Number<T> {
    type Value = T;
    fn parse(&self, text: &str) -> Result<T, String> {
        match text.parse::<T>() {
            Ok(value) if value >= self.0 && value <= self.1 => Ok(value),
            _ => Err(String::new()),
        }
    }
    fn show(&self, value: &T) -> String {
        value.to_string()
    }
    fn allowed(&self) -> String {
        format!("a number from {} to {}", self.0, self.1)
    }
}

/// An upper limit on a count; 0 or less switches it off.
#[derive(Clone, Copy)]
pub struct LimitOrOff;

impl Form for LimitOrOff {
    type Value = Option<NonZeroU32>;
    fn parse(&self, text: &str) -> Result<Self::Value, String> {
        let count = Number(i64::from(i32::MIN), i64::from(u32::MAX)).parse(text)?;
        Ok(u32::try_from(count).ok().and_then(NonZeroU32::new))
    }
    fn show(&self, value: &Self::Value) -> String {
        value.map_or(0, NonZeroU32::get).to_string()
    }
    fn allowed(&self) -> String {
        "a whole number; 0 or less is no limit".to_owned()
    }
}

/// A port; 0 takes a free one, blank switches the listener off (none inside).
#[derive(Clone, Copy)]
pub struct Port;

impl Form for Port {
    type Value = Option<u16>;
    fn parse(&self, text: &str) -> Result<Self::Value, String> {
        text.parse().map(Some).map_err(|_| String::new())
    }
    fn show(&self, value: &Self::Value) -> String {
        value.map(|port| port.to_string()).unwrap_or_default()
    }
    fn allowed(&self) -> String {
        "a port from 1 to 65535, 0 for any free one, blank for none".to_owned()
    }
    fn blank(&self) -> Option<Self::Value> {
        Some(None)
    }
}

/// A name: something to read, without blanks.
#[derive(Clone, Copy)]
pub struct Name;

impl Form for Name {
    type Value = String;
    fn parse(&self, text: &str) -> Result<String, String> {
        if text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '/') { Err(String::new()) } else { Ok(text.to_owned()) }
    }
    fn show(&self, value: &String) -> String {
        value.clone()
    }
    fn allowed(&self) -> String {
        "a name without blanks and slashes".to_owned()
    }
}

/// A name that may be left out.
#[derive(Clone, Copy)]
pub struct OptionalName;

impl Form for OptionalName {
    type Value = Option<String>;
    fn parse(&self, text: &str) -> Result<Self::Value, String> {
        Name.parse(text).map(Some)
    }
    fn show(&self, value: &Self::Value) -> String {
        value.clone().unwrap_or_default()
    }
    fn allowed(&self) -> String {
        Form::allowed(&Name)
    }
}

/// A path.
#[derive(Clone, Copy)]
pub struct FilePath;

impl Form for FilePath {
    type Value = PathBuf;
    fn parse(&self, text: &str) -> Result<PathBuf, String> {
        Ok(PathBuf::from(text))
    }
    fn show(&self, value: &PathBuf) -> String {
        value.display().to_string()
    }
    fn allowed(&self) -> String {
        "a path, from the working directory when it is relative".to_owned()
    }
}

/// A path that may be left out.
#[derive(Clone, Copy)]
pub struct OptionalPath;

impl Form for OptionalPath {
    type Value = Option<PathBuf>;
    fn parse(&self, text: &str) -> Result<Self::Value, String> {
        Ok(Some(PathBuf::from(text)))
    }
    fn show(&self, value: &Self::Value) -> String {
        value.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }
    fn allowed(&self) -> String {
        Form::allowed(&FilePath)
    }
}

/// Any text; the only form without a check.
#[derive(Clone, Copy)]
pub struct Text;

impl Form for Text {
    type Value = String;
    fn parse(&self, text: &str) -> Result<String, String> {
        Ok(text.to_owned())
    }
    fn show(&self, value: &String) -> String {
        value.clone()
    }
    fn allowed(&self) -> String {
        "any text".to_owned()
    }
}

/// Names separated by commas.
#[derive(Clone, Copy)]
pub struct List;

impl Form for List {
    type Value = Vec<String>;
    fn parse(&self, text: &str) -> Result<Self::Value, String> {
        Ok(text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect())
    }
    fn show(&self, value: &Self::Value) -> String {
        value.join(",")
    }
    fn allowed(&self) -> String {
        "a list separated by commas".to_owned()
    }
}

/// One of a few words, each with the value it stands for.
#[derive(Clone, Copy)]
pub struct OneOf<T: 'static>(pub &'static [(&'static str, T)]);

impl<T: Copy + PartialEq> Form for OneOf<T> {
    type Value = T;
    fn parse(&self, text: &str) -> Result<T, String> {
        self.0.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, value)| *value).ok_or_else(String::new)
    }
    fn show(&self, value: &T) -> String {
        self.0.iter().find(|(_, known)| known == value).map(|(word, _)| (*word).to_owned()).unwrap_or_default()
    }
    fn allowed(&self) -> String {
        self.0.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" or ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_off_when_blank_and_free_when_zero() {
        assert_eq!(Port.blank(), Some(None));
        assert_eq!(Port.parse("0"), Ok(Some(0)));
        assert!(Port.parse("65536").is_err());
        assert!(Port.parse("-1").is_err());
    }

    #[test]
    fn numbers_outside_their_range_are_refused() {
        assert!(Number(1u32, 5).parse("0").is_err());
        assert!(Number(1u32, 5).parse("6").is_err());
        assert!(Number(0.0f64, 1.0).parse("NaN").is_err());
        assert!(Number(0.0f64, 1.0).parse("inf").is_err());
        assert_eq!(Number(1u32, 5).parse("5"), Ok(5));
    }
}
