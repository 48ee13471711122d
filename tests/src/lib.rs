//! What tests, bench and durability run share; the tests themselves are listed in `main.rs`.

#[path = "../audit.rs"]
pub mod audit;
#[path = "../harness.rs"]
pub mod harness;
