//! Every built-in policy on every made-up trace: `cache_policies [DIVISOR] [SEEDS]`.

use geminga_ledger::cache::host::HostLimits;
use geminga_ledger::cache::optimum::bounds;
use geminga_ledger::cache::policies::{BUILT_IN, Choice};
use geminga_ledger::cache::policy::PageSize;
use geminga_ledger::cache::replay::replay;
use geminga_ledger::cache::scenarios::{self, EntrySize, Scale};
use geminga_ledger::cache::table::table;
use geminga_ledger::cache::trace::Timed;

type Made = fn(u64, Scale) -> Vec<Timed>;

#[allow(clippy::print_stdout, reason = "a table is what it is for")]
fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let (divisor, seeds) = (arguments.next().unwrap_or(1).max(1), arguments.next().unwrap_or(1));
    let scale = Scale { divisor, size: EntrySize::Equal(8192) };
    let made: [(&str, Made, u64); 6] = [
        ("restart, 32,000 entries", scenarios::restart, 32_000),
        ("restart, 16,000 entries", scenarios::restart, 16_000),
        ("catch-up, 16,000 entries", scenarios::catch_up, 16_000),
        ("catch-up, 2,000 entries", scenarios::catch_up, 2_000),
        ("tail fan-out, 2,000 entries", scenarios::tail_fan_out, 2_000),
        ("key-shared, 4,000 entries", scenarios::key_shared, 4_000),
    ];
    for (title, make, entries) in made {
        for seed in 0..seeds {
            let trace = make(seed, scale);
            let capacity = entries / divisor * 8192;
            let run = |name: &str, given: &[(&str, &str)], page: u64| {
                let page = PageSize::of(page).expect("a power of two");
                let choice = Choice::new(name, given).expect("a policy");
                replay(&trace, HostLimits { bytes: capacity, continue_ms: 2000, page }, &mut |page| choice.build(page))
            };
            let fifo = run("fifo-ttl", &[("ttl-ms", "0")], 64);
            let mut rows = vec![("fifo-ttl, no age".to_owned(), fifo)];
            rows.extend(BUILT_IN.iter().map(|built_in| (built_in.name.to_owned(), run(built_in.name, &[], 64))));
            rows.push(("cursor-distance, rates".into(), run("cursor-distance", &[("rates", "true")], 64)));
            rows.push(("cursor-distance, by entry".into(), run("cursor-distance", &[], 1)));
            rows.push(("expected-read-count, by entry".into(), run("expected-read-count", &[], 1)));
            rows.push(("expected-read-count, recount".into(), run("expected-read-count", &[("recount", "true")], 64)));
            println!("{}", table(&format!("{title}, seed {seed}"), fifo.hits, &rows, &bounds(&trace, capacity)));
        }
    }
}
