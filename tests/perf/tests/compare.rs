//! What a comparison says of two sets of runs.

#![allow(missing_docs, reason = "a test has no readers from outside")]

mod made;

use std::{
    fs,
    path::{Path, PathBuf},
};

use geminga_perf::{
    compare::{Compare, Comparison, Judgement, Set},
    report,
    result::{Durability, RunResult},
};

use self::made::{Made, references};

/// Runs at these rates, each started a minute after the one before, beginning at a minute.
fn runs(rates: &[f64], first_minute: u64, made: impl Fn(f64, u64) -> Made) -> Vec<RunResult> {
    let run = |(at, rate): (usize, &f64)| {
        let mut run = made::run(&made(*rate, at as u64 + 1));
        // Two minutes apart, so that another set fits between.
        run.started_at_ms += (first_minute + 2 * at as u64) * 60_000;
        run.throughput.window.published = (rate * run.throughput.window.seconds) as u64;
        run
    };
    rates.iter().enumerate().map(run).collect()
}

fn plain(rate: f64, seed: u64) -> Made {
    Made { rate, seed, ..Made::default() }
}

fn compared(a: Vec<RunResult>, b: Vec<RunResult>) -> Comparison {
    Comparison::of(Set::new("old".to_owned(), a).unwrap(), Set::new("new".to_owned(), b).unwrap())
}

fn judgement(comparison: &Comparison, name: &str) -> (Judgement, f64) {
    let row = comparison.rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row {name}"));
    (row.judgement, row.change.unwrap())
}

const PUBLISHED: &str = "messages published per second";

#[test]
fn sets_whose_ranges_overlap_are_said_to_overlap() {
    let comparison = compared(runs(&[100e3, 110e3, 120e3], 0, plain), runs(&[115e3, 125e3, 130e3], 1, plain));
    let (judgement, change) = judgement(&comparison, PUBLISHED);
    assert_eq!(judgement, Judgement::Overlap);
    assert!((change - 13.6).abs() < 0.1, "{change}");
    let line = comparison.text().lines().find(|line| line.starts_with(PUBLISHED)).unwrap().to_owned();
    for shown in ["110,000 (100,000–120,000)", "125,000 (115,000–130,000)", "+13.6 %", "ranges overlap"] {
        assert!(line.contains(shown), "{line}");
    }
}

#[test]
fn sets_whose_ranges_lie_apart_are_better_or_worse() {
    let comparison = compared(runs(&[100e3, 110e3], 0, plain), runs(&[125e3, 130e3], 1, plain));
    assert_eq!(judgement(&comparison, PUBLISHED).0, Judgement::Better);
    let comparison = compared(runs(&[125e3, 130e3], 0, plain), runs(&[100e3, 110e3], 1, plain));
    assert_eq!(judgement(&comparison, PUBLISHED).0, Judgement::Worse);
    // Of what costs, less is better.
    let dear = |rate, seed| Made { cpu: 40.0, ..plain(rate, seed) };
    let comparison = compared(runs(&[1e5, 1e5], 0, dear), runs(&[1e5, 1e5], 1, plain));
    assert_eq!(judgement(&comparison, "broker CPU s per million published").0, Judgement::Better);
}

#[test]
fn interleaved_runs_with_the_same_settings_are_compared_without_a_warning() {
    let comparison = compared(runs(&[100e3, 110e3], 0, plain), runs(&[125e3, 130e3], 1, plain));
    assert_eq!((comparison.warnings, comparison.invalid, comparison.subject), (vec![], vec![], vec![]));
}

#[test]
fn another_connection_layout_is_warned_of() {
    let one_at_a_time = |rate, seed| Made { precreate: 1, ..plain(rate, seed) };
    let comparison = compared(runs(&[1e5, 1e5], 0, plain), runs(&[1e5, 1e5], 1, one_at_a_time));
    let warning = comparison.warnings.iter().find(|warning| warning.contains("precreateConcurrency")).unwrap();
    assert!(warning.contains("32 in A, 1 in B") && warning.contains("spread over a broker's I/O threads"), "{warning}");
    assert!(comparison.text().starts_with("warning: "));
}

#[test]
fn what_was_chosen_of_the_broker_is_the_subject_and_no_warning() {
    let loops = |rate, seed| Made { loops: 8, busy_loops: 8, ..plain(rate, seed) };
    let comparison = compared(runs(&[1e5, 1e5], 0, plain), runs(&[1e5, 1e5], 1, loops));
    assert_eq!(comparison.warnings, Vec::<String>::new());
    assert_eq!(comparison.subject, ["broker setting numIOThreads: 4 in A, 8 in B"]);
}

#[test]
fn a_set_that_is_not_durable_is_told() {
    let mut b = runs(&[1e5, 1e5], 1, plain);
    for run in &mut b {
        run.settings.broker.durability = Durability::NotDurable(vec!["the data is in memory (tmpfs)".to_owned()]);
    }
    let text = compared(runs(&[1e5, 1e5], 0, plain), b).text();
    assert!(text.contains("new is NOT DURABLE: the data is in memory (tmpfs)"), "{text}");
    assert!(text.contains("settings differ: durability"), "{text}");
}

#[test]
fn one_set_after_the_other_is_warned_of() {
    let comparison = compared(runs(&[1e5, 1e5], 0, plain), runs(&[1e5, 1e5], 10, plain));
    assert!(comparison.warnings.iter().any(|warning| warning.contains("not interleaved")), "{:?}", comparison.warnings);
}

#[test]
fn single_runs_have_no_spread() {
    let comparison = compared(runs(&[1e5], 0, plain), runs(&[2e5], 1, plain));
    assert_eq!(judgement(&comparison, PUBLISHED).0, Judgement::SingleRun);
}

#[test]
fn runs_of_different_scenarios_are_no_set() {
    let mut all = runs(&[1e5, 1e5], 0, plain);
    all[1].scenario = "other".to_owned();
    assert!(Set::new("x".to_owned(), all).unwrap_err().to_string().contains("give runs of one scenario"));
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn written(name: &str, runs: &[RunResult]) -> Vec<PathBuf> {
    let write = |(at, run): (usize, &RunResult)| {
        let path = directory(&format!("{name}-{at}"));
        report::write(&path, run).unwrap();
        path
    };
    runs.iter().enumerate().map(write).collect()
}

#[test]
fn a_comparison_is_a_directory_with_a_page_that_asks_nobody() {
    let peer = |rate, seed| Made { product: "Apache Pulsar", cpu: 38.0, latency: 40_000.0, loops: 8, busy_loops: 4, ..plain(rate, seed) };
    let a = written("peer", &runs(&[48e3, 52e3, 50e3], 0, peer));
    let b = written("ours", &runs(&[390e3, 410e3, 400e3], 1, plain));
    let out = directory("comparison");
    let mut printed = Vec::new();
    let compare = Compare { a, b, name_a: None, name_b: None, out: out.clone() };
    assert!(compare.run(&mut printed).unwrap());
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    assert_eq!(references(&page), Vec::<String>::new());
    assert!(!page.contains("<script"), "a page that needs no script");
    for shown in ["Apache Pulsar 0.1.0", "Geminga 0.1.0", "better", "A: 3 runs, durable", "All figures"] {
        assert!(page.contains(shown), "the page does not show `{shown}`");
    }
    let printed = String::from_utf8(printed).unwrap();
    assert!(printed.contains("A = Apache Pulsar 0.1.0 (3 runs), B = Geminga 0.1.0 (3 runs)"), "{printed}");
    assert!(out.join("README.md").exists() && out.join("comparison.json").exists() && out.join("charts/threads-b.svg").exists());
}

#[test]
fn an_invalid_run_makes_a_comparison_invalid() {
    let mut bad = runs(&[1e5, 1e5], 1, plain);
    bad[1].correctness.applications[0].ordering_violations = 1;
    let (a, b) = (written("good", &runs(&[1e5, 1e5], 0, plain)), written("bad", &bad));
    let mut printed = Vec::new();
    let compare = Compare { a, b, name_a: Some("old".to_owned()), name_b: Some("new".to_owned()), out: directory("invalid-comparison") };
    assert!(!compare.run(&mut printed).unwrap());
    let printed = String::from_utf8(printed).unwrap();
    assert!(printed.starts_with("INVALID: run 2 of new: billing: 1 messages came out of order"), "{printed}");
}

#[test]
fn an_option_behind_the_sets_is_told() {
    let compare =
        Compare { a: vec!["a".into()], b: vec!["b".into(), "--out".into(), "x".into()], name_a: None, name_b: None, out: "y".into() };
    let error = compare.run(&mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("--out stands behind"), "{error}");
}

#[test]
fn settings_of_another_product_are_told_in_one_line_for_each() {
    let peer = |rate, seed| Made { product: "Apache Pulsar", loops: 8, ..plain(rate, seed) };
    let comparison = compared(runs(&[1e5, 1e5], 0, peer), runs(&[1e5, 1e5], 1, plain));
    let expected = ["broker: Apache Pulsar 0.1.0 in A, Geminga 0.1.0 in B", "broker settings: numIOThreads=8 in A, numIOThreads=4 in B"];
    assert_eq!(comparison.subject, expected);
}

#[test]
fn a_large_change_is_told_as_a_ratio_too() {
    let dear = |rate, seed| Made { cpu: 40.0, ..plain(rate, seed) };
    let cheap = |rate, seed| Made { cpu: 1.0, ..plain(rate, seed) };
    let text = compared(runs(&[1e5, 1e5], 0, dear), runs(&[1e5, 1e5], 1, cheap)).text();
    let line = text.lines().find(|line| line.starts_with("broker CPU s per million published")).unwrap();
    assert!(line.contains("−97.") && line.contains("times less"), "{line}");
}

#[test]
fn a_set_that_was_measured_while_it_warmed_up_is_told() {
    let steady = |rate, seed| Made { cpu: 20.0, ..plain(rate, seed) };
    let alone = |run: RunResult| RunResult { catch_up: Vec::new(), reconnect: None, ..run };
    let mut cold: Vec<RunResult> = runs(&[1e5, 1e5], 0, steady).into_iter().map(alone).collect();
    let warm = cold.clone();
    for point in &mut cold[0].brokers[0].timeline {
        point.cores *= if point.second < 20.0 { 2.0 } else { 1.0 };
    }
    let warnings = compared(cold, runs(&[1e5, 1e5], 1, steady)).warnings;
    assert!(warnings.iter().any(|warning| warning.starts_with("in 1 of 2 runs of old the broker became cheaper")), "{warnings:?}");
    assert_eq!(compared(warm, runs(&[1e5, 1e5], 1, steady)).warnings, Vec::<String>::new());
}
