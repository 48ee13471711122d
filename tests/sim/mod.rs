//! A deterministic simulation of one topic: everything that happens follows from one seed.
//!
//! [`world`] survives crashes, [`owner`] carries out what the topic asks for, late, in any order, or not at all; [`play`] moves
//! producers and consumers about; [`mirror`] knows for each subscription what it may and must be sent.

pub(crate) mod keys;
pub(crate) mod mirror;
pub(crate) mod owner;
pub(crate) mod play;
pub(crate) mod producer;
pub(crate) mod world;
