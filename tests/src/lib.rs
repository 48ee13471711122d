//! Tests of the whole broker; see `main.rs`.
