//! How a scenario comes together: a file, what it extends, the environment, the command line; later layers win.

use std::{fs, path::Path};

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value};

use super::{Scenario, catalog};

/// Begins the names of variables that change a scenario; dots of the path are written as two underscores.
pub(super) const VARIABLE: &str = "GEMINGA_PERF_SET_";

/// One value that is changed: a path and what shall stand there; null takes away what a file said.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// The field, such as `load.rate`.
    pub path: String,
    /// Its value.
    pub value: Value,
}

impl Override {
    /// Reads `path=value`; the value is YAML.
    ///
    /// # Errors
    /// There is no `=`, or the value is no YAML.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let (path, value) = text
            .split_once('=')
            .filter(|(path, _)| !path.trim().is_empty())
            .with_context(|| format!("{text:?} is no change: write it as path=value, for example load.rate=500"))?;
        Ok(Self { path: path.trim().to_owned(), value: yaml(value).with_context(|| format!("the value in {text:?} cannot be read"))? })
    }

    /// Those that the environment asks for, in the order of their paths.
    ///
    /// # Errors
    /// A value is no YAML.
    pub fn from_variables(variables: impl Iterator<Item = (String, String)>) -> anyhow::Result<Vec<Self>> {
        let named = variables.filter_map(|(name, value)| Some((name.strip_prefix(VARIABLE)?.replace("__", "."), value)));
        let mut all = named
            .map(|(path, value)| Self::parse(&format!("{path}={value}")).with_context(|| format!("in the variable for {path}")))
            .collect::<Result<Vec<_>, _>>()?;
        all.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(all)
    }

    fn into_layer(self) -> Value {
        self.path.rsplit('.').fold(self.value, |value, name| Value::Object(Map::from_iter([(name.to_owned(), value)])))
    }
}

/// Finds a scenario by its name or, if the name has a slash or a suffix, in a file, and puts its layers together.
///
/// # Errors
/// There is no such scenario, a file cannot be read, scenarios extend each other in a circle, or fields are wrong.
pub fn resolve(name: &str, overrides: &[Override]) -> anyhow::Result<Scenario> {
    let mut value = load(name, &mut Vec::new())?;
    for change in overrides {
        merge(&mut value, change.clone().into_layer());
    }
    Scenario::read(&value).with_context(|| format!("scenario {name}"))
}

fn load(name: &str, on_the_way: &mut Vec<String>) -> anyhow::Result<Value> {
    let is_circle = on_the_way.iter().any(|other| other == name);
    on_the_way.push(name.to_owned());
    ensure!(!is_circle, "scenarios extend each other in a circle: {}", on_the_way.join(" -> "));
    let is_file = name.contains('/') || name.ends_with(".yaml") || name.ends_with(".yml");
    let text = if is_file {
        fs::read_to_string(name).with_context(|| format!("the scenario file {name} cannot be read"))?
    } else {
        match catalog::text(name) {
            Some(text) => text.to_owned(),
            None => bail!(
                "there is no scenario {name}; `geminga perf list` shows all, and a file is given with its path{}",
                catalog::nearest(name)
            ),
        }
    };
    let mut value = yaml(&text).with_context(|| format!("in the scenario {name}"))?;
    let Some(object) = value.as_object_mut() else { bail!("the scenario {name} is no group of fields") };
    match object.shift_remove("extends") {
        None | Some(Value::Null) => Ok(value),
        Some(Value::String(parent)) => {
            // A file's parent is found beside it.
            let beside = Path::new(name).parent().filter(|_| is_file).map(|folder| folder.join(&parent));
            let parent = beside.filter(|path| path.is_file()).map_or(parent, |path| path.display().to_string());
            let mut merged = load(&parent, on_the_way)?;
            merge(&mut merged, value);
            Ok(merged)
        }
        Some(other) => bail!("extends: {other} is not allowed in {name}: the name of one scenario, or the path of its file"),
    }
}

/// Lays one value over another: groups are merged field by field, null deletes, everything else replaces.
fn merge(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (name, value) in above {
                if value.is_null() {
                    below.shift_remove(&name);
                } else {
                    merge(below.entry(name).or_insert(Value::Null), value);
                }
            }
        }
        // Nulls inside a group that lies on nothing delete nothing, and must not stay.
        (below, above @ Value::Object(_)) => {
            *below = Value::Object(Map::new());
            merge(below, above);
        }
        (below, above) => *below = above,
    }
}

fn yaml(text: &str) -> anyhow::Result<Value> {
    serde_saphyr::from_str(text).map_err(|error| anyhow::anyhow!("{error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(below: Value, above: Value) -> Value {
        let mut value = below;
        merge(&mut value, above);
        value
    }

    #[test]
    fn groups_are_merged_and_null_deletes() {
        let below = json!({"a": {"x": 1, "y": {"z": 2}}, "b": [1, 2], "c": 3});
        let above = json!({"a": {"y": {"z": null, "w": 5}}, "b": [9], "c": null, "d": {"e": null, "f": 1}});
        assert_eq!(merged(below, above), json!({"a": {"x": 1, "y": {"w": 5}}, "b": [9], "d": {"f": 1}}));
    }

    #[test]
    fn a_change_names_its_path_and_its_value_is_yaml() {
        let layer = |text| Override::parse(text).unwrap().into_layer();
        assert_eq!(layer("load.rate=500"), json!({"load": {"rate": 500}}));
        assert_eq!(layer("load.rate=null"), json!({"load": {"rate": null}}));
        assert_eq!(layer("applications.joinAtSeconds=[0, 2.5]"), json!({"applications": {"joinAtSeconds": [0, 2.5]}}));
        assert_eq!(layer("message.batched=true"), json!({"message": {"batched": true}}));
        assert!(Override::parse("load.rate").is_err() && Override::parse("=1").is_err());
    }

    #[test]
    fn variables_change_fields_too_and_the_command_line_wins() {
        let variables = [("GEMINGA_PERF_SET_load__rate", "7"), ("GEMINGA_PERF_SET_topics", "3"), ("HOME", "x")];
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut overrides = Override::from_variables(variables).unwrap();
        overrides.push(Override::parse("topics=4").unwrap());
        let scenario = resolve("iot-telemetry-small", &overrides).unwrap();
        assert_eq!((scenario.load.rate, scenario.topics), (Some(7.0), 4));
    }

    #[test]
    fn a_file_extends_a_named_scenario_or_one_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        fs::write(path("a.yaml"), "extends: iot-telemetry-small\nload: {rate: 5}\n").unwrap();
        fs::write(path("b.yaml"), "extends: a.yaml\ntopics: 2\n").unwrap();
        let scenario = resolve(&path("b.yaml"), &[]).unwrap();
        assert_eq!((scenario.load.rate, scenario.topics, scenario.gateways.count), (Some(5.0), 2, 10));
        fs::write(path("a.yaml"), "extends: b.yaml\n").unwrap();
        let error = resolve(&path("b.yaml"), &[]).unwrap_err();
        assert!(error.to_string().contains("circle"), "{error:#}");
    }

    #[test]
    fn an_unknown_name_is_told_with_the_nearest() {
        let error = resolve("iot-telemetry-smal", &[]).unwrap_err().to_string();
        assert!(error.contains("perf list") && error.contains("iot-telemetry-small"), "{error}");
    }
}
