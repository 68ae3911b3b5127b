//! Translates PostgreSQL's kinds of objects, and of ALTER TABLE commands, into those of
//! `crates/rules`.
use chainify_rules::objects::{Object, Part};
use pgrx::pg_sys;

pub(crate) fn object(kind: pg_sys::ObjectType::Type) -> Object {
    use pg_sys::ObjectType::*;
    match kind {
        OBJECT_TABLE => Object::Table,
        OBJECT_VIEW => Object::View,
        OBJECT_INDEX => Object::Index,
        OBJECT_COLUMN => Object::Column,
        OBJECT_TABCONSTRAINT => Object::TableConstraint,
        OBJECT_POLICY => Object::Policy,
        OBJECT_SEQUENCE => Object::Sequence,
        OBJECT_FUNCTION => Object::Function,
        OBJECT_PROCEDURE => Object::Procedure,
        OBJECT_ROUTINE => Object::Routine,
        OBJECT_SCHEMA => Object::Schema,
        OBJECT_TYPE => Object::Type,
        OBJECT_DOMAIN => Object::Domain,
        OBJECT_DOMCONSTRAINT => Object::DomainConstraint,
        _ => Object::Other,
    }
}

#[expect(non_upper_case_globals, reason = "PostgreSQL's own names")]
pub(crate) fn part(part: pg_sys::AlterTableType::Type) -> Part {
    use pg_sys::AlterTableType::*;
    match part {
        AT_AddColumn => Part::AddColumn,
        AT_DropColumn => Part::DropColumn,
        AT_AlterColumnType => Part::ColumnType,
        AT_ColumnDefault => Part::ColumnDefault,
        AT_SetNotNull => Part::SetNotNull,
        AT_DropNotNull => Part::DropNotNull,
        AT_AddConstraint => Part::AddConstraint,
        AT_DropConstraint => Part::DropConstraint,
        AT_ValidateConstraint => Part::ValidateConstraint,
        AT_ChangeOwner => Part::Owner,
        AT_EnableRowSecurity => Part::EnableRowSecurity,
        AT_DisableRowSecurity => Part::DisableRowSecurity,
        AT_ForceRowSecurity => Part::ForceRowSecurity,
        AT_NoForceRowSecurity => Part::NoForceRowSecurity,
        AT_AddIdentity | AT_SetIdentity | AT_DropIdentity => Part::Identity,
        AT_DropExpression => Part::DropExpression,
        AT_SetRelOptions | AT_ResetRelOptions => Part::Options,
        AT_SetOptions | AT_ResetOptions => Part::ColumnOptions,
        AT_SetLogged | AT_SetUnLogged => Part::Logged,
        AT_SetTableSpace => Part::Tablespace,
        AT_SetAccessMethod => Part::AccessMethod,
        AT_AddInherit | AT_DropInherit => Part::Inherit,
        AT_AttachPartition => Part::AttachPartition,
        AT_DetachPartition | AT_DetachPartitionFinalize => Part::DetachPartition,
        AT_AlterConstraint => Part::AlterConstraint,
        AT_EnableTrig | AT_EnableAlwaysTrig | AT_EnableReplicaTrig | AT_EnableTrigAll
        | AT_EnableTrigUser => Part::EnableTrigger,
        AT_DisableTrig | AT_DisableTrigAll | AT_DisableTrigUser => Part::DisableTrigger,
        AT_SetStorage => Part::Storage,
        AT_SetCompression => Part::Compression,
        AT_SetStatistics => Part::Statistics,
        AT_ClusterOn | AT_DropCluster => Part::Cluster,
        AT_ReplicaIdentity => Part::ReplicaIdentity,
        _ => Part::Other,
    }
}
