//! The files of `src/raw` that the model uses.

#[path = "../../src/raw/aligned.rs"]
pub mod aligned;
#[path = "../../src/raw/append.rs"]
pub mod append;
