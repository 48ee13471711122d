//! The performance framework: the same scenarios against any broker that speaks the Pulsar protocol, checked for order and loss,
//! and a report that says under which conditions its figures were measured.
//!
//! Read [`result`] first: it is what a run leaves behind and all that a report is made from. [`broker`] starts what is measured, [`machine`], [`sample`] and [`cache`] watch the
//! host and its processes while a run is measured; [`report`] shows what
//! came of it, and [`compare`] lays sets of runs side by side.

pub mod broker;
pub mod cache;
pub mod compare;
pub mod machine;
pub mod report;
pub mod result;
pub mod sample;
