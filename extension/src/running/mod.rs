//! The block that runs: what it was asked for, its state, and the capture of its changes.
//!
//! Knows which changes there are. Must not know which transactions make them.
pub mod block_state;
pub mod capture;
pub mod conflict;
pub mod declared;
pub mod drawn;
pub mod effects;
pub mod recorded;
pub mod request;
pub mod uuids;
