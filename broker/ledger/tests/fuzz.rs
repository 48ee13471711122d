//! A short run of the fuzz target, with bytes that get past the checksums.

use geminga_ledger::log::sim::fuzz_recovery;

/// Bytes shaped like records: small numbers in every field, so that they collide and contradict each other.
fn records(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.usize(0..40) {
        let kind = random.u8(0..6);
        let payload: Vec<u8> = match kind {
            2 => [random.u8(0..3), random.u8(0..3), 0, 0, 0, 0, 0, 0].into_iter().chain(random.u64(..).to_le_bytes()).collect(),
            _ => (0..random.usize(0..300)).map(|_| random.u8(..)).collect(),
        };
        let odd = random.u32(0..30) == 0;
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(if odd { random.u32(..) } else { payload.len() as u32 }).to_le_bytes());
        bytes.extend_from_slice(&[kind, 0, 0, 0]);
        bytes.extend_from_slice(&random.u32(..).to_le_bytes());
        for _ in 0..2 {
            let field = if random.u32(0..30) == 0 { random.i64(..) } else { random.i64(-1..6) };
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&payload);
    }
    bytes
}

#[test]
fn recovery_answers_whatever_the_bytes_are() {
    let rounds = std::env::var("FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(300);
    for seed in 0..rounds {
        let mut random = fastrand::Rng::with_seed(seed);
        let bytes = if random.bool() { records(&mut random) } else { (0..random.usize(0..3000)).map(|_| random.u8(..)).collect() };
        let outcome = std::panic::catch_unwind(|| fuzz_recovery(&bytes));
        assert!(outcome.is_ok(), "seed {seed} panicked");
    }
}
