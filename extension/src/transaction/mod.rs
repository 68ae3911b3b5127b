//! One transaction of a block: its plans, its run as the client's role, its effects, and the kinds DEPLOY and ATTACH.
pub mod agreement_policies;
pub mod agreements;
pub mod attach;
pub mod deploy;
pub mod deploy_checks;
pub mod effects;
pub mod groups;
pub mod plans;
pub mod role_organisations;
pub mod run;
pub mod sequences;
