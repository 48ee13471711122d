//! The arrows between our crates, and what of the world each of them never sees.

use std::collections::BTreeSet;

use super::crates::{For, locked, rooms, root, way};

/// A row of the import table in `ARCHITECTURE.md`.
struct Row {
    room: &'static str,
    /// Of our crates, what it may use when it runs.
    may_import: &'static [&'static str],
    /// What must not come in, by whatever way.
    never_sees: &'static [&'static str],
    /// What it must not name itself, though a room below it may bring it along.
    never_names: &'static [&'static str],
    /// Our crates that only its tests use.
    tests_use: &'static [&'static str],
}

const TABLE: &[Row] = &[
    Row {
        room: "wire",
        may_import: &[],
        never_sees: &["tokio", "mio", "hyper", "rustls", "redb", "socket2", "rustix"],
        never_names: &[],
        tests_use: &[],
    },
    Row {
        room: "ledger",
        may_import: &[],
        never_sees: &["tokio", "mio", "hyper", "rustls", "redb", "socket2", "wire", "metadata"],
        never_names: &[],
        tests_use: &[],
    },
    Row {
        room: "metadata",
        may_import: &[],
        never_sees: &["tokio", "mio", "hyper", "rustls", "socket2", "wire", "ledger"],
        never_names: &[],
        tests_use: &[],
    },
    Row {
        room: "topic",
        may_import: &["wire", "ledger"],
        never_sees: &["tokio", "mio", "hyper", "rustls", "redb", "socket2", "metadata", "dashmap"],
        never_names: &["rustix", "tracing"],
        tests_use: &[],
    },
    Row {
        room: "client",
        may_import: &["wire"],
        never_sees: &["redb", "topic", "ledger", "metadata", "server"],
        never_names: &[],
        tests_use: &[],
    },
    Row {
        room: "server",
        may_import: &["wire", "ledger", "metadata", "topic"],
        never_sees: &["hyper", "hyper-util", "http", "clap", "client"],
        // Tokens and grants are JSON: server/auth reads them.
        never_names: &["redb"],
        tests_use: &[],
    },
    Row {
        room: "admin",
        may_import: &["server", "metadata", "wire"],
        never_sees: &["clap", "client"],
        never_names: &["topic", "ledger", "redb"],
        // A whole server in the test's process has to be built from the ground up.
        tests_use: &["topic", "ledger"],
    },
    Row {
        room: "geminga",
        // The one arrow from the product into `tests/`: `geminga perf` is part of it.
        may_import: &["wire", "ledger", "metadata", "topic", "client", "server", "admin", "perf"],
        never_sees: &[],
        never_names: &["redb", "hyper"],
        tests_use: &[],
    },
    Row {
        room: "perf",
        may_import: &["client"],
        // It measures any broker of the protocol, so it knows none from inside.
        never_sees: &["redb", "topic", "ledger", "metadata", "server", "admin"],
        never_names: &[],
        tests_use: &[],
    },
    Row {
        room: "tests",
        may_import: &["client"],
        never_sees: &[],
        never_names: &["hyper", "redb"],
        // Behaviours see the broker from outside; what looks in lies beside them.
        tests_use: &["wire", "ledger", "metadata", "topic", "server", "perf"],
    },
];

/// Crates that nobody may bring in, and why.
const BANNED_EVERYWHERE: &[(&str, &str)] = &[
    ("openssl-sys", "TLS is rustls"),
    ("async-std", "there is one runtime"),
    ("native-tls", "TLS is rustls"),
    ("protobuf-src", "a build needs no protoc"),
    ("chrono", "times are milliseconds; the one place that spells them has its own forty lines"),
];

#[test]
fn every_crate_has_a_row_in_the_table() {
    let rooms = rooms();
    let crates: BTreeSet<&str> = rooms.keys().map(String::as_str).collect();
    let rows: BTreeSet<&str> = TABLE.iter().map(|row| row.room).collect();
    assert_eq!(crates, rows, "a new crate needs its row in the table, here and in ARCHITECTURE.md");
}

#[test]
fn a_room_imports_only_what_lies_below_it() {
    let rooms = rooms();
    for row in TABLE {
        let room = &rooms[row.room];
        for purpose in [For::Running, For::Building, For::Testing] {
            for name in room.declares(purpose).into_iter().filter(|name| rooms.contains_key(*name)) {
                let allowed = row.may_import.contains(&name) || purpose == For::Testing && row.tests_use.contains(&name);
                assert!(allowed, "{} may not use {name} ({purpose:?})", row.room);
            }
        }
    }
}

#[test]
fn a_room_never_sees_what_the_table_forbids() {
    let (rooms, locked) = (rooms(), locked());
    for row in TABLE {
        for name in row.never_sees {
            if let Some(way) = way(&rooms, &locked, row.room, name) {
                panic!("{} never sees {name}, but gets it by {}", row.room, way.join(" -> "));
            }
        }
        for name in row.never_names {
            assert!(!rooms[row.room].declares(For::Running).contains(name), "{} must not name {name} itself", row.room);
        }
    }
}

#[test]
fn ways_through_other_crates_are_found() {
    let (rooms, locked) = (rooms(), locked());
    assert_eq!(way(&rooms, &locked, "server", "redb"), Some(vec!["metadata".to_owned(), "redb".to_owned()]));
    assert!(way(&rooms, &locked, "admin", "mio").is_some_and(|way| way.last().is_some_and(|last| last == "mio") && way.len() >= 2));
}

#[test]
fn crates_we_do_without_stay_out() {
    let locked = locked();
    for (name, reason) in BANNED_EVERYWHERE {
        assert!(!locked.contains_key(*name), "{name} came in: {reason}");
    }
}

#[test]
fn the_architecture_page_shows_the_same_table() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    for row in TABLE.iter().filter(|row| row.room != "tests") {
        let begin = format!("| `{}` |", row.room);
        let line = page.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("no row for {}", row.room));
        let shown = line.split('|').nth(3).unwrap_or_default().trim();
        let expected = match row.may_import {
            [] => "nothing".to_owned(),
            names => names.join(", "),
        };
        assert_eq!(shown, expected, "what {} may import, according to ARCHITECTURE.md", row.room);
    }
}
