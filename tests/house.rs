//! The rules of the house, read from the tree itself: who may import whom, what a room never sees, words and habits that stay out.
//!
//! `ARCHITECTURE.md` tells the reasons; what is written there as a table is checked here, so that neither goes stale.

mod arrows;
mod crates;
mod habits;
mod papers;
mod sources;
