//! One topic, many seeds: nothing acknowledged is lost, permits are conserved, everything comes in order, nobody is stuck.
//! `SIM_SEED` plays one seed, `SIM_SEEDS` that many.

extern crate geminga_topic as topic;

#[path = "../../../tests/sim/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of behaviour")]
mod sim;

use sim::play::stall::{Stall, move_about};
use sim::play::{Script, Tally, play};
use topic::faults::Faults;

const STEPS: usize = 400;

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Plays the seeds until one fails.
fn first_violation(script: Script, seeds: u64) -> Option<String> {
    (0..seeds).find_map(|seed| play(seed, script).err())
}

#[test]
fn every_promise_holds_for_every_seed() {
    let script = Script { steps: STEPS, ..Script::default() };
    if let Some(seed) = from_environment("SIM_SEED") {
        play(seed, script).unwrap_or_else(|violation| panic!("{violation}"));
        return;
    }
    let mut total = Tally::default();
    for seed in 0..from_environment("SIM_SEEDS").unwrap_or(1_000) {
        let tally = play(seed, script).unwrap_or_else(|violation| panic!("{violation}"));
        total.acknowledged += tally.acknowledged;
        total.delivered += tally.delivered;
        total.redelivered += tally.redelivered;
        total.crashes += tally.crashes;
        total.unloads += tally.unloads;
        total.seeks += tally.seeks;
        total.duplicates += tally.duplicates;
        total.takeovers += tally.takeovers;
        total.delayed += tally.delayed;
        total.parts += tally.parts;
        total.rate_changes += tally.rate_changes;
        total.held += tally.held;
        total.over_quota += tally.over_quota;
    }
    eprintln!("{total:?}");
    let enough = total.acknowledged > 1_000 && total.redelivered > 1_000 && total.crashes > 100 && total.unloads > 100 && total.seeks > 100;
    let enough = enough && total.duplicates > 100 && total.takeovers > 100;
    let enough = enough && total.delayed > 1_000 && total.parts > 1_000;
    let enough = enough && total.rate_changes > 100 && total.held > 1_000 && total.over_quota > 100;
    assert!(enough, "a simulation in which nothing happens proves nothing: {total:?}");
}

#[test]
fn permits_counted_per_entry_are_noticed() {
    let faults = Faults { permits_per_entry: true, ..Faults::default() };
    let violation = first_violation(Script { faults, steps: STEPS, ..Script::default() }, 20).expect("noticed");
    assert!(violation.contains("permits"), "{violation}");
}

#[test]
fn a_receipt_with_the_highest_sequence_id_is_noticed() {
    let faults = Faults { highest_id_in_receipt: true, ..Faults::default() };
    let violation = first_violation(Script { faults, steps: STEPS, ..Script::default() }, 20).expect("noticed");
    assert!(violation.contains("receipt"), "{violation}");
}

#[test]
fn a_redelivery_count_that_is_not_raised_on_close_is_noticed() {
    let faults = Faults { count_not_raised_on_close: true, ..Faults::default() };
    let violation = first_violation(Script { faults, steps: STEPS, ..Script::default() }, 20).expect("noticed");
    assert!(violation.contains("came with count"), "{violation}");
}

#[test]
fn a_takeover_that_does_not_go_back_to_what_was_not_acked_is_noticed() {
    let faults = Faults { takeover_without_rewind: true, ..Faults::default() };
    let violation = first_violation(Script { faults, steps: STEPS, ..Script::default() }, 400).expect("noticed");
    assert!(violation.contains("left out") || violation.contains("never came") || violation.contains("do not come"), "{violation}");
}

#[test]
fn a_message_that_is_stored_twice_is_noticed() {
    let faults = Faults { duplicates_are_new: true, ..Faults::default() };
    let violation = first_violation(Script { faults, steps: STEPS, ..Script::default() }, 50).expect("noticed");
    assert!(violation.contains("is stored twice"), "{violation}");
}

#[test]
fn delays_that_are_ignored_are_noticed() {
    let faults = Faults { delays_ignored: true, ..Faults::default() };
    let violation = first_violation(Script { faults, steps: STEPS, ..Script::default() }, 20).expect("noticed");
    assert!(violation.contains("early"), "{violation}");
}

#[test]
fn parts_of_one_message_at_several_consumers_are_noticed() {
    let faults = Faults { parts_go_round: true, ..Faults::default() };
    let violation = first_violation(Script { faults, steps: STEPS, ..Script::default() }, 50).expect("noticed");
    assert!(violation.contains("is a part of what"), "{violation}");
}

#[test]
fn parts_of_one_message_at_several_consumers_of_its_key_are_noticed() {
    let faults = Faults { parts_go_round: true, ..Faults::default() };
    let script = Script { faults, steps: STEPS, ..Script::default() };
    let violation = (0..200).filter(|seed| seed % 2 == 1).find_map(|seed| play(seed, script).err()).expect("noticed");
    assert!(violation.contains("is a part of what"), "{violation}");
    let stuck = (0..20).find_map(|seed| move_about(seed, Script { large_reads: true, faults, ..Script::default() }, 1_000).err());
    assert!(stuck.is_some_and(|stuck| stuck.contains("is a part of what")));
}

#[test]
fn batch_bits_that_are_not_written_are_noticed() {
    let faults = Faults { batch_bits_not_written: true, ..Faults::default() };
    let violation = first_violation(Script { faults, steps: STEPS, ..Script::default() }, 50).expect("noticed");
    assert!(violation.contains("left, not"), "{violation}");
}

#[test]
fn a_receipt_before_the_entry_is_durable_is_noticed() {
    let violation = first_violation(Script { confirm_early: true, steps: STEPS, ..Script::default() }, 50).expect("noticed");
    let noticed = ["lost", "missing", "never came"].iter().any(|word| violation.contains(word));
    assert!(noticed, "{violation}");
}

#[test]
fn nothing_stalls_while_key_shared_consumers_come_go_pause_and_give_back() {
    let seeds = from_environment("SIM_STALL_SEEDS").unwrap_or(10);
    let mut longest = Stall::default();
    for seed in 0..seeds {
        let stall = move_about(seed, Script { large_reads: true, ..Script::default() }, 10_000 / seeds as usize)
            .unwrap_or_else(|stuck| panic!("{stuck}"));
        longest.moves += stall.moves;
        longest.delivered += stall.delivered;
        longest.longest_ms = longest.longest_ms.max(stall.longest_ms);
        longest.longest_undrained_ms = longest.longest_undrained_ms.max(stall.longest_undrained_ms);
    }
    eprintln!("{longest:?}");
    assert!(longest.delivered > 10_000, "{longest:?}");
    assert!(longest.longest_ms <= 200, "{longest:?}");
}

#[test]
fn a_key_that_moves_before_it_is_drained_is_noticed() {
    let faults = Faults { draining_ignored: true, ..Faults::default() };
    let violation = first_violation(Script { faults, steps: STEPS, ..Script::default() }, 50).expect("noticed");
    assert!(violation.contains("of the same key"), "{violation}");
}

#[test]
fn a_key_that_goes_past_its_waiting_entries_is_noticed() {
    let faults = Faults { replay_ignored: true, ..Faults::default() };
    let violation = first_violation(Script { faults, steps: STEPS, ..Script::default() }, 50).expect("noticed");
    assert!(violation.contains("left out") || violation.contains("which waits for redelivery"), "{violation}");
}

#[test]
fn one_permit_too_many_for_a_redelivery_is_noticed() {
    let faults = Faults { permit_leaked: true, ..Faults::default() };
    let violation = first_violation(Script { faults, steps: STEPS, ..Script::default() }, 20).expect("noticed");
    assert!(violation.contains("permits, the topic counts"), "{violation}");
}

#[test]
fn one_seed_is_always_the_same_play() {
    let script = Script { steps: STEPS, ..Script::default() };
    let first = format!("{:?}", play(7, script));
    assert_eq!(first, format!("{:?}", play(7, script)));
}

#[test]
fn a_publish_that_overtakes_those_that_wait_for_a_rate_is_noticed() {
    let faults = Faults { held_overtaken: true, ..Faults::default() };
    let violation = first_violation(Script { faults, steps: STEPS, ..Script::default() }, 100).expect("noticed");
    assert!(violation.contains("receipt"), "{violation}");
}

#[test]
fn a_subscription_that_waits_for_a_rate_for_ever_is_noticed() {
    let faults = Faults { rate_never_ends: true, ..Faults::default() };
    let violation = first_violation(Script { faults, steps: STEPS, ..Script::default() }, 100).expect("noticed");
    let noticed = ["do not come", "does not come", "never came", "late"].iter().any(|word| violation.contains(word));
    assert!(noticed, "{violation}");
}
