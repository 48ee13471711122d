//! In what two runs differ besides their figures.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::result::{BrokerUnderTest, Durability, RunResult};

/// One setting that is not the same.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) name: String,
    pub(super) a: String,
    pub(super) b: String,
    /// A choice about the broker, which comparisons are made for; everything else is better kept the same.
    pub(super) is_subject: bool,
}

/// Values above this length are told one after the other.
const LONG: usize = 40;
const ABSENT: &str = "(not set)";
/// Where the scenario says how many producers are created at a time.
const PRECREATE: &str = "precreateConcurrency";

impl Difference {
    pub(super) fn told(&self) -> String {
        if self.a.len().max(self.b.len()) > LONG {
            return format!("{} – A: {} – B: {}", self.name, self.a, self.b);
        }
        format!("{}: {} in A, {} in B", self.name, self.a, self.b)
    }

    pub(super) fn warning(&self) -> String {
        let told = format!("settings differ: {}", self.told());
        if self.name.ends_with(PRECREATE) {
            return format!(
                "{told}. It decides how connections are spread over a broker's I/O threads: compare runs made with the same value; 1 is as in older runs"
            );
        }
        told
    }

    /// The last part of its name.
    pub(super) fn short_name(&self) -> &str {
        self.name.rsplit(['.', ' ']).next().unwrap_or(&self.name)
    }
}

/// Everything that differs.
pub(super) fn between(a: &RunResult, b: &RunResult) -> Vec<Difference> {
    let is_alone = a.settings.broker.product != b.settings.broker.product;
    let (subject_a, subject_b) = (subject(a, is_alone), subject(b, is_alone));
    let (other_a, other_b) = (conditions(a), conditions(b));
    let mut differences = compared(&subject_a, &subject_b, true);
    differences.extend(compared(&other_a, &other_b, false));
    differences
}

type Told = BTreeMap<String, String>;

fn compared(a: &Told, b: &Told, is_subject: bool) -> Vec<Difference> {
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let of = |told: &Told, name: &String| told.get(name).cloned().unwrap_or_else(|| ABSENT.to_owned());
    let differing = names.into_iter().filter(|name| a.get(*name) != b.get(*name));
    differing.map(|name| Difference { name: name.clone(), a: of(a, name), b: of(b, name), is_subject }).collect()
}

/// Choices about the broker; in one line when the other side is another product, which has other settings.
fn subject(run: &RunResult, is_alone: bool) -> Told {
    let broker = &run.settings.broker;
    let mut told = Told::from([("broker".to_owned(), format!("{} {}", broker.product, broker.version))]);
    if !broker.receipts.is_empty() {
        told.insert("a receipt waits for".to_owned(), broker.receipts.clone());
    }
    if is_alone {
        told.insert("broker settings".to_owned(), all_chosen(broker));
        return told;
    }
    told.extend(broker.chosen.iter().map(|(key, value)| (format!("broker setting {key}"), value.clone())));
    told
}

fn all_chosen(broker: &BrokerUnderTest) -> String {
    let chosen: Vec<String> = broker.chosen.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if chosen.is_empty() { "all defaults".to_owned() } else { chosen.join(" ") }
}

fn conditions(run: &RunResult) -> Told {
    let (settings, broker) = (&run.settings, &run.settings.broker);
    let machine = &settings.machine;
    let durability = match &broker.durability {
        Durability::NotDurable(reasons) => format!("{} ({})", broker.durability.label(), reasons.join("; ")),
        other => other.label().to_owned(),
    };
    let disk = &broker.disk;
    let mut told = Told::from([
        ("scenario".to_owned(), run.scenario.clone()),
        ("seed".to_owned(), settings.seed.to_string()),
        ("program".to_owned(), settings.program.clone()),
        ("durability".to_owned(), durability),
        ("broker's processors".to_owned(), broker.cpus.clone().unwrap_or_else(|| "all".to_owned())),
        ("file system".to_owned(), disk.file_system.clone()),
        ("disk limits".to_owned(), format!("write limit {:?}, added sync {:?} ms", disk.write_limit, disk.added_sync_ms)),
        ("machine".to_owned(), format!("{}, {} processors, {}", machine.processor, machine.processors, machine.kernel)),
    ]);
    flatten("scenario", &settings.scenario, &mut told);
    told
}

/// Leaves of a tree under their paths.
fn flatten(path: &str, value: &Value, told: &mut Told) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| flatten(&format!("{path}.{key}"), value, told)),
        Value::Array(items) => items.iter().enumerate().for_each(|(at, value)| flatten(&format!("{path}.{at}"), value, told)),
        leaf => {
            told.insert(path.to_owned(), leaf.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_told_by_their_path() {
        let mut told = Told::new();
        flatten("scenario", &serde_json::json!({"a": {"b": [1, {"c": null}]}}), &mut told);
        let paths: Vec<&str> = told.keys().map(String::as_str).collect();
        assert_eq!(paths, ["scenario.a.b.0", "scenario.a.b.1.c"]);
    }

    #[test]
    fn what_only_one_side_has_is_a_difference() {
        let a = Told::from([("x".to_owned(), "1".to_owned())]);
        let found = compared(&a, &Told::new(), false);
        assert_eq!(found, [Difference { name: "x".to_owned(), a: "1".to_owned(), b: ABSENT.to_owned(), is_subject: false }]);
    }
}
