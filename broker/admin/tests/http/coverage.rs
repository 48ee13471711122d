//! Whether every row of the route table is exercised by some test of this binary: the tests are run once more, in a process of their
//! own that writes down every call, and what was answered.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use geminga_admin::{Mark, RouteLine, routes};

/// Names the file that calls are written to.
pub(crate) const CALLS: &str = "GEMINGA_TEST_CALLS";

/// The row that serves a call: as many segments, the same where the row has a word, and the fewest parameters.
fn row<'r>(rows: &'r [RouteLine], method: &str, path: &str) -> Option<&'r RouteLine> {
    let asked: Vec<&str> = path.split(['?', '#']).next()?.split('/').filter(|part| !part.is_empty()).collect();
    let fits = |row: &&RouteLine| {
        let parts: Vec<&str> = row.path.split('/').filter(|part| !part.is_empty()).collect();
        let same = |(part, asked): (&&str, &&str)| match *part {
            "{domain}" => matches!(*asked, "persistent" | "non-persistent"),
            part => part.starts_with('{') || part == *asked,
        };
        row.method == method && parts.len() == asked.len() && parts.iter().zip(&asked).all(same)
    };
    // Words go before parameters, from the left.
    let shape = |row: &&RouteLine| {
        row.path
            .split('/')
            .filter(|p| !p.is_empty())
            .map(|part| match part {
                "{domain}" => 1,
                part if part.starts_with('{') => 2,
                _ => 0,
            })
            .collect::<Vec<_>>()
    };
    rows.iter().filter(fits).min_by_key(shape)
}

/// By method and path of a row: calls, and how many of them went well.
fn calls() -> BTreeMap<(String, &'static str), (u32, u32)> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("calls");
    let tests = Command::new(std::env::current_exe().unwrap())
        .args(["--skip", "every_row_of_the_table_is_exercised", "--skip", "in_no_time"])
        .env(CALLS, &file)
        .output()
        .unwrap();
    assert!(tests.status.success(), "{}", String::from_utf8_lossy(&tests.stdout));
    let rows: Vec<RouteLine> = routes().collect();
    let mut calls = BTreeMap::new();
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let mut words = line.splitn(3, ' ');
        let (status, method, path) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or_default());
        if let Some(row) = row(&rows, method, path) {
            let (all, well): &mut (u32, u32) = calls.entry((row.method.clone(), row.path)).or_default();
            *all += 1;
            *well += u32::from(is_good(row, status));
        }
    }
    calls
}

/// Rows that take a message to answer well, which tests of this binary cannot publish: the end of the row's path, the file that calls it
/// on a whole broker, and how.
const OUTSIDE: [(&str, &str, &str); 4] = [
    ("/messageid/{timestamp}", "topic_administration.rs", "\"messageid/{between}\""),
    ("/ledger/{ledger}/entry/{entry}", "topic_administration.rs", "\"ledger/{}/entry/{}\""),
    ("/examinemessage", "topic_administration.rs", "\"examinemessage?"),
    ("/subscription/{subscription}/position/{position}", "topic_administration.rs", "\"subscription/s/position/1\""),
];

/// The file in `tests/` that calls a row, where no test of this binary does.
fn outside(row: &RouteLine) -> Option<String> {
    let (_, file, call) = OUTSIDE.iter().find(|(end, ..)| row.method == "GET" && row.path.ends_with(end))?;
    let text = std::fs::read_to_string(format!("{}/../../tests/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    assert!(text.contains(call), "tests/{file} does not call {} any more", row.path);
    Some(format!("`tests/{file}`"))
}

/// Whether this is the answer that a row is for. A row that always refuses says so.
fn is_good(row: &RouteLine, status: &str) -> bool {
    status.starts_with('2') || row.summary.starts_with(&format!("Always {status}"))
}

/// The table, row by row.
fn page(calls: &BTreeMap<(String, &'static str), (u32, u32)>) -> String {
    let mut page = String::from(concat!(
        "# What is served, and what is tested of it\n\n",
        "Written by a test of this crate (`tests/http/coverage.rs`) from the route table and from the calls that the tests in `tests/http*` make;\n",
        "after a change of either, run the tests of this crate with `GEMINGA_WRITE_DOCS=1`. Mark: see ROUTES.md. A row is tested when one of\n",
        "its calls got the answer that it is for; a few that take messages are called on a whole broker, in the file that is named. What else is\n",
        "asked of it (wrong names, wrong roles, wrong bodies) is in those tests and in those of `tests/`.\n\n",
        "| Mark | Call | Served | Tested |\n|---|---|---|---|\n",
    ));
    for row in routes() {
        let mark = match row.mark {
            Mark::Core => "C",
            Mark::Common => "M",
            Mark::Own => "G",
        };
        let tested = calls.get(&(row.method.clone(), row.path)).is_some_and(|(_, well)| *well > 0);
        let tested = if tested { "yes".to_owned() } else { outside(&row).unwrap_or_else(|| "no".to_owned()) };
        writeln!(page, "| {mark} | `{} {}` | yes | {tested} |", row.method, row.path).unwrap();
    }
    page
}

#[test]
fn every_row_of_the_table_is_exercised() {
    let calls = calls();
    let untested: Vec<String> = routes()
        .filter(|row| calls.get(&(row.method.clone(), row.path)).is_none_or(|(_, well)| *well == 0) && outside(row).is_none())
        .map(|row| format!("{} {}", row.method, row.path))
        .collect();
    assert!(untested.is_empty(), "no test of this binary gets a good answer from:\n  {}", untested.join("\n  "));
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/TESTED.md");
    if std::env::var_os("GEMINGA_WRITE_DOCS").is_some() {
        std::fs::write(file, page(&calls)).unwrap();
    }
    assert!(std::fs::read_to_string(file).unwrap_or_default() == page(&calls), "TESTED.md is old; run the tests with GEMINGA_WRITE_DOCS=1");
}
