//! Generated types of `proto/stored.proto`: Pulsar's `MLDataFormats`, as far as a broker needs it.

#![allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all, reason = "generated")]

include!(concat!(env!("OUT_DIR"), "/stored.rs"));
