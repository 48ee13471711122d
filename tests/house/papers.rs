//! Pages that the code or another page names are there, and what a page says of numbers and names is so.

use super::{crates::root, sources::files};

/// The names of pages in a text: words that end in `.md`.
fn pages(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || "._-/".contains(c)));
    words.map(|word| word.trim_end_matches('.')).filter(|word| word.len() > 3 && word.ends_with(".md") && !word.contains("//"))
}

#[test]
fn every_page_that_is_named_exists() {
    assert_eq!(pages("see `conf/REFERENCE.md`, and README.md.").collect::<Vec<_>>(), ["conf/REFERENCE.md", "README.md"]);
    let existing: Vec<String> = files("md").into_iter().map(|page| page.path).collect();
    let mut missing = Vec::new();
    for source in files("rs").into_iter().chain(files("md")).filter(|source| !source.path.starts_with("tests/house/")) {
        for page in pages(&source.text) {
            let file = page.rsplit('/').next().unwrap_or(page);
            if !existing.iter().any(|path| path == page || path.rsplit('/').next() == Some(file)) {
                missing.push(format!("{} names {page}", source.path));
            }
        }
    }
    assert!(missing.is_empty(), "pages that do not exist:\n  {}", missing.join("\n  "));
}

#[test]
fn the_changelog_has_an_entry_for_this_version() {
    let changelog = std::fs::read_to_string(root().join("CHANGELOG.md")).expect("CHANGELOG.md");
    let heading = format!("## {}", env!("CARGO_PKG_VERSION"));
    assert!(changelog.lines().any(|line| line == heading || line.starts_with(&format!("{heading} "))), "no line `{heading}`");
}

/// Where a page speaks of defaults that differ from Pulsar's, the keys in the first column of its table.
fn differing_keys<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let (_, after) = page.split_once(heading).unwrap_or_else(|| panic!("no heading `{heading}`"));
    let rows = after.lines().skip(1).take_while(|line| !line.starts_with('#'));
    rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
}

#[test]
fn the_changelog_names_every_default_that_differs_from_pulsars() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let (reference, changelog) = (read("conf/REFERENCE.md"), read("CHANGELOG.md"));
    let differing = differing_keys(&reference, "## Defaults that differ from Pulsar's");
    let told = differing_keys(&changelog, "### Where defaults differ from Pulsar's");
    assert!(differing.len() > 5, "{differing:?}");
    let missing: Vec<_> = differing.iter().filter(|key| !told.contains(key)).collect();
    assert!(missing.is_empty(), "CHANGELOG.md does not tell that these differ: {missing:?}");
}

#[test]
fn the_toolchain_is_the_same_wherever_it_is_named() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let version = env!("CARGO_PKG_RUST_VERSION");
    assert!(read("rust-toolchain.toml").contains(&format!("channel = \"{version}.0\"")), "rust-toolchain.toml is not {version}");
    let dockerfile = read("Dockerfile");
    assert!(dockerfile.contains(&format!("FROM rust:{version}.0-")), "the Dockerfile's image is not {version}");
    assert!(dockerfile.contains(&format!("RUSTUP_TOOLCHAIN={version}.0\n")), "the Dockerfile's compiler is not {version}");
}

#[test]
fn what_the_image_copies_from_the_repository_is_there() {
    let dockerfile = std::fs::read_to_string(root().join("Dockerfile")).expect("Dockerfile");
    let copies: Vec<&str> =
        dockerfile.lines().filter_map(|line| line.strip_prefix("COPY ")).filter(|copy| !copy.starts_with("--from")).collect();
    assert!(copies.len() >= 2, "{copies:?}");
    for copy in copies {
        let words: Vec<&str> = copy.split_whitespace().collect();
        for from in words.iter().take(words.len() - 1) {
            assert!(root().join(from).exists(), "the Dockerfile copies {from}");
        }
    }
}

#[test]
fn the_unit_does_not_restart_what_cannot_mend_itself() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let (unit, help) = (read("conf/geminga.service"), read("broker/geminga/src/cli.rs"));
    let codes = unit.lines().find_map(|line| line.strip_prefix("RestartPreventExitStatus=")).expect("the unit says so");
    for (code, meaning) in
        [("2", "the command line was not understood"), ("3", "a setting is wrong"), ("4", "the data directory cannot be used")]
    {
        assert!(help.contains(&format!("{code}  {meaning}")), "exit code {code} means something else now");
        assert!(codes.split(' ').any(|one| one == code), "the unit restarts after exit code {code}");
    }
    // The unit's directory is the one that its configuration names.
    assert!(
        unit.contains("StateDirectory=geminga\n") && read("conf/broker.conf").lines().any(|line| line == "dataDirectory=/var/lib/geminga")
    );
}
