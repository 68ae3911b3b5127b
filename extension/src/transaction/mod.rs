//! One transaction of a block: its plan, its run as the client's role, its effects, and the kinds
//! DEPLOY and ATTACH.
//!
//! Knows the request that its block is. Must not know the other transactions of it, nor how many
//! processes run them.
pub mod agreement_policies;
pub mod agreements;
pub mod attach;
pub mod block_state;
pub mod conflict;
pub mod declared;
pub mod deploy;
pub mod deploy_checks;
pub mod drawn;
pub mod effects;
pub mod effects_explained;
pub mod effects_order;
pub mod groups;
pub mod planned;
pub mod planned_rows;
pub mod plans;
pub mod recent_changes;
pub mod recorded;
pub mod request;
pub mod role_organisations;
pub mod run;
pub mod sequences;
pub mod serializable;
pub mod statements;
pub mod uuids;
pub mod write_sets;
pub mod written_table;
