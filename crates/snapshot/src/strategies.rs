//! Ways to share memory between the writer and snapshots.

mod chunks;
mod copy;
#[cfg(target_os = "linux")]
mod fork;
#[cfg(target_os = "linux")]
mod private;
#[cfg(target_os = "linux")]
mod rewire;
#[cfg(target_os = "linux")]
mod vm_snapshot;

pub use chunks::Chunks;
pub use copy::Copy;
#[cfg(target_os = "linux")]
pub use fork::Fork;
#[cfg(target_os = "linux")]
pub use rewire::Rewire;
#[cfg(target_os = "linux")]
pub use vm_snapshot::{VmSnapshot, CALL_NUMBER};
