//! Where values come from, and which of them wins: changes made while the broker runs, flags, `GEMINGA_<key>`, `PULSAR_PREFIX_<key>`, a variable with the
//! bare name of a known key, the file. A blank value counts as given: what it means is up to the form of the key.

use std::collections::BTreeMap;
use std::fmt;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A change made while the broker ran.
    Dynamic,
    /// A flag, as it was typed.
    Flag(String),
    /// An environment variable.
    Variable(String),
    /// A line of a file.
    File {
        /// The file, as it was asked for.
        path: String,
        /// From 1.
        line: usize,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Dynamic => f.write_str("changed while running"),
            Origin::Flag(flag) => write!(f, "{flag}"),
            Origin::Variable(name) => write!(f, "env {name}"),
            Origin::File { path, line } => write!(f, "{path}:{line}"),
        }
    }
}

/// A value that won, or lost, against others.
#[derive(Clone, PartialEq, Eq)]
pub struct Choice {
    /// As written, without blanks around it.
    pub text: String,
    /// Where.
    pub origin: Origin,
}

impl fmt::Debug for Choice {
    // Values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Choice({})", self.origin)
    }
}

/// A configuration file as read.
#[derive(Clone)]
pub struct File {
    /// As it was asked for.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Everything a value may come from.
#[derive(Clone, Default)]
pub struct Sources {
    /// What was changed while the broker ran: key and value.
    pub dynamic: BTreeMap<String, String>,
    /// Key, value and the flag as it was typed; later ones win.
    pub flags: Vec<(String, String, String)>,
    /// The environment.
    pub variables: Vec<(String, String)>,
    /// The configuration file, if one was named.
    pub file: Option<File>,
}

const OURS: &str = "GEMINGA_";
const PULSARS: &str = "PULSAR_PREFIX_";

impl Sources {
    /// The winning value of each key. `known` says which bare variable names are settings.
    pub(super) fn choose(&self, known: impl Fn(&str) -> bool) -> BTreeMap<String, Choice> {
        let mut chosen = BTreeMap::new();
        if let Some(file) = &self.file {
            for (line, key, text) in properties(&file.text) {
                chosen.insert(key, Choice { text, origin: Origin::File { path: file.path.clone(), line } });
            }
        }
        self.add_variables(&mut chosen, |name| known(name).then_some(name));
        self.add_variables(&mut chosen, |name| name.strip_prefix(PULSARS));
        self.add_variables(&mut chosen, |name| name.strip_prefix(OURS));
        for (key, text, flag) in &self.flags {
            chosen.insert(key.clone(), Choice { text: text.trim().to_owned(), origin: Origin::Flag(flag.clone()) });
        }
        for (key, text) in &self.dynamic {
            chosen.insert(key.clone(), Choice { text: text.trim().to_owned(), origin: Origin::Dynamic });
        }
        chosen
    }

    fn add_variables<'a>(&'a self, chosen: &mut BTreeMap<String, Choice>, key: impl Fn(&'a str) -> Option<&'a str>) {
        for (name, text) in &self.variables {
            if let Some(key) = key(name).filter(|key| !key.is_empty()) {
                chosen.insert(key.to_owned(), Choice { text: text.trim().to_owned(), origin: Origin::Variable(name.clone()) });
            }
        }
    }
}

/// Lines of Java's properties format: `key=value`, `key: value` or `key value`; `#` and `!` begin comment lines, a
/// backslash at the end of a line continues it.
fn properties(text: &str) -> Vec<(usize, String, String)> {
    let mut found = Vec::new();
    let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let mut logical = line.trim().to_owned();
        if logical.is_empty() || logical.starts_with(['#', '!']) {
            continue;
        }
        while continues(&logical) {
            logical.pop();
            match lines.next() {
                Some((_, next)) => logical.push_str(next.trim()),
                None => break,
            }
        }
        let (key, value) = split(&logical);
        found.push((index + 1, key.to_owned(), unescape(value)));
    }
    found
}

fn continues(line: &str) -> bool {
    line.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1
}

fn split(line: &str) -> (&str, &str) {
    let end = line.find(|c: char| c == '=' || c == ':' || c.is_whitespace()).unwrap_or(line.len());
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start();
    (key, rest.strip_prefix(['=', ':']).unwrap_or(rest).trim())
}

fn unescape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some(other) => out.push(other),
                None => {}
            },
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(usize, String, String)> {
        properties(text)
    }
    fn line(number: usize, key: &str, value: &str) -> (usize, String, String) {
        (number, key.to_owned(), value.to_owned())
    }

    #[test]
    fn comments_blanks_and_spaces_around_the_equals_sign_are_as_in_java() {
        let text = "# one\n\n  ! two\n a = 1 \nb=\nc: 3\nd 4\nurl=pulsar://h:1,x=y\r\n";
        let expected = [line(4, "a", "1"), line(5, "b", ""), line(6, "c", "3"), line(7, "d", "4"), line(8, "url", "pulsar://h:1,x=y")];
        assert_eq!(pairs(text), expected);
    }

    #[test]
    fn a_backslash_continues_a_line_and_keeps_the_first_number() {
        assert_eq!(pairs("a=1,\\\n   2\nb=x\\\\\n"), [line(1, "a", "1,2"), line(3, "b", "x\\")]);
    }

    #[test]
    fn the_last_line_of_a_key_wins() {
        let sources = Sources { file: Some(File { path: "f".into(), text: "a=1\na=2\n".into() }), ..Sources::default() };
        let chosen = sources.choose(|_| false);
        assert_eq!(chosen["a"], Choice { text: "2".into(), origin: Origin::File { path: "f".into(), line: 2 } });
    }

    #[test]
    fn the_highest_source_that_gives_a_key_wins() {
        let all = Sources {
            dynamic: BTreeMap::from([("k".into(), "dynamic".into())]),
            flags: vec![("k".into(), "flag".into(), "--set k=flag".into())],
            variables: vec![
                ("k".into(), "bare".into()),
                ("PULSAR_PREFIX_k".into(), "pulsar".into()),
                ("GEMINGA_k".into(), "geminga".into()),
            ],
            file: Some(File { path: "f".into(), text: "k=file\n".into() }),
        };
        assert_eq!(all.choose(|key| key == "k")["k"].text, "dynamic");
        let without = |flags: bool, ours: bool, pulsars: bool, bare: bool| {
            let mut sources = Sources { dynamic: BTreeMap::new(), ..all.clone() };
            if !flags {
                sources.flags.clear();
            }
            sources.variables.retain(|(name, _)| match name.as_str() {
                "GEMINGA_k" => ours,
                "PULSAR_PREFIX_k" => pulsars,
                _ => bare,
            });
            sources.choose(|key| key == "k")["k"].text.clone()
        };
        assert_eq!(without(true, true, true, true), "flag");
        assert_eq!(without(false, true, true, true), "geminga");
        assert_eq!(without(false, false, true, true), "pulsar");
        assert_eq!(without(false, false, false, true), "bare");
        assert_eq!(without(false, false, false, false), "file");
    }

    #[test]
    fn variables_that_are_not_settings_are_left_alone() {
        let sources = Sources { variables: vec![("HOME".into(), "/root".into()), ("GEMINGA_".into(), "x".into())], ..Sources::default() };
        assert!(sources.choose(|_| false).is_empty());
    }
}
