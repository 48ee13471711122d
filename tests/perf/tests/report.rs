//! What a run's directory holds.

#![allow(missing_docs, reason = "a test has no readers from outside")]

mod made;

use std::{
    fs,
    path::{Path, PathBuf},
};

use geminga_perf::{
    report,
    result::{Durability, RunResult},
};

use self::made::{Made, references};

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn written(name: &str, run: &RunResult) -> PathBuf {
    let directory = directory(name);
    let _ = fs::remove_dir_all(&directory);
    report::write(&directory, run).unwrap();
    directory
}

fn text(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_run_renders_to_a_page_that_asks_nobody_for_anything() {
    let directory = written("page", &made::run(&Made::default()));
    let page = text(&directory, "index.html");
    assert_eq!(references(&page), Vec::<String>::new());
    assert!(!page.contains("<script"), "a page that needs no script");
    for shown in [
        "VALID",
        "durable",
        "messages published per second",
        "a receipt waits for",
        "geminga-io-3",
        "log-writer",
        "alerts",
        "31.4 s",
        "11.4 s",
        "precreateConcurrency",
    ] {
        assert!(page.contains(shown), "the page does not show `{shown}`");
    }
    assert_eq!(page.matches("<figure").count(), 8, "one figure for each chart");
}

#[test]
fn the_check_for_references_sees_them() {
    let page = r#"<img src="http://x/y.png"><style>a{background:url(//x/z)}</style><link rel="icon" href="data:,">"#;
    assert_eq!(references(page), ["http://x/y.png", "//x/z"]);
}

#[test]
fn an_invalid_run_says_so_first() {
    let mut run = made::run(&Made::default());
    run.correctness.applications[1].missing = 12;
    let directory = written("invalid", &run);
    let page = text(&directory, "index.html");
    assert!(page.contains("INVALID") && page.contains("alerts: 12 messages never came"));
    assert!(text(&directory, "README.md").starts_with("# INVALID: "));
}

#[test]
fn a_run_without_durability_is_marked() {
    let mut run = made::run(&Made::default());
    run.settings.broker.durability = Durability::NotDurable(vec!["sync is switched off".to_owned()]);
    let directory = written("not-durable", &run);
    for name in ["index.html", "README.md"] {
        let shown = text(&directory, name);
        assert!(shown.contains("NOT DURABLE") && shown.contains("sync is switched off"), "{name}");
    }
}

#[test]
fn a_noisy_host_is_told() {
    let mut run = made::run(&Made::default());
    run.host.as_mut().unwrap().noise = vec!["other processes used 0.80 of 2 processors".to_owned()];
    let directory = written("noisy", &run);
    assert!(text(&directory, "index.html").contains("noisy host"));
    assert!(text(&directory, "README.md").contains("other processes used 0.80"));
}

#[test]
fn the_record_is_read_back_and_rendered_again() {
    let run = made::run(&Made::default());
    let directory = written("again", &run);
    let page = text(&directory, "index.html");
    fs::write(directory.join("index.html"), "gone").unwrap();
    report::render_again(&directory).unwrap();
    assert_eq!(text(&directory, "index.html"), page);
    let read = RunResult::read(&directory).unwrap();
    assert_eq!(read.latency.publish.decoded().unwrap(), run.latency.publish.decoded().unwrap());
}

#[test]
fn a_record_of_another_format_is_refused() {
    let directory = written("format", &made::run(&Made::default()));
    let record = text(&directory, "result.json").replacen("\"format\": 1", "\"format\": 99", 1);
    fs::write(directory.join("result.json"), record).unwrap();
    let error = report::render_again(&directory).unwrap_err().to_string();
    assert!(error.contains("format 99"), "{error}");
}

#[test]
fn a_directory_without_a_run_is_told() {
    let error = report::render_again(Path::new("/nowhere")).unwrap_err().to_string();
    assert!(error.contains("give the directory that a run wrote"), "{error}");
}

#[test]
fn the_logs_hold_the_whole_histogram() {
    use hdrhistogram::serialization::{
        Deserializer,
        interval_log::{IntervalLogIterator, LogEntry},
    };

    let run = made::run(&Made::default());
    let directory = written("logs", &run);
    let log = fs::read(directory.join("end-to-end.hlog")).unwrap();
    let mut histograms = Vec::new();
    for entry in IntervalLogIterator::new(&log) {
        if let Ok(LogEntry::Interval(interval)) = entry {
            let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, interval.encoded_histogram()).unwrap();
            histograms.push(Deserializer::new().deserialize::<u64, _>(&mut bytes.as_slice()).unwrap());
        }
    }
    assert_eq!(histograms, [run.latency.end_to_end.decoded().unwrap()]);
}

#[test]
fn tables_for_spreadsheets_have_a_line_for_each_second() {
    let run = made::run(&Made::default());
    let directory = written("csv", &run);
    assert_eq!(text(&directory, "throughput.csv").lines().count(), run.throughput.timeline.len() + 1);
    assert!(text(&directory, "backlog.csv").starts_with("second,billing,alerts,archive\n"));
    assert!(text(&directory, "threads.csv").contains("broker,log-writer,LogWriter,"));
}

#[test]
fn a_run_with_next_to_nothing_in_it_renders() {
    let mut run = made::run(&Made::default());
    run.throughput.timeline.clear();
    run.backlog.timeline.clear();
    (run.brokers, run.generator, run.cache, run.host, run.reconnect) = (Vec::new(), None, None, None, None);
    run.latency.publish = Default::default();
    run.latency.end_to_end = Default::default();
    let directory = written("empty", &run);
    assert!(text(&directory, "index.html").contains("VALID"));
}
