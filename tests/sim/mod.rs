//! A deterministic simulation of one topic: everything that happens follows from one seed.

pub(crate) mod owner;
pub(crate) mod world;
