//! Kinds of objects and of parts of ALTER TABLE that the ledger follows.
use pgrx::pg_sys;

/// Parts of ALTER TABLE that make, change or drop the sequence of an identity column.
pub(in crate::pg) const IDENTITY: &str = "IDENTITY";

/// Any part of ALTER TYPE of a composite type.
pub(in crate::pg) const ATTRIBUTE: &str = "ALTER of a type's attributes";

/// Kinds of objects that ALTER TABLE, VIEW and SEQUENCE are about and the ledger follows.
pub(in crate::pg) fn altered(kind: pg_sys::ObjectType::Type) -> bool {
    use pg_sys::ObjectType::*;
    matches!(kind, OBJECT_TABLE | OBJECT_VIEW | OBJECT_SEQUENCE)
}

#[expect(non_upper_case_globals, reason = "PostgreSQL's own names")]
/// How a part of ALTER TABLE is called, and whether it is one that the ledger follows for this kind of object.
pub(in crate::pg) fn alteration(
    part: pg_sys::AlterTableType::Type,
    of: pg_sys::ObjectType::Type,
) -> (&'static str, bool) {
    use pg_sys::AlterTableType::*;
    use pg_sys::ObjectType::{OBJECT_TABLE, OBJECT_VIEW};
    let table = of == OBJECT_TABLE;
    match part {
        AT_AddColumn => ("ADD COLUMN", table),
        AT_DropColumn => ("DROP COLUMN", table),
        AT_AlterColumnType => ("ALTER COLUMN TYPE", table),
        AT_ColumnDefault => ("SET DEFAULT", table),
        AT_SetNotNull => ("SET NOT NULL", table),
        AT_DropNotNull => ("DROP NOT NULL", table),
        AT_AddConstraint => ("ADD CONSTRAINT", table),
        AT_DropConstraint => ("DROP CONSTRAINT", table),
        AT_ValidateConstraint => ("VALIDATE CONSTRAINT", table),
        AT_ChangeOwner => ("OWNER TO", true),
        AT_EnableRowSecurity => ("ENABLE ROW LEVEL SECURITY", table),
        AT_DisableRowSecurity => ("DISABLE ROW LEVEL SECURITY", table),
        AT_ForceRowSecurity => ("FORCE ROW LEVEL SECURITY", table),
        AT_NoForceRowSecurity => ("NO FORCE ROW LEVEL SECURITY", table),
        AT_AddIdentity | AT_SetIdentity | AT_DropIdentity => (IDENTITY, table),
        AT_DropExpression => ("DROP EXPRESSION", table),
        AT_SetRelOptions | AT_ResetRelOptions => ("SET (…)", of == OBJECT_VIEW),
        AT_SetOptions | AT_ResetOptions => ("SET (…)", false),
        AT_SetLogged | AT_SetUnLogged => ("SET UNLOGGED", false),
        AT_SetTableSpace => ("SET TABLESPACE", false),
        AT_SetAccessMethod => ("SET ACCESS METHOD", false),
        AT_AddInherit | AT_DropInherit => ("INHERIT", false),
        AT_AttachPartition => ("ATTACH PARTITION", false),
        AT_DetachPartition | AT_DetachPartitionFinalize => ("DETACH PARTITION", false),
        AT_AlterConstraint => ("ALTER CONSTRAINT", false),
        AT_EnableTrig | AT_EnableAlwaysTrig | AT_EnableReplicaTrig | AT_EnableTrigAll
        | AT_EnableTrigUser => ("ENABLE TRIGGER", false),
        AT_DisableTrig | AT_DisableTrigAll | AT_DisableTrigUser => ("DISABLE TRIGGER", false),
        AT_SetStorage => ("SET STORAGE", false),
        AT_SetCompression => ("SET COMPRESSION", false),
        AT_SetStatistics => ("SET STATISTICS", false),
        AT_ClusterOn | AT_DropCluster => ("CLUSTER", false),
        AT_ReplicaIdentity => ("REPLICA IDENTITY", false),
        _ => ("", false),
    }
}

pub(in crate::pg) fn renamed(kind: pg_sys::ObjectType::Type) -> bool {
    use pg_sys::ObjectType::*;
    matches!(
        kind,
        OBJECT_TABLE
            | OBJECT_VIEW
            | OBJECT_INDEX
            | OBJECT_TABCONSTRAINT
            | OBJECT_POLICY
            | OBJECT_FUNCTION
            | OBJECT_PROCEDURE
            | OBJECT_ROUTINE
            | OBJECT_SEQUENCE
            | OBJECT_TYPE
            | OBJECT_DOMAIN
            | OBJECT_DOMCONSTRAINT
    )
}

pub(in crate::pg) fn moved(kind: pg_sys::ObjectType::Type) -> bool {
    use pg_sys::ObjectType::*;
    matches!(
        kind,
        OBJECT_TABLE
            | OBJECT_VIEW
            | OBJECT_FUNCTION
            | OBJECT_PROCEDURE
            | OBJECT_ROUTINE
            | OBJECT_SEQUENCE
            | OBJECT_TYPE
            | OBJECT_DOMAIN
    )
}

pub(in crate::pg) fn owned(kind: pg_sys::ObjectType::Type) -> bool {
    use pg_sys::ObjectType::*;
    matches!(
        kind,
        OBJECT_FUNCTION
            | OBJECT_PROCEDURE
            | OBJECT_ROUTINE
            | OBJECT_SCHEMA
            | OBJECT_TYPE
            | OBJECT_DOMAIN
    )
}

pub(in crate::pg) fn dropped(kind: pg_sys::ObjectType::Type) -> bool {
    use pg_sys::ObjectType::*;
    owned(kind)
        || matches!(
            kind,
            OBJECT_TABLE | OBJECT_VIEW | OBJECT_INDEX | OBJECT_POLICY | OBJECT_SEQUENCE
        )
}

pub(in crate::pg) fn granted(kind: pg_sys::ObjectType::Type) -> bool {
    use pg_sys::ObjectType::*;
    owned(kind) || matches!(kind, OBJECT_TABLE | OBJECT_SEQUENCE)
}

pub(in crate::pg) fn commented(kind: pg_sys::ObjectType::Type) -> bool {
    use pg_sys::ObjectType::*;
    dropped(kind) || matches!(kind, OBJECT_COLUMN | OBJECT_TABCONSTRAINT)
}
