//! The sample files and the reference page, written from the settings themselves.

use std::fmt::Write as _;

use super::later::{self, Plan};
use super::table::Setting;
use super::{Config, Verdict, ignored, known};

/// What a sample file is for, and what it sets.
pub struct Sample {
    /// Under `conf/`.
    pub file: &'static str,
    intro: &'static [&'static str],
    sets: &'static [(&'static str, &'static str)],
}

/// Those that are shipped.
pub const SAMPLES: &[Sample] = &[
    Sample {
        file: "standalone.conf",
        intro: &["For one machine: a broker that only this machine can reach.", "Use: geminga --config conf/standalone.conf"],
        sets: &[("bindAddress", "localhost")],
    },
    Sample {
        file: "broker.conf",
        intro: &[
            "For a server: a broker that other machines can reach. There is no authentication yet, so keep strangers out by other means.",
            "Use: geminga --config /etc/geminga/broker.conf",
        ],
        sets: &[("bindAddress", "0.0.0.0"), ("dataDirectory", "/var/lib/geminga")],
    },
];

/// A sample file: every setting with its doc; those that the sample does not set are comments that tell the default.
pub fn sample(sample: &Sample) -> String {
    let mut out = String::new();
    for line in sample.intro {
        comment(&mut out, line);
    }
    comment(&mut out, "");
    let habits = "Java's properties format: key=value, the last line of a key wins, a blank value is the default. \
        Flags win over variables (GEMINGA_<key>, PULSAR_PREFIX_<key>, <key>), variables over this file. \
        `geminga config` shows what is in effect and where it comes from; all keys are in REFERENCE.md.";
    comment(&mut out, habits);
    for (title, settings) in Config::sections() {
        let _ = write!(out, "\n### {title} ###\n");
        for setting in settings {
            sample_entry(&mut out, &setting, sample.sets);
        }
    }
    out
}

fn sample_entry(out: &mut String, setting: &Setting, sets: &[(&str, &str)]) {
    out.push('\n');
    comment(out, &prose(setting));
    comment(out, &format!("Allowed: {}.{}", setting.allowed, told_default(setting)));
    let set = sets.iter().find(|(key, _)| *key == setting.key);
    let _ = match (set, setting.told) {
        (Some((key, value)), _) => writeln!(out, "{key}={value}"),
        (None, Some(_)) => writeln!(out, "#{}=", setting.key),
        (None, None) => writeln!(out, "#{}={}", setting.key, setting.default),
    };
}

fn told_default(setting: &Setting) -> String {
    setting.told.map(|told| format!(" Default: {told}.")).unwrap_or_default()
}

fn prose(setting: &Setting) -> String {
    let text = setting.doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let text = match setting.dynamic {
        Some(acts) => format!("{text} Can be changed while the broker runs: {acts}."),
        None => text,
    };
    if known::verdict(setting.key) == Some(Verdict::NotYet) { format!("{text} Accepted, not acted on yet.") } else { text }
}

/// Comment lines of at most 120 characters.
fn comment(out: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() > 1 && line.len() + 1 + word.len() > 120 {
            out.push_str(&line);
            out.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}

/// The reference page.
pub fn page() -> String {
    let mut out = String::from(INTRO);
    for (title, settings) in Config::sections() {
        let _ = write!(out, "\n## {title}\n\n| key | default | allowed | meaning |\n|---|---|---|---|\n");
        for setting in settings {
            let default = setting.told.map_or_else(|| code(&setting.default), str::to_owned);
            let differs = setting.pulsar.map(|pulsar| format!(" (Pulsar: {pulsar})")).unwrap_or_default();
            let _ = writeln!(out, "| `{}` | {default}{differs} | {} | {} |", setting.key, setting.allowed, prose(&setting));
        }
    }
    differences(&mut out);
    later_page(&mut out);
    ignored_page(&mut out);
    out
}

fn code(value: &str) -> String {
    if value.is_empty() { "blank".to_owned() } else { format!("`{value}`") }
}

fn differences(out: &mut String) {
    out.push_str("\n## Defaults that differ from Pulsar's\n\n| key | here | in Pulsar |\n|---|---|---|\n");
    for setting in Config::sections().into_iter().flat_map(|(_, settings)| settings) {
        if let Some(pulsar) = setting.pulsar {
            let here = setting.told.map_or_else(|| code(&setting.default), str::to_owned);
            let _ = writeln!(out, "| `{}` | {here} | {pulsar} |", setting.key);
        }
    }
}

fn later_page(out: &mut String) {
    out.push_str(LATER);
    for key in later::REFUSED_WHEN_TRUE {
        let _ = writeln!(out, "- `{key}`");
    }
    for (title, keys) in later::groups() {
        let _ = write!(out, "\n### {title}\n\n| key | Pulsar's default | allowed | state |\n|---|---|---|---|\n");
        for later in *keys {
            let state = match later.plan {
                Plan::NotYet => "accepted, not acted on yet",
                Plan::Kept => "kept and shown, changes nothing",
            };
            let _ = writeln!(out, "| `{}` | {} | {} | {state} |", later.key, code(later.default), later.form.allowed());
        }
    }
    let families: Vec<String> = later::KEPT_FAMILIES.iter().map(|family| format!("`{family}…`")).collect();
    let _ = write!(out, "\nKept and shown without a check: {}.\n", families.join(", "));
}

fn ignored_page(out: &mut String) {
    out.push_str("\n## Ignored\n\nThese have nothing to act on here; one line of the log names those that a file sets.\n\n| key | why |\n|---|---|\n");
    for ignored in ignored::all() {
        let rest = if ignored.family { "…" } else { "" };
        let _ = writeln!(out, "| `{}{rest}` | {} |", ignored.key, ignored.why);
    }
}

const INTRO: &str = "# Configuration reference

Written from the code by its tests; do not edit.

A file has Pulsar's format and Pulsar's keys, with the units that Pulsar's keys carry in their names (MB is 1024 * 1024 bytes).
`key=value`, spaces around `=` are allowed, `#` begins a comment, the last line of a key wins, a blank value is the default.
A file is named by `--config`, else by `PULSAR_STANDALONE_CONF` or `PULSAR_BROKER_CONF`.

Highest first, a value comes from

0. a change made while the broker runs, for the keys that say so: `PUT /geminga/v1/config/<key>`, or `pulsar-admin brokers update-dynamic-config`
1. a flag: `--set key=value`, `--data`, `--advertised-address`
2. the variable `GEMINGA_<key>`
3. the variable `PULSAR_PREFIX_<key>`
4. the variable `<key>`, for the keys named on this page
5. the file
6. the default

`geminga config` shows what is in effect and where it comes from. Wrong values are told all at once, and nothing starts.
Unknown keys are told once and do no harm. Values of keys that hold secrets are never printed.
";

const LATER: &str = "
## Accepted, not acted on yet

These keys of Pulsar's are checked and kept, so that a file written for Pulsar loads; the log names those that are set to something
other than their default. Keys that promise protection are the exception: set to true they stop the start, since running open instead
would be worse:

";

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::config::Sources;
    use crate::config::sources::File;

    fn compare_or_write(file: &str, text: &str) {
        let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf")).join(file);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            std::fs::write(&path, text).expect("written");
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(stored == text, "conf/{file} differs from the settings; run this test with UPDATE=1 to write it anew");
    }

    #[test]
    fn the_sample_files_are_up_to_date() {
        for one in SAMPLES {
            compare_or_write(one.file, &sample(one));
        }
    }

    #[test]
    fn the_reference_page_is_up_to_date() {
        compare_or_write("REFERENCE.md", &page());
    }

    fn loaded(text: &str) -> crate::config::Loaded {
        let file = File { path: "sample".to_owned(), text: text.to_owned() };
        Config::load(&Sources { file: Some(file), ..Sources::default() }).expect("loads")
    }

    #[test]
    fn every_documented_default_parses_back_to_itself() {
        let mut text: String = Config::sections()
            .into_iter()
            .flat_map(|(_, s)| s)
            .filter(|s| s.told.is_none() && known::verdict(s.key) == Some(Verdict::Honoured))
            .fold(String::new(), |text, setting| text + &format!("{}={}\n", setting.key, setting.default));
        text.push_str("bindAddress=localhost\n");
        let loaded = loaded(&text);
        assert_eq!(loaded.config, Config::default());
        assert_eq!((loaded.unknown, loaded.ignored, loaded.not_yet), (vec![], vec![], vec![]));
    }

    #[test]
    fn sample_files_load_as_they_are_and_with_every_comment_made_a_setting() {
        for one in SAMPLES {
            let text = sample(one);
            let plain = loaded(&text);
            assert_eq!(plain.unknown, []);
            let uncommented: String = text
                .lines()
                .map(|line| line.strip_prefix('#').filter(|l| !l.starts_with([' ', '#'])).unwrap_or(line).to_owned() + "\n")
                .collect();
            assert_eq!(loaded(&uncommented).config, plain.config, "{}", one.file);
        }
    }

    #[test]
    fn the_page_tells_the_formula_and_the_symptom_of_too_few_event_loops() {
        let page = page();
        let line = page.lines().find(|line| line.starts_with("| `numIOThreads`")).expect("the key");
        assert!(line.contains("min(2n, max(8, n/2))") && line.contains("stays at 100 % while backlogs grow"), "{line}");
    }

    #[test]
    fn the_container_and_the_unit_leave_the_number_of_event_loops_to_the_machine() {
        for text in [include_str!("../../../../Dockerfile"), include_str!("../../../../conf/geminga.service")] {
            assert!(!text.contains("numIOThreads"), "{text}");
        }
        assert!(include_str!("../../../../Dockerfile").contains("bindAddress=0.0.0.0"));
    }
}
