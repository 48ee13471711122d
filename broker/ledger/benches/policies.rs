//! What a policy costs over the restart scenario at a quarter of its size: nanoseconds for each entry read, and for 64 of them.
//! The host's own books are in it; the first row, which does nothing for a read, is close to them alone.

use std::time::Instant;

use geminga_ledger::cache::host::HostLimits;
use geminga_ledger::cache::policies::{BUILT_IN, Choice};
use geminga_ledger::cache::policy::PageSize;
use geminga_ledger::cache::replay::replay;
use geminga_ledger::cache::scenarios::{self, EntrySize, Scale};

#[allow(clippy::print_stdout, reason = "a table is what it is for")]
fn main() {
    // Called by `cargo test`: there is nothing to measure.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let trace = scenarios::restart(1, Scale { divisor: 4, size: EntrySize::Equal(8192) });
    println!("{:>20}  {:>12}  {:>12}  {:>14}", "policy", "ns per entry", "ns per page", "ns per evicted");
    let mut named: Vec<_> = BUILT_IN.iter().map(|built_in| Choice::new(built_in.name, &[]).expect("defaults are right")).collect();
    named.sort_by_key(|choice| choice.name() != "fifo-ttl");
    for choice in named {
        let limits = HostLimits { bytes: 8_000 * 8192, continue_ms: 2000, page: PageSize::FULL };
        // The best of a few: others use this machine too.
        let (mut best, mut outcome) = (f64::INFINITY, None);
        for _ in 0..3 {
            let began = Instant::now();
            outcome = Some(replay(&trace, limits, &mut |page| choice.build(page)));
            best = best.min(began.elapsed().as_nanos() as f64);
        }
        let Some(outcome) = outcome else { continue };
        let entry = best / outcome.reads as f64;
        println!("{:>20}  {entry:>12.1}  {:>12.1}  {:>14.1}", choice.name(), entry * 64.0, best / outcome.counts.evicted.max(1) as f64);
    }
}
