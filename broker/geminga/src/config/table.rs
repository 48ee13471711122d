//! A setting is written once: its doc, key, form and default stand on the field, and the parser, the sample files, the
//! reference page and `geminga config` are read from there.

use std::collections::BTreeMap;

use super::forms::Form;
use super::problem::Problem;
use super::sources::Choice;

/// What is told about one key that Geminga acts on.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Its name in files, variables and flags.
    pub(crate) key: &'static str,
    /// Lines of its doc.
    pub(crate) doc: Vec<&'static str>,
    /// What may be written, unit included.
    pub(crate) allowed: String,
    /// The default as it would be written, on this machine.
    pub(crate) default: String,
    /// How the default comes about when it is not the same everywhere.
    pub(crate) told: Option<&'static str>,
    /// Pulsar's default where ours differs.
    pub(crate) pulsar: Option<&'static str>,
    /// From when on a change acts that is made while the broker runs; none where it takes a new start.
    pub(crate) dynamic: Option<&'static str>,
}

/// A group of settings that belong together.
pub(super) trait Section: Sized {
    const TITLE: &'static str;
    fn read(given: &mut Given<'_>) -> Self;
    fn settings() -> Vec<Setting>;
    /// Every key with its value as it would be written.
    fn show(&self) -> Vec<(&'static str, String)>;
}

/// The values that sources gave, on their way into sections; bad ones are collected, so that all are told at once.
pub(super) struct Given<'a> {
    chosen: &'a BTreeMap<String, Choice>,
    pub(super) problems: Vec<Problem>,
}

impl<'a> Given<'a> {
    pub(super) fn new(chosen: &'a BTreeMap<String, Choice>) -> Self {
        Self { chosen, problems: Vec::new() }
    }

    pub(super) fn take<F: Form>(&mut self, key: &str, form: &F, default: impl FnOnce() -> F::Value) -> F::Value {
        let Some(choice) = self.chosen.get(key) else { return default() };
        if choice.text.is_empty() {
            return form.blank().unwrap_or_else(default);
        }
        match form.parse(&choice.text) {
            Ok(value) => value,
            Err(reason) => {
                self.problems.push(Problem::bad_value(key, choice, reason, form.allowed()));
                default()
            }
        }
    }
}

/// Writes a section: each entry is `field: Type = "key", form, default value [, told "…"] [, pulsar "…"] [, dynamic "…"];` under its doc.
macro_rules! settings {
    (
        $(#[doc = $section_doc:literal])+
        pub struct $Section:ident, $title:literal {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $type:ty = $key:literal, $form:expr, default $default:expr $(, told $told:literal)? $(, pulsar $pulsar:literal)?
                    $(, dynamic $dynamic:literal)?;
            )+
        }
    ) => {
        $(#[doc = $section_doc])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $Section {
            $(
                $(#[doc = $doc])+
                pub $field: $type,
            )+
        }

        impl $crate::config::table::Section for $Section {
            const TITLE: &'static str = $title;

            fn read(given: &mut $crate::config::table::Given<'_>) -> Self {
                Self { $( $field: given.take($key, &$form, || $default), )+ }
            }

            fn settings() -> Vec<$crate::config::table::Setting> {
                vec![$({
                    let form = $form;
                    let default: $type = $default;
                    $crate::config::table::Setting {
                        key: $key,
                        doc: vec![$($doc),+],
                        allowed: $crate::config::forms::Form::allowed(&form),
                        default: $crate::config::forms::Form::show(&form, &default),
                        told: None $(.or(Some($told)))?,
                        pulsar: None $(.or(Some($pulsar)))?,
                        dynamic: None $(.or(Some($dynamic)))?,
                    }
                }),+]
            }

            fn show(&self) -> Vec<(&'static str, String)> {
                vec![$( ($key, $crate::config::forms::Form::show(&$form, &self.$field)), )+]
            }
        }
    };
}
pub(super) use settings;
