//! What a person or a script sees of the command line: output, errors and exit codes.

use std::path::Path;
use std::process::{Command, Output};

fn geminga(args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_geminga"));
    command.args(args).env_clear().envs(variables.iter().copied());
    command.output().expect("runs")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn config_shows_value_and_source_after_flags_variables_and_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("broker.conf");
    std::fs::write(&file, "clusterName=a\nkeepAliveIntervalSeconds=9\nmaxMessageSize=2048\n").expect("written");
    let file = file.to_str().expect("text");
    let args = [
        "config",
        "--json",
        "--config",
        file,
        "--set",
        "numIOThreads=3",
        "numIOThreads",
        "clusterName",
        "maxMessageSize",
        "keepAliveIntervalSeconds",
    ];
    let variables = [("GEMINGA_clusterName", "b"), ("PULSAR_PREFIX_clusterName", "c"), ("maxMessageSize", "4096")];
    let output = geminga(&args, &variables);
    assert!(output.status.success(), "{}", told(&output));
    let shown: serde_json::Value = serde_json::from_str(&printed(&output)).expect("json");
    let pairs: Vec<_> = shown
        .as_array()
        .expect("an array")
        .iter()
        .map(|s| (s["value"].as_str().expect("text"), s["source"].as_str().expect("text")))
        .collect();
    let at = format!("{file}:2");
    assert_eq!(pairs, [("3", "--set"), ("b", "env GEMINGA_clusterName"), ("4096", "env maxMessageSize"), ("9", at.as_str())]);
}

#[test]
fn the_file_that_a_variable_names_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("mine.conf");
    std::fs::write(&file, "clusterName=mine\n").expect("written");
    let output = geminga(&["config", "clusterName", "--json"], &[("PULSAR_STANDALONE_CONF", file.to_str().expect("text"))]);
    assert!(printed(&output).contains("\"mine\""), "{}", printed(&output));
}

#[test]
fn asking_for_one_key_explains_it() {
    let output = geminga(&["config", "numIOThreads"], &[]);
    let text = printed(&output);
    assert!(text.contains("min(2n, max(8, n/2))") && text.contains("stays at 100 % while backlogs grow"), "{text}");
}

#[test]
fn every_wrong_setting_is_told_and_the_exit_code_is_3() {
    for command in [&["config"][..], &[]] {
        let args = [command, &["--set", "numIOThreads=0", "--set", "webServicePort=x", "--data", "/nonexistent/never/made"]].concat();
        let output = geminga(&args, &[("GEMINGA_clusterName", "a b")]);
        assert_eq!(output.status.code(), Some(3), "{}", told(&output));
        for part in
            ["3 settings are wrong", "numIOThreads=0 (--set)", "webServicePort=x (--set)", "clusterName=a b (env GEMINGA_clusterName)"]
        {
            assert!(told(&output).contains(part), "{part}: {}", told(&output));
        }
        assert!(!Path::new("/nonexistent").exists());
    }
}

#[test]
fn a_file_that_is_not_there_is_named_and_the_exit_code_is_3() {
    let output = geminga(&["config", "--config", "no-such.conf"], &[]);
    assert_eq!(output.status.code(), Some(3));
    assert!(told(&output).contains("no-such.conf"), "{}", told(&output));
}

#[test]
fn a_misspelt_key_or_flag_is_answered_with_the_right_one_and_exit_code_2() {
    let output = geminga(&["config", "numIoThread"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("did you mean numIOThreads?"), "{}", told(&output));
    let output = geminga(&["--dta", "x"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("--data"), "{}", told(&output));
    let output = geminga(&["--log-level", "loud"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("use error, warn, info"), "{}", told(&output));
}

#[test]
fn a_data_directory_that_is_not_ours_is_refused_with_exit_code_4() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("letter.txt"), "dear").expect("written");
    let data = directory.path().to_str().expect("text");
    for args in [&["--data", data][..], &["--data", data, "--wipe-data"]] {
        let output = geminga(args, &[]);
        assert_eq!(output.status.code(), Some(4), "{}", told(&output));
        assert!(told(&output).contains("letter.txt"), "{}", told(&output));
    }
    assert!(directory.path().join("letter.txt").exists());
}
