//! Statements that change definitions, and the objects they are about.
pub mod deploy_statements;
pub mod inspect;
pub mod kinds;
pub mod targets;
