//! The fuzzer's targets on a stable compiler: all seeds, then seeds changed at random for a while.
//!
//! `GEMINGA_FUZZ_SECONDS` says how long each target gets (default 1). A failure prints the bytes that caused it.

#![allow(clippy::disallowed_methods, reason = "the ban is for the crate; this test reads its corpus and ends by the clock")]

mod made_up;
#[path = "../../../tests/fuzz/targets.rs"]
mod targets;

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use bytes::{BufMut, BytesMut};
use fastrand::Rng;
use geminga_wire::{FrameDecoder, payload, proto::BrokerEntryMetadata};
use prost::Message as _;

fn corpus(target: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../tests/fuzz/corpus", target].iter().collect()
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let mut files: Vec<_> = fs::read_dir(corpus(target)).expect("the corpus is there").map(|file| file.unwrap().path()).collect();
    // The order of a folder differs between machines, a seed of the random numbers must not.
    files.sort();
    assert!(!files.is_empty(), "{target} has no seeds");
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

struct Tried<'a>(&'a [u8]);

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with the bytes {:02x?}", self.0);
        }
    }
}

fn bombard(target: &str, holds: fn(&[u8])) {
    let seeds = seeds(target);
    let attempt = |bytes: &[u8]| {
        let tried = Tried(bytes);
        holds(tried.0);
    };
    seeds.iter().for_each(|seed| attempt(seed));
    let seconds = std::env::var("GEMINGA_FUZZ_SECONDS").map_or(1, |seconds| seconds.parse().expect("a number of seconds"));
    let (end, mut rng) = (Instant::now() + Duration::from_secs(seconds), Rng::new());
    while Instant::now() < end {
        let mut bytes = rng.choice(&seeds).expect("there are seeds").clone();
        for _ in 0..rng.u32(1..6) {
            change(&mut rng, &mut bytes, &seeds);
        }
        attempt(&bytes);
    }
}

fn change(rng: &mut Rng, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let at = rng.usize(..=bytes.len());
    match rng.u32(..6) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, rng.u8(..)),
        2 if at < bytes.len() => bytes[at] ^= 1 << rng.u32(..8),
        3 if at < bytes.len() => drop(bytes.remove(at)),
        4 => {
            let edge = *rng.choice(&EDGES[..]).expect("there are some");
            bytes.splice(at..at, edge.iter().copied());
        }
        _ => {
            let other = rng.choice(seeds).expect("there are seeds");
            bytes.splice(at.., other[rng.usize(..=other.len())..].iter().copied());
        }
    }
}

const EDGES: [&[u8]; 6] = [
    &[0xff; 4],
    &[0x7f, 0xff, 0xff, 0xff],
    &[0; 4],
    &[0xff; 10],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
    &[0x0e, 1, 0x0e, 2],
];

#[test]
fn no_stream_breaks_the_frame_decoder() {
    bombard("frame", targets::frame);
}

#[test]
fn no_command_is_read_differently_by_the_generated_decoder() {
    bombard("command", targets::command);
}

#[test]
fn no_payload_is_seen_differently_than_decoded() {
    bombard("payload", targets::payload);
}

/// A frame, a command and a payload of every kind: `cargo test -p geminga-wire --test fuzz -- --ignored` after a change of the protocol.
#[test]
#[ignore = "writes into the corpus"]
fn seeds_are_written_anew() {
    let mut rng = Rng::with_seed(1);
    let write = |target: &str, name: &str, bytes: &[u8]| fs::write(corpus(target).join(name).with_extension("bin"), bytes).unwrap();
    for target in ["frame", "command", "payload"] {
        fs::create_dir_all(corpus(target)).unwrap();
    }
    let base = made_up::described();
    for body in made_up::bodies(&base) {
        let command = made_up::any_command(&mut rng, &base, &body).encode_to_vec();
        let mut frame = BytesMut::new();
        frame.put_u32(command.len() as u32 + 4);
        frame.put_u32(command.len() as u32);
        frame.put_slice(&command);
        write("command", body.name(), &command);
        write("frame", body.name(), &frame);
    }
    let recorded: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../tests/vectors/pulsar-client-python-3.13.0"].iter().collect();
    for file in fs::read_dir(recorded).unwrap() {
        let path = file.unwrap().path();
        let name = format!("python-{}", path.file_stem().unwrap().to_str().unwrap());
        let bytes = fs::read(&path).unwrap();
        write("frame", &name, &bytes);
        let frame = FrameDecoder::new(bytes.len()).decode(&mut BytesMut::from(&bytes[..])).unwrap().unwrap();
        if frame.payload.is_empty() {
            continue;
        }
        write("payload", &name, &frame.payload);
        write("payload", &format!("{name}-without-checksum"), payload::parts(&frame.payload).unwrap().covered);
        let mut exposed = BytesMut::new();
        payload::encode_broker_entry_metadata(&mut exposed, &BrokerEntryMetadata { broker_timestamp: Some(1), index: Some(2) });
        exposed.put_slice(&frame.payload);
        write("payload", &format!("{name}-with-broker-entry-metadata"), &exposed);
    }
}
