//! One module per behaviour.
