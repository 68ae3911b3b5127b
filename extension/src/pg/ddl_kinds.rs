//! Kinds of objects and of parts of ALTER TABLE that the ledger follows.
use pgrx::pg_sys;

#[expect(non_upper_case_globals, reason = "PostgreSQL's own names")]
/// How a part of ALTER TABLE is called, and whether it is one that the ledger follows.
pub(super) fn alteration(part: pg_sys::AlterTableType::Type) -> (&'static str, bool) {
    use pg_sys::AlterTableType::*;
    match part {
        AT_AddColumn => ("ADD COLUMN", true),
        AT_DropColumn => ("DROP COLUMN", true),
        AT_AlterColumnType => ("ALTER COLUMN TYPE", true),
        AT_ColumnDefault => ("SET DEFAULT", true),
        AT_SetNotNull => ("SET NOT NULL", true),
        AT_DropNotNull => ("DROP NOT NULL", true),
        AT_AddConstraint => ("ADD CONSTRAINT", true),
        AT_DropConstraint => ("DROP CONSTRAINT", true),
        AT_ValidateConstraint => ("VALIDATE CONSTRAINT", true),
        AT_ChangeOwner => ("OWNER TO", true),
        AT_EnableRowSecurity => ("ENABLE ROW LEVEL SECURITY", true),
        AT_DisableRowSecurity => ("DISABLE ROW LEVEL SECURITY", true),
        AT_ForceRowSecurity => ("FORCE ROW LEVEL SECURITY", true),
        AT_NoForceRowSecurity => ("NO FORCE ROW LEVEL SECURITY", true),
        AT_SetLogged | AT_SetUnLogged => ("SET UNLOGGED", false),
        AT_SetTableSpace => ("SET TABLESPACE", false),
        AT_SetAccessMethod => ("SET ACCESS METHOD", false),
        AT_AddInherit | AT_DropInherit => ("INHERIT", false),
        AT_AttachPartition => ("ATTACH PARTITION", false),
        AT_DetachPartition | AT_DetachPartitionFinalize => ("DETACH PARTITION", false),
        AT_AddIdentity | AT_SetIdentity | AT_DropIdentity => ("IDENTITY", false),
        AT_DropExpression => ("DROP EXPRESSION", false),
        AT_AlterConstraint => ("ALTER CONSTRAINT", false),
        AT_EnableTrig | AT_EnableAlwaysTrig | AT_EnableReplicaTrig | AT_EnableTrigAll
        | AT_EnableTrigUser => ("ENABLE TRIGGER", false),
        AT_DisableTrig | AT_DisableTrigAll | AT_DisableTrigUser => ("DISABLE TRIGGER", false),
        AT_SetStorage => ("SET STORAGE", false),
        AT_SetCompression => ("SET COMPRESSION", false),
        AT_SetRelOptions | AT_ResetRelOptions => ("SET (…)", false),
        AT_ReplicaIdentity => ("REPLICA IDENTITY", false),
        _ => ("", false),
    }
}

pub(super) fn renamed(kind: pg_sys::ObjectType::Type) -> bool {
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
    )
}

pub(super) fn moved(kind: pg_sys::ObjectType::Type) -> bool {
    use pg_sys::ObjectType::*;
    matches!(
        kind,
        OBJECT_TABLE | OBJECT_VIEW | OBJECT_FUNCTION | OBJECT_PROCEDURE | OBJECT_ROUTINE
    )
}

pub(super) fn owned(kind: pg_sys::ObjectType::Type) -> bool {
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

pub(super) fn dropped(kind: pg_sys::ObjectType::Type) -> bool {
    use pg_sys::ObjectType::*;
    owned(kind)
        || matches!(
            kind,
            OBJECT_TABLE | OBJECT_VIEW | OBJECT_INDEX | OBJECT_POLICY
        )
}

pub(super) fn granted(kind: pg_sys::ObjectType::Type) -> bool {
    use pg_sys::ObjectType::*;
    owned(kind) || matches!(kind, OBJECT_TABLE | OBJECT_SEQUENCE)
}

pub(super) fn commented(kind: pg_sys::ObjectType::Type) -> bool {
    use pg_sys::ObjectType::*;
    dropped(kind) || matches!(kind, OBJECT_COLUMN | OBJECT_TABCONSTRAINT)
}
