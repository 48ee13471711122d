//! The table of commands as clap has it: help, completion and mistakes come from there.

use std::ffi::OsString;

use clap::{ArgAction, ArgGroup, Command};

use super::nouns::nouns;
use super::verb::{Arg, Kind, Noun, Verb};

impl Arg {
    /// As it is written in messages: `--name` or `NAME`.
    pub(crate) fn shown(&self) -> String {
        if self.is_flag { format!("--{}", self.name) } else { self.name.to_uppercase() }
    }

    fn of_clap(&self) -> Vec<clap::Arg> {
        if self.kind == Kind::OnOff {
            let flag = |name: &'static str, short| clap::Arg::new(name).long(name).short(short).action(ArgAction::SetTrue);
            return vec![flag("enable", 'e').help(format!("{}: yes", self.help)), flag("disable", 'd').help(format!("{}: no", self.help))];
        }
        let arg = clap::Arg::new(self.name).help(self.help);
        let arg = match self.is_flag {
            false => arg.required(self.needed).value_name(self.name.to_uppercase()),
            true => arg.long(self.name).required(self.needed).value_name(value_name(self.kind)).visible_aliases(long(self.also)),
        };
        let arg = match self.short {
            Some(short) => arg.short(short),
            None => arg,
        };
        vec![match self.kind {
            Kind::Yes => arg.action(ArgAction::SetTrue),
            Kind::OneOf(values) => arg.value_parser(clap::builder::PossibleValuesParser::new(values)).ignore_case(true),
            // -1 is a value, not a flag.
            _ => arg.allow_hyphen_values(self.is_flag),
        }]
    }
}

fn long(also: &'static [&'static str]) -> impl IntoIterator<Item = &'static str> {
    also.iter().copied()
}

fn value_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Text | Kind::Namespace | Kind::Topic | Kind::TopicOfAnyDomain => "NAME",
        Kind::Integer | Kind::Real => "N",
        Kind::Bytes | Kind::Megabytes => "SIZE",
        Kind::Seconds | Kind::Minutes | Kind::Millis | Kind::Ago => "TIME",
        Kind::Yes | Kind::OnOff => "",
        Kind::OneOf(_) => "WORD",
        Kind::List => "NAME,NAME",
        Kind::MessageId => "LEDGER:ENTRY",
        Kind::Pairs => "NAME=VALUE,…",
        Kind::JsonFile => "FILE",
    }
}

/// Adds every noun with its verbs to `geminga admin`.
pub(crate) fn augment(command: Command) -> Command {
    nouns().into_iter().fold(command, |command, noun| command.subcommand(of_noun(&noun)))
}

fn of_noun(noun: &Noun) -> Command {
    let command = Command::new(noun.name).about(noun.about).aliases(noun.also.iter().copied());
    let command = command.subcommand_required(true).arg_required_else_help(true);
    noun.verbs.iter().fold(command, |command, verb| command.subcommand(of_verb(noun, verb)))
}

fn of_verb(noun: &Noun, verb: &Verb) -> Command {
    let command = Command::new(verb.name.clone()).about(verb.about.clone()).aliases(verb.also.iter().copied());
    let places: Vec<String> = verb.takes.iter().filter(|arg| !arg.is_flag).map(Arg::shown).collect();
    let example = if verb.example.is_empty() { places.join(" ").to_lowercase() } else { verb.example.clone() };
    let command = command.after_help(format!("Example:\n  geminga admin {} {} {example}", noun.name, verb.name));
    let command = verb.takes.iter().flat_map(Arg::of_clap).fold(command, Command::arg);
    match verb.takes.iter().find(|arg| arg.kind == Kind::OnOff) {
        Some(arg) => command.group(ArgGroup::new("on or off").args(["enable", "disable"]).required(arg.needed)),
        None => command,
    }
}

/// Pulsar's tools have flags such as `-md`: one dash, several letters. Here they are long ones.
pub(crate) fn long_flags(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let is_long = |text: &str| text.strip_prefix('-').is_some_and(|name| name.len() > 1 && name.bytes().all(|b| b.is_ascii_lowercase()));
    let spelt = |arg: OsString| match arg.to_str() {
        Some(text) if is_long(text) => format!("-{text}").into(),
        _ => arg,
    };
    args.map(spelt).collect()
}
