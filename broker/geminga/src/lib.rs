//! The front door: configuration, logging, the command line and what a data directory says about itself.
//!
//! `main.rs` builds the floors from the ground up with what these modules hand out; nothing here touches a message.

pub mod apply;
pub mod banner;
pub mod check;
pub mod cli;
pub mod completion;
pub mod config;
pub mod consume;
pub mod data_dir;
pub mod doctor;
pub mod endpoints;
pub mod floors;
pub mod generate;
pub mod logging;
pub mod produce;
pub mod reach;
pub mod remote;
pub mod running;
pub mod signals;
pub mod standalone;
pub mod start;
pub mod terminal;
pub mod tls_init;
pub mod token;
