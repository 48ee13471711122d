//! Instructions per message, floor by floor, as valgrind counts them: the same on every machine, so that no floor grows unnoticed.
//! `bench/INSTRUCTIONS.md` is the table; `UPDATE=1 cargo test -p geminga-tests instructions` writes it anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The room and its bench, the floor, and what it does.
const FLOORS: &[(&str, &str, &str, &str)] = &[
    ("wire", "hot", "decode", "cut a SEND of 190 bytes out of a read, decode it, verify the checksum"),
    ("topic", "road", "publish", "topic: publish, position, durable, receipt; nobody consumes"),
    ("ledger", "append", "log", "copy into a block, frame, hand over, write, index; the kernel not counted"),
    ("topic", "road", "shared", "topic: publish, dispatch to 4 Shared consumers, ack, permit"),
    ("topic", "road", "key_shared", "topic: the same with 4 Key_Shared consumers and 1000 keys"),
    ("wire", "hot", "deliver", "encode a MESSAGE and copy its payload"),
    ("wire", "hot", "receipt", "encode a SEND_RECEIPT"),
    ("wire", "hot", "ack", "cut and decode an ACK or a FLOW"),
];
/// A floor may be this much above the table, in per cent.
const TOLERANCE: f64 = 5.0;
/// Counted twice, so that starting does not count.
const COUNTS: [u64; 2] = [10_000, 30_000];

#[test]
fn no_floor_takes_more_instructions_per_message_than_the_table_says() {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("note: no valgrind here (Debian has it as `valgrind`): instructions were not counted");
        return;
    }
    let (benches, known) = (build(), table());
    let counted: BTreeMap<&str, f64> =
        FLOORS.iter().map(|(_, bench, floor, _)| (*floor, per_message(benches.get(*bench).expect("it was built"), floor))).collect();
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(path(), spelt(&counted)).expect("the table can be written");
    }
    let grown: Vec<String> = counted
        .iter()
        .filter_map(|(floor, now)| {
            let before = *known.get(*floor).unwrap_or(&0.0);
            (*now > before * (1.0 + TOLERANCE / 100.0))
                .then(|| format!("{floor}: {now:.0} instructions per message, {before:.0} in the table"))
        })
        .collect();
    assert!(
        grown.is_empty(),
        "{}\nMake it cheaper, or say in the commit why it costs more and write the table anew: UPDATE=1 cargo test -p geminga-tests instructions",
        grown.join("\n")
    );
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/INSTRUCTIONS.md")
}

fn table() -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(path()).unwrap_or_default();
    let row = |line: &str| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        Some((cells.next()?.to_owned(), cells.next()?.parse().ok()?))
    };
    text.lines().filter_map(row).collect()
}

fn spelt(counted: &BTreeMap<&str, f64>) -> String {
    let mut text = "# Instructions per message\n\nCounted by valgrind in the release profile; written by a test (`tests/instructions.rs`), which fails when a \
                    floor takes 5 % more.\n\n| floor | instructions | what it does |\n|---|---|---|\n"
        .to_owned();
    for (_, _, floor, what) in FLOORS {
        text += &format!("| {floor} | {:.0} | {what} |\n", counted.get(floor).copied().unwrap_or_default());
    }
    text
}

/// Builds the benches as they are released; returns the program of each.
fn build() -> BTreeMap<String, PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--message-format", "json", "--quiet"]);
    for (room, bench, _, _) in FLOORS {
        cargo.args(["-p", &format!("geminga-{room}"), "--bench", bench]);
    }
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).stderr(Stdio::inherit()).output().expect("cargo runs");
    assert!(output.status.success(), "the benches do not build");
    let built = String::from_utf8_lossy(&output.stdout);
    let messages = built.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    messages
        .filter_map(|message| Some((message["target"]["name"].as_str()?.to_owned(), PathBuf::from(message["executable"].as_str()?))))
        .collect()
}

fn per_message(bench: &Path, floor: &str) -> f64 {
    let [few, many] = COUNTS.map(|count| instructions(bench, floor, count));
    (many - few) as f64 / (COUNTS[1] - COUNTS[0]) as f64
}

fn instructions(bench: &Path, floor: &str, count: u64) -> u64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(bench).args([floor, &count.to_string()]);
    let output = valgrind.output().expect("valgrind runs");
    let told = String::from_utf8_lossy(&output.stderr);
    let collected = told.lines().find_map(|line| line.split_once("Collected :")).and_then(|(_, count)| count.trim().parse().ok());
    collected.unwrap_or_else(|| panic!("valgrind did not count {floor}:\n{told}"))
}
