//! The scenarios that come with the program.

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../scenarios/", $name, ".yaml")))),*]
    };
}

const ALL: &[(&str, &str)] = scenarios![
    "iot-telemetry-small",
    "iot-telemetry-small-2core",
    "iot-telemetry",
    "iot-telemetry-2core",
    "iot-telemetry-restarts",
    "iot-telemetry-restarts-2core",
    "iot-telemetry-high-rate",
    "iot-telemetry-high-rate-2core",
    "iot-telemetry-high-rate-batched",
    "iot-telemetry-high-rate-batched-2core",
    "iot-telemetry-high-rate-1k-2core",
    "iot-telemetry-high-rate-tls",
    "iot-telemetry-high-rate-tls-2core",
    "iot-telemetry-max-rate",
    "iot-telemetry-max-rate-8k",
    "iot-telemetry-max-rate-2core",
    "iot-telemetry-max-rate-batched-2core",
    "iot-telemetry-max-rate-1k-2core",
    "iot-telemetry-max-rate-8k-2core",
    "iot-telemetry-max-rate-128k-2core",
    "iot-telemetry-max-rate-tls-2core",
    "iot-telemetry-catch-up",
    "iot-telemetry-catch-up-2core",
    "iot-telemetry-many",
    "reconnect-storm",
    "tiny",
    "bench",
];

/// The names, in the order in which they are shown.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// A scenario's file.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// For an error: the name that was probably meant.
pub(super) fn nearest(name: &str) -> String {
    let near = names().map(|known| (strsim::jaro_winkler(known, name), known)).max_by(|a, b| a.0.total_cmp(&b.0));
    near.filter(|(likeness, _)| *likeness > 0.8).map_or_else(String::new, |(_, known)| format!("; did you mean {known}?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::resolve;

    #[test]
    fn every_scenario_is_complete_and_says_what_it_is_good_for() {
        for name in names() {
            let scenario = resolve(name, &[]).unwrap_or_else(|error| panic!("{error:#}"));
            assert!(scenario.description.len() > 20, "{name} has no description");
            // One that extends another has to say of itself what is different.
            assert!(text(name).is_some_and(|text| text.contains("description:")), "{name} inherits its description");
        }
    }

    #[test]
    fn every_file_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
        for file in std::fs::read_dir(folder).expect("the scenarios' folder") {
            let name = file.expect("an entry").file_name().display().to_string();
            let name = name.strip_suffix(".yaml").unwrap_or_else(|| panic!("{name} is no scenario"));
            assert!(text(name).is_some(), "{name} cannot be run by its name");
        }
    }

    #[test]
    fn the_described_scenarios_have_the_described_numbers() {
        let of = |name| resolve(name, &[]).expect(name);
        let small = of("iot-telemetry-small");
        assert_eq!((small.gateways.count, small.topics, small.load.rate, small.message.bytes), (10, 30, Some(1000.0), 64));
        assert_eq!((small.applications.count, small.applications.pods), (20, 10));
        assert_eq!((small.warm_up.seconds, small.measure.seconds), (Some(20.0), Some(120.0)));
        let max = of("iot-telemetry-max-rate");
        assert_eq!((max.gateways.count, max.topics, max.load.rate, max.message.bytes), (500, 1, None, 128));
        assert_eq!((max.load.max_in_flight, max.measure.messages, max.devices.count), (100_000, Some(4_000_000), 1_000_000));
        let late = of("iot-telemetry-catch-up");
        assert_eq!(late.applications.join_at_seconds, [0.0, 20.0, 22.0, 24.0, 60.0]);
        let two = of("iot-telemetry-max-rate-2core");
        assert!(two.measure.messages.is_some_and(|count| count >= 1_000_000) && two.applications.pods == 20 && two.gateways.count == 500);
    }
}
