//! All that is `unsafe`, one file for each primitive, with safe interfaces.

pub mod aligned;
pub mod append;
#[cfg(target_os = "linux")]
pub mod mapping;
#[cfg(target_os = "linux")]
pub mod process;
#[cfg(target_os = "linux")]
pub mod rewired;
