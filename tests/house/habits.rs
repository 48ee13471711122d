//! Words that hide hubs, files that grew, shortcuts where a stranger's bytes are read: kept out by looking for them.

use super::{
    crates::{rooms, root},
    sources::{Source, files},
};

/// A type with such a name holds whatever nobody wanted elsewhere.
const SAY_NOTHING: &[&str] = &["Manager", "Service", "Helper", "Helpers", "Util", "Utils", "Context", "Impl", "Base", "Info", "Data"];

/// Names that end so for a reason.
const ALLOWED_NAMES: &[(&str, &str)] =
    &[("HttpService", "what hyper calls the thing that answers requests"), ("Data", "what hyper calls the bytes of a body")];

/// Modules of such a name have no subject.
const NO_SUBJECT: &[&str] = &["util", "utils", "helper", "helpers", "misc", "types", "base", "manager"];

/// Longest file. Beyond it a second idea has moved in.
const LONGEST: usize = 800;

/// Files that may be longer.
const ALLOWED_LENGTH: &[(&str, &str)] = &[];

/// Where the input is a stranger's: there bytes are taken apart without a way to panic.
const STRANGERS: &[&str] = &["broker/wire/src/", "broker/ledger/src/log/format.rs", "broker/ledger/src/log/recovery.rs"];

/// What a room without clock, files and threads bans in its `clippy.toml`.
const PURE_ROOMS: &[&str] = &["wire", "topic"];
const BANNED_CALLS: &[&str] =
    &["std::time::Instant::now", "std::time::SystemTime::now", "std::fs::File::open", "std::fs::read", "std::thread::spawn"];

/// Collects what is wrong and fails once with all of it.
fn none(rule: &str, wrong: impl IntoIterator<Item = String>) {
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "{rule}:\n  {}", wrong.join("\n  "));
}

/// The name that a line declares a type by.
fn declared_type(line: &str) -> Option<&str> {
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words
        .by_ref()
        .find(|word| !matches!(*word, "pub" | "crate" | "super"))
        .filter(|word| ["struct", "enum", "trait", "union", "type"].contains(word))?;
    words.next()
}

fn says_nothing(name: &str) -> bool {
    SAY_NOTHING.iter().any(|word| name.ends_with(word)) && !ALLOWED_NAMES.iter().any(|(allowed, _)| *allowed == name)
}

#[test]
fn no_type_has_a_name_that_says_nothing() {
    assert!(says_nothing("TopicManager") && says_nothing("Info") && !says_nothing("Database") && !says_nothing("HttpService"));
    assert_eq!(declared_type("    pub(crate) struct BrokerContext<'a> {"), Some("BrokerContext"));
    assert_eq!(declared_type("let structure = 1; // struct X"), None);
    let wrong = files("rs").into_iter().flat_map(|source| {
        let names: Vec<_> = source
            .text
            .lines()
            .filter_map(declared_type)
            .filter(|name| says_nothing(name))
            .map(|n| format!("{}: {n}", source.path))
            .collect();
        names
    });
    none("types are named after what they are", wrong);
}

#[test]
fn no_module_is_a_drawer() {
    let wrong = files("rs")
        .into_iter()
        .map(|source| source.path)
        .filter(|path| path.split('/').any(|part| NO_SUBJECT.contains(&part.trim_end_matches(".rs"))));
    none("files are named after the idea they hold", wrong);
}

#[test]
fn every_exception_is_still_needed() {
    let sources = files("rs");
    let unused =
        ALLOWED_NAMES.iter().filter(|(name, _)| !sources.iter().any(|s| s.text.lines().any(|line| declared_type(line) == Some(name))));
    none("an exception nobody needs goes away", unused.map(|(name, reason)| format!("{name} ({reason})")));
    let short = ALLOWED_LENGTH.iter().filter(|(path, _)| !sources.iter().any(|s| s.path == *path && s.text.lines().count() > LONGEST));
    none("an exception nobody needs goes away", short.map(|(path, reason)| format!("{path} ({reason})")));
}

#[test]
fn no_file_outgrows_its_idea() {
    let long = files("rs").into_iter().filter(|source| !ALLOWED_LENGTH.iter().any(|(path, _)| *path == source.path));
    let long = long.map(|source| (source.text.lines().count(), source.path)).filter(|(lines, _)| *lines > LONGEST);
    none("a file holds one idea", long.map(|(lines, path)| format!("{path} has {lines} lines, more than {LONGEST}")));
}

#[test]
fn the_product_does_not_unwrap() {
    let wrong = files("rs").into_iter().filter(|source| !source.is_test()).flat_map(|source| {
        // In a constant it fails when it is compiled.
        let lines = Source::code(source.product()).filter(|(_, line)| !line.contains("const "));
        let lines = lines.filter(|(_, line)| [".unwrap()", "todo!(", "unimplemented!("].iter().any(|word| line.contains(word)));
        lines.map(|(number, line)| format!("{}:{number}: {}", source.path, line.trim())).collect::<Vec<_>>()
    });
    none("say what is expected, or handle it", wrong);
}

/// Whether a line of code takes something out of a slice by `[…]`.
fn indexes(line: &str) -> bool {
    let line = line.trim_start();
    if line.starts_with('#') {
        return false;
    }
    let bytes = line.as_bytes();
    let mut quoted = false;
    (1..bytes.len()).any(|at| {
        if bytes[at] == b'"' && bytes[at - 1] != b'\\' {
            quoted = !quoted;
        }
        let before = bytes[at - 1];
        let value = before.is_ascii_alphanumeric() || before == b'_' || before == b')' || before == b']';
        bytes[at] == b'[' && !quoted && value && !line[at..].starts_with("[..]")
    })
}

#[test]
fn bytes_of_a_stranger_are_taken_apart_without_indexing() {
    assert!(indexes("let a = bytes[4];") && indexes("f(x)[..n]") && !indexes("let a: [u8; 4] = [0; 4];") && !indexes("&buf[..]"));
    // An array of ours, of a length known when it is compiled: a wrong constant does not get past the compiler's own lint.
    let ours = |line: &str| {
        ["header[", "out["].iter().any(|name| line.trim_start().trim_start_matches('&').starts_with(name))
            || line.contains("crc32c(&header[4..])")
    };
    let wrong = files("rs").into_iter().filter(|source| STRANGERS.iter().any(|path| source.path.starts_with(path))).flat_map(|source| {
        let lines = Source::code(source.product()).filter(|(_, line)| indexes(line) && !ours(line));
        lines.map(|(number, line)| format!("{}:{number}: {}", source.path, line.trim())).collect::<Vec<_>>()
    });
    none("use get, split_at_checked or first_chunk", wrong);
}

#[test]
fn tests_are_sentences() {
    let wrong = files("rs").into_iter().flat_map(|source| {
        let lines = Source::code(&source.text).filter(|(_, line)| line.trim_start().starts_with("fn test_"));
        lines.map(|(number, line)| format!("{}:{number}: {}", source.path, line.trim())).collect::<Vec<_>>()
    });
    none("a test is named as the fact it states", wrong);
}

#[test]
fn every_allow_has_its_reason() {
    let wrong = files("rs").into_iter().flat_map(|source| {
        let lines = Source::code(&source.text).map(|(number, line)| (number, line.trim()));
        let lines =
            lines.filter(|(_, line)| ["#[allow(", "#![allow(", "#[expect(", "#![expect("].iter().any(|begin| line.starts_with(begin)));
        let bare = lines.filter(|(_, line)| line.ends_with(")]") && !line.contains("reason = \""));
        bare.map(|(number, line)| format!("{}:{number}: {line}", source.path)).collect::<Vec<_>>()
    });
    none("say why the lint is wrong here", wrong);
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let without = rooms().into_values().filter(|room| !room.text("Cargo.toml").contains("[lints]\nworkspace = true"));
    none("lints are chosen once", without.map(|room| room.name));
    let root = std::fs::read_to_string(root().join("Cargo.toml")).expect("the root Cargo.toml");
    for line in ["unsafe_code = \"forbid\"", "missing_docs = \"warn\"", "all = { level = \"warn\", priority = -1 }"] {
        assert!(root.contains(line), "the workspace no longer says {line}");
    }
}

#[test]
fn every_crate_says_what_it_is() {
    for room in rooms().into_values() {
        let file = if room.name == "tests" { "main.rs" } else { "src/lib.rs" };
        assert!(room.text(file).starts_with("//! "), "{}/{file} does not begin with what the crate is", room.name);
    }
}

#[test]
fn no_crate_has_features() {
    // Each doubles the houses that have to be kept.
    none("two builds must differ before there is a feature", rooms().into_values().filter(|room| room.features > 0).map(|room| room.name));
}

#[test]
fn pure_rooms_ban_clocks_files_and_threads() {
    let rooms = rooms();
    for name in PURE_ROOMS {
        let bans = rooms[*name].text("clippy.toml");
        for call in BANNED_CALLS {
            let line = bans.lines().find(|line| line.contains(&format!("path = \"{call}\"")));
            let line = line.unwrap_or_else(|| panic!("{name}/clippy.toml does not ban {call}"));
            assert!(line.contains("reason = \""), "{name}/clippy.toml bans {call} without a reason");
        }
    }
}
