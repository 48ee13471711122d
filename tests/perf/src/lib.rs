//! The performance framework: the same scenarios against any broker that speaks the Pulsar protocol, checked for order and loss,
//! and a report that says under which conditions its figures were measured.
//!
//! A run begins in [`run`]: a [`scenario`] is played by [`gateways`] and [`pods`] against a [`broker`], and [`tracker`]s judge it.
//! [`result`] is what it leaves behind and all that a report is made from. [`machine`], [`sample`] and [`cache`] watch the host
//! and its processes meanwhile; [`report`] shows what came of it, and [`compare`] lays sets of runs side by side. An [`interrupt`] ends a run in
//! order.

pub mod access;
pub mod admin;
pub mod bench;
pub mod broker;
pub mod cache;
pub mod cli;
pub mod compare;
pub mod course;
pub mod devices;
pub mod gateways;
pub mod interrupt;
pub mod machine;
pub mod pace;
pub mod pods;
pub mod reading;
pub mod recorder;
pub mod report;
pub mod result;
pub mod run;
pub mod sample;
pub mod scenario;
pub mod tracker;
