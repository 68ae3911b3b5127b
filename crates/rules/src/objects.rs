//! Kinds of objects, and parts of ALTER TABLE, that the ledger follows.

/// A kind of object that a statement of a DEPLOY transaction names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "PostgreSQL's own kinds")]
pub enum Object {
    Table,
    View,
    Index,
    Column,
    TableConstraint,
    Policy,
    Sequence,
    Function,
    Procedure,
    Routine,
    Schema,
    Type,
    Domain,
    DomainConstraint,
    /// Any other kind, which the ledger does not follow.
    Other,
}

use Object::*;

/// ALTER TABLE, VIEW and SEQUENCE.
pub fn altered(object: Object) -> bool {
    matches!(object, Table | View | Sequence)
}

/// ALTER … RENAME.
pub fn renamed(object: Object) -> bool {
    moved(object) || matches!(object, Index | TableConstraint | Policy | DomainConstraint)
}

/// ALTER … SET SCHEMA.
pub fn moved(object: Object) -> bool {
    matches!(object, Table | View | Function | Procedure | Routine | Sequence | Type | Domain)
}

/// ALTER … OWNER TO, where it is a statement of its own.
pub fn owned(object: Object) -> bool {
    matches!(object, Function | Procedure | Routine | Schema | Type | Domain)
}

/// DROP.
pub fn dropped(object: Object) -> bool {
    owned(object) || matches!(object, Table | View | Index | Policy | Sequence)
}

/// GRANT and REVOKE.
pub fn granted(object: Object) -> bool {
    owned(object) || matches!(object, Table | Sequence)
}

/// COMMENT.
pub fn commented(object: Object) -> bool {
    dropped(object) || matches!(object, Column | TableConstraint)
}

/// Parts of ALTER TABLE that make, change or drop the sequence of an identity column.
pub const IDENTITY: &str = "IDENTITY";

/// Any part of ALTER TYPE of a composite type.
pub const ATTRIBUTE: &str = "ALTER of a type's attributes";

/// A part of ALTER TABLE.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "PostgreSQL's own parts")]
pub enum Part {
    AddColumn,
    DropColumn,
    ColumnType,
    ColumnDefault,
    SetNotNull,
    DropNotNull,
    AddConstraint,
    DropConstraint,
    ValidateConstraint,
    Owner,
    EnableRowSecurity,
    DisableRowSecurity,
    ForceRowSecurity,
    NoForceRowSecurity,
    Identity,
    DropExpression,
    /// Storage options of the table or view.
    Options,
    /// Options of a column.
    ColumnOptions,
    Logged,
    Tablespace,
    AccessMethod,
    Inherit,
    AttachPartition,
    DetachPartition,
    AlterConstraint,
    EnableTrigger,
    DisableTrigger,
    Storage,
    Compression,
    Statistics,
    Cluster,
    ReplicaIdentity,
    /// Any other part, which has no short name.
    Other,
}

impl Part {
    /// As it is written in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Part::AddColumn => "ADD COLUMN",
            Part::DropColumn => "DROP COLUMN",
            Part::ColumnType => "ALTER COLUMN TYPE",
            Part::ColumnDefault => "SET DEFAULT",
            Part::SetNotNull => "SET NOT NULL",
            Part::DropNotNull => "DROP NOT NULL",
            Part::AddConstraint => "ADD CONSTRAINT",
            Part::DropConstraint => "DROP CONSTRAINT",
            Part::ValidateConstraint => "VALIDATE CONSTRAINT",
            Part::Owner => "OWNER TO",
            Part::EnableRowSecurity => "ENABLE ROW LEVEL SECURITY",
            Part::DisableRowSecurity => "DISABLE ROW LEVEL SECURITY",
            Part::ForceRowSecurity => "FORCE ROW LEVEL SECURITY",
            Part::NoForceRowSecurity => "NO FORCE ROW LEVEL SECURITY",
            Part::Identity => IDENTITY,
            Part::DropExpression => "DROP EXPRESSION",
            Part::Options | Part::ColumnOptions => "SET (…)",
            Part::Logged => "SET UNLOGGED",
            Part::Tablespace => "SET TABLESPACE",
            Part::AccessMethod => "SET ACCESS METHOD",
            Part::Inherit => "INHERIT",
            Part::AttachPartition => "ATTACH PARTITION",
            Part::DetachPartition => "DETACH PARTITION",
            Part::AlterConstraint => "ALTER CONSTRAINT",
            Part::EnableTrigger => "ENABLE TRIGGER",
            Part::DisableTrigger => "DISABLE TRIGGER",
            Part::Storage => "SET STORAGE",
            Part::Compression => "SET COMPRESSION",
            Part::Statistics => "SET STATISTICS",
            Part::Cluster => "CLUSTER",
            Part::ReplicaIdentity => "REPLICA IDENTITY",
            Part::Other => "",
        }
    }

    /// Whether the ledger follows it for this kind of object.
    pub fn follows(self, of: Object) -> bool {
        match self {
            Part::Owner => true,
            Part::Options => of == View,
            Part::AddColumn
            | Part::DropColumn
            | Part::ColumnType
            | Part::ColumnDefault
            | Part::SetNotNull
            | Part::DropNotNull
            | Part::AddConstraint
            | Part::DropConstraint
            | Part::ValidateConstraint
            | Part::EnableRowSecurity
            | Part::DisableRowSecurity
            | Part::ForceRowSecurity
            | Part::NoForceRowSecurity
            | Part::Identity
            | Part::DropExpression => of == Table,
            _ => false,
        }
    }
}
